"""The OpenAPI 3.1 document, made from the operations."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from rota.__about__ import __version__
from rota.domain.checks import MAX_DEPTH
from rota.domain.ids import MAX_ID
from rota.domain.strict_json import MOST_DIGITS
from rota.interfaces.http import problems, sse
from rota.interfaces.http.query import METADATA
from rota.interfaces.operations.catalogue import BASE
from rota.interfaces.operations.errors import CODES, EVERYWHERE
from rota.interfaces.operations.operation import Operation
from rota.wire.base import Problem

REF = "#/components/schemas/{name}"
TITLES = {200: "Done", 201: "Created", 204: "Done; there is nothing to say"}
PATH_SCHEMAS = {
    "id": {"type": "string", "pattern": "^[1-9][0-9]{0,18}$", "maxLength": len(str(MAX_ID))},
    "attempt": {
        "type": "string",
        "pattern": r"^[1-9][0-9]{0,8}(\.[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\.[A-Za-z0-9_-]{43})?$",
        "description": "The number of an attempt; in the link of one, its proof follows and no token is needed.",
    },
    "type": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]*$", "maxLength": 200},
    "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]*$", "maxLength": 200},
}
WITH_BODY = ("body_too_large", "unsupported_media_type", "request_timeout", "too_many_bodies")
ABOUT = f"""\
Ids are decimal strings, times RFC 3339 in UTC, durations numbers of seconds. Errors are problem documents (RFC 9457)
with a stable `code`. Every request needs `Authorization: Bearer TOKEN`; a role covers those before it: viewer,
operator, admin.

A body has at most 1 MiB (16 MiB for a batch), a payload 256 KiB. JSON is nested at most {MAX_DEPTH} levels deep, has at
most 200,000 brackets and commas outside of texts (300,000 for a batch), and whole numbers of at most {MOST_DIGITS:,}
digits.
"""


def build_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The whole document."""
    references, schemas = _schemas(operations)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        described = _describe(operation, references)
        paths.setdefault(f"{BASE}{operation.path}", {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Rota", "version": __version__, "description": ABOUT, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {code: _problem(code, references) for code in CODES},
        },
        "security": [{"token": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(operation.tag for operation in operations)],
    }


References = Mapping[Any, dict[str, Any]]


def _schemas(operations: Sequence[Operation]) -> tuple[References, dict[str, Any]]:
    types: list[Any] = [Problem]
    for operation in operations:
        types += [*operation.answers.values(), operation.to_link, operation.body, operation.frame]
    wanted = [found for found in dict.fromkeys(types) if found is not None]
    references, schemas = msgspec.json.schema_components(wanted, ref_template=REF)
    return dict(zip(wanted, references, strict=True)), schemas


def _describe(operation: Operation, references: References) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": f"Needs the role {operation.role}.",
        "tags": [operation.tag],
        "parameters": [*_list_path(operation), *_list_query(operation), *_list_headers(operation)],
        "responses": dict(_list_responses(operation, references)),
    }
    if operation.body is not None:
        content = {"application/json": {"schema": references[operation.body]}}
        described["requestBody"] = {"required": operation.needs_body, "content": content}
    return described


def _list_path(operation: Operation) -> Iterator[dict[str, Any]]:
    for name in operation.path_names:
        yield {"name": name, "in": "path", "required": True, "schema": PATH_SCHEMAS[name]}


def _list_query(operation: Operation) -> Iterator[dict[str, Any]]:
    (_,), found = msgspec.json.schema_components([operation.query], ref_template=REF)
    for name, schema in _inline(found)[operation.query.__name__]["properties"].items():
        if name == METADATA:
            yield from _metadata(schema)
            continue
        bare = _without_null(schema)
        described = {"name": name, "in": "query", "schema": bare}
        if "description" in bare:
            described["description"] = bare.pop("description")
        yield described


def _metadata(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """`metadata.KEY` for any key: no parameter of OpenAPI can say that, so the name of one stands for all."""
    about = schema.get("description", "")
    yield {
        "name": f"{METADATA}.KEY",
        "in": "query",
        "description": about,
        "schema": {"type": "string", "maxLength": 500},
    }


def _inline(schemas: Mapping[str, Any]) -> Any:
    """The schemas with what they refer to in its place: a query stands for itself."""

    def resolve(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return resolve(schemas[value["$ref"].rpartition("/")[2]])
            return {key: resolve(item) for key, item in value.items()}
        return [resolve(item) for item in value] if isinstance(value, list) else value

    return resolve(dict(schemas))


def _without_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter that is not given is left out; there is no null in a query."""
    bare = {key: value for key, value in schema.items() if not (key == "default" and value is None)}
    kinds = [kind for kind in bare.get("anyOf", ()) if kind != {"type": "null"}]
    return {**{key: value for key, value in bare.items() if key != "anyOf"}, **kinds[0]} if len(kinds) == 1 else bare


def _list_headers(operation: Operation) -> Iterator[dict[str, Any]]:
    if operation.takes_key:
        about = "Makes a repeat of the request harmless: it gets the answer of the first."
        yield _header("Idempotency-Key", about, pattern=r"^[!-~]([ -~]{0,253}[!-~])?$")
    if operation.places is not None:
        about = "Goes on after this message of an earlier stream."
        yield _header("Last-Event-ID", about, pattern=f"^{operation.places.pattern}$")


def _header(name: str, about: str, *, pattern: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": about, "schema": {"type": "string", "pattern": pattern}}


def _list_responses(operation: Operation, references: References) -> Iterator[tuple[str, Any]]:
    for status, answer in operation.answers.items():
        content: dict[str, Any] = {}
        if answer is not None:
            schema = references[answer]
            if operation.to_link is not None:
                schema = {"anyOf": [schema, references[operation.to_link]]}
            content["application/json"] = {"schema": schema}
        if operation.frame is not None:
            content[sse.MEDIA_TYPE] = {"schema": {"type": "string"}}
        if operation.text_type is not None:
            content[operation.text_type] = {"schema": {"type": "string"}}
        described: dict[str, Any] = {"description": TITLES[status]}
        yield str(status), {**described, "content": content} if content else described
    codes: dict[int, list[str]] = {}
    for code in (*EVERYWHERE, *operation.errors, *(WITH_BODY if operation.body is not None else ())):
        codes.setdefault(CODES[code].status, []).append(code)
    for status, names in sorted(codes.items()):
        yield str(status), _responses(names, references)


def _responses(codes: Sequence[str], references: References) -> dict[str, Any]:
    if len(codes) == 1:
        return {"$ref": f"#/components/responses/{codes[0]}"}
    meaning = " ".join(f"`{code}`: {CODES[code].meaning}" for code in codes)
    return {"description": meaning, "content": {problems.MEDIA_TYPE: {"schema": references[Problem]}}}


def _problem(code: str, references: References) -> dict[str, Any]:
    return {"description": CODES[code].meaning, "content": {problems.MEDIA_TYPE: {"schema": references[Problem]}}}
