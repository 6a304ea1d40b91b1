from __future__ import annotations

import base64
import json

import pytest

from protobufs import agent_v1_pb2 as pb
from simulator.causes import CAUSES, STATUS, Cause, Form, end_of_stream, error_object

CONNECT_CAUSES = [cause for cause in CAUSES.values() if cause.code]


@pytest.mark.parametrize("cause", CONNECT_CAUSES, ids=lambda cause: cause.name)
def test_a_connect_error_says_error_and_means_its_details(cause: Cause) -> None:
    error = json.loads(end_of_stream(cause))["error"]
    assert error["code"] == cause.code
    assert error["code"] in STATUS
    assert error["message"] == "Error"
    if cause.error is None:
        assert "details" not in error
        return
    detail = error["details"][0]
    value = detail["value"]
    assert not value.endswith("=")
    decoded = pb.ErrorDetails.FromString(base64.b64decode(value + "=" * (-len(value) % 4)))
    assert pb.ErrorCode.Name(decoded.error) == detail["debug"]["error"]
    assert decoded.details.title == detail["debug"]["details"]["title"] == cause.title
    assert detail["type"] == "aiserver.v1.ErrorDetails"


def test_retryable_has_three_states() -> None:
    def debug(name: str) -> dict[str, object]:
        details: dict[str, object] = error_object(CAUSES[name])["details"][0]["debug"]["details"]
        return details

    assert debug("unpaid_invoice")["isRetryable"] is False
    assert debug("rate_limited")["isRetryable"] is True
    assert "isRetryable" not in debug("internal")


def test_the_two_meanings_of_one_number_differ_by_title() -> None:
    assert CAUSES["update_required"].error == pb.ERROR_GPT_4_VISION_PREVIEW_RATE_LIMIT
    assert CAUSES["update_required"].title == "Update Required"


def test_a_model_limit_names_the_model_to_switch_to() -> None:
    debug = error_object(CAUSES["model_limit"])["details"][0]["debug"]
    assert debug["details"]["additionalInfo"] == {"autoSwitchToModel": "default"}


def test_a_hint_travels_as_trailing_metadata() -> None:
    assert json.loads(end_of_stream(CAUSES["rate_limited_hint"]))["metadata"] == {"retry-after": ["7"]}


def test_causes_without_a_connect_error_have_an_http_form() -> None:
    assert {cause.form for cause in CAUSES.values() if not cause.code} == {
        Form.HTML,
        Form.PLAIN,
        Form.EMPTY,
        Form.CLOSE,
    }
    assert (CAUSES["html_403"].status, CAUSES["protocol_464"].status) == (403, 464)
