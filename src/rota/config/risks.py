"""What would lose tasks on the server that is the store: told by every process that starts."""

import structlog

from rota.config.registry import REDIS_SCHEMES, scheme_of
from rota.config.settings import Settings
from rota.domain.errors import UnavailableError

log = structlog.get_logger(__name__)


async def warn_of_risks(settings: Settings) -> None:
    """Say it in the log. A Redis that is away is nobody's business here: the first call tells."""
    if scheme_of(settings.store.url) not in REDIS_SCHEMES:
        return
    from rota.infrastructure.coordination.redis_health import read_redis_health
    from rota.infrastructure.store.redis.risks import list_risks

    try:
        health = await read_redis_health(settings.store.url, f"{{{settings.coordinator.prefix}}}:tenants")
    except UnavailableError:
        return
    for risk in list_risks(health):
        log.warning("redis.store_at_risk", subject=risk.subject, problem=risk.text, fix=risk.fix)
