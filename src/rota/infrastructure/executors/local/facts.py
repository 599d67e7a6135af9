"""What a function may know of its attempt."""

from rota.application.ports.executor import Job
from rota.sdk.context import Facts


def facts_of(job: Job) -> Facts:
    """Made for a function that takes a context, or that runs in another process."""
    spec = job.task.spec
    return Facts(
        task_id=str(spec.id),
        type=spec.type,
        attempt=job.attempt.number,
        retry_count=job.task.state.retry_count,
        metadata=dict(spec.metadata),
        deadline=job.deadline,
        callback=job.callback,
    )
