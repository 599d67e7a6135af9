"""A plugin as somebody else would write it: collects alerts about failed tasks and workers that went offline.

It is a package of its own (see `install`), found by Rota through its entry point only.
"""

from rota.application.ports.plugin import PluginContext
from rota.domain.events import Event, EventKind


class AlertPlugin:
    """Keeps a text for everything that somebody should look at."""

    name = "sample_alerts"
    version = "1.2.0"

    def __init__(self) -> None:
        self.alerts: list[str] = []
        self.is_running = False
        self._channel = ""

    async def initialise(self, context: PluginContext) -> None:
        self._channel = str(context.settings["channel"])
        context.on_event(self._watch)
        context.log.info("alerts.ready", channel=self._channel)

    async def start(self) -> None:
        self.is_running = True

    async def stop(self) -> None:
        self.is_running = False

    async def _watch(self, event: Event) -> None:
        match event.kind:
            case EventKind.TASK_FAILED:
                self.alerts.append(f"{self._channel}: task {event.task_id} failed")
            case EventKind.WORKER_OFFLINE:
                self.alerts.append(f"{self._channel}: worker {event.worker_id} is offline")
            case _:
                pass
