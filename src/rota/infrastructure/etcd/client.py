"""The one place that talks to etcd, and the one border where its errors become ours.

Every call has a deadline, which covers connecting. A read that failed at one member is asked of the next, until the
deadline, and so is a write of which the caller says that it may be done twice. Any other write is sent once, to a
member that is connected: when its answer is lost the outcome is unknown, and the caller decides. Every call asks for a
member that knows a leader (`hasleader`): one that is cut off from the others refuses rather than keep us waiting. What
was refused for that was not done, and is asked again: so an election of etcd's own is waited for, and nobody hears of
it. A call that waits for an answer which will not come is given up before its deadline (`doubts.py`).

A watch ends with an error when its stream does. It begins at a revision, so whoever begins it where the last one ended
misses nothing, unless etcd has compacted its history beyond that: `CompactedError`, and one must look at what is there.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import grpc
import grpc.aio

from rota._proto.etcd import wire_pb2 as wire
from rota.application.ports.system import Clock
from rota.application.task_group import count_cancels
from rota.domain.errors import UnavailableError
from rota.infrastructure.etcd.address import EtcdAddress, parse_address
from rota.infrastructure.etcd.doubts import Doubts, Waiting
from rota.infrastructure.etcd.endpoints import Endpoints, Link, NotConnectedError
from rota.infrastructure.etcd.login import HAS_LEADER, Login, Metadata, NotLetInError
from rota.infrastructure.etcd.ops import Answer, Condition, Op, Span, cut, pack, transaction, unpack
from rota.infrastructure.etcd.refusals import ELSEWHERE, check_size, is_forbidden, is_login_over, is_worth_repeating
from rota.infrastructure.system import SystemClock

GIVEN_UP = "no answer is to be expected"
AGAIN_AFTER = timedelta(milliseconds=50)
SECOND = timedelta(seconds=1)
STATUS_WAITER = "_handle_status_once_received"
END_WITHIN_S = 0.1
TXN = "/etcdserverpb.KV/Txn"
COMPACT = "/etcdserverpb.KV/Compact"
WATCH = "/etcdserverpb.Watch/Watch"
GRANT = "/etcdserverpb.Lease/LeaseGrant"
REVOKE = "/etcdserverpb.Lease/LeaseRevoke"
KEEP_ALIVE = "/etcdserverpb.Lease/LeaseKeepAlive"
STATUS = "/etcdserverpb.Maintenance/Status"


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdOptions:
    """How long to wait."""

    answer_within: timedelta = timedelta(seconds=3)  # more than the cluster needs for a new leader of its own


class LeaseGoneError(Exception):
    """The lease has run out, or was revoked."""


class ForbiddenError(Exception):
    """Our user must not ask for that: the newer an etcd, the more it keeps for its root."""


class GivenUpError(Exception):
    """The answer will not come."""


class CompactedError(Exception):
    """The history that was asked for is gone."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a transaction did."""

    is_met: bool  # whether its conditions were
    answers: Sequence[Answer]  # to its operations, in order
    revision: int


