"""The parts of the local executor that need no process."""

import asyncio
import json
import threading
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from rota.application import metrics
from rota.domain.attempt import Cancelled, Deferred, Failed, Outcome, Snoozed, Succeeded, TaskError, TaskResult
from rota.domain.checks import MAX_DETAIL, MAX_LINE
from rota.infrastructure.executors.local.channel import ChannelSetup, ThreadChannel, deliver
from rota.infrastructure.executors.local.frames import (
    FOR_WORKER,
    MAX_FRAME,
    Ended,
    FrameBuffer,
    FrameError,
    Line,
    Progress,
    Ready,
    ToWorker,
    encode,
    ended_by,
)
from rota.infrastructure.executors.local.lines import DROPPED, MAX_PRINTED, PrintedLines, detail_of
from rota.infrastructure.executors.local.mailbox import MOST_AT_ONCE, Mailbox
from rota.infrastructure.executors.local.waiting import Slots, wait_out
from tests.support.builders import MINUTE, SECOND
from tests.support.clock import FakeClock, settle
from tests.support.local_jobs import CountingMetrics, Recorder

NOTHING = timedelta(0)


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_frames_are_read_whole_however_they_are_cut(size: int) -> None:
    messages: list[ToWorker] = [
        Ready(),
        Line("info", "hällo", "{}"),
        Progress(0.5, ""),
        Ended(result=TaskResult(data="1")),
    ]
    stream = b"".join(map(encode, messages))
    buffer = FrameBuffer()

    read = [
        message
        for start in range(0, len(stream), size)
        for message in buffer.feed(stream[start : start + size], FOR_WORKER)
    ]

    assert read == messages


@pytest.mark.parametrize("garbage", [(MAX_FRAME + 1).to_bytes(4, "big"), b"\x00\x00\x00\x01\xc1", b"\0\0\0\x02hi"])
def test_what_is_no_frame_is_refused(garbage: bytes) -> None:
    with pytest.raises(FrameError):
        list(FrameBuffer().feed(garbage, FOR_WORKER))


@pytest.mark.parametrize(
    "outcome",
    [
        Succeeded(TaskResult(data="[1]")),
        Succeeded(),
        Failed(TaskError("boom", "why", "where", retryable=False)),
        Failed(TaskError("boom"), retry_after=MINUTE),
        Snoozed(MINUTE),
        Deferred(),
        Cancelled("the attempt was stopped"),
    ],
)
def test_an_outcome_travels_unchanged(outcome: Outcome) -> None:
    [ended] = FrameBuffer().feed(encode(ended_by(outcome)), FOR_WORKER)

    assert isinstance(ended, Ended)
    assert ended.outcome() == outcome


def test_fields_become_json_within_bounds() -> None:
    class Odd:
        def __repr__(self) -> str:
            return "an odd thing"

    loop: list[Any] = []
    loop.append(loop)

    assert detail_of({}) == ""
    assert json.loads(detail_of({"a": 1, "b": Odd()})) == {"a": 1, "b": "an odd thing"}
    assert "unreadable" in json.loads(detail_of({"loop": loop}))
    assert "unreadable" in json.loads(detail_of({"lone": "\ud800"}))
    assert "truncated" in json.loads(detail_of({"long": "x" * MAX_DETAIL}))
    assert len(detail_of({"quotes": '"' * MAX_DETAIL})) <= MAX_DETAIL


def test_printed_bytes_become_lines() -> None:
    said: list[str] = []
    printed = PrintedLines(said.append)

    for part in (b"one\ntw", b"o\r\n\n", b"\xff", b"three"):
        printed.feed(part)
    printed.flush()
    printed.flush()

    assert said == ["one", "two", "\N{REPLACEMENT CHARACTER}three"]


def test_a_line_and_an_attempt_have_a_bound() -> None:
    said: list[str] = []
    printed = PrintedLines(said.append)

    for _ in range(40):
        printed.feed(b"x" * 10_000)
    printed.flush()

    assert max(map(len, said)) <= MAX_LINE
    assert sum(map(len, said[:-1])) == MAX_PRINTED
    assert said[-1] == DROPPED


async def test_what_threads_post_is_delivered_in_order() -> None:
    received: list[tuple[int, int]] = []
    done = asyncio.Event()

    def deliver(item: tuple[int, int]) -> None:
        received.append(item)
        if len(received) == 4000:
            done.set()

    mailbox: Mailbox[tuple[int, int]] = Mailbox(asyncio.get_running_loop(), deliver)

    def post(sender: int) -> None:
        for number in range(1000):
            mailbox.post((sender, number))

    threads = [threading.Thread(target=post, args=(sender,)) for sender in range(4)]
    for thread in threads:
        thread.start()
    await asyncio.wait_for(done.wait(), 20)

    for sender in range(4):
        assert [number for who, number in received if who == sender] == list(range(1000))


