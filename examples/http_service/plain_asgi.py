"""Takes tasks without a framework: `ROTA_SECRET=whsec_… uvicorn plain_asgi:app --port 9000`."""

import os

import rota
from rota.receive import ReceivedTask, Receiver


async def send_email(task: ReceivedTask) -> object:
    to = task.payload["to"]
    if "@" not in to:
        raise rota.Fail(f"{to} is no address")
    return {"sent": True, "to": to, "message_id": task.task_id}


app = Receiver(os.environ["ROTA_SECRET"]).asgi(send_email)
