"""Every error Rota raises on its own account.

A user's failing task is not one of them: executors return an `Outcome`. Each class has a stable `code` for programs
and says whether repeating the same call can help. `Unavailable` means *unknown*: the call may or may not have happened.
"""

from collections.abc import Sequence
from datetime import timedelta


class RotaError(Exception):
    """The root of the tree; catch it to catch everything of ours."""

    code: str = "internal"
    retryable: bool = False


class InvalidError(RotaError):
    """Bad input. Nothing was changed; `field` says where, the message says what to do.

    Of several mistakes it is the first one; `parts` has all of them."""

    code = "invalid_request"

    def __init__(self, field: str, problem: str, *, parts: Sequence["InvalidError"] = ()) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem
        self.parts = tuple(parts)

    @classmethod
    def of(cls, parts: Sequence["InvalidError"]) -> "InvalidError":
        """Several mistakes in one."""
        return cls(parts[0].field, parts[0].problem, parts=parts)


class NotFoundError(RotaError):
    """No such thing, or not in this tenant."""

    code = "not_found"

    def __init__(self, kind: str, key: object) -> None:
        super().__init__(f"{kind} {key} does not exist")
        self.code = f"{kind.replace(' ', '_')}_not_found"
        self.kind = kind
        self.key = key


class ConflictError(RotaError):
    """The request is sound but the present state forbids it; `task_id` says of which task, where it is one's."""

    code = "conflict"
    task_id: int | None = None


class IllegalTransitionError(ConflictError):
    """A task may not go from its present state to the wanted one. Where what is wanted is no state, `problem` says what
    is in its way."""

    code = "illegal_transition"

    def __init__(self, task_id: int, *, present: str, wanted: str, problem: str = "") -> None:
        refused = "already" if wanted == present else f"and {problem or f'cannot become {wanted}'}"
        super().__init__(f"task {task_id} is {present} {refused}")
        self.task_id = task_id
        self.present = present
        self.wanted = wanted


class NotDueError(ConflictError):
    """A waiting task must not start before its time."""

    code = "not_due"

    def __init__(self, task_id: int, *, due_at: str) -> None:
        super().__init__(f"task {task_id} is not due before {due_at}")
        self.task_id = task_id
        self.due_at = due_at


class StaleAttemptError(ConflictError):
    """A callback speaks for an attempt that has ended, or was never made. Nothing was changed."""

    code = "stale_attempt"

    def __init__(self, task_id: int, *, seen: int, current: int, status: str) -> None:
        super().__init__(f"attempt {seen} of task {task_id} does not run: the task is {status} at attempt {current}")
        self.task_id = task_id
        self.seen = seen
        self.current = current


class IdempotencyMismatchError(ConflictError):
    """The key was used before, for a different request."""

    code = "idempotency_mismatch"

    def __init__(self, key: str, task_id: int) -> None:
        super().__init__(f"idempotency key {key!r} already made task {task_id} from a different request; use a new key")
        self.key = key
        self.task_id = task_id


class IdTakenError(ConflictError):
    """Two nodes issued the same id: their slots overlap. The second task was not added."""

    code = "id_taken"

    def __init__(self, task_id: int) -> None:
        super().__init__(f"id {task_id} belongs to another task; this node must lease a new id slot")
        self.task_id = task_id


class RevisionConflictError(ConflictError):
    """A task config or a calendar was changed by someone else in the meantime."""

    code = "revision_conflict"

    def __init__(self, name: str, *, expected: int, current: int, kind: str = "task config") -> None:
        super().__init__(f"{kind} {name!r} is at revision {current}, not {expected}; read it again and retry")
        self.name = name
        self.expected = expected
        self.current = current


class CalendarInUseError(ConflictError):
    """Schedules name the calendar: without it nobody could say when they fire."""

    code = "calendar_in_use"

    def __init__(self, name: str, *, types: Sequence[str]) -> None:
        super().__init__(f"calendar {name!r} is named by the schedules of {', '.join(types)}; change those first")
        self.name = name
        self.types = tuple(types)


class UnauthenticatedError(RotaError):
    """Nobody that we know. It says the same for every token, so that it tells nothing to whoever tries secrets."""

    code = "unauthenticated"

    def __init__(self, problem: str = "a valid token is needed; send one as: Authorization: Bearer rota_…") -> None:
        super().__init__(problem)


class DeniedError(RotaError):
    """Known, but not allowed to do this."""

    code = "permission_denied"

    def __init__(self, needed: str, *, present: str) -> None:
        super().__init__(f"this needs the role {needed}, the token has {present}; use a token with the role {needed}")
        self.needed = needed
        self.present = present


class RateLimitedError(RotaError):
    """Too much at once. Nothing was changed."""

    code = "rate_limited"
    retryable = True

    def __init__(self, retry_after: timedelta) -> None:
        super().__init__(f"too many requests; try again in {retry_after.total_seconds():g} seconds")
        self.retry_after = retry_after


class FencedError(RotaError):
    """A stale term or attempt: somebody else owns this now. Stop at once."""

    code = "fenced"

    def __init__(self, subject: str, *, seen: int, current: int) -> None:
        super().__init__(f"{subject}: {seen} is stale, {current} is current")
        self.subject = subject
        self.seen = seen
        self.current = current


class LockLostError(RotaError):
    """A lock ended while a block ran under it, which was cancelled: somebody else may hold it by now. `fence` is what
    it was held by."""

    code = "lock_lost"

    def __init__(self, name: str, *, fence: int, problem: str) -> None:
        super().__init__(f"lock {name}, held by fence {fence}, was lost: {problem}")
        self.name = name
        self.fence = fence


class UnavailableError(RotaError):
    """The store or the coordinator gave no answer: whether the call took effect is unknown.

    `fix` says what an operator must do where it did answer, and will refuse us until then."""

    code = "unavailable"
    retryable = True

    def __init__(self, problem: str = "", *, fix: str = "") -> None:
        super().__init__(problem)
        self.fix = fix


class StoreUnavailableError(UnavailableError):
    """The store gave no answer in time."""


class CoordinatorUnavailableError(UnavailableError):
    """The coordinator gave no answer in time."""


class ConfigError(RotaError):
    """Rota cannot start like this; the message ends with the fix, which `fix` also has for itself where it is known."""

    code = "config"

    def __init__(self, problem: str, *, fix: str = "") -> None:
        super().__init__(f"{problem}; try: {fix}" if fix else problem)
        self.problem = problem
        self.fix = fix
