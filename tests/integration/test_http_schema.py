"""The description of the API, and whether the API keeps to it, whatever is sent."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from openapi_spec_validator import validate
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from rota.interfaces.http.openapi import build_document
from rota.interfaces.operations.catalogue import BASE, OPERATIONS
from tests.support.api import an_api_in_a_thread

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
ENDLESS = {"watch_events"}  # a stream has no end to wait for
SCHEMA = schemathesis.openapi.from_dict(build_document(OPERATIONS))
TRIED = [operation for operation in OPERATIONS if operation.name not in ENDLESS]
bounded = settings(
    max_examples=10,  # of each operation, both with and without a token
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, str]]:
    with an_api_in_a_thread() as found:
        yield found


def test_the_description_is_sound_openapi() -> None:
    validate(build_document(OPERATIONS))


def test_the_description_is_served_and_has_every_operation(server: tuple[str, str]) -> None:
    served = httpx2.get(f"{server[0]}/openapi.json").json()
    assert served == build_document(OPERATIONS)
    ids = {one["operationId"] for path in served["paths"].values() for one in path.values()}
    assert ids == {operation.name for operation in OPERATIONS}


@pytest.mark.parametrize("operation", TRIED, ids=lambda operation: operation.name)
@pytest.mark.parametrize("mode", [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE])
def test_whatever_is_sent_gets_a_documented_answer(
    server: tuple[str, str], operation: "object", mode: schemathesis.GenerationMode
) -> None:
    url, secret = server
    described = SCHEMA[f"{BASE}{operation.path}"][operation.method]  # type: ignore[attr-defined]
    headers = {"Authorization": f"Bearer {secret}"}

    @bounded
    @given(case=described.as_strategy(generation_mode=mode))
    def send(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(base_url=url, headers=headers, checks=CHECKS, timeout=60)

    send()


@pytest.mark.parametrize("operation", TRIED, ids=lambda operation: operation.name)
def test_whatever_is_sent_without_a_token_is_refused(server: tuple[str, str], operation: "object") -> None:
    described = SCHEMA[f"{BASE}{operation.path}"][operation.method]  # type: ignore[attr-defined]

    @bounded
    @given(case=described.as_strategy())
    def send(case: schemathesis.Case[Any]) -> None:
        answer = case.call(base_url=server[0], timeout=60)
        case.validate_response(answer, checks=CHECKS)
        assert answer.status_code == 401

    send()
