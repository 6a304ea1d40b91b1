from __future__ import annotations

import hashlib

import pytest

from accounts.channels import ChannelView, channel_id, compile_channel, endpoint, idle_seconds, normalise
from accounts.compile import Transport
from accounts.models import Channel
from core.invalid import InvalidValue

CHAT, RESPONSES, MESSAGES = Transport.OPENAI_CHAT, Transport.OPENAI_RESPONSES, Transport.ANTHROPIC_MESSAGES


def compiled(**columns: object) -> ChannelView:
    row = Channel(**({"names": {"a": "b"}, "channel_id": "x"} | columns))
    return compile_channel(row, CHAT, "https://api.example.com")


@pytest.mark.parametrize(
    ("base", "wire", "url"),
    [
        ("https://api.openai.com", CHAT, "https://api.openai.com/v1/chat/completions"),
        ("https://api.openai.com/v1/", CHAT, "https://api.openai.com/v1/chat/completions"),
        ("HTTPS://API.OpenAI.com/V", RESPONSES, "https://api.openai.com/V/v1/responses"),
        ("https://open.bigmodel.cn/api/paas/v4", CHAT, "https://open.bigmodel.cn/api/paas/v4/chat/completions"),
        ("https://host/v12/", RESPONSES, "https://host/v12/responses"),
        ("https://api.anthropic.com", MESSAGES, "https://api.anthropic.com/v1/messages"),
        ("https://host/anthropic/v1", MESSAGES, "https://host/anthropic/v1/messages"),
        ("https://host/v1/messages", MESSAGES, "https://host/v1/messages"),
        ("http://[::1]:8000", CHAT, "http://[::1]:8000/v1/chat/completions"),
    ],
)
def test_a_base_url_becomes_an_endpoint(base: str, wire: Transport, url: str) -> None:
    assert endpoint(wire, base) == (wire, url)


def test_a_base_url_that_is_an_endpoint_decides_the_wire() -> None:
    assert endpoint(CHAT, "https://host/x/responses/") == (RESPONSES, "https://host/x/responses")
    assert endpoint(RESPONSES, "https://host/v1/chat/completions") == (CHAT, "https://host/v1/chat/completions")


@pytest.mark.parametrize(
    ("wire", "base"), [(MESSAGES, "https://host/chat/completions"), (CHAT, "https://host/v1/messages")]
)
def test_an_endpoint_of_the_other_vendor_is_refused(wire: Transport, base: str) -> None:
    with pytest.raises(InvalidValue, match="not what this kind of provider speaks"):
        endpoint(wire, base)


def test_a_custom_endpoint_has_no_version() -> None:
    assert endpoint(CHAT, "https://host/llm", custom=True)[1] == "https://host/llm/chat/completions"


def test_a_cursor_transport_is_no_provider() -> None:
    with pytest.raises(InvalidValue):
        endpoint(Transport.AGENT_RPC, "https://host")


@pytest.mark.parametrize(
    "url",
    [
        "", "host/v1", "ftp://host", "https://", "https://u:p@host", "https://host?x=1", "https://host/#", "https://host:x",
        "https://ho st", "https://host/a\\b", "https://2130706433", "https://127.1", "https://0x7f.0x1", "https://127.0.0.1.",
        "https://höst",
    ],
)  # fmt: skip
def test_what_is_no_base_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        normalise(url)
    assert caught.value.field == "base_url"


def test_the_channel_id_is_that_of_the_seed() -> None:
    plain = hashlib.sha256(b"https://h\nm\nsk-1\nName").hexdigest()[:16]
    assert channel_id(" https://h ", ["m"], "sk-1\n", " Name") == plain
    assert channel_id("https://h", ["m"], "sk-1", "Name", "custom") != plain
    assert channel_id("https://h", ["m"], "sk-2", "Name") != plain


@pytest.mark.parametrize(("given", "meant"), [(0, 240), (-5, 240), (1, 30), (29, 30), (30, 30), (900, 900)])
def test_the_idle_timeout_has_a_floor_and_a_default(given: int, meant: int) -> None:
    assert idle_seconds(given) == meant
    assert compiled(idle_timeout=given).idle_timeout == meant


def test_a_view_holds_what_the_row_says() -> None:
    view = compiled(effort="xhigh", extra_params={"seed": 1}, headers={"X-Title": "pool"}, dialect="qwen")
    assert view == ChannelView(
        channel_id="x", url="https://api.example.com/v1/chat/completions", models={"a": "b"}, effort="xhigh",
        dialect="qwen", extra_params={"seed": 1}, headers={"x-title": "pool"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("effort", "extreme"), ("dialect", "klingon"), ("endpoint", "/v3"), ("context_tokens", 1000),
        ("max_output_tokens", 0), ("max_output_tokens", 200_001),
        ("thinking_budget", 1000), ("thinking_budget", 65_536),
        ("names", {}), ("names", ["a"]), ("names", {"a b": "c"}), ("names", {"a*": "c"}), ("names", {"a": ""}),
        ("extra_params", []), ("extra_params", {"model": "x"}), ("extra_params", {"x": float("nan"), "stream": False}),
        ("headers", {"a b": "c"}), ("headers", {"": "c"}), ("headers", {"x": 1}), ("headers", {"x": "a\r\nb"}),
        ("headers", {"Host": "h"}), ("headers", {"Authorization": "x"}), ("headers", {"x-api-key": "x"}),
        ("headers", {"cookie": "x"}),
    ],
)  # fmt: skip
def test_a_wrong_column_is_named(field: str, value: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        compiled(**{field: value})
    assert caught.value.field == field
