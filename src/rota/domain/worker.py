"""A worker process as the scheduler sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rota.domain.checks import check_name, check_number, check_text
from rota.domain.ids import WorkerId

MAX_CAPACITY = 1000
ANY_TYPE = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One incarnation of a worker: a new id at every process start, a name that people recognise."""

    id: WorkerId
    name: str
    address: str = ""
    capacity: int = 10
    types: frozenset[str] = frozenset({ANY_TYPE})
    weight: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    load: int = 0
    is_draining: bool = False

    def __post_init__(self) -> None:
        check_name("worker.name", self.name)
        check_text("worker.address", self.address, longest=255)
        check_number("worker.capacity", self.capacity, least=1, most=MAX_CAPACITY)
        check_number("worker.weight", self.weight, least=1, most=1000)

    @property
    def room(self) -> int:
        """How many more attempts it may be given now."""
        return 0 if self.is_draining else max(self.capacity - self.load, 0)

    def supports(self, task_type: str) -> bool:
        return ANY_TYPE in self.types or task_type in self.types
