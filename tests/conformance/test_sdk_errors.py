"""Errors as applications meet them: the SDKs' own exception classes, and their own retries, counted at the gateway.

Each request of an SDK leaves one record, and an SDK keeps its headers over retries, so ``x-client-request-id`` tells
how often it came. Records are written in the order in which requests ended: once a later one is there, all are.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.conformance.caller import Caller
from tests.plugins.house import House

HELLO: list[Any] = [{"role": "user", "content": "Hi"}]


class Counter:
    """A mark that an SDK sends along, and how many requests came with it."""

    def __init__(self, house: House, caller: Caller) -> None:
        self._house = house
        self._caller = caller
        self._mark = uuid.uuid4().hex
        self.headers = {"x-client-request-id": self._mark}

    def requests(self) -> int:
        last = self._caller.chat("sim-echo").headers["x-request-id"]
        self._house.record(last)
        return len(self._house.records("client_request_id = %s", self._mark))


@pytest.fixture
def counter(house: House, caller: Caller) -> Counter:
    return Counter(house, caller)


@pytest.fixture
def retrying_openai(house: House) -> Iterator[openai.OpenAI]:
    """With the SDK's default retries."""
    with openai.OpenAI(api_key=house.key, base_url=f"{house.url}/v1") as sdk:
        yield sdk


@pytest.fixture
def retrying_anthropic(house: House) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(api_key=house.key, base_url=house.url) as sdk:
        yield sdk


OPENAI = [
    ("sim-error-bad_parameter", openai.BadRequestError, "unsupported_parameter"),
    ("sim-error-context_too_large", openai.BadRequestError, "context_length_exceeded"),
    ("no-such-model", openai.NotFoundError, "model_not_found"),
    ("sim-error-rate_limited", openai.RateLimitError, "rate_limit_exceeded"),
    ("sim-error-protocol_464", openai.InternalServerError, "upstream_protocol_error"),
    ("sim-error-suspicious", openai.InternalServerError, "no_capacity"),
    ("sim-error-deadline", openai.InternalServerError, "timeout"),
]
ANTHROPIC = [
    ("sim-error-bad_parameter", anthropic.BadRequestError, "invalid_request_error"),
    ("no-such-model", anthropic.NotFoundError, "not_found_error"),
    ("sim-error-rate_limited", anthropic.RateLimitError, "rate_limit_error"),
    ("sim-error-protocol_464", anthropic.InternalServerError, "api_error"),
    ("sim-error-suspicious", anthropic.OverloadedError, "overloaded_error"),
    ("sim-error-deadline", anthropic.InternalServerError, "timeout_error"),
]


@pytest.mark.parametrize(("model", "expected", "code"), OPENAI)
def test_openai_raises_its_own_class(
    house: House, openai_sdk: openai.OpenAI, model: str, expected: type[openai.APIStatusError], code: str
) -> None:
    with pytest.raises(expected) as caught:
        openai_sdk.chat.completions.create(model=model, messages=HELLO, stream=True)
    assert type(caught.value) is expected
    assert caught.value.code == code
    assert caught.value.request_id == caught.value.response.headers["x-request-id"]


@pytest.mark.parametrize(("model", "expected", "kind"), ANTHROPIC)
def test_anthropic_raises_its_own_class(
    house: House, anthropic_sdk: anthropic.Anthropic, model: str, expected: type[anthropic.APIStatusError], kind: str
) -> None:
    with pytest.raises(expected) as caught:
        anthropic_sdk.messages.create(model=model, max_tokens=9, messages=HELLO)
    assert caught.value.type == kind
    assert caught.value.request_id == caught.value.response.headers["request-id"]


async def test_the_async_sdks_raise_the_same(
    house: House, async_openai: openai.AsyncOpenAI, async_anthropic: anthropic.AsyncAnthropic
) -> None:
    with pytest.raises(openai.NotFoundError):
        await async_openai.chat.completions.create(model="no-such-model", messages=HELLO)
    with pytest.raises(anthropic.NotFoundError):
        await async_anthropic.messages.create(model="no-such-model", max_tokens=9, messages=HELLO)


