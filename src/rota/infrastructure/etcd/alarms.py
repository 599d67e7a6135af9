"""What etcd raises the alarm about, which each member tells beside how it stands.

`NOSPACE`: its quota is full. `CORRUPT`: a member does not hold what the others hold. Beside these a member tells that
it knows no leader, which is no alarm: whoever asks it for anything hears that.
"""

from collections.abc import Iterable
from typing import NamedTuple

ALARM = "alarm:"
NO_SPACE = "alarm:NOSPACE"
REPLACE = (
    "replace the member that it names (etcdctl member remove, then add), or restore a snapshot; "
    "then etcdctl alarm disarm"
)


class Alarms(NamedTuple):
    of_space: tuple[str, ...] = ()
    others: tuple[str, ...] = ()  # against which room is of no help


def read_alarms(told: Iterable[str]) -> Alarms:
    alarms = [one.strip() for one in told if ALARM in one]
    of_space = tuple(one for one in alarms if NO_SPACE in one)
    return Alarms(of_space, tuple(one for one in alarms if one not in of_space))
