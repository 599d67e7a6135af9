"""A process of the cluster, as others see it."""

from dataclasses import dataclass

from rota.domain.ids import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """What a process says of itself: new at every start."""

    id: NodeId
    roles: tuple[str, ...] = ()  # sorted
    version: str = ""
    address: str = ""