class EtcdClient:
    """Transactions, leases and watches. Connects with the first call.

    Every method raises the error it was built with when there was no answer, or none that helps.
    """

    def __init__(
        self,
        address: EtcdAddress | str,
        options: EtcdOptions | None = None,
        *,
        unavailable: type[UnavailableError],
        clock: Clock | None = None,
    ) -> None:
        self._address = parse_address(address) if isinstance(address, str) else address
        self._options = options or EtcdOptions()
        self._unavailable = unavailable
        self._clock = clock or SystemClock()
        self._endpoints = Endpoints(self._address)
        self._doubts = Doubts(self._clock, self._options.answer_within, ask=self._ask_standing)
        self._login = Login(self._address, self._endpoints, within=self._options.answer_within)
        self._apart: set[asyncio.Task[bool]] = set()
        self._keeping = asyncio.Lock()
        self._kept: _Stream | None = None  # for leases, of a member that is alone
        self._is_closed = False

    @property
    def members(self) -> int:
        """How many of the cluster are known."""
        return len(self._address.endpoints)

    @property
    def is_watch_enough(self) -> bool:
        """Whether a watch that is silent means that there is nothing to tell. Of several members, the one that was to
        tell may be frozen, and only a call that waits for its answer finds that out."""
        return self.members == 1

    async def read(self, ops: Sequence[Op]) -> Done:
        """Ask, all at one revision."""
        return await self._transact(ops, may_repeat=True)

    async def write(
        self,
        ops: Sequence[Op],
        *,
        when: Iterable[Condition] = (),
        otherwise: Sequence[Op] = (),
        may_repeat: bool = False,
    ) -> Done:
        """Do all of it if the conditions are met, else the other operations, in one transaction.

        `may_repeat`: doing it twice does no harm, so that it is asked again after an unknown outcome, until the
        deadline. Raises `LeaseGoneError` when a put is bound to a lease that is over; then nothing is done."""
        return await self._transact(ops, when=when, otherwise=otherwise, may_repeat=may_repeat)

    async def write_in_parts(self, ops: Sequence[Op], *, may_repeat: bool = False) -> list[wire.ResponseOp]:
        """Do all of it in as many transactions as it takes; the answer to each operation, in order."""
        answers: list[wire.ResponseOp] = []
        for groups in cut([op] for op in ops):
            answers += (await self.write([op for group in groups for op in group], may_repeat=may_repeat)).answers
        return answers

    async def grant(self, ttl: timedelta) -> int:
        """A new lease; etcd counts in seconds, so it may last up to one longer, and two at least."""
        asked = wire.LeaseGrantRequest(ttl=seconds(ttl))
        answer = await self._call(GRANT, asked, kind=wire.LeaseGrantResponse)
        return int(answer.id)

    async def revoke(self, lease: int) -> None:
        """End a lease, and delete all that is bound to it."""
        try:
            await self._call(REVOKE, wire.LeaseRevokeRequest(id=lease), kind=wire.LeaseRevokeResponse)
        except LeaseGoneError:
            return

    async def keep_alive(self, lease: int) -> bool:
        """Let a lease begin anew. False when it is over."""
        problem: UnavailableError = self._unavailable("etcd: no answer in time")
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.answer_within.total_seconds()):
                while True:
                    try:
                        return await self._keep_alive(lease)
                    except self._unavailable as exc:
                        if self._is_closed:
                            raise
                        problem = exc
                    await self._clock.sleep(AGAIN_AFTER)  # it may be done again
        self._end_apart()
        raise problem

    async def _keep_alive(self, lease: int) -> bool:
        if self.members == 1:
            return await self._keep_alive_again(lease)
        async with self._stream(KEEP_ALIVE, wire.KeepAliveResponse) as call:
            return await _prolong(call, lease)

    async def _keep_alive_again(self, lease: int) -> bool:
        """On the stream of the last time: to begin one costs etcd four times as much as to use it again."""
        stream: _Stream | None = None
        async with self._keeping:
            try:
                stream, self._kept = self._kept or await self._begin_keeping(), None
                is_alive = await _prolong(stream, lease)
                self._kept = stream
            except grpc.aio.AioRpcError as exc:
                if stream is not None and is_login_over(exc):
                    self._login.forget(stream.signed)
                raise self._translate(exc) from exc
            except (asyncio.InvalidStateError, NotConnectedError, grpc.aio.UsageError) as exc:
                raise self._unavailable(f"etcd: {exc}") from exc
            finally:
                if stream is not None and stream is not self._kept:
                    await stream.end()
            return is_alive

    async def _begin_keeping(self) -> "_Stream":
        link = await self._pick()
        signed = await self._login.sign(link)
        begin = partial(link.stream(KEEP_ALIVE, wire.KeepAliveResponse), metadata=signed)
        return _Stream(begin, asyncio.timeout(None), signed=signed)

    async def compact(self, revision: int) -> None:
        """Forget the history before this revision; it may be forgotten already. `ForbiddenError`: not by our user."""
        with suppress(CompactedError):
            await self._administer(COMPACT, wire.CompactRequest(revision=revision), kind=wire.CompactResponse)

    async def status(self) -> wire.StatusResponse:
        """What the member that is asked says of itself. `ForbiddenError`: not to our user."""
        answer: wire.StatusResponse = await self._administer(STATUS, wire.StatusRequest(), kind=wire.StatusResponse)
        return answer

    @asynccontextmanager
    async def watch(self, span: Span, *, after: int) -> AsyncIterator[AsyncIterator[Sequence[wire.WatchEvent]]]:
        """What happens to the keys after a revision, as lists in order. Entered when etcd has counted us in."""
        created = wire.WatchCreate(key=span.start, range_end=span.end, start_revision=after + 1)
        async with self._stream(WATCH, wire.WatchResponse) as call:
            await call.write(wire.WatchRequest(create=created))
            _check_watched(await call.read())
            yield self._read_events(call)

    async def wait_for(
        self, span: Span, *, after: int, wait: timedelta, is_wanted: Callable[[wire.WatchEvent], bool]
    ) -> bool:
        """Block until something wanted happens to the keys after a revision (True), or the wait is over (False).

        True also when nobody can say any more: look, then wait again."""
        try:
            async with asyncio.timeout(wait.total_seconds()), self.watch(span, after=after) as events:
                async for some in events:
                    if any(map(is_wanted, some)):
                        return True
        except TimeoutError:
            return False
        except CompactedError:
            return True
        return True

    def wait_apart(
        self, span: Span, *, after: int, wait: timedelta, is_wanted: Callable[[wire.WatchEvent], bool]
    ) -> asyncio.Task[bool]:
        """`wait_for`, begun now, that goes on while nobody asks for its answer. It is cancelled when a call got none,
        since silence means nothing then, and when the client is closed."""
        waiting = asyncio.create_task(self.wait_for(span, after=after, wait=wait, is_wanted=is_wanted))
        self._apart.add(waiting)
        waiting.add_done_callback(self._apart.discard)
        waiting.add_done_callback(_note_error)
        return waiting

    def _end_apart(self) -> None:
        for waiting in self._apart:
            waiting.cancel()

    async def close(self) -> None:
        """End all connections. Whoever still waits on one gets an error."""
        self._is_closed = True
        self._end_apart()
        await asyncio.gather(*self._apart, return_exceptions=True)
        if self._kept is not None:
            await self._kept.end()
        await self._doubts.close()
        await self._login.close()
        await self._endpoints.close()

    async def _transact(
        self,
        ops: Sequence[Op],
        *,
        when: Iterable[Condition] = (),
        otherwise: Sequence[Op] = (),
        may_repeat: bool,
    ) -> Done:
        asked = transaction(when, pack(ops), otherwise=pack(otherwise))
        answer = await self._call(TXN, asked, kind=wire.TxnResponse, may_repeat=may_repeat)
        number = len(ops) if answer.succeeded else len(otherwise)
        return Done(answer.succeeded, unpack(answer.responses, number=number), answer.header.revision)

    async def _administer(self, path: str, asked: Any, *, kind: Any) -> Any:
        try:
            return await self._call(path, asked, kind=kind, may_repeat=True)
        except self._unavailable as exc:
            if is_forbidden(exc.__cause__):
                raise ForbiddenError(str(exc)) from exc
            raise

    async def _call(self, path: str, asked: Any, *, kind: Any, may_repeat: bool = False) -> Any:
        problem: Exception | None = None
        try:
            async with asyncio.timeout(self._options.answer_within.total_seconds()):
                while True:
                    try:
                        return await self._send(path, asked, kind=kind)
                    except (grpc.aio.AioRpcError, GivenUpError, NotLetInError) as exc:
                        if not is_worth_repeating(exc, may_repeat=may_repeat, before=problem):
                            raise
                        is_first, problem = problem is None, exc
                    if not is_first:  # the next member is asked at once
                        await self._clock.sleep(AGAIN_AFTER)
        except grpc.aio.AioRpcError as exc:
            check_size(exc, asked)
            if exc.code() in ELSEWHERE:
                self._end_apart()
            raise self._translate(exc) from exc
        except (TimeoutError, GivenUpError, NotConnectedError, grpc.aio.UsageError) as exc:
            self._end_apart()
            if isinstance(exc, TimeoutError) and isinstance(problem, grpc.aio.AioRpcError):
                raise self._translate(problem) from exc
            raise self._unavailable(f"etcd: {str(exc) or 'no answer in time'}") from exc

    async def _send(self, path: str, asked: Any, *, kind: Any) -> Any:
        link = await self._pick()
        told_to_end = count_cancels()
        signed: Metadata = ()
        waiting: Waiting | None = None
        try:
            signed = await self._login.sign(link)
            call = link.unary(path, kind)(asked, metadata=signed)
            waiting = self._watch_over(link, call)
            answer = await call
        except grpc.aio.AioRpcError as exc:
            self._note(exc, link, signed=signed)
            raise
        except asyncio.CancelledError:  # also by our own deadline: ask another member next time
            self._endpoints.skip(link)
            if _was_given_up(waiting, told_to_end):
                raise GivenUpError(GIVEN_UP) from None
            raise
        finally:
            if waiting is not None:
                del link.calls[waiting]
        self._doubts.hear(answer.header.raft_term)
        return answer

    def _watch_over(self, link: Link, call: Any) -> Waiting | None:
        if self.members == 1:
            return None
        return self._doubts.begin(link, call, leave=partial(self._endpoints.skip, link))

    async def _ask_standing(self, link: Link) -> wire.StatusResponse:
        """Not whether it has a leader: that is asked here."""
        try:
            signed = tuple(pair for pair in await self._login.sign(link) if pair != HAS_LEADER)
        except NotLetInError as exc:
            raise TimeoutError from exc
        call = link.unary(STATUS, wire.StatusResponse)
        answer: wire.StatusResponse = await call(wire.StatusRequest(), metadata=signed)
        return answer

    async def _pick(self) -> Link:
        if self._is_closed:
            raise grpc.aio.UsageError("the client is closed")
        return await self._endpoints.pick(self._options.answer_within)

    def _note(self, error: grpc.aio.AioRpcError, link: Link, *, signed: Metadata) -> None:
        """What a failed call says of the member and of our login."""
        if error.code() in ELSEWHERE:
            self._endpoints.skip(link)
        if is_login_over(error):
            self._login.forget(signed)

    def _translate(self, error: grpc.aio.AioRpcError) -> Exception:
        if error.code() is grpc.StatusCode.NOT_FOUND:  # of all that we ask for, only a lease is ever not found
            return LeaseGoneError()
        if error.code() is grpc.StatusCode.OUT_OF_RANGE:
            return CompactedError()
        return self._unavailable(f"etcd: {error.details() or error.code().name.lower()}")

    @asynccontextmanager
    async def _stream(self, path: str, kind: Any) -> AsyncIterator[Any]:
        """A stream of its own; its first answer has a deadline, which the caller keeps no later than that."""
        stream = link = None
        signed: Metadata = ()
        deadline = asyncio.timeout(self._options.answer_within.total_seconds())
        try:
            async with deadline:
                link = await self._pick()
                signed = await self._login.sign(link)
                stream = _Stream(partial(link.stream(path, kind), metadata=signed), deadline)
                stream.watched_over(link, self._watch_over(link, stream))
                yield stream
        except grpc.aio.AioRpcError as exc:
            if link is not None:
                self._note(exc, link, signed=signed)
            raise self._translate(exc) from exc
        except (TimeoutError, asyncio.InvalidStateError, NotConnectedError, grpc.aio.UsageError) as exc:
            if isinstance(exc, TimeoutError) and not deadline.expired():
                raise
            raise self._unavailable(f"etcd: {str(exc) or 'no answer in time'}") from exc
        finally:
            if stream is not None:
                await stream.end()

    async def _read_events(self, call: "_Stream") -> AsyncIterator[Sequence[wire.WatchEvent]]:
        while True:
            answer = await call.read()
            _check_watched(answer)
            if answer.events:
                yield answer.events


