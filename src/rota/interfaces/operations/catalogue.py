"""All operations of the API, in the order in which people meet them."""

from collections.abc import Sequence

from rota.domain.callback import API_BASE
from rota.interfaces.operations import access, bulk, callbacks, cluster, configs, schedules, streams, tasks
from rota.interfaces.operations.operation import Operation

OPERATIONS: Sequence[Operation] = (
    *tasks.OPERATIONS,
    *callbacks.OPERATIONS,
    *bulk.OPERATIONS,
    *streams.OPERATIONS,
    *configs.OPERATIONS,
    *schedules.OPERATIONS,
    *cluster.OPERATIONS,
    *access.OPERATIONS,
)
BASE = API_BASE
