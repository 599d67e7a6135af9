"""Takes tasks with the standard library alone: `ROTA_SECRET=whsec_… python plain_wsgi.py`."""

import os
from wsgiref.simple_server import make_server

import rota
from rota.receive import ReceivedTask, Receiver


def send_email(task: ReceivedTask) -> object:
    to = task.payload["to"]
    if "@" not in to:
        raise rota.Fail(f"{to} is no address")
    return {"sent": True, "to": to, "message_id": task.task_id}


app = Receiver(os.environ["ROTA_SECRET"]).wsgi(send_email)

if __name__ == "__main__":
    make_server("127.0.0.1", 9000, app).serve_forever()
