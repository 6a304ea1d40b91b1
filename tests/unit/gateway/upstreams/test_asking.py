from __future__ import annotations

from typing import Any

import orjson
import pytest

from accounts.channels import DIALECTS, EFFORTS, ChannelView
from accounts.kinds import PROVIDERS, Transport
from gateway.contracts import Target
from gateway.protocols.chat.server import decode_request as decode_chat
from gateway.protocols.messages.server import decode_request as decode_messages
from gateway.protocols.responses.server import decode_request as decode_responses
from gateway.upstreams import dialects
from gateway.upstreams.asking import WIRES, carried_fields, compose
from ir.request import Message, Reasoning, Request, Text, Thinking, Tool, ToolCall, ToolChoice, ToolMode, ToolResult

CHAT, RESPONSES, MESSAGES = Transport.OPENAI_CHAT, Transport.OPENAI_RESPONSES, Transport.ANTHROPIC_MESSAGES
BY_WIRE = {wire.transport: wire for wire in WIRES}
HI = (Message("user", (Text("Hi"),)),)
ON, OFF = Thinking(enabled=True), Thinking(enabled=False)


def body(
    wire: Transport,
    request: Request,
    *,
    model: str = "up-1",
    host: str = "host",
    parameters: Any = None,
    **channel: Any,
) -> dict[str, Any]:
    view = ChannelView("0" * 16, f"https://{host}/v1/x", {}, **channel)
    target = Target(1, "", model, parameters or {}, "k", channel=view)
    found: dict[str, Any] = orjson.loads(compose(BY_WIRE[wire], request, target, view)[0])
    return found


def think(wire: Transport, thinking: Thinking, **more: Any) -> dict[str, Any]:
    """What a turn with ``thinking`` says beyond the same turn without a word about it."""
    silent = body(wire, Request("m", HI), **more)
    said = body(wire, Request("m", HI, thinking=thinking), **more)
    return {name: value for name, value in said.items() if silent.get(name) != value}


def test_there_is_a_dialect_for_every_name_and_a_wire_for_every_transport() -> None:
    assert set(dialects.TABLE) == set(DIALECTS)
    assert {name for rules in dialects.RULES.values() for _, name in rules} <= set(DIALECTS)
    assert set(BY_WIRE) == set(dialects.RULES) == set(PROVIDERS)


@pytest.mark.parametrize(
    ("host", "model", "on", "off"),
    [
        ("api.openai.com", "gpt-5.1", {"reasoning_effort": "medium"}, {"reasoning_effort": "none"}),
        ("api.openai.com", "gpt-6-mini", {"reasoning_effort": "medium"}, {"reasoning_effort": "none"}),
        ("api.openai.com", "gpt-5", {}, {}),
        ("api.openai.com", "o3-mini", {}, {}),
        ("dashscope.aliyuncs.com", "any", {"enable_thinking": True}, {"enable_thinking": False}),
        ("host", "Qwen3-32B", {"enable_thinking": True}, {"enable_thinking": False}),
        ("api.deepseek.com", "v4", {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}),
        ("api.z.ai", "x", {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}),
        ("host", "glm-5", {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}),
        ("host", "mimo-v2", {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}),
        ("host", "MiniMax-M2", {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}),
        ("openrouter.ai", "qwen/qwen3", {"reasoning": {"enabled": True}}, {"reasoning": {"enabled": False}}),
        ("host", "unheard-of", {}, {}),
    ],
)  # fmt: skip
def test_chat_vendors_are_told_in_their_own_words(host: str, model: str, on: object, off: object) -> None:
    assert think(CHAT, ON, host=host, model=model) == on
    assert think(CHAT, OFF, host=host, model=model) == off


