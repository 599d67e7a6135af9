"""Where log events go: standard error, as JSON lines for machines or in colours for people.

Events of ours (structlog) and records of libraries (the standard library's logging) take the same way, so that every
line has the same form, a UTC timestamp, and no secret in it. The level is the root logger's: it can change at any time.
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog
from structlog.typing import Processor

from rota.infrastructure.telemetry.redact import redact_named

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def configure_logging(level: str = "info", format: str = "auto", *, stream: TextIO | None = None) -> None:
    """Set up this process's log; may be called again. `format` is auto, json or pretty."""
    target = stream or sys.stderr
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_shared(),
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _without_secrets,
                _renderer(is_pretty=format == "pretty" or (format == "auto" and target.isatty())),
            ],
        )
    )
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old.formatter, structlog.stdlib.ProcessorFormatter)]:
        root.removeHandler(old)
    root.addHandler(handler)
    logging.captureWarnings(True)
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it tells every step of looking at the schema
    set_level(level)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def leave_logging_to_the_program() -> None:
    """Inside somebody else's program: events become records of the loggers `rota.*`, and it says where they go.

    A program that has configured structlog itself is left alone."""
    if structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            _without_secrets,
            structlog.processors.KeyValueRenderer(key_order=["event"]),
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def set_level(level: str) -> None:
    """Change what is worth a line, from the next one on."""
    logging.getLogger().setLevel(LEVELS[level])


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]


def _renderer(*, is_pretty: bool) -> Processor:
    if is_pretty:
        return structlog.dev.ConsoleRenderer(colors=True, exception_formatter=structlog.dev.plain_traceback)
    return structlog.processors.JSONRenderer(ensure_ascii=False)


def _without_secrets(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:  # fixed signature: structlog
    return {key: redact_named(key, value) for key, value in event.items()}
