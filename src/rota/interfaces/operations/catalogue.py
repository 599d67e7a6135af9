"""All operations of the API, in the order in which people meet them."""

from collections.abc import Sequence

from rota.domain.callback import API_BASE
from rota.interfaces.operations import (
    access,
    bulk,
    calendars,
    callbacks,
    cluster,
    configs,
    foresight,
    reports,
    schedules,
    streams,
    tasks,
)
from rota.interfaces.operations.operation import Operation

OPERATIONS: Sequence[Operation] = (
    *tasks.OPERATIONS,
    *callbacks.OPERATIONS,
    *bulk.OPERATIONS,
    *streams.OPERATIONS,
    *configs.OPERATIONS,
    *schedules.OPERATIONS,
    *foresight.OPERATIONS,
    *calendars.OPERATIONS,
    *cluster.OPERATIONS,
    *reports.OPERATIONS,
    *access.OPERATIONS,
)
BASE = API_BASE
