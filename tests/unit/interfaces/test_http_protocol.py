"""What is written to a connection: gathered for a moment, and never for longer."""

import asyncio
from typing import Any

from rota.interfaces.http.protocol import MOST_HELD, GatheringTransport
from tests.support.clock import settle


class Wire(asyncio.Transport):
    """Notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.end = ""

    def writelines(self, list_of_data: Any) -> None:
        self.sent.append(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.end = "closed"

    def abort(self) -> None:
        self.end = "aborted"


def a_pair() -> tuple[Wire, GatheringTransport]:
    wire = Wire()
    return wire, GatheringTransport(wire, asyncio.get_running_loop())


async def test_what_is_written_in_one_turn_goes_at_once() -> None:
    wire, transport = a_pair()
    for piece in (b"head", b"body"):
        transport.write(piece)
    assert (wire.sent, transport.get_write_buffer_size()) == ([], 8)
    await settle()
    transport.write(b"next")
    await settle()
    assert (wire.sent, transport.get_write_buffer_size()) == ([b"headbody", b"next"], 0)


async def test_much_is_not_held() -> None:
    wire, transport = a_pair()
    for piece in (b"head", b"x" * MOST_HELD, b"rest"):
        transport.write(piece)
    assert wire.sent == [b"head" + b"x" * MOST_HELD]
    await settle()
    assert wire.sent[1:] == [b"rest"]


async def test_a_connection_that_is_closed_sends_what_was_written_and_one_that_is_cut_does_not() -> None:
    for end, sent in (("closed", [b"last words"]), ("aborted", [])):
        wire, transport = a_pair()
        transport.write(b"last words")
        (transport.close if end == "closed" else transport.abort)()
        await settle()
        assert (wire.end, wire.sent) == (end, sent)
