"""What an etcd says of itself, for the doctor."""

from dataclasses import dataclass

from rota.domain.errors import UnavailableError
from rota.infrastructure.etcd.client import EtcdClient


@dataclass(frozen=True, slots=True)
class EtcdHealth:
    version: str
    bytes_in_use: int
    alarms: tuple[str, ...]
    members: int  # that the URL names


async def read_etcd_health(url: str, *, unavailable: type[UnavailableError]) -> EtcdHealth:
    """Ask the first member that answers."""
    client = EtcdClient(url, unavailable=unavailable)
    try:
        status = await client.status()
        return EtcdHealth(status.version, status.db_size_in_use, tuple(status.errors), client.members)
    finally:
        await client.close()
