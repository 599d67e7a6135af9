"""Brings the faults. In safety mode each lasts a while, and all are healed in the end. In liveness mode some never are:
the servers and at least one pod are well from then on, and that must be enough."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from copy import deepcopy
from datetime import timedelta

from tests.simulation.border import Border, Fate, Side
from tests.simulation.process import Process
from tests.simulation.world import World

TROUBLE = 16.0  # seconds in which faults may begin
LONGEST = 16.0  # of most of them: longer than any lease
RENEW_EVERY = 2.0  # what leaders do
FLAP_EVERY = 1.0
LEASE = 12.0  # of a worker
DIES_WITHIN = 5.0  # a leader that is to stand still in the middle of something does so by then, whatever it does
OVERSLEEPS = 0.25  # the share of runs in which one that is well has just been given up
SEES_AFTER, MOST_WAITS = 7.0, 2  # seconds, after which a leader judges who is dead
WORST = 0.2  # the share of calls that go wrong in a bad network …
WORST_SLOW = 0.6  # … of those that are merely slow …
FOR_GOOD = (0.0, 0.02, 0.04)  # … and of one that stays as it is
CLOCK_STEP = 2.0  # seconds by which the clock of another primary may differ
TAKE, ADVANCE, ASSIGN = "queue.take", "tasks.advance", "deliveries.assign"
CALLS = (ADVANCE, TAKE, "queue.push", "election.campaign", ASSIGN, "deliveries.take")
PAUSED_AT = (  # any time, or between a look and a deed
    None,
    TAKE,
    "tasks.find_live",
    "tasks.load",
    ADVANCE,
    "workers.list_all",
    "deliveries.take",
    "election.campaign",
    "election.renew",
    "terms.begin",
    "terms.confirm",
)

Fault = Callable[[], Awaitable[None]]


class Nemesis:
    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = random.Random(f"{world.seed} nemesis")
        self._flapping: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Bring faults, some kinds of them in each run: what is rare among all kinds is common among a few."""
        pods, servers = self._list_of_pods(), self._list_of_servers()
        kinds = self._chance.choice((pods, pods, servers, servers, pods + servers, [self._amnesia]))
        kinds = self._chance.sample(kinds, min(self._chance.choice((1, 2, 3, 99)), len(kinds)))
        async with asyncio.TaskGroup() as group:
            for number in range(self._chance.randint(3, 9)):
                group.create_task(self._bring(self._chance.choice(kinds), number))
        for pod in self._world.pods:
            if not pod.is_up:
                pod.start()

    async def condemn(self) -> None:
        """Hurt some pods, and maybe the network, for good."""
        pods, first = list(self._world.pods), self._pick()
        self._chance.shuffle(pods)
        pods.sort(key=lambda pod: pod is not first)
        doomed = pods[: self._chance.randint(1, len(pods) - 1)]
        if self._chance.random() < OVERSLEEPS:
            await self._oversleep(self._chance.choice([pod for pod in pods if pod not in doomed]))
        self._world.weather.badness, self._world.weather.fates = self._chance.choice(FOR_GOOD), self._fates()
        lost = [pod for pod in doomed if not self._condemn(pod)]
        well = [pod.name for pod in pods if pod not in doomed]
        is_bad = self._world.weather.badness > 0
        self._world.note("healed", well=well, lost=[pod.name for pod in lost], bad=is_bad)

    def _condemn(self, pod: Process) -> bool:
        """Hurt a pod for good; whether it is within reach now and then."""
        border, side = pod.border, self._chance.choice(list(Side))
        how = self._chance.choice(("dead", "frozen", "frozen", "cut", "muted", "gagged", "flapping"))
        self._world.note("fault", type="begin", name=f"{how} for good")
        self._world.note("harm", pod=pod.name)
        match how:
            case "dead":
                self._keep(pod.kill())
            case "frozen":
                self._keep(self._freeze(pod, at=self._chance.choice((ASSIGN, TAKE, self._chance.choice(PAUSED_AT)))))
            case "cut":
                border.cut.add(side)
            case "muted":
                border.muted.add(side)
            case "gagged":
                border.gagged.add(side)
            case _:
                self._keep(self._flap(border, side, times=None))
        return how == "flapping"

    async def _freeze(self, pod: Process, *, at: str | None) -> None:
        """For good; in the middle of something, if it comes to that."""
        pod.border.pause(at=at)
        for _ in range(int(DIES_WITHIN)):
            if pod.border.held is not None:
                break
            await asyncio.sleep(1)
        pod.border.pause()
        self._world.note("lost", pod=pod.name)

    async def _oversleep(self, pod: Process) -> None:
        """It is given up while it stands still; it tells the pool that it lives before it hears of that, and its leave
        is lost."""
        self._world.note("harm", pod=pod.name)
        pod.border.pause()
        await asyncio.sleep(self._chance.uniform(LEASE + 1, LONGEST))
        pod.border.plan("workers.list_all", Fate.SLOW)
        pod.border.plan("pool.remove", Fate.LOST)
        pod.border.resume()

    def _list_of_pods(self) -> list[Fault]:
        return [self._kill, self._stop, self._pause, self._cut, self._flapping_cable, self._one_call]

    def _list_of_servers(self) -> list[Fault]:
        return [
            self._server_away,
            self._amnesia,
            self._coordinator_failover,
            self._store_failover,
            self._bad_network,
            self._blackout,
        ]

    async def _bring(self, fault: Fault, number: int) -> None:
        await asyncio.sleep(self._chance.uniform(0, TROUBLE))
        name = f"{fault.__name__.strip('_')} {number}"
        self._world.note("fault", type="begin", name=name)
        await fault()
        self._world.note("fault", type="end", name=name)

    async def _kill(self) -> None:
        pod = self._pod()
        await pod.kill()
        await self._while()
        if not pod.is_up:
            pod.start()

    async def _stop(self) -> None:
        pod = self._pod()
        await pod.stop()
        if not pod.is_up:
            pod.start()

    async def _pause(self) -> None:
        """It wakes, and maybe hears only after a while what has become of it."""
        border = self._pod().border
        border.pause(at=self._chance.choice((TAKE, self._chance.choice(PAUSED_AT))))
        await self._while()
        if self._chance.random() < 0.5:
            border.plan("election.renew", Fate.SLOW)
        border.resume()

    async def _cut(self) -> None:
        border, side = self._pod().border, self._chance.choice(list(Side))
        cables = self._chance.choice((border.cut, border.muted, border.gagged))
        cables.add(side)
        await self._while()
        cables.discard(side)

    async def _one_call(self) -> None:
        """Goes wrong, and no other: of those after which nobody knows what has happened."""
        operation, fate = (
            self._chance.choice(("tasks.add", self._chance.choice(CALLS))),
            self._chance.choice((Fate.UNANSWERED, Fate.LATE, Fate.TWICE)),
        )
        process = self._world.client if operation == "tasks.add" else self._pick()
        process.border.plan(operation, fate)

    async def _flapping_cable(self) -> None:
        await self._flap(self._pod().border, self._chance.choice(list(Side)), times=self._chance.randint(1, 8))

    async def _server_away(self) -> None:
        side = self._chance.choice(list(Side))
        self._world.weather.away.add(side)
        await self._while()
        self._world.weather.away.discard(side)

    async def _amnesia(self) -> None:
        """While the leader takes itself for one, maybe for long: the store's word that it leads is on its way."""
        await self._until_all_is_well()
        if self._chance.random() < 0.5:
            self._pick().border.plan("terms.confirm", Fate.SLOW)
            await self._while(longest=2 * RENEW_EVERY)
        self._world.coordinator.forget()

    async def _blackout(self) -> None:
        """Nobody hears anybody, for longer than any lease."""
        away = self._world.weather.away
        away |= set(Side)
        await asyncio.sleep(LONGEST)
        away -= set(Side)

    async def _coordinator_failover(self) -> None:
        """A replica takes over that has not heard the last writes."""
        coordinator, away = self._world.coordinator, self._world.weather.away
        behind = deepcopy(coordinator.memory)
        await self._while(longest=1)
        away.add(Side.COORDINATOR)
        await self._while(longest=5)
        coordinator.memory = behind
        away.discard(Side.COORDINATOR)

    async def _store_failover(self) -> None:
        """A replica takes over whose clock is another."""
        away = self._world.weather.away
        away.add(Side.STORE)
        await self._while(longest=5)
        self._world.store_clock.step(timedelta(seconds=self._chance.uniform(-CLOCK_STEP, CLOCK_STEP)))
        away.discard(Side.STORE)

    async def _bad_network(self) -> None:
        weather = self._world.weather
        weather.fates = self._fates()
        weather.badness = self._chance.uniform(0.01, WORST_SLOW if weather.fates == (Fate.SLOW,) else WORST)
        await self._while()
        weather.badness = 0.0

    async def _flap(self, border: Border, side: Side, *, times: int | None) -> None:
        """Cut off every other second; for ever where no number is given."""
        while times is None or times > 0:
            border.cut.add(side)
            await asyncio.sleep(FLAP_EVERY)
            border.cut.discard(side)
            await asyncio.sleep(FLAP_EVERY)
            times = None if times is None else times - 1

    async def _until_all_is_well(self) -> None:
        """One node has led for so long that it judges who is dead. Not waited for again and again."""
        for _ in range(MOST_WAITS):
            before = self._world.coordinator.memory.lease
            await asyncio.sleep(SEES_AFTER)
            now = self._world.coordinator.memory.lease
            if before is not None and now is not None and before.number == now.number:
                return

    async def _while(self, *, longest: float = LONGEST) -> None:
        await asyncio.sleep(self._chance.uniform(0.1, longest))

    def _keep(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._flapping.add(task)
        task.add_done_callback(self._flapping.discard)

    def _fates(self) -> tuple[Fate, ...]:
        return tuple(self._chance.sample(list(Fate), self._chance.randint(1, len(Fate))))

    def _pod(self) -> Process:
        pod = self._pick()
        self._world.note("harm", pod=pod.name)
        return pod

    def _pick(self) -> Process:
        """Any, or the one that leads."""
        lease = self._world.coordinator.memory.lease
        leading = [pod for pod in self._world.pods if lease is not None and lease.node_id.startswith(f"{pod.name}.")]
        return self._chance.choice(leading or self._world.pods if self._chance.random() < 0.5 else self._world.pods)
