"""Takes tasks with FastAPI: `ROTA_SECRET=whsec_… uvicorn with_fastapi:app`."""

import os

from fastapi import FastAPI, Request, Response

import rota
from rota.receive import ReceivedTask, Receiver

app = FastAPI()
receiver = Receiver(os.environ["ROTA_SECRET"])


async def send_email(task: ReceivedTask) -> object:
    to = task.payload["to"]
    if "@" not in to:
        raise rota.Fail(f"{to} is no address")
    return {"sent": True, "to": to, "message_id": task.task_id}


@app.post("/tasks")
async def take(request: Request) -> Response:
    reply = await receiver.handle_async(send_email, headers=request.headers, body=await request.body())
    return Response(reply.body, status_code=reply.status, headers=dict(reply.headers))
