"""Hand tasks to a server over HTTP: `ROTA_URL=… ROTA_TOKEN=… python over_http.py`, or neither beside a `rota dev`."""

import asyncio
from itertools import islice

import rota


def greet() -> rota.TaskView:
    with rota.Client() as client:  # ROTA_URL and ROTA_TOKEN, or the rota dev here; or rota.Client(url, token)
        handle = client.submit("greet", {"name": "Ada"}, priority="high", metadata={"order": "7"})
        return handle.wait("30s")


async def greet_all(names: list[str]) -> list[str]:
    async with rota.AsyncClient(timeout="10s") as client:
        payloads = [{"name": name} for name in names]
        handles = await client.submit_many("greet", payloads, metadata={"batch": "today"})
        tasks = await asyncio.gather(*(handle.wait("1m") for handle in handles))
        return [task.result.data for task in tasks if task.result is not None]


def look_around() -> None:
    with rota.Client() as client:
        for task in client.tasks.list(type="greet", metadata={"batch": "today"}):  # all pages, as they are needed
            print(task.id, task.status)
            for line in client.tasks.logs(task.id):
                print(line.at, line.kind, line.to_status or line.message)
        print(client.stats().tasks)


def watch_ends(most: int, after: str | None = None) -> str | None:
    kinds = ("task.completed", "task.failed", "task.cancelled")
    with rota.Client() as client:
        for event in islice(client.events(after, kinds=kinds, on_missed=look_around), most):
            print(event.at, event.kind, event.task_type, event.task_id)
            after = event.id  # with it, the next call goes on where this one ended
    return after


def clean_up() -> int:
    with rota.Client() as client:
        return client.tasks.cancel_all(type="greet", status="PENDING", reason="not needed any more").changed


def find_status(task_id: str) -> str:
    with rota.Client() as client:
        try:
            return client.tasks.get(task_id).status
        except rota.NotFoundError:
            return "gone"
        except rota.RotaError as error:
            return f"{error.code}: {error}"  # unauthenticated, permission_denied, unavailable, …


if __name__ == "__main__":
    print(greet().status, asyncio.run(greet_all(["Bob", "Cleo"])))
    look_around()
