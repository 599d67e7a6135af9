"""A server that misbehaves, in a process of its own: each path is one behaviour, written byte by byte.

    python -m tests.support.hostile CERT KEY

prints its ports as one line of JSON: `main` (behaviours by path), `mute` (takes connections and never reads), `reset`
(resets them at once), `tls` (a certificate nobody trusts). `GET /counts` says how many requests each path has had.
"""

import asyncio
import gzip
import json
import os
import socket
import ssl
import struct
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

Writer = asyncio.StreamWriter
Behaviour = Callable[[Writer], Awaitable[None]]

JSON = b"content-type: application/json\r\n"
OK = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{"ok":true}'
BLOCK = b"x" * 65536
COUNTS: Counter[str] = Counter()


async def say(writer: Writer, *parts: bytes) -> None:
    writer.writelines(parts)
    await writer.drain()


async def say_apart(writer: Writer, first: bytes, *others: bytes) -> None:
    await say(writer, first)
    for part in others:
        await asyncio.sleep(0.05)  # so that it arrives after what came before it
        await say(writer, part)


async def hang(_: Writer) -> None:
    await asyncio.get_running_loop().create_future()


def reset(writer: Writer) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def saying(*parts: bytes) -> Behaviour:
    """Says this and closes."""

    async def behave(writer: Writer) -> None:
        await say(writer, *parts)

    return behave


def saying_and(end: Callable[[Writer], Awaitable[None] | None], *parts: bytes) -> Behaviour:
    """Says this, and then does that."""

    async def behave(writer: Writer) -> None:
        await say(writer, *parts)
        await asyncio.sleep(0.05)  # so that it arrives before the end does
        done = end(writer)
        if done is not None:
            await done

    return behave


def repeating(block: bytes, *before: bytes, pause: float = 0.0) -> Behaviour:
    """Says the block again and again, for ever."""

    async def behave(writer: Writer) -> None:
        await say(writer, *before)
        while True:
            await say(writer, block)
            await asyncio.sleep(pause)

    return behave


def answering(status: bytes, *headers: bytes, body: bytes = b"{}") -> Behaviour:
    """A whole answer."""
    lines = b"".join(header + b"\r\n" for header in headers)
    length = b"content-length: %d\r\n\r\n" % len(body)
    return saying(b"HTTP/1.1 " + status + b"\r\n" + lines + length + body)


def chunked(block: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(block), block)


def json_body(*, body: bytes, kind: bytes = b"application/json", coding: bytes = b"identity") -> Behaviour:
    return answering(b"200 OK", b"content-type: " + kind, b"content-encoding: " + coding, body=body)


HEAD = b"HTTP/1.1 200 OK\r\n" + JSON
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
BOMB = gzip.compress(b" " * (64 * 1024 * 1024))

