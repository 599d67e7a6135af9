"""How states and kinds stand in SQL: as small numbers."""

from rota.domain.task import LogKind, TaskStatus

STATUS_CODES = {
    TaskStatus.BLOCKED: 1,
    TaskStatus.PENDING: 2,
    TaskStatus.PROCESSING: 3,
    TaskStatus.RETRYING: 4,
    TaskStatus.SUCCESS: 5,
    TaskStatus.FAILED: 6,
    TaskStatus.TIMEOUT: 7,
    TaskStatus.CANCELLED: 8,
}
STATUS_OF = {code: status for status, code in STATUS_CODES.items()}
KIND_CODES = {LogKind.STATE_CHANGE: 0, LogKind.RETRY: 1, LogKind.ERROR: 2, LogKind.INFO: 3, LogKind.WARNING: 4}
KIND_OF = {code: kind for kind, code in KIND_CODES.items()}
