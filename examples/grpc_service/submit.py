"""Define a type that the image service runs, and submit some; `ROTA_URL` and `ROTA_TOKEN` say where, or this folder."""

import sys

import rota

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051"

with rota.Client() as client:
    definition = {
        "executor": {"type": "grpc", "address": ADDRESS, "streaming": True},
        "timeout_seconds": 30,
        "retry": {"max_retries": 2, "delay_seconds": 1},
    }
    client.configs.put("thumbnail", definition)
    for payload in ({"width": 200}, {"width": 300, "busy": True}, {"width": 9000}):
        task = client.submit("thumbnail", {"url": "cat.jpg", **payload}).wait("30s")
        print(task.status, task.attempt, task.result.data if task.result else task.error and task.error.message)
