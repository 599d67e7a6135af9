"""The one request of an attempt: what is sent, and how it is signed."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec

from rota.__about__ import __version__
from rota.application.ports.executor import Job
from rota.infrastructure.executors.http.config import BODILESS, Plan, is_header_value
from rota.infrastructure.executors.templates import MissingValueError, to_text, values_of
from rota.sdk import signing

USER_AGENT = f"rota/{__version__}"
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_encode = msgspec.json.Encoder().encode


class Request(msgspec.Struct, frozen=True):
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


def compose(job: Job, plan: Plan, *, keys: Sequence[bytes], now: datetime) -> Request:
    """Put it together; `MissingValueError` when the task lacks a value that the config asks for."""
    values = values_of(job) if plan.body or plan.query or plan.headers else {}
    body = _body_of(job, plan, values=values)
    task_id = str(job.task.id)
    headers = {
        "User-Agent": USER_AGENT,
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Idempotency-Key": task_id,
        "Rota-Attempt": str(job.attempt.number),
        "traceparent": trace_of(job),
    }
    if body:
        headers["Content-Type"] = "application/json"
    if job.callback:
        headers["Rota-Callback"] = job.callback
    if plan.headers:
        given = {name: _header(name, template(values)) for name, template in plan.headers.items()}
        headers = override(headers, given)
    if keys:
        timestamp = int(now.timestamp())
        headers[signing.ID] = task_id
        headers[signing.TIMESTAMP] = str(timestamp)
        headers[signing.SIGNATURE] = signing.sign(keys, task_id, timestamp=timestamp, body=body)
    return Request(plan.config.method, _url_of(plan, values), headers, body)


def override(headers: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """The headers with others in the place of those of their name, in whatever case it is written."""
    names = {name.lower() for name in others}
    return {**{name: text for name, text in headers.items() if name.lower() not in names}, **others}


def envelope_of(job: Job) -> bytes:
    """The usual body."""
    spec = job.task.spec
    body: dict[str, Any] = {
        "task_id": str(spec.id),
        "attempt": job.attempt.number,
        "type": spec.type,
        "payload": msgspec.Raw(spec.payload.encode()),
        "metadata": spec.metadata,
        "deadline": job.task.attempt_until,
    }
    if job.callback:
        body["callback_url"] = job.callback
    return _encode(body)


def trace_of(job: Job) -> str:
    """The W3C trace context: the task's own if its metadata have one, else one that all its attempts share."""
    given = job.task.spec.metadata.get("traceparent")
    span = hashlib.blake2b(b"%d/%d" % (job.task.id, job.attempt.number), digest_size=8).hexdigest()
    if given is not None and _TRACEPARENT.fullmatch(given):
        return f"{given[:36]}{span}{given[52:]}"
    trace = hashlib.blake2b(b"%d" % job.task.id, digest_size=16).hexdigest()
    return f"00-{trace}-{span}-01"


def _body_of(job: Job, plan: Plan, *, values: Mapping[str, Any]) -> bytes:
    if plan.body is not None:
        return _encode(plan.body(values))
    return b"" if plan.config.method in BODILESS else envelope_of(job)


def _url_of(plan: Plan, values: Mapping[str, Any]) -> str:
    if not plan.query:
        return plan.config.url
    rendered = {name: template(values) for name, template in plan.query.items()}
    given = urlencode({name: to_text(value) for name, value in rendered.items() if value is not None})
    parts = urlsplit(plan.config.url)
    return urlunsplit(parts._replace(query="&".join(part for part in (parts.query, given) if part)))


def _header(name: str, value: Any) -> str:
    text = to_text(value)
    if not is_header_value(text):
        raise MissingValueError(f"the task's value for the header {name} is no visible ASCII text")
    return text