def test_an_effort_goes_where_the_vendor_takes_one() -> None:
    high = Thinking(enabled=True, effort="high")
    assert think(CHAT, high) == {"reasoning_effort": "high"}
    assert think(CHAT, high, host="openrouter.ai") == {"reasoning": {"effort": "high"}}
    assert think(CHAT, high, dialect="qwen") == {"enable_thinking": True}
    assert think(CHAT, high, dialect="silent") == {}
    assert think(RESPONSES, high) == {"reasoning": {"effort": "high"}}
    assert think(MESSAGES, high, dialect="adaptive") == {
        "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"},
    }  # fmt: skip


def test_a_budget_goes_where_the_vendor_takes_one() -> None:
    given = Thinking(enabled=True, budget_tokens=2000)
    assert think(CHAT, given, dialect="qwen") == {"enable_thinking": True, "thinking_budget": 2000}
    assert think(CHAT, given, dialect="openrouter") == {"reasoning": {"max_tokens": 2000}}
    assert think(MESSAGES, given) == {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    for budget, effort in ((1024, "low"), (4096, "medium"), (16_384, "high")):
        thinking = Thinking(enabled=True, budget_tokens=budget)
        assert think(CHAT, thinking) == {"reasoning_effort": effort}
        assert think(MESSAGES, thinking, dialect="adaptive")["output_config"] == {"effort": effort}


@pytest.mark.parametrize(
    ("model", "effort"),
    [
        ("claude-opus-4-6", "high"),
        ("claude-sonnet-4.7", "xhigh"),
        ("claude-opus-5", "xhigh"),
        ("claude-haiku-12", "xhigh"),
    ],
)
def test_newer_claudes_think_adaptively_and_hard_where_nobody_names_an_effort(model: str, effort: str) -> None:
    adaptive = {"type": "adaptive"}
    assert think(MESSAGES, ON, model=model) == {"thinking": adaptive, "output_config": {"effort": effort}}
    assert think(MESSAGES, OFF, model=model) == {"thinking": {"type": "disabled"}}
    named = Thinking(enabled=True, effort="low")
    assert think(MESSAGES, named, model=model)["output_config"] == {"effort": "low"}
    most = Thinking(enabled=True, effort="xhigh")
    assert think(MESSAGES, most, model=model)["output_config"] == {"effort": effort}


@pytest.mark.parametrize(
    "model", ["claude-3-7-sonnet-latest", "claude-sonnet-4-5", "claude-haiku-4-5-20251001", "kimi-k3"]
)
def test_others_get_the_channels_budget(model: str) -> None:
    assert think(MESSAGES, ON, model=model) == {"thinking": {"type": "enabled", "budget_tokens": 4096}}
    assert think(MESSAGES, ON, model=model, thinking_budget=1500) == {
        "thinking": {"type": "enabled", "budget_tokens": 1500}
    }


def test_a_budget_stays_below_the_output_limit_or_is_left_out() -> None:
    short = Request("m", HI, thinking=ON, max_output_tokens=2000)
    assert body(MESSAGES, short)["thinking"]["budget_tokens"] == 1999
    assert "thinking" not in body(MESSAGES, Request("m", HI, thinking=ON, max_output_tokens=1000))


def test_a_turn_that_goes_on_after_a_call_thinks_only_adaptively() -> None:
    history = (
        *HI, Message("assistant", (ToolCall("c", "f", "{}"),)), Message("user", (ToolResult("c", "done"),)),
    )  # fmt: skip
    request = Request("m", history, tools=(Tool("f", "", {"type": "object"}),), thinking=ON)
    assert "thinking" not in body(MESSAGES, request)
    assert body(MESSAGES, request, model="claude-opus-4-6")["thinking"] == {"type": "adaptive"}


@pytest.mark.parametrize("choice", [ToolChoice(ToolMode.REQUIRED), ToolChoice(ToolMode.NAMED, ("f",))])
@pytest.mark.parametrize("dialect", ["adaptive", "budget", "typed"])
def test_anthropic_is_not_asked_to_think_where_a_call_is_demanded(choice: ToolChoice, dialect: str) -> None:
    tools = (Tool("f", "", {"type": "object"}),)
    asked = Request("m", HI, tools=tools, thinking=ON)
    more: dict[str, Any] = {"dialect": dialect, "parameters": {"thinking": "true"}}
    assert "thinking" in body(MESSAGES, asked, **more)
    forced = Request("m", HI, tools=tools, thinking=ON, tool_choice=choice)
    assert "thinking" not in body(MESSAGES, forced, **more)
    assert "thinking" not in body(MESSAGES, forced, **more, extra_params={"thinking": {"type": "adaptive"}})
    assert body(CHAT, Request("m", HI, tools=tools, thinking=ON, tool_choice=choice), dialect="typed")["thinking"]
    off = Request("m", HI, tools=tools, thinking=OFF, tool_choice=choice)
    assert body(MESSAGES, off, dialect=dialect)["thinking"] == {"type": "disabled"}


def test_breakpoints_are_set_where_the_caller_has_none() -> None:
    tools = (Tool("f", "", {"type": "object"}), Tool("g", "", {"type": "object"}))
    history = (*HI, Message("assistant", (Text("a"), Text("b"))), Message("user", (Text("c"), Text("d"))))
    sent = body(MESSAGES, Request("m", history, system="Be brief.", tools=tools))
    ephemeral = {"type": "ephemeral"}
    assert [tool.get("cache_control") for tool in sent["tools"]] == [None, ephemeral]
    assert sent["system"] == [{"type": "text", "text": "Be brief.", "cache_control": ephemeral}]
    marks = [[block.get("cache_control") for block in message["content"]] for message in sent["messages"]]
    assert marks == [[None], [None, ephemeral], [None, ephemeral]]
    assert "cache_control" not in str(body(CHAT, Request("m", history, system="Be brief.", tools=tools)))


def test_a_callers_own_breakpoints_are_kept_and_none_added() -> None:
    long, short = {"type": "ephemeral", "ttl": "1h"}, {"type": "ephemeral"}
    asked = {
        "model": "m",
        "max_tokens": 9000,
        "system": [
            {"type": "text", "text": "One.", "cache_control": long},
            {"type": "text", "text": ""},
            {"type": "text", "text": "Two."},
        ],
        "tools": [
            {"name": "f", "input_schema": {"type": "object"}, "cache_control": long},
            {"name": "g" * 120, "input_schema": {"type": "object"}},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "there"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
                {"type": "tool_use", "id": "c2", "name": "f", "input": {}, "cache_control": short},
            ]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c2", "content": "2"}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "1", "cache_control": short},
                {"type": "text", "text": "go on", "cache_control": "nonsense"},
            ]},
        ],
    }  # fmt: skip
    request = decode_messages(asked)
    sent = body(MESSAGES, request)
    assert sent["system"] == [
        {"type": "text", "text": "One.", "cache_control": long}, {"type": "text", "text": "Two."},
    ]  # fmt: skip
    assert [tool.get("cache_control") for tool in sent["tools"]] == [long, None]
    assert [[block.get("cache_control") for block in message["content"]] for message in sent["messages"]] == [
        [None, None], [None, short], [short, None, None],
    ]  # fmt: skip
    assert [block["type"] for block in sent["messages"][1]["content"]] == ["tool_use", "tool_use"]
    assert decode_messages(sent).system == request.system
    assert "cache_control" not in str(body(CHAT, request))


