"""What a task config may say about a call over gRPC, and how a request is made of a task."""

from typing import Any

import pytest

from rota.domain.errors import InvalidError
from rota.infrastructure.executors.grpc.call import GrpcCall, check_config, read_call
from rota.infrastructure.executors.templates import MissingValueError, compile_template

OK = "images.internal:50051"
SHOP = {"address": OK, "service": "shop.v1.Orders", "method": "Place"}


def test_an_address_is_enough() -> None:
    call = read_call({"type": "grpc", "address": OK})
    assert call == GrpcCall(host="images.internal", port=50051)
    assert (call.path, call.authority) == ("/rota.executor.v1.Executor/Execute", OK)


def test_a_stream_is_the_other_method_of_our_own_service() -> None:
    call = read_call({"address": "[::1]:1", "streaming": True})
    assert (call.host, call.path, call.is_stream) == ("[::1]", "/rota.executor.v1.Executor/ExecuteStream", True)


def test_a_method_of_another_service() -> None:
    call = read_call({**SHOP, "tls": "inside", "metadata": {"x-team": "a"}, "request": {"item": "{payload.item}"}})
    assert (call.path, call.tls, call.metadata) == ("/shop.v1.Orders/Place", "inside", (("x-team", "a"),))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "executor.address"),
        ({"address": 7}, "executor.address"),
        ({"address": "host"}, "executor.address"),
        ({"address": "host:0"}, "executor.address"),
        ({"address": "host:70000"}, "executor.address"),
        ({"address": "http://host:80"}, "executor.address"),
        ({"address": "user@host:80"}, "executor.address"),
        ({"address": "unix:/run/x"}, "executor.address"),
        ({"address": "x" * 400 + ":1"}, "executor.address"),
        ({"address": OK, "adress": 1}, "executor.adress"),
        ({"address": OK, "service": "a/b"}, "executor.service"),
        ({"address": OK, "service": "shop.v1.Orders"}, "executor.method"),
        ({**SHOP, "method": "a.b"}, "executor.method"),
        ({**SHOP, "method": "a/b"}, "executor.method"),
        ({"address": OK, "method": "Other"}, "executor.method"),
        ({**SHOP, "streaming": True}, "executor.streaming"),
        ({"address": OK, "streaming": "yes"}, "executor.streaming"),
        ({"address": OK, "request": {}}, "executor.request"),
        ({**SHOP, "request": {"a": ["{nothing}"]}}, "executor.request.a[0]"),
        ({**SHOP, "request": "{payload..a}"}, "executor.request"),
        ({**SHOP, "request": "{task_id.x}"}, "executor.request"),
        ({**SHOP, "request": {"a": "}"}}, "executor.request.a"),
        ({"address": OK, "tls": "a b"}, "executor.tls"),
        ({"address": OK, "metadata": []}, "executor.metadata"),
        ({"address": OK, "metadata": {f"x-{n}": "" for n in range(33)}}, "executor.metadata"),
        ({"address": OK, "metadata": {"X-Team": "a"}}, "executor.metadata.X-Team"),
        ({"address": OK, "metadata": {"grpc-timeout": "1S"}}, "executor.metadata.grpc-timeout"),
        ({"address": OK, "metadata": {"rota-attempt": "2"}}, "executor.metadata.rota-attempt"),
        ({"address": OK, "metadata": {"x-a-bin": "2"}}, "executor.metadata.x-a-bin"),
        ({"address": OK, "metadata": {"x-a": "a\nb"}}, "executor.metadata.x-a"),
        ({"address": OK, "metadata": {"x-rota-secret": "s"}}, "executor.metadata.x-rota-secret"),
        ({"address": OK, "metadata": {"x-a": 7}}, "executor.metadata.x-a"),
    ],
)
def test_what_could_never_be_called_is_refused_with_its_field(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        check_config(given)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("pattern", "made"),
    [
        ("{payload}", {"id": 7, "deep": {"list": [1]}}),
        ("{payload.deep.list}", [1]),
        ("order {payload.id} of {type}", "order 7 of call"),
        ("{payload.deep} {{x}}", '{"list":[1]} {x}'),
        ({"a": ["{task_id}", 5, None, True]}, {"a": ["1", 5, None, True]}),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_placeholders_become_values(pattern: Any, made: Any) -> None:
    values = {"payload": {"id": 7, "deep": {"list": [1]}}, "task_id": "1", "type": "call", "metadata": {}}
    assert compile_template("executor.request", pattern)(values) == made


def test_what_the_task_does_not_have_is_named() -> None:
    template = compile_template("executor.request", {"a": "{payload.x.y}"})
    with pytest.raises(MissingValueError, match=r"payload\.x\.y"):
        template({"payload": {"x": 1}})
