"""The limits that a leader keeps over its rounds: how many of a type run at once, and how many start per second.

It also knows which executor runs a type, since that is read with the limits.

Rates are token buckets in the leader's memory. A bucket holds one second's worth, or one, and is full when a reign
begins: after a change of leaders a type may have that much more.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rota.application.config_cache import ConfigCache
from rota.application.parking import Key, key_of
from rota.application.ports.store import TaskStore
from rota.application.ports.system import Clock
from rota.application.running import RunningOfTypes
from rota.domain.ids import TaskId
from rota.domain.limits import TokenBucket
from rota.domain.task import LiveTask
from rota.domain.task_config import TaskConfig
from rota.domain.waiting import Reason
from rota.domain.worker import needed_by

KEEP = 2.0  # seconds that limits are known for; a type without a config is remembered as free that long
MOST_KNOWN = 10_000  # types; beyond it their limits are read anew
NO_LIMIT = 10**9


@dataclass(frozen=True, slots=True)
class Limits:
    """What the config of a type says."""

    most: int | None = None
    rate: float | None = None
    executor: str = ""
    revision: int = 0  # of the config

    @property
    def is_free(self) -> bool:
        return self.most is None and self.rate is None


FREE = Limits()


class Throttle:
    def __init__(self, tasks: TaskStore, configs: ConfigCache, *, clock: Clock, do_others_grant: bool = False) -> None:
        self._configs = configs
        self._clock = clock
        self._do_others_grant = do_others_grant  # of what has no limit by what they know, which may be a moment old
        self._running = RunningOfTypes(tasks, clock)
        self._limits: dict[Key, tuple[Limits, float]] = {}
        self._buckets: dict[Key, TokenBucket] = {}
        self._whole: TokenBucket | None = None

    async def learn(self, keys: Iterable[Key]) -> None:
        """Know the limits of these types, and how much room is left in them."""
        wanted = set(keys)
        await self.learn_limits(wanted)
        limits = ((key, self._limits_of(key).most) for key in wanted)
        await self._running.watch({key: most for key, most in limits if most is not None})

    async def learn_limits(self, keys: Iterable[Key]) -> None:
        """Know the limits of these types, whatever runs of them."""
        now = self._clock.monotonic()
        if len(self._limits) > MOST_KNOWN:
            self._limits.clear()
        unknown = [key for key in keys if self.is_stale(key)]
        if unknown:
            await self._read(unknown, until=now + KEEP)

    def is_free(self, key: Key) -> bool:
        """Whether a type has no limits, as far as it was learnt."""
        return self._limits_of(key).is_free

    def executor_of(self, key: Key) -> str:
        """What runs a type, as far as it was learnt; empty when it was not, or the type has no config."""
        return self._limits_of(key).executor

    def is_stale(self, key: Key) -> bool:
        """Whether what is known of a type may be out of date."""
        known = self._limits.get(key)
        return known is None or known[1] <= self._clock.monotonic()

    def room(self, key: Key) -> tuple[int, Reason]:
        """How many of a type may start now, and what it is that limits them."""
        limits = self._limits_of(key)
        most = NO_LIMIT if limits.most is None else self._running.room(key, limits.most)
        rate = NO_LIMIT if limits.rate is None else self._tokens(self._buckets[key])
        return min((most, Reason.TYPE_LIMIT), (rate, Reason.TYPE_RATE))

    def whole_room(self, rate: float | None) -> int:
        """How many of all types may start now, at this rate."""
        if rate is None:
            self._whole = None
            return NO_LIMIT
        self._whole = self._at_rate(self._whole, rate)
        return self._tokens(self._whole)

    def count(self, starting: Sequence[LiveTask]) -> None:
        """These are about to start. Said before it is done: if the answer gets lost, they count. So does what
        somebody else moved first, as it may run. A type that seems full is looked up."""
        now = self._clock.monotonic()
        ids: dict[Key, list[TaskId]] = {}
        for live in starting:
            ids.setdefault(key_of(live), []).append(live.id)
        for key, some in ids.items():
            limits = self._limits_of(key)
            if limits.most is None:
                self._running.ignore(key)
            else:
                self._running.add(key, some)
            if limits.rate is not None:
                self._buckets[key] = self._buckets[key].take(len(some), now=now)[0]
        if self._whole is not None:
            self._whole = self._whole.take(len(starting), now=now)[0]

    def doubt(self, starting: Sequence[LiveTask]) -> None:
        """Whether these started is not known: the answer got lost, and the write may still be on its way."""
        for live in starting:
            if self._limits_of(key_of(live)).most is not None:
                self._running.doubt(key_of(live), [live.id])

    def settle(self, starting: Sequence[LiveTask], *, stale: Collection[TaskId]) -> None:
        """It is known again; the stale ones did not start, and take nothing of what may start per second."""
        self._running.settle(live.id for live in starting)
        if not stale:
            return
        for key, number in Counter(key_of(live) for live in starting if live.id in stale).items():
            if key in self._buckets:
                self._buckets[key] = self._buckets[key].put_back(number)
        if self._whole is not None:
            self._whole = self._whole.put_back(len(stale))

    def is_counted(self, live: LiveTask) -> bool:
        """Whether a task that waits fills a place of its type's limit already."""
        return self._running.is_in_doubt(live.id)

    def wait_for(self, key: Key, reason: Reason) -> float | None:
        """Seconds after which another look at a limited type pays, though nothing happens before; None: it never does.

        When one that runs ends, the queue wakes whoever waits for work.
        """
        now = self._clock.monotonic()
        if reason is Reason.TYPE_RATE:
            return self._buckets[key].wait_for(1, now=now)
        ask_at = self._running.find_next_ask(key)
        return None if ask_at is None else max(ask_at - now, 0.0)

    def wait_for_whole(self) -> float:
        """Seconds after which anything may start."""
        return 0.0 if self._whole is None else self._whole.wait_for(1, now=self._clock.monotonic())

    async def _read(self, keys: list[Key], *, until: float) -> None:
        configs = await self._configs.find_all(keys)
        for key in keys:
            config = configs.get(key)
            limits = FREE if config is None else _limits_in(config)
            if self._do_others_grant and limits.most is not None and limits != self._limits_of(key):
                self._running.begin_anew()
            self._limits[key] = (limits, until)
            if limits.rate is None:
                self._buckets.pop(key, None)
            else:
                self._buckets[key] = self._at_rate(self._buckets.get(key), limits.rate)

    def _limits_of(self, key: Key) -> Limits:
        known = self._limits.get(key)
        return FREE if known is None else known[0]

    def _at_rate(self, bucket: TokenBucket | None, rate: float) -> TokenBucket:
        if bucket is not None and bucket.rate == rate:
            return bucket
        return TokenBucket.full(rate=rate, burst=max(rate, 1.0), now=self._clock.monotonic())

    def _tokens(self, bucket: TokenBucket) -> int:
        return bucket.take(NO_LIMIT, now=self._clock.monotonic())[1]


def _limits_in(config: TaskConfig) -> Limits:
    return Limits(config.max_concurrent, config.rate_per_second, needed_by(config), config.revision)