def test_a_caller_that_leaves_the_caching_to_the_vendor_is_not_interfered_with() -> None:
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    automatic = decode_messages({**asked, "cache_control": {"type": "ephemeral"}})
    sent = body(MESSAGES, automatic)
    assert sent["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in str(sent["messages"])


THOUGHT = (
    Message("assistant", (Reasoning("hm"), ToolCall("c1", "f", "{}"))),
    Message("user", (ToolResult("c1", "ok"),)),
    Message("assistant", (ToolCall("c2", "f", "{}"),)),
    Message("user", (ToolResult("c2", "ok"),)),
    Message("assistant", (Reasoning("only this"),)),
    Message("user", (Text("Well?"),)),
)


@pytest.mark.parametrize(
    ("dialect", "thinking", "sent_back"),
    [
        ("silent", ON, ["hm", None, "only this"]),
        ("typed", ON, ["hm", "", "only this"]),
        ("typed", Thinking(), ["hm", "", "only this"]),  # the vendor's models may think by themselves
        ("typed", OFF, ["hm", None, "only this"]),
        ("openai", ON, [None, None]),
        ("reasoner", ON, [None, None]),
    ],
)
def test_thinking_of_a_chat_history_goes_back_to_whom_it_means_something(
    dialect: str, thinking: Thinking, sent_back: list[str | None]
) -> None:
    request = Request("m", (*HI, *THOUGHT), thinking=thinking)
    said = [message for message in body(CHAT, request, dialect=dialect)["messages"] if message["role"] == "assistant"]
    assert [message.get("reasoning_content") for message in said] == sent_back


def test_openai_is_told_which_turns_belong_together() -> None:
    request = Request("m", HI, session="user_1_session_2")
    keys = {body(wire, request, model="gpt-5.2")["prompt_cache_key"] for wire in (CHAT, RESPONSES)}
    assert len(keys) == 1
    assert all(len(key) <= 64 and "session" not in key for key in keys)
    assert "prompt_cache_key" not in body(CHAT, Request("m", HI), model="gpt-5.2")
    for model in ("openai/gpt-oss-120b", "glm-5"):
        assert "prompt_cache_key" not in body(CHAT, request, model=model)
    assert "prompt_cache_key" not in body(MESSAGES, request, model="gpt-5.2", dialect="adaptive")


@pytest.mark.parametrize(
    ("wire", "decode", "asked"),
    [
        (CHAT, decode_chat, {"messages": [{"role": "user", "content": "Hi"}]}),
        (RESPONSES, decode_responses, {"input": "Hi"}),
    ],
)
def test_a_callers_own_cache_key_is_kept(wire: Transport, decode: Any, asked: Any) -> None:
    request = decode({"model": "m", "prompt_cache_key": "mine", **asked})
    for model in ("gpt-5.2", "other"):
        assert body(wire, request, model=model)["prompt_cache_key"] == "mine"


def test_the_channels_effort_is_for_turns_that_say_nothing() -> None:
    assert body(CHAT, Request("m", HI), effort="low")["reasoning_effort"] == "low"
    asked = Request("m", HI, thinking=Thinking(enabled=True, effort="high"))
    assert body(CHAT, asked, effort="low")["reasoning_effort"] == "high"
    assert "reasoning_effort" not in body(CHAT, Request("m", HI, thinking=OFF), effort="low")
    for effort in EFFORTS:
        assert body(RESPONSES, Request("m", HI), effort=effort)["reasoning"] == {"effort": effort}


def test_a_blank_effort_says_nothing() -> None:
    for wire in PROVIDERS:
        assert not {"reasoning", "reasoning_effort", "thinking", "output_config"} & set(body(wire, Request("m", HI)))


def test_the_thinking_twin_of_a_model_thinks_whatever_the_caller_says() -> None:
    twin = {"thinking": "true"}
    for thinking in (Thinking(), OFF):
        request = Request("m", HI, thinking=thinking)
        assert body(CHAT, request, dialect="qwen", parameters=twin)["enable_thinking"] is True
        assert body(MESSAGES, request, parameters=twin)["thinking"]["type"] == "enabled"


def test_the_output_limit_is_the_channels_at_most() -> None:
    for wire, field in ((RESPONSES, "max_output_tokens"), (MESSAGES, "max_tokens"), (CHAT, "max_tokens")):
        assert body(wire, Request("m", HI, max_output_tokens=100))[field] == 100
        assert body(wire, Request("m", HI, max_output_tokens=10_000), max_output_tokens=5000)[field] == 5000
    assert body(CHAT, Request("m", HI, max_output_tokens=9), model="gpt-4o")["max_completion_tokens"] == 9
    assert body(MESSAGES, Request("m", HI), max_output_tokens=5000)["max_tokens"] == 5000
    assert not {"max_tokens", "max_completion_tokens"} & set(body(CHAT, Request("m", HI)))


def test_the_output_limit_leaves_room_for_the_prompt() -> None:
    long = (Message("user", (Text("a" * 45_000),)),)  # about 10,000 tokens
    sent = body(MESSAGES, Request("m", long), context_tokens=20_000, max_output_tokens=15_000)["max_tokens"]
    assert 20_000 - 10_000 - 1024 - 20 <= sent <= 20_000 - 10_000 - 1024
    assert body(MESSAGES, Request("m", long), context_tokens=9000, max_output_tokens=8000)["max_tokens"] == 1


@pytest.mark.parametrize(
    ("wire", "decode", "asked"),
    [
        (CHAT, decode_chat, {"messages": [{"role": "user", "content": "Hi"}]}),
        (RESPONSES, decode_responses, {"input": "Hi"}),
        (MESSAGES, decode_messages, {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}),
    ],
)  # fmt: skip
def test_unknown_fields_go_to_an_upstream_of_the_same_protocol_alone(wire: Transport, decode: Any, asked: Any) -> None:
    extra = {"service_tier": "flex", "metadata": {"a": "b"}, "x_new": [1, {"deep": None}], "models": ["dear-one"]}
    request = decode({"model": "m", **asked, **extra})
    for other in PROVIDERS:
        sent = body(other, request)
        assert ("x_new" in sent) == (other is wire)
        assert "models" not in sent
    sent = body(wire, request, extra_params={"service_tier": "default", "top_k": 3})
    assert sent["x_new"] == extra["x_new"]
    assert sent["metadata"] == extra["metadata"]
    assert (sent["service_tier"], sent["top_k"], sent["model"]) == ("default", 3, "up-1")
    assert set(carried_fields(request)) == {"service_tier", "metadata", "x_new"}


LONG = "mcp.server/" + "tool" * 25
OTHER = "mcp.server/" + "tool" * 24 + "tooL"


@pytest.mark.parametrize(("wire", "longest"), [(CHAT, 64), (RESPONSES, 64), (MESSAGES, 128)])
def test_names_and_ids_are_made_to_fit_and_stay_distinct(wire: Transport, longest: int) -> None:
    call_id = "call_1\nfc_0" + "x" * 60
    request = Request(
        "m",
        (*HI, Message("assistant", (ToolCall(call_id, LONG, "{}"),)), Message("user", (ToolResult(call_id, "ok"),))),
        tools=tuple(Tool(name, "", {"type": "object"}) for name in (LONG, OTHER, "plain_name")),
        tool_choice=ToolChoice(ToolMode.NAMED, (LONG,)),
    )
    text = orjson.dumps(body(wire, request)).decode()
    assert LONG not in text
    assert OTHER not in text
    assert '"plain_name"' in text
    assert "fc_0" not in text
    sent = body(wire, request)
    tools = [tool.get("function", tool)["name"] for tool in sent["tools"]]
    assert len(set(tools)) == 3
    assert all(len(name) <= longest for name in tools)
    assert text.count(f'"{tools[0]}"') == 3  # definition, choice, history


def test_a_request_that_fits_is_not_copied() -> None:
    request = Request("m", HI, tools=(Tool("f", "", {"type": "object"}),))
    view = ChannelView("0" * 16, "https://h/x", {})
    _, fitting = compose(BY_WIRE[CHAT], request, Target(1, "", "m", {}, "k", channel=view), view)
    assert fitting.request is request
