"""The service that `rota dev` brings along: what a task over HTTP is can be seen before one is written.

It listens on loopback, at a port of its own, and takes only what is signed with a secret that is made at every start.
"""

import base64
import json
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING

from rota.domain.ids import DEFAULT_TENANT
from rota.domain.task_config import TaskConfig
from rota.interfaces.http.server import Server, listen, plain_config, serve_until_cancelled
from rota.receive import ReceivedTask, Receiver
from rota.sdk.control import Fail
from rota.sdk.signing import PREFIX

if TYPE_CHECKING:
    from rota.application.services import Services
    from rota.config.settings import HttpExecutorSettings

TYPE = "sample_http"
SECRET_NAME = "rota_dev_sample"  # noqa: S105 the name of one
HOST = "127.0.0.1"
MOST_CONNECTIONS = 200  # more than a worker opens to one target by default
TIMEOUT = timedelta(seconds=30)


async def greet(task: ReceivedTask) -> object:
    """What the service does with a task."""
    payload = {} if task.payload is None else task.payload
    if not isinstance(payload, dict):
        raise Fail('the payload must be an object, such as {"name": "Ada"}')
    return {"greeting": f"Hello, {payload.get('name', 'world')}!", "task_id": task.task_id, "attempt": task.attempt}


@dataclass(frozen=True, slots=True)
class SampleService:
    """Listens already; `run` serves until it is cancelled."""

    sockets: Sequence[socket.socket]
    secret: str = field(repr=False)

    @property
    def task_type(self) -> str:
        return TYPE

    @property
    def address(self) -> str:
        return f"{HOST}:{self.sockets[0].getsockname()[1]}"

    async def run(self) -> None:
        app = Receiver(self.secret).asgi(greet)
        config = plain_config(app, limit_concurrency=MOST_CONNECTIONS, timeout_graceful_shutdown=1)
        await serve_until_cancelled(Server(config), self.sockets)

    def list_flags(self, http: "HttpExecutorSettings") -> dict[str, str]:
        """The settings by which workers of this process may call it, and what they may call already."""
        kept = {name: {"keys": list(given.keys), "hosts": list(given.hosts)} for name, given in http.secrets.items()}
        own = {"keys": [self.secret], "hosts": [self.address]}
        return {
            "http.allow": ",".join([*http.allow, self.address]),
            "http.secrets": json.dumps({**kept, SECRET_NAME: own}),
        }

    async def declare(self, services: "Services") -> str:
        """Let the store know where it is now; the type. What somebody changed about it otherwise stays as it is."""
        executor = json.dumps({"url": f"http://{self.address}/greet", "secret": SECRET_NAME})
        current = await services.node.store.configs.find(DEFAULT_TENANT, TYPE)
        base = current or TaskConfig(type=TYPE, description="A call of the sample service, over HTTP.", timeout=TIMEOUT)
        wanted = replace(base, executor_type="http", executor_config=executor)
        if wanted != current:
            await services.configs.put(wanted)
        return TYPE


def can_call() -> bool:
    """Whether workers of this process can make requests."""
    return find_spec("aiohttp") is not None


def open_service(port: int) -> SampleService:
    """At this port; 0 is any."""
    secret = PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
    return SampleService(listen(HOST, port), secret)
