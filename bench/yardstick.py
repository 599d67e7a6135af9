"""A fixed piece of plain Python, to tell by it how fast the machine runs Python at the moment.

Rota is Python where its floor is native code of servers; a machine may be fast at the one and slow at the other, and
another day the other way round. Rates of two runs are comparable where this is alike.
"""

import time
from dataclasses import dataclass
from statistics import median

CALLS = 1_000
ROUNDS = 1_001


@dataclass(slots=True)
class Account:
    """What the calls change."""

    sums: dict[int, int]

    def add(self, number: int) -> None:
        slot = number & 63
        self.sums[slot] = self.sums.get(slot, 0) + number


def measure_python() -> float:
    """Microseconds for a thousand calls, the median of many."""
    account = Account({})
    found = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for number in range(CALLS):
            account.add(number)
        found.append(time.perf_counter() - began)
    return median(found) * 1e6
