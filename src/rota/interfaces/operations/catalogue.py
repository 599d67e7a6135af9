"""All operations of the API, in the order in which people meet them."""

from collections.abc import Sequence

from rota.interfaces.operations import access, bulk, cluster, configs, streams, tasks
from rota.interfaces.operations.operation import Operation

OPERATIONS: Sequence[Operation] = (
    *tasks.OPERATIONS,
    *bulk.OPERATIONS,
    *streams.OPERATIONS,
    *configs.OPERATIONS,
    *cluster.OPERATIONS,
    *access.OPERATIONS,
)
BASE = "/api/v1"
