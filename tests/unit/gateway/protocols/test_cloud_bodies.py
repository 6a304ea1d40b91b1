from __future__ import annotations

import json

import pytest

from gateway.protocols.cloud import bodies
from gateway.protocols.cloud.bodies import Outcome
from gateway.protocols.cloud.catalogue import Selection
from ir.errors import Fault, Reason
from ir.request import Image
from ir.usage import Usage


def test_an_agent_has_no_repository_and_the_id_that_we_chose() -> None:
    made = json.loads(bodies.encode_create("bc-1", "Say hi", (), None))
    assert made == {"agentId": "bc-1", "prompt": {"text": "Say hi"}, "repos": [], "mode": "agent"}


def test_images_and_the_model_go_as_the_api_wants_them() -> None:
    model = Selection("m", {"effort": "high"})
    made = json.loads(bodies.encode_create("bc-1", "x", [Image("image/png", "AAAA")], model))
    assert made["prompt"]["images"] == [{"data": "AAAA", "mimeType": "image/png"}]
    assert made["model"] == {"id": "m", "params": [{"id": "effort", "value": "high"}]}
    assert json.loads(bodies.encode_create("bc-1", "x", (), Selection("m")))["model"] == {"id": "m"}


def test_the_run_is_told_by_itself_or_by_its_agent() -> None:
    assert bodies.decode_created(b'{"agent": {"id": "bc-1"}, "run": {"id": "run-1"}}') == "run-1"
    assert bodies.decode_created(b'{"agent": {"latestRunId": "run-2"}}') == "run-2"


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b'{"run": {"id": 7}}', b'{"run": {"id": ""}}'])
def test_an_agent_without_a_run_is_a_fault(raw: bytes) -> None:
    with pytest.raises(Fault) as caught:
        bodies.decode_created(raw)
    assert caught.value.reason is Reason.PROTOCOL


def test_a_run_is_read_bare_or_wrapped() -> None:
    assert bodies.decode_run(b'{"status": "RUNNING"}') == Outcome("RUNNING")
    done = bodies.decode_run(b'{"run": {"status": "FINISHED", "result": "Hi"}}')
    assert (done, done.is_final) == (Outcome("FINISHED", "Hi"), True)
    with pytest.raises(Fault):
        bodies.decode_run(b'{"state": "RUNNING"}')


def test_usage_is_kept_apart_from_none() -> None:
    told = {"inputTokens": 5, "outputTokens": 2, "cacheReadTokens": 7, "cacheWriteTokens": 0, "totalTokens": 14}
    usage = bodies.decode_usage(json.dumps({"totalUsage": told}).encode())
    assert usage == Usage(input_uncached=5, output=2, cache_read=7, cache_write=0)
    assert usage.total == 14
    for raw in (b"{}", b"", b'{"totalUsage": {"inputTokens": 0, "outputTokens": 0}}', b'{"totalUsage": 5}'):
        assert bodies.decode_usage(raw) == Usage()
