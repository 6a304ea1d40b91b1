from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.contracts import ResponseMeta
from gateway.protocols.responses import compact, server
from gateway.wire.sse import Reader
from ir.errors import invalid


def test_a_complaint_about_the_prompt_names_it_as_the_caller_does() -> None:
    for role in (server, compact):
        body = orjson.loads(role.encode_error(invalid("prompt_too_large", "too much", "messages"), "req_1").body)
        assert body["error"]["param"] == "input"


@pytest.mark.parametrize("param", ["tools", "input[0].content", None])
def test_every_other_field_keeps_its_name(param: str | None) -> None:
    body = orjson.loads(server.encode_error(invalid("x", "y", param), "req_1").body)
    assert body["error"] == {"message": "y", "type": "invalid_request_error", "param": param, "code": "x"}


def test_a_complaint_in_a_stream_names_it_so_too() -> None:
    request = server.decode_request({"model": "m", "input": "Hi", "stream": True})
    sent = server.stream(request, ResponseMeta("1", 1, "m")).fail(invalid("x", "y", "messages"))
    frames: list[Any] = [orjson.loads(frame.data) for frame in Reader().feed(sent)]
    assert [frame["type"] for frame in frames] == ["error", "response.failed"]
    assert frames[0]["param"] == "input"
