"""The code of the guide that holds a lock."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

import rota

SETTINGS = {"store": {"url": "memory://"}, "metrics": {"collector": "none"}}


async def add_up() -> int:
    await asyncio.sleep(0)
    return 42


async def close_books(jobs: rota.Rota, books: sqlite3.Connection) -> bool:
    async with jobs.lock("close-books", ttl="30s", timeout="1m") as fence:  # one process of the cluster at a time
        total = await add_up()  # cancelled, with rota.LockLostError, should the lock be lost
        changed = books.execute("UPDATE books SET total = ?, fence = ? WHERE fence < ?", (total, fence, fence))
    return changed.rowcount == 1  # else somebody who took the lock later was faster


@pytest.fixture
def books() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as opened:
        opened.execute("CREATE TABLE books (total INTEGER, fence INTEGER)")
        opened.execute("INSERT INTO books VALUES (0, 0)")
        yield opened


async def test_books_are_closed_by_one_after_the_other(books: sqlite3.Connection) -> None:
    async with rota.Rota(SETTINGS) as jobs:
        assert all(await asyncio.gather(*(close_books(jobs, books) for _ in range(2))))


async def test_whoever_held_the_lock_before_writes_nothing_any_more(books: sqlite3.Connection) -> None:
    books.execute("UPDATE books SET fence = ?", (2**62,))
    async with rota.Rota(SETTINGS) as jobs:
        assert not await close_books(jobs, books)
    assert books.execute("SELECT total FROM books").fetchone() == (0,)
