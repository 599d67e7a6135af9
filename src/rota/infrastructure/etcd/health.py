"""What an etcd says of itself, for the doctor."""

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from rota._proto.etcd import wire_pb2 as wire
from rota.domain.errors import UnavailableError
from rota.infrastructure.etcd.address import EtcdAddress, parse_address
from rota.infrastructure.etcd.alarms import Alarms, read_alarms
from rota.infrastructure.etcd.client import EtcdClient, ForbiddenError
from rota.infrastructure.etcd.refusals import is_forbidden
from rota.infrastructure.etcd.upkeep import KEPT_FOR, find_kept_since


class History(StrEnum):
    FORGOTTEN = "forgotten"  # as it must be, or others tell why that is not known
    KEPT = "kept"  # our user must not compact it, and for a while nobody else has
    UNSEEN = "unseen"  # our user must not even read our keys


@dataclass(frozen=True, slots=True)
class EtcdHealth:
    version: str  # nothing of it, nor what follows up to the alarms: our user is not told
    bytes_in_use: int
    quota: int  # bytes; 0: an etcd before 3.6 does not tell
    alarms: Alarms
    members: int  # that the URL names
    away: tuple[str, ...]  # those of them that do not answer
    history: History = History.FORGOTTEN

    @property
    def spare(self) -> int:
        """How many more may go before most are away, and nothing is written any more."""
        return self.members - len(self.away) - (self.members // 2 + 1)


def list_members(url: str) -> tuple[str, ...]:
    """Those that the URL names, as host:port."""
    return parse_address(url).endpoints


async def read_etcd_health(url: str, *, prefix: str, now: datetime) -> EtcdHealth:
    """Ask each member that the URL names; what the first that answers says. The prefix is that of our keys there.

    Raises `UnavailableError` if no member answers."""
    address = parse_address(url)
    asked = await asyncio.gather(*(_ask(replace(address, endpoints=(one,))) for one in address.endpoints))
    answers = [one for one in asked if not isinstance(one, UnavailableError)]
    if not answers:
        raise UnavailableError("; ".join(dict.fromkeys(str(one) for one in asked)))
    away = tuple(
        endpoint for endpoint, one in zip(address.endpoints, asked, strict=True) if isinstance(one, UnavailableError)
    )
    status = answers[0]
    health = EtcdHealth(
        status.version, status.db_size_in_use, status.db_size_quota, read_alarms(status.errors), len(asked), away
    )
    return health if health.spare < 0 else replace(health, history=await _find_history(address, prefix, now=now))


async def _ask(address: EtcdAddress) -> wire.StatusResponse | UnavailableError:
    client = EtcdClient(address, unavailable=UnavailableError)
    try:
        return await client.status()
    except ForbiddenError:  # so it lives
        return wire.StatusResponse()
    except UnavailableError as exc:
        return exc
    finally:
        await client.close()


async def _find_history(address: EtcdAddress, prefix: str, *, now: datetime) -> History:
    """Found out by asking: the first revision is empty, and nobody misses it."""
    client = EtcdClient(address, unavailable=UnavailableError)
    try:
        try:
            await client.compact(1)
        except ForbiddenError:
            since = await find_kept_since(client, f"/{prefix}/compacted")
            return History.FORGOTTEN if since is None or now - since < KEPT_FOR else History.KEPT
    except UnavailableError as exc:  # others tell of one that is away
        return History.UNSEEN if is_forbidden(exc.__cause__) else History.FORGOTTEN
    finally:
        await client.close()
    return History.FORGOTTEN
