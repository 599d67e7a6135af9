"""What an etcd says of itself, for the doctor."""

import asyncio
from dataclasses import dataclass, replace

from rota._proto.etcd import wire_pb2 as wire
from rota.domain.errors import UnavailableError
from rota.infrastructure.etcd.address import EtcdAddress, parse_address
from rota.infrastructure.etcd.alarms import Alarms, read_alarms
from rota.infrastructure.etcd.client import EtcdClient, ForbiddenError
from rota.infrastructure.etcd.upkeep import has_forgotten


@dataclass(frozen=True, slots=True)
class EtcdHealth:
    version: str  # nothing of it, nor what follows up to the alarms: our user is not told
    bytes_in_use: int
    quota: int  # bytes; 0: an etcd before 3.6 does not tell
    alarms: Alarms
    members: int  # that the URL names
    away: tuple[str, ...]  # those of them that do not answer
    is_compacted: bool = True  # else it keeps its history: our user must not compact it, and nobody else does

    @property
    def spare(self) -> int:
        """How many more may go before most are away, and nothing is written any more."""
        return self.members - len(self.away) - (self.members // 2 + 1)


def list_members(url: str) -> tuple[str, ...]:
    """Those that the URL names, as host:port."""
    return parse_address(url).endpoints


async def read_etcd_health(url: str) -> EtcdHealth:
    """Ask each member that the URL names; what the first that answers says. Raises `UnavailableError` if none does."""
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
    return health if health.spare < 0 else replace(health, is_compacted=await _is_compacted(address))


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


async def _is_compacted(address: EtcdAddress) -> bool:
    """Found out by asking: the first revision is empty, and nobody misses it."""
    client = EtcdClient(address, unavailable=UnavailableError)
    try:
        try:
            await client.compact(1)
        except ForbiddenError:
            return await has_forgotten(client, f"/{address.prefix}/compacted")
    except UnavailableError:  # others tell that
        return True
    finally:
        await client.close()
    return True