BEHAVIOURS: dict[str, Behaviour] = {
    "hang_before_headers": hang,
    "hang_after_status": saying_and(hang, b"HTTP/1.1 200 OK\r\n"),
    "hang_after_headers": saying_and(hang, HEAD + b"content-length: 10\r\n\r\n"),
    "hang_in_chunk": saying_and(hang, CHUNKED + b"ff\r\n{"),
    "slow_headers": repeating(b"x", b"HTTP/1.1 200 OK\r\nx-slow: ", pause=0.1),
    "slow_body": repeating(b" ", HEAD + b"content-length: 100000\r\n\r\n", pause=0.05),
    "slow_chunks": repeating(b"1\r\n \r\n", CHUNKED, pause=0.05),
    "endless_chunks": repeating(chunked(BLOCK), CHUNKED),
    "endless_body": repeating(BLOCK, HEAD + b"connection: close\r\n\r\n"),
    "ten_gigabytes": repeating(BLOCK, HEAD + b"content-length: 10000000000\r\n\r\n"),
    "endless_chunk_extension": repeating(BLOCK, CHUNKED + b"1;"),
    "endless_trailers": repeating(b"x-a: b\r\n", CHUNKED + b"0\r\n"),
    "gzip_bomb": json_body(body=BOMB, coding=b"gzip"),
    "gzip_cut": json_body(body=gzip.compress(b'{"a": "' + bytes(range(65, 91)) * 9)[:30], coding=b"gzip"),
    "gzip_garbage": json_body(body=b"this is not gzip at all", coding=b"gzip"),
    "gzip_fine": json_body(body=gzip.compress(b'{"ok":true}'), coding=b"gzip"),
    "unasked_coding": json_body(body=b"\x0b\x02\x80{}\x03", coding=b"br"),
    "bad_status_line": saying(b"HTTP/1.1 abc OK\r\n\r\n"),
    "not_http": saying(b"220 mail.example.com ESMTP ready\r\n"),
    "http_0_9": saying(b"<html>hello</html>"),
    "http_3_0": saying(b"HTTP/3.0 200 OK\r\ncontent-length: 0\r\n\r\n"),
    "redirect_to_metadata": answering(b"302 Found", b"location: http://169.254.169.254/latest/meta-data/"),
    "redirect_to_itself": answering(b"308 Permanent Redirect", b"location: /redirect_to_itself"),
    "reset_before_headers": saying_and(reset),
    "reset_in_headers": saying_and(reset, b"HTTP/1.1 200 OK\r\nx-a: b\r\n"),
    "reset_in_body": saying_and(reset, HEAD + b"content-length: 100\r\n\r\n{"),
    "close_before_headers": saying(),
    "close_in_headers": saying(b"HTTP/1.1 200 OK\r\nx-a: b\r\n"),
    "close_in_chunk": saying(CHUNKED + b"ff\r\n{"),
    "megabyte_header": saying(b"HTTP/1.1 200 OK\r\nx-big: ", b"x" * 1024 * 1024, b"\r\ncontent-length: 0\r\n\r\n"),
    "ten_thousand_headers": saying(HEAD, b"x-a: b\r\n" * 10_000, b"content-length: 0\r\n\r\n"),
    "header_with_nul": saying(b"HTTP/1.1 200 OK\r\nx-a: \x00\r\ncontent-length: 0\r\n\r\n"),
    "header_without_colon": saying(b"HTTP/1.1 200 OK\r\nno colon here\r\ncontent-length: 0\r\n\r\n"),
    "broken_json": json_body(body=b'{"ok": tru'),
    "deep_json": json_body(body=b"[" * 200_000),
    "web_page": json_body(body=b"<html>please log in</html>", kind=b"text/html"),
    "picture": json_body(body=b"\x89PNG", kind=b"image/png"),
    "other_charset": json_body(body=b'{"ok":true}', kind=b"application/json; charset=utf-16"),
    "not_utf8": json_body(body=b'{"name": "\xff\xfe"}'),
    "plain_text": json_body(body=b"done \xff", kind=b"text/plain; charset=klingon"),
    "busy_for_ever": answering(b"429 Too Many Requests", b"retry-after: 99999999999999999999"),
    "busy_negative": answering(b"429 Too Many Requests", b"retry-after: -5"),
    "busy_garbage": answering(b"429 Too Many Requests", b"retry-after: soon, \xc3\xa9"),
    "busy_until_9999": answering(b"503 Service Unavailable", b"retry-after: Fri, 31 Dec 9999 23:59:59 GMT"),
    "busy_until_1970": answering(b"503 Service Unavailable", b"retry-after: Thu, 01 Jan 1970 00:00:00 GMT"),
    "busy_twice": answering(b"429 Too Many Requests", b"retry-after: 120", b"retry-after: 7200"),
    "accepted": answering(b"202 Accepted"),
    "informing_for_ever": repeating(b"HTTP/1.1 102 Processing\r\n\r\n" * 100),
    "answering_for_ever": repeating(b"HTTP/1.1 204 No Content\r\n\r\n" * 100),
    "informing_once": saying(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + OK),
    "switching": saying_and(hang, b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
    "bad_chunk_size": saying(CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n"),
    "bad_chunk_end": saying(CHUNKED + b"2\r\n{}xx0\r\n\r\n"),
    "length_too_long": saying(HEAD + b"content-length: 100\r\n\r\n{}"),
    "length_too_short": saying(HEAD + b"content-length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n\r\n"),
    "length_negative": saying(HEAD + b"content-length: -1\r\n\r\n{}"),
    "two_lengths": saying(HEAD + b"content-length: 2\r\ncontent-length: 11\r\n\r\n{}"),
    "length_and_chunks": saying(HEAD + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
    "cookies": saying(b"HTTP/1.1 200 OK\r\n" + b"set-cookie: a=b; domain=\xff\r\n" * 50 + b"content-length: 0\r\n\r\n"),
    "status_999": answering(b"999 Who Knows"),
    "not_found": answering(b"404 Not Found", body=b'{"error": "no such order"}'),
    "gone": answering(b"410 Gone"),
    "teapot_binary": answering(b"418 I'm a teapot", body=bytes(range(256))),
    "failing_for_ever": repeating(chunked(BLOCK), b"HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n"),
    "failing_slowly": saying_and(hang, b"HTTP/1.1 503 No\r\ncontent-length: 100\r\n\r\nno"),
    "no_content": saying(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "empty": answering(b"200 OK", body=b""),
}
KEEPING: dict[str, tuple[bytes, ...]] = {  # the connection stays; parts are said one after the other
    "fine": (OK,),
    "fine_and_more": (OK + OK,),  # an answer that nobody asked for
    "fine_and_more_in_the_end": (OK[:-11], OK[-11:] + OK),
}


async def read_request(reader: asyncio.StreamReader) -> str:
    """The path of the next request, which is then wholly read."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    length = next((line.split(":")[1] for line in head.split("\r\n") if line.lower().startswith("content-length")), "0")
    await reader.readexactly(int(length))
    return head.split(" ", 2)[1].partition("?")[0].lstrip("/")


async def serve(reader: asyncio.StreamReader, writer: Writer) -> None:
    served = 0
    with suppress(OSError, asyncio.IncompleteReadError):
        while True:
            path = await read_request(reader)
            COUNTS[path] += 1
            served += 1
            if path == "close_on_reuse" and served == 1:
                await say(writer, OK)
            elif path == "counts":
                body = json.dumps(COUNTS).encode()
                await say(writer, HEAD + b"content-length: %d\r\n\r\n%s" % (len(body), body))
            elif path in KEEPING:
                await say_apart(writer, *KEEPING[path])
            else:
                await BEHAVIOURS.get(path, saying())(writer)
                break
    if not writer.is_closing():
        writer.close()


async def take_and_reset(_: asyncio.StreamReader, writer: Writer) -> None:
    reset(writer)


async def main(cert: str, key: str) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    mute = socket.create_server(("127.0.0.1", 0))
    listening = {
        "main": await asyncio.start_server(serve, "127.0.0.1", 0),
        "reset": await asyncio.start_server(take_and_reset, "127.0.0.1", 0),
        "tls": await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context),
    }
    ports = {name: server.sockets[0].getsockname()[1] for name, server in listening.items()}
    sys.stdout.write(json.dumps(ports | {"mute": mute.getsockname()[1]}) + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)  # until who started it is gone
    os._exit(0)  # with everybody who still hangs


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
