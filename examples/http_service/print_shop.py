"""A print shop that takes orders and prints later: `ROTA_SECRET=whsec_… uvicorn print_shop:app --port 9000`."""

import asyncio
import os
from typing import Any

import httpx2

from rota.receive import LATER, ReceivedTask, Receiver

orders: set[asyncio.Task[None]] = set()  # a real shop keeps them, with their links, where a restart does not lose them


async def take_order(task: ReceivedTask) -> object:
    order = asyncio.create_task(print_book(task.payload, task.callback_url))
    orders.add(order)
    order.add_done_callback(orders.discard)
    return LATER


async def print_book(book: dict[str, Any], link: str) -> None:
    await asyncio.sleep(book.get("seconds", 1))
    if book["title"] == "Sanditon":
        return  # nobody hears of it again: the attempt ends at its timeout
    async with httpx2.AsyncClient(timeout=10) as http:
        await http.post(f"{link}:complete", json={"data": {"printed": book["title"]}})


app = Receiver(os.environ["ROTA_SECRET"]).asgi(take_order)
