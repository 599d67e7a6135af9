"""Which method of `rota.v1.TaskService` stands for which operation; all else about a method is the operation's own."""

from collections.abc import Mapping
from dataclasses import dataclass

from google.protobuf import message_factory
from google.protobuf.message import Message

from rota._proto.v1 import task_service_pb2
from rota.interfaces.operations.catalogue import OPERATIONS
from rota.interfaces.operations.operation import Operation

SERVICE = "rota.v1.TaskService"
NAMES: Mapping[str, str] = {
    "CreateTask": "create_task",
    "CreateTasks": "create_tasks",
    "ListTasks": "list_tasks",
    "GetTask": "get_task",
    "UpdateTask": "amend_task",
    "CancelTask": "cancel_task",
    "RetryTask": "retry_task",
    "ExplainTask": "explain_task",
    "CancelTasks": "cancel_tasks",
    "RetryTasks": "retry_tasks",
    "ReprioritiseTasks": "reprioritise_tasks",
    "CompleteAttempt": "complete_attempt",
    "FailAttempt": "fail_attempt",
    "HeartbeatAttempt": "heartbeat_attempt",
    "ProgressAttempt": "progress_attempt",
    "GetTaskLogs": "read_logs",
    "FollowTaskLogs": "read_logs",
    "WatchEvents": "watch_events",
    "ListTaskConfigs": "list_configs",
    "GetTaskConfig": "get_config",
    "PutTaskConfig": "put_config",
    "CheckTaskConfig": "check_config",
    "DeleteTaskConfig": "delete_config",
    "PauseTaskConfig": "pause_config",
    "ResumeTaskConfig": "resume_config",
    "ListTaskConfigRevisions": "list_revisions",
    "RollBackTaskConfig": "roll_back_config",
    "TriggerTaskConfig": "trigger_config",
    "PreviewTaskConfig": "preview_config",
    "PauseSchedule": "pause_schedule",
    "ResumeSchedule": "resume_schedule",
    "ListOccurrences": "list_occurrences",
    "PreviewSchedule": "preview_schedule",
    "ForecastSchedules": "forecast_schedules",
    "BackfillSchedule": "backfill_schedule",
    "ListCalendars": "list_calendars",
    "GetCalendar": "get_calendar",
    "PutCalendar": "put_calendar",
    "DeleteCalendar": "delete_calendar",
    "ListWorkers": "list_workers",
    "GetWorker": "get_worker",
    "UpdateWorker": "amend_worker",
    "DrainWorker": "drain_worker",
    "ResumeWorker": "resume_worker",
    "GetQueues": "get_queues",
    "GetQueueTypes": "get_queue_types",
    "GetStats": "get_stats",
    "GetCluster": "get_cluster",
    "ListElections": "list_elections",
    "GetSettings": "get_settings",
    "GetReport": "get_report",
    "CreateToken": "create_token",
    "ListTokens": "list_tokens",
    "RevokeToken": "revoke_token",
    "ListAudit": "list_audit",
}


@dataclass(frozen=True, slots=True)
class Method:
    """One method, and the operation behind it."""

    name: str
    operation: Operation
    request: type[Message]
    response: type[Message]
    is_stream: bool

    @property
    def path(self) -> str:
        return f"/{SERVICE}/{self.name}"


def _list_methods() -> Mapping[str, Method]:
    described = task_service_pb2.DESCRIPTOR.services_by_name["TaskService"].methods_by_name
    operations = {operation.name: operation for operation in OPERATIONS}
    make = message_factory.GetMessageClass
    methods = [
        Method(
            name,
            operations[operation],
            make(described[name].input_type),
            make(described[name].output_type),
            described[name].server_streaming,
        )
        for name, operation in NAMES.items()
    ]
    return {method.path: method for method in methods}


METHODS = _list_methods()  # by path