class _Stream:
    """A call whose deadline is for its first answer alone, and which leaves nothing behind."""

    def __init__(self, begin: Callable[[], Any], deadline: asyncio.Timeout, *, signed: Metadata = ()) -> None:
        self._before = _list_callers()
        self._own: set[asyncio.Task[Any]] = set()
        self._call = begin()
        self._deadline = deadline
        self.signed = signed
        self._link: Link | None = None
        self.waiting: Waiting | None = None

    def watched_over(self, link: Link, waiting: Waiting | None) -> None:
        self._link, self.waiting = link, waiting

    def cancel(self) -> None:
        self._call.cancel()

    async def write(self, message: Any) -> None:
        with self._telling_apart():
            await self._call.write(message)

    async def read(self) -> Any:
        with self._telling_apart():
            answer = await self._call.read()
        if self._deadline.when() is not None:
            self._deadline.reschedule(None)
            self._own = _list_callers() - self._before
            if self._link is not None and self.waiting is not None:
                self._link.calls.pop(self.waiting, None)
                self._link.streams.add(self.waiting)
        return answer

    @contextmanager
    def _telling_apart(self) -> Iterator[None]:
        """A call that was given up is no cancellation of whoever makes it."""
        told_to_end = count_cancels()
        try:
            yield
        except asyncio.CancelledError:
            if _was_given_up(self.waiting, told_to_end):
                raise asyncio.InvalidStateError(GIVEN_UP) from None
            raise

    async def end(self) -> None:
        """The library ends a call a moment after it was told to, in a task that it has no handle for."""
        self._call.cancel()
        if self._link is not None and self.waiting is not None:
            self._link.calls.pop(self.waiting, None)
            self._link.streams.discard(self.waiting)
        if own := self._own or _list_callers() - self._before:  # before the first answer, those of others as well
            await asyncio.wait(own, timeout=END_WITHIN_S)