async def test_a_flood_leaves_the_loop_time_for_other_work() -> None:
    received: list[int] = []
    done = asyncio.Event()

    def deliver_one(number: int) -> None:
        received.append(number)
        if number == 99_999:
            done.set()

    mailbox: Mailbox[int] = Mailbox(asyncio.get_running_loop(), deliver_one)
    for number in range(100_000):
        mailbox.post(number)
    received_before: list[int] = []
    asyncio.get_running_loop().call_soon(lambda: received_before.append(len(received)))
    await asyncio.wait_for(done.wait(), 20)

    assert received == list(range(100_000))
    assert received_before == [MOST_AT_ONCE]


def test_all_that_waits_can_be_delivered_at_once() -> None:
    received: list[int] = []
    loop = asyncio.new_event_loop()
    mailbox: Mailbox[int] = Mailbox(loop, received.append)
    for number in range(3 * MOST_AT_ONCE):
        mailbox.post(number)

    mailbox.flush()
    loop.close()

    assert received == list(range(3 * MOST_AT_ONCE))


class Hearing:
    """A channel, what it has posted, and what is heard of it once that is delivered."""

    def __init__(self, *, log_limit: int = 10_000) -> None:
        self.posted = 0
        self.heard = Recorder()
        self.collector = CountingMetrics()
        setup = ChannelSetup(FakeClock(), self.collector, log_limit)
        mailbox: Mailbox[Any] = Mailbox(asyncio.get_running_loop(), self._take)
        self.channel = ThreadChannel(mailbox, self.heard, setup=setup)

    def _take(self, said: Any) -> None:
        self.posted += 1
        deliver(said)


async def test_beyond_the_bound_of_its_attempt_a_channel_posts_one_marker_and_no_more() -> None:
    hearing = Hearing(log_limit=10_000)

    for _ in range(1000):
        hearing.channel.log("info", "x" * 90, fields={"n": 12})
    await settle()

    assert hearing.posted == 51
    assert "more than 10000 bytes" in hearing.heard.messages()[-1]
    assert hearing.collector.counted == [(metrics.LOG_LINES_DROPPED, ())] * 950


async def test_of_the_progress_that_waits_the_last_is_told() -> None:
    hearing = Hearing()

    for step in range(101):
        hearing.channel.progress(step / 100, str(step))
    await settle()
    hearing.channel.progress(1.0, "done")
    await settle()

    assert hearing.heard.steps == [(1.0, "100"), (1.0, "done")]
    assert hearing.posted == 2


async def test_what_a_channel_posted_before_it_was_closed_is_not_told_after() -> None:
    hearing = Hearing()
    hearing.channel.log("info", "late", fields={})
    hearing.channel.progress(0.5, "late")

    hearing.channel.close()
    hearing.channel.log("info", "too late", fields={})
    hearing.channel.progress(0.6, "too late")
    await settle()

    assert hearing.posted == 2
    assert (hearing.heard.lines, hearing.heard.steps) == ([], [])


def test_what_is_posted_to_a_closed_loop_is_dropped() -> None:
    loop = asyncio.new_event_loop()
    mailbox: Mailbox[int] = Mailbox(loop, lambda _: None)
    loop.close()

    mailbox.post(1)


async def test_waiting_out_goes_on_when_cancelled_and_ends_with_the_grace() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(wait_out(future, MINUTE))
    await settle()

    waiting.cancel()
    await settle()
    assert not waiting.done()
    future.set_result(None)

    assert await waiting
    assert not await wait_out(asyncio.get_running_loop().create_future(), NOTHING)


async def test_slots_let_in_as_many_as_there_are_in_order() -> None:
    slots = Slots(1)
    inside: list[str] = []
    leave = {name: asyncio.Event() for name in "abcd"}

    async def visit(name: str) -> None:
        async with slots:
            inside.append(name)
            await leave[name].wait()

    visits = {name: asyncio.create_task(visit(name)) for name in "abcd"}
    await settle()
    assert inside == ["a"]

    visits["b"].cancel()
    await settle()
    leave["a"].set()
    await settle()
    assert inside == ["a", "c"]

    slots.resize(2)
    await settle()
    assert inside == ["a", "c", "d"]
    leave["c"].set()
    leave["d"].set()
    await asyncio.wait(visits.values())


async def test_a_turn_that_comes_to_one_who_has_just_gone_is_passed_on() -> None:
    slots = Slots(1)
    await slots.__aenter__()
    first = asyncio.create_task(slots.__aenter__())
    second = asyncio.create_task(slots.__aenter__())
    await settle()

    await slots.__aexit__()  # its turn has come …
    first.cancel()  # … and in the same moment it is cancelled

    await asyncio.wait_for(second, SECOND.total_seconds())
    assert first.cancelled()


def test_the_wire_refuses_what_it_does_not_know() -> None:
    with pytest.raises(FrameError):
        body = msgspec.msgpack.encode({"type": "format_disk"})
        list(FrameBuffer().feed(len(body).to_bytes(4, "big") + body, FOR_WORKER))
