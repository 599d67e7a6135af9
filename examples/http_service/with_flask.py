"""Takes tasks with Flask: `ROTA_SECRET=whsec_… flask --app with_flask run`."""

import os

from flask import Flask, Response, request

import rota
from rota.receive import ReceivedTask, Receiver

app = Flask(__name__)
receiver = Receiver(os.environ["ROTA_SECRET"])


def send_email(task: ReceivedTask) -> object:
    to = task.payload["to"]
    if "@" not in to:
        raise rota.Fail(f"{to} is no address")
    return {"sent": True, "to": to, "message_id": task.task_id}


@app.post("/tasks")
def take() -> Response:
    reply = receiver.handle(send_email, headers=request.headers, body=request.get_data())
    return Response(reply.body, status=reply.status, headers=dict(reply.headers))