def _list_callers() -> set[asyncio.Task[Any]]:
    """The tasks of the library that wait for the end of a call."""
    return {task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__name__", "") == STATUS_WAITER}


def _was_given_up(waiting: Waiting | None, told_to_end: int) -> bool:
    """By us, and not because the caller waits no longer: it was told to end no more often than when the call began."""
    return waiting is not None and waiting.is_given_up and count_cancels() <= told_to_end


async def _prolong(stream: _Stream, lease: int) -> bool:
    await stream.write(wire.KeepAliveRequest(id=lease))
    answer = await stream.read()
    if answer is grpc.aio.EOF:
        raise asyncio.InvalidStateError("the stream has ended")
    return bool(answer.ttl > 0)


def _note_error(waiting: "asyncio.Task[bool]") -> None:
    """Nobody may ever ask for it, which is no defect."""
    if not waiting.cancelled():
        waiting.exception()


def seconds(ttl: timedelta) -> int:
    """A lease as etcd takes it: whole seconds, not fewer than asked for."""
    return max(-(-ttl // SECOND), 1)


def _check_watched(answer: Any) -> None:
    if answer is grpc.aio.EOF:
        raise asyncio.InvalidStateError("the watch has ended")
    if answer.canceled:
        if answer.compact_revision:
            raise CompactedError
        raise asyncio.InvalidStateError(answer.cancel_reason or "the watch was ended")
