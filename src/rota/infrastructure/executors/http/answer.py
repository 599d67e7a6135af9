"""What an answer means: its status, its headers and its body become an `Outcome`.

| answer | outcome |
|---|---|
| a status that the config counts as success (2xx) | succeeded, with the JSON of the body as data |
| 202 | finished later, by a callback; with `deferred: false` in the config a success like others |
| 429 with `Rota-Snooze: seconds` | run again after that pause, without spending a retry |
| 408, 425, 429 and 5xx | tried again, not before `Retry-After` |
| 3xx | final `redirected`: nobody follows where a service points |
| other 4xx | final |
| a success that is not JSON (or plain text), or lacks what the config points at | final `bad_response` |
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import msgspec

from rota.domain.attempt import Deferred, Failed, Outcome, Snoozed, Succeeded, TaskError, TaskResult
from rota.domain.checks import MAX_DURATION, MAX_MESSAGE, tidy_text
from rota.infrastructure.executors.http.config import HttpConfig, SuccessMapping

RETRYABLE = frozenset({408, 425, 429})
LONGEST_RETRY_AFTER = timedelta(hours=1)
MAX_HOST = 260  # characters of a host that are shown, with its scheme
EXCERPT = 4096  # bytes of an error's body that people get to see
CALLBACKS_OFF = (
    "the service answered 202, to call back later, but the worker knows no address for that; "
    "set api.public_url, or executor.deferred to false"
)
JSON = "application/json"
JSON_CHARSETS = ("utf-8", "utf8", "us-ascii", "ascii")
_decode = msgspec.json.Decoder().decode


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: Mapping[str, str]  # any mapping that finds names in any case
    body: bytes


def is_success(status: int, success: SuccessMapping) -> bool:
    return status in success.statuses or f"{status // 100}xx" in success.statuses


def judge(answer: Answer, config: HttpConfig, *, callback: str, now: datetime) -> Outcome:
    """What follows from a whole answer; `callback` is where the service was told to call back."""
    status, success = answer.status, config.success
    if status == HTTPStatus.ACCEPTED and config.deferred:
        return Deferred() if callback else _refuse("callbacks_off", CALLBACKS_OFF)
    if is_success(status, success):
        return _result_of(answer, success)
    detail = tidy_text(answer.body[:EXCERPT].decode("utf-8", "replace"), longest=EXCERPT)
    if 300 <= status < 400:
        problem = f"the service answered {_name(status)}{_direction(answer)}; redirects are not followed"
        return _refuse("redirected", problem, detail=detail)
    if not 400 <= status < 600:
        return _refuse("bad_response", f"the service answered {_name(status)}, which is no success here", detail=detail)
    snooze = parse_snooze(answer.headers.get("Rota-Snooze", "")) if status == HTTPStatus.TOO_MANY_REQUESTS else None
    if snooze is not None:
        return Snoozed(snooze)
    is_retryable = status in RETRYABLE or status >= 500
    error = TaskError(f"http_{status}", f"the service answered {_name(status)}", detail, is_retryable)
    wait = parse_retry_after(answer.headers.get("Retry-After", ""), now=now) if is_retryable else None
    return Failed(error, wait)


def parse_snooze(text: str) -> timedelta | None:
    """Seconds, at most as many as any pause may have; None for anything else."""
    written = text.strip()
    if not (written.isascii() and written.isdigit()):
        return None
    return min(timedelta(seconds=int(written[:9])), MAX_DURATION) if len(written) <= 9 else MAX_DURATION


def parse_retry_after(text: str, *, now: datetime) -> timedelta | None:
    """Seconds or a date, within reason; None for what is neither."""
    written = text.strip()
    if written.isascii() and written.isdigit():
        seconds = int(written[:9]) if len(written) <= 9 else LONGEST_RETRY_AFTER.total_seconds()
        return min(timedelta(seconds=seconds), LONGEST_RETRY_AFTER)
    try:
        until = parsedate_to_datetime(written)
    except (ValueError, TypeError, OverflowError):
        return None
    if until.tzinfo is None:  # a date with zone -0000
        until = until.replace(tzinfo=UTC)
    return min(max(until - now, timedelta(0)), LONGEST_RETRY_AFTER)


def _direction(answer: Answer) -> str:
    """Where a redirect points, without what may be a secret: the path and what follows it."""
    try:
        parts = urlsplit(answer.headers.get("Location", ""))
        host = parts.hostname
    except ValueError:
        return ""
    return f" to {tidy_text(f'{parts.scheme}://{host}', longest=MAX_HOST)}" if parts.scheme and host else ""


def _result_of(answer: Answer, success: SuccessMapping) -> Outcome:
    wants_json = bool(success.data) or success.message is not None
    if not answer.body.strip():
        return _bad("has no body, but the config points into one") if wants_json else Succeeded()
    given = answer.headers.get("Content-Type", JSON)
    if given == JSON:
        return _read_json(answer.body, success)
    kind, _, rest = given.lower().partition(";")
    media = kind.strip()
    if media == "text/plain" and not wants_json:
        text = answer.body.decode("utf-8", "replace").strip()
        return Succeeded(TaskResult(message=tidy_text(text, longest=MAX_MESSAGE)))
    if media != JSON and not media.endswith("+json"):
        return _bad(f"is {tidy_text(media, longest=100)!r}; JSON was expected")
    charset = rest.partition("charset=")[2].partition(";")[0].strip(' "')
    if charset and charset not in JSON_CHARSETS:
        return _bad(f"is JSON in {tidy_text(charset, longest=40)!r}; it must be UTF-8")
    return _read_json(answer.body, success)


def _read_json(body: bytes, success: SuccessMapping) -> Outcome:
    try:
        text = body.decode("utf-8")
        if not success.data and success.message is None and _is_plainly_json(text):
            return Succeeded(TaskResult(data=text))
        value = json.loads(text)
    except json.JSONDecodeError as exc:
        return _bad(f"is no JSON: {exc.msg} (line {exc.lineno}, column {exc.colno})")
    except UnicodeDecodeError as exc:
        return _bad(f"is no JSON: it is not UTF-8 (byte {exc.start})")
    except RecursionError:
        return _bad("is nested too deeply")
    except ValueError:  # Python reads no number of more than some thousand digits
        return _bad("has a number that is too long")
    try:
        message = "" if success.message is None else _text(point(value, success.message))
        data = json.dumps(point(value, success.data), ensure_ascii=False) if success.data else text
    except LookupError as exc:
        return _bad(f"has no {exc.args[0]}")
    except RecursionError:
        return _bad("is nested too deeply")
    return Succeeded(TaskResult(message=tidy_text(message, longest=MAX_MESSAGE), data=data))


def _is_plainly_json(text: str) -> bool:
    """Quick, and stricter than need be: what is refused here is read by the standard library, which says why.

    The values are of no use: numbers of more than 64 bits have lost digits.
    """
    try:
        _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def point(value: Any, pointer: str) -> Any:
    """What a JSON pointer (RFC 6901) leads to; `LookupError` with the pointer when nothing is there."""
    found = value
    for name in pointer.split("/")[1:]:
        key = name.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isascii() and key.isdigit() and len(key) < 10 and int(key) < len(found):
            found = found[int(key)]
        else:
            raise LookupError(pointer)
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _bad(problem: str) -> Failed:
    # The work was done, and would come out the same: trying again helps nobody.
    return _refuse("bad_response", f"the service answered with success, but its body {problem}")


def _refuse(code: str, message: str, *, detail: str = "") -> Failed:
    return Failed(TaskError(code, message, detail, retryable=False))


def _name(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
