"""Budgets at their boundary in every protocol, counted in bytes of UTF-8 and not in characters: what is as large as the
limit passes, one byte more is refused, in the caller's protocol and before any account is asked.

Images and tools, which have limits of their own, are in ``test_images`` and ``test_refusals``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import orjson
import pytest

from tests.plugins.gemini import Google

BODY_LIMIT = 4096
PROMPT_LIMIT = 1024
PART_LIMIT = 100
WORD = "語ß😀"  # three, two and four bytes

GEMINI = "/v1beta/models/sim-echo:generateContent"
CODES = {
    "/v1/chat/completions": ("code", "prompt_too_large", "messages"),
    "/v1/messages": ("type", "request_too_large", None),
    "/v1/responses": ("code", "prompt_too_large", "input"),
    GEMINI: ("status", "INVALID_ARGUMENT", None),
}
PATHS = pytest.mark.parametrize("path", CODES)


@pytest.fixture(scope="module")
def narrow(shared_google: Google) -> Iterator[Google]:
    """All four endpoints, with limits that a short text reaches."""
    house = shared_google.house
    house.reset()
    house.set(
        gemini_native_enabled=True, max_body_bytes=BODY_LIMIT, max_prompt_bytes=PROMPT_LIMIT, max_parts=PART_LIMIT
    )
    yield shared_google
    house.reset()


def body_of(path: str, text: str) -> dict[str, Any]:
    if path == GEMINI:
        return {"contents": [{"role": "user", "parts": [{"text": text}]}]}
    if path == "/v1/responses":
        return {"model": "sim-echo", "input": text}
    return {"model": "sim-echo", "max_tokens": 999, "messages": [{"role": "user", "content": text}]}


def post(google: Google, path: str, body: bytes) -> httpx2.Response:
    return google.http.post(path, content=body, headers=google.key | {"content-type": "application/json"})


def filled(size: int) -> str:
    """``size`` bytes of text, most of it in characters of several bytes."""
    text = WORD * (size // len(WORD.encode()))
    return text + "x" * (size - len(text.encode()))


@PATHS
def test_a_prompt_of_the_limit_passes_and_one_byte_more_is_refused(narrow: Google, path: str) -> None:
    assert post(narrow, path, orjson.dumps(body_of(path, filled(PROMPT_LIMIT)))).status_code == 200
    narrow.house.simulator.reset()
    answer = post(narrow, path, orjson.dumps(body_of(path, filled(PROMPT_LIMIT + 1))))
    error = answer.json()["error"]
    field, value, param = CODES[path]
    assert (answer.status_code, error[field], error.get("param")) == (413, value, param)
    assert f"{PROMPT_LIMIT + 1} prompt bytes exceed the limit of {PROMPT_LIMIT}" in error["message"]
    assert narrow.house.simulator.log() == []


@PATHS
def test_a_body_of_the_limit_passes_and_one_byte_more_is_refused(narrow: Google, path: str) -> None:
    """White space after the JSON makes the size; a text of several bytes a character stands in it."""
    body = orjson.dumps(body_of(path, filled(PROMPT_LIMIT)))
    assert post(narrow, path, body.ljust(BODY_LIMIT)).status_code == 200
    narrow.house.simulator.reset()
    answer = post(narrow, path, body.ljust(BODY_LIMIT + 1))
    assert answer.status_code == 413
    assert str(BODY_LIMIT) in answer.json()["error"]["message"]
    assert narrow.house.simulator.log() == []


@PATHS
def test_system_texts_count_as_prompt(narrow: Google, path: str) -> None:
    systems: dict[str, dict[str, Any]] = {
        GEMINI: {"systemInstruction": {"parts": [{"text": filled(PROMPT_LIMIT - 5)}]}},
        "/v1/responses": {"instructions": filled(PROMPT_LIMIT - 5)},
        "/v1/messages": {"system": filled(PROMPT_LIMIT - 5)},
    }
    for text, status in (("12345", 200), ("123456", 413)):
        body = body_of(path, text)
        if path in systems:
            body |= systems[path]
        else:
            body["messages"].insert(0, {"role": "system", "content": filled(PROMPT_LIMIT - 5)})
        assert post(narrow, path, orjson.dumps(body)).status_code == status


def pieces_of(path: str, count: int) -> dict[str, Any]:
    """A request whose one message has ``count`` parts."""
    if path == GEMINI:
        return {"contents": [{"role": "user", "parts": [{"text": "x"}] * count}]}
    if path == "/v1/responses":
        return {
            "model": "sim-echo",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}] * count}],
        }
    content = [{"type": "text", "text": "x"}] * count
    return {"model": "sim-echo", "max_tokens": 999, "messages": [{"role": "user", "content": content}]}


@PATHS
def test_as_many_parts_as_the_limit_pass_and_one_more_is_refused(narrow: Google, path: str) -> None:
    passes = post(narrow, path, orjson.dumps(pieces_of(path, PART_LIMIT)))
    fails = post(narrow, path, orjson.dumps(pieces_of(path, PART_LIMIT + 1)))
    assert passes.status_code == httpx2.codes.OK, passes.text
    assert fails.status_code == httpx2.codes.CONTENT_TOO_LARGE
    assert f"{PART_LIMIT + 1} parts exceed the limit of {PART_LIMIT}" in fails.text
