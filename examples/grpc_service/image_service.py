"""A service that Rota calls over gRPC: it makes thumbnails, or says so. Run it, then `submit.py` beside it."""

import asyncio
import sys

import grpc.aio

import rota
from rota.grpc_service import ExecutorService, Request


class Images(ExecutorService):
    async def execute(self, request: Request) -> dict[str, object]:
        width = request.payload["width"]
        if width > 4000:
            raise rota.Fail(f"{width} pixels are too many")
        if request.payload.get("busy") and request.attempt == 1:
            raise rota.Retry("the image server is busy", after="100ms")
        await request.log("resizing", url=request.payload["url"])
        await request.progress(0.5, "half way")
        return {"thumbnail": f"{request.payload['url']}?w={width}", "attempt": request.attempt}


async def main(address: str) -> None:
    server = grpc.aio.server()
    Images().add_to(server)
    port = server.add_insecure_port(address)
    await server.start()
    print(f"images at {port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051"))