def test_a_wrong_key_is_an_authentication_error_for_both(calm: House) -> None:
    wrong = calm.key[:-1] + ("a" if calm.key[-1] != "a" else "b")
    with (
        openai.OpenAI(api_key=wrong, base_url=f"{calm.url}/v1") as sdk,
        pytest.raises(openai.AuthenticationError) as refused,
    ):
        sdk.chat.completions.create(model="sim-echo", messages=HELLO)
    assert refused.value.code == "invalid_api_key"
    with (
        anthropic.Anthropic(api_key=wrong, base_url=calm.url) as other,
        pytest.raises(anthropic.AuthenticationError) as rejected,
    ):
        other.messages.create(model="sim-echo", max_tokens=9, messages=HELLO)
    assert rejected.value.type == "authentication_error"
    assert wrong not in str(refused.value) + str(rejected.value)


def test_too_much_is_the_sdks_class_for_it(calm: House, anthropic_sdk: anthropic.Anthropic) -> None:
    tools: list[Any] = [{"name": f"t{number}", "input_schema": {"type": "object"}} for number in range(129)]
    with pytest.raises(anthropic.ContentTooLargeError) as caught:
        anthropic_sdk.messages.create(model="sim-echo", max_tokens=9, messages=HELLO, tools=tools)
    assert str(caught.value.type) == "request_too_large"


def test_an_error_after_output_is_raised_by_the_openai_stream(house: House, openai_sdk: openai.OpenAI) -> None:
    heard: list[str] = []
    stream = openai_sdk.chat.completions.create(model="sim-error-internal-after-2", messages=HELLO, stream=True)
    with stream, pytest.raises(openai.APIError, match="The upstream failed") as caught:
        heard.extend(chunk.choices[0].delta.content or "" for chunk in stream)
    assert "".join(heard) == "lorem ipsum "
    assert not isinstance(caught.value, openai.APIStatusError)


def test_an_error_after_output_is_raised_by_the_anthropic_stream(
    house: House, anthropic_sdk: anthropic.Anthropic
) -> None:
    heard: list[str] = []
    with (
        anthropic_sdk.messages.stream(model="sim-error-internal-after-2", max_tokens=99, messages=HELLO) as stream,
        pytest.raises(anthropic.APIStatusError, match="The upstream failed"),
    ):
        heard.extend(stream.text_stream)
    assert "".join(heard) == "lorem ipsum "


@pytest.mark.parametrize("model", ["sim-error-bad_parameter", "no-such-model"])
def test_what_a_retry_cannot_help_is_asked_once(
    counter: Counter, retrying_openai: openai.OpenAI, retrying_anthropic: anthropic.Anthropic, model: str
) -> None:
    with pytest.raises(openai.APIStatusError):
        retrying_openai.chat.completions.create(model=model, messages=HELLO, extra_headers=counter.headers)
    with pytest.raises(anthropic.APIStatusError):
        retrying_anthropic.messages.create(model=model, max_tokens=9, messages=HELLO, extra_headers=counter.headers)
    assert counter.requests() == 2


def test_the_sdks_retry_what_may_pass(
    counter: Counter, retrying_openai: openai.OpenAI, retrying_anthropic: anthropic.Anthropic
) -> None:
    with pytest.raises(openai.InternalServerError):
        retrying_openai.chat.completions.create(
            model="sim-error-protocol_464", messages=HELLO, extra_headers=counter.headers
        )
    assert counter.requests() == 3
    with pytest.raises(anthropic.InternalServerError):
        retrying_anthropic.messages.create(
            model="sim-error-protocol_464", max_tokens=9, messages=HELLO, extra_headers=counter.headers
        )
    assert counter.requests() == 6


def test_the_sdks_wait_as_long_as_they_are_told_and_then_succeed(
    counter: Counter, house: House, retrying_openai: openai.OpenAI
) -> None:
    """All accounts rest for a moment: the first answer is a 429 that says when to come back."""
    for name in ("alpha", "beta", "gamma"):
        house.simulator.fault(name, "rate_limited_hint", times=1)
    began = time.monotonic()
    answer = retrying_openai.chat.completions.create(model="sim-echo", messages=HELLO, extra_headers=counter.headers)
    assert answer.choices[0].message.content == "Hi"
    assert 4.5 < time.monotonic() - began < 15
    assert counter.requests() == 2
