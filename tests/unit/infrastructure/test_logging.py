"""One form for every log line, whoever writes it."""

import io
import json
import logging
import warnings
from collections.abc import Iterator, MutableMapping
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog

from rota.infrastructure.telemetry.logging import configure_logging, leave_logging_to_the_program, set_level


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """Leaves the process's logging as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


def lines_of(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_json_line_with_a_utc_time() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)

    structlog.get_logger("rota.somewhere").info(
        "worker.lost", worker_id=7, silent_for=timedelta(seconds=3), name="工人"
    )

    [line] = lines_of(stream)
    assert line["event"] == "worker.lost"
    assert (line["level"], line["logger"], line["worker_id"], line["name"]) == ("info", "rota.somewhere", 7, "工人")
    assert line["timestamp"].endswith("Z")
    assert datetime.fromisoformat(line["timestamp"]).utcoffset() == timedelta(0)


def test_a_terminal_gets_colours_and_a_file_gets_json() -> None:
    terminal = Terminal()
    configure_logging(stream=terminal)
    structlog.get_logger("rota").info("hello.there")

    assert "\x1b[" in terminal.getvalue()
    assert "hello.there" in terminal.getvalue()


@pytest.mark.parametrize(("stream", "form", "is_json"), [(Terminal(), "json", True), (io.StringIO(), "pretty", False)])
def test_the_form_can_be_chosen(stream: io.StringIO, form: str, is_json: bool) -> None:
    configure_logging(format=form, stream=stream)
    structlog.get_logger("rota").info("hello.there")

    assert stream.getvalue().startswith("{") is is_json


def test_records_of_libraries_take_the_same_way() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)

    logging.getLogger("some.library").warning("connecting to %s", "redis://:hunter2@host")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", UserWarning, stacklevel=1)

    connecting, warned = lines_of(stream)
    assert (connecting["event"], connecting["level"]) == ("connecting to redis://:***@host", "warning")
    assert connecting["logger"] == "some.library"
    assert (warned["logger"], "UserWarning: old" in warned["event"]) == ("py.warnings", True)


def test_the_level_changes_while_loggers_are_in_use() -> None:
    stream = io.StringIO()
    configure_logging("warning", stream=stream)
    log = structlog.get_logger("rota")

    log.info("too.quiet")
    set_level("debug")
    log.debug("now.heard")
    set_level("error")
    log.warning("too.quiet")

    assert [line["event"] for line in lines_of(stream)] == ["now.heard"]


def test_configured_twice_it_writes_once() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    configure_logging(stream=stream)

    structlog.get_logger("rota").info("once")

    assert len(lines_of(stream)) == 1


@pytest.mark.parametrize("form", ["json", "pretty"])
def test_no_secret_is_written_not_even_in_a_traceback(form: str) -> None:
    stream = io.StringIO()
    configure_logging(format=form, stream=stream)
    log = structlog.get_logger("rota")

    failure = ConnectionError("mysql://root:hunter2@host gave no answer")
    log.error(
        "store.away",
        exc_info=failure,
        url="mysql://root:hunter2@host",
        password="hunter2",
        nested={"token": "hunter2"},
    )

    assert "ConnectionError" in stream.getvalue()
    assert "store.away" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


def test_inside_a_program_events_are_records_that_it_may_send_where_it_likes(caplog: pytest.LogCaptureFixture) -> None:
    leave_logging_to_the_program()
    caplog.set_level(logging.INFO, "rota")

    structlog.get_logger("rota.somewhere").info("worker.lost", worker_id=7)
    structlog.get_logger("rota.somewhere").debug("too.quiet")

    [record] = caplog.records
    assert (record.name, record.levelname) == ("rota.somewhere", "INFO")
    assert record.getMessage() == "event='worker.lost' worker_id=7"


def test_inside_a_program_no_handler_and_no_level_is_touched() -> None:
    root = logging.getLogger()
    before = (root.handlers[:], root.level)

    leave_logging_to_the_program()

    assert (root.handlers, root.level) == before


def test_a_program_that_has_configured_structlog_is_left_alone() -> None:
    seen: list[str] = []

    def keep(
        _logger: Any, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:  # fixed signature: structlog
        seen.append(event["event"])
        raise structlog.DropEvent

    structlog.configure(processors=[keep])
    leave_logging_to_the_program()
    structlog.get_logger("rota").info("worker.lost")

    assert seen == ["worker.lost"]


def test_inside_a_program_no_secret_is_written_either(caplog: pytest.LogCaptureFixture) -> None:
    leave_logging_to_the_program()

    failure = ConnectionError("mysql://root:hunter2@host gave no answer")
    structlog.get_logger("rota").error("store.away", exc_info=failure, password="hunter2", url="redis://:hunter2@host")

    assert "ConnectionError" in caplog.text
    assert "hunter2" not in caplog.text
