"""A print shop that takes orders over gRPC and prints later: `python print_shop.py 127.0.0.1:50051`."""

import asyncio
import sys
from typing import Any

import grpc.aio
import httpx2

from rota.grpc_service import Accepted, ExecutorService, Request

orders: set[asyncio.Task[None]] = set()  # a real shop keeps them, with their links, where a restart does not lose them


class PrintShop(ExecutorService):
    async def execute(self, request: Request) -> object:
        order = asyncio.create_task(print_book(request.payload, request.callback_url))
        orders.add(order)
        order.add_done_callback(orders.discard)
        return Accepted()


async def print_book(book: dict[str, Any], link: str) -> None:
    await asyncio.sleep(book.get("seconds", 1))
    if book["title"] == "Sanditon":
        return  # nobody hears of it again: the attempt ends at its timeout
    async with httpx2.AsyncClient(timeout=10) as http:
        await http.post(f"{link}:complete", json={"data": {"printed": book["title"]}})


async def main(address: str) -> None:
    server = grpc.aio.server()
    PrintShop().add_to(server)
    port = server.add_insecure_port(address)
    await server.start()
    print(f"print shop at {port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051"))
