"""Why a task is where it is, in one word for programs. Dispatch parks by these; `explain` answers with them."""

from enum import StrEnum


class Reason(StrEnum):
    __hash__ = str.__hash__  # Enum's own is slow Python code, and every parked task is counted by its reason

    NOT_DUE = "not_due"
    NO_WORKER = "no_worker_for_type"
    WORKERS_BUSY = "workers_busy"
    TYPE_LIMIT = "type_limit"
    TYPE_RATE = "type_rate"
    GLOBAL_RATE = "global_rate"
    QUEUED = "queued"
    BLOCKED = "blocked"
    RUNNING = "running"
    CALLBACK = "callback"
    ENDED = "ended"
    NO_LEADER = "no_leader"
