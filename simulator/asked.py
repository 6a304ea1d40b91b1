"""From the body of a provider's request to the prompt a model would see: Chat, Responses and Messages.

As strict as the vendors are where a gateway gets it wrong: a result needs its call, names and ids have a length and an
alphabet, Messages wants its limit and takes no sampling knob or forced tool beside thinking.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from simulator import catalogue
from simulator.causes import refusal
from simulator.checks import bad_model
from simulator.reading import Dialogue
from simulator.steps import Picture, Prompt, Tool, Utterance

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
LONG_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
Body = Mapping[str, Any]
Said = Iterator[Utterance]


def read_chat(body: Body) -> Prompt:
    """Raises ``Failure`` for what the vendor would refuse."""
    messages = _list(body, "messages")
    system = [_text(message.get("content")) for message in messages if message["role"] in ("system", "developer")]
    tools = [_tool(one["function"], "parameters", NAME) for one in body.get("tools") or ()]
    thinks = body.get("reasoning_effort") not in (None, "none") or _switched_on(body)
    return _prompt(body, "\n\n".join(system), _each(messages, _chat_message), tools, thinks)


def read_responses(body: Body) -> Prompt:
    """Raises ``Failure`` for what the vendor would refuse."""
    if body.get("store") is not False:
        raise refusal("store is not false")
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else _list(body, "input")
    tools = [_tool(one, "parameters", NAME) for one in body.get("tools") or ()]
    reasoning = body.get("reasoning") or {}
    said = _each(items, _responses_item)
    return _prompt(body, body.get("instructions") or "", said, tools, reasoning.get("effort") not in (None, "none"))


def read_messages(body: Body) -> Prompt:
    """Raises ``Failure`` for what the vendor would refuse."""
    if not isinstance(body.get("max_tokens"), int):
        raise refusal("max_tokens: Field required")
    thinking = body.get("thinking") or {"type": "disabled"}
    thinks = thinking["type"] in ("enabled", "adaptive")
    if thinking["type"] == "enabled" and not 1024 <= thinking["budget_tokens"] < body["max_tokens"]:
        raise refusal("budget_tokens must be from 1024 to below max_tokens")
    if thinks and ({"temperature", "top_k"} & set(body) or body.get("tool_choice", {}).get("type") in ("any", "tool")):
        raise refusal("not beside thinking")
    tools = [_tool(one, "input_schema", LONG_NAME) for one in body.get("tools") or ()]
    said = _each(_list(body, "messages"), _messages_message)
    return _prompt(body, _text(body.get("system")), said, tools, thinks)


def _prompt(body: Body, system: str, said: list[Utterance], tools: list[Tool], thinks: bool) -> Prompt:
    model = catalogue.find(str(body.get("model")))
    if model is None:
        raise bad_model(str(body.get("model")))
    if body.get("stream") is not True:
        raise refusal("only streams are simulated")
    last = said.pop() if said and said[-1].role == "user" else Utterance("user", "")
    dialogue = Dialogue(system, tuple(said), last.text, last.pictures)
    return Prompt(
        model=model.id,
        text=dialogue.text,
        system=system,
        history=dialogue.history,
        pictures=dialogue.pictures,
        tools=tuple(tools),
        results=dialogue.results if not last.text else (),
        asked=dialogue.asked,
        parameters={"thinking": "true"} if thinks else {},
    )


def _switched_on(body: Body) -> bool:
    thinking, reasoning = body.get("thinking") or {}, body.get("reasoning") or {}
    on = body.get("enable_thinking") is True or thinking.get("type") == "enabled"
    return on or reasoning.get("enabled") is True or bool(reasoning.get("effort"))


def _each(entries: Iterable[Body], read: Callable[[Body, dict[str, str]], Said]) -> list[Utterance]:
    """Everything said, in order. ``calls`` (id → name) lets a result find its call."""
    calls: dict[str, str] = {}
    try:
        return [utterance for entry in entries for utterance in read(entry, calls)]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise refusal(f"a message that cannot be read ({type(error).__name__})") from None


def _chat_message(message: Body, calls: dict[str, str]) -> Said:
    match message["role"]:
        case "user":
            yield _user(message["content"])
        case "assistant":
            if message.get("reasoning_content"):
                yield Utterance("thinking", message["reasoning_content"])
            if message.get("content"):
                yield Utterance("assistant", _text(message["content"]))
            for call in message.get("tool_calls") or ():
                yield _call(call["id"], call["function"]["name"], call["function"]["arguments"], calls, NAME)
        case "tool":
            yield _result(message["tool_call_id"], message["content"], calls)


def _responses_item(item: Body, calls: dict[str, str]) -> Said:
    match item.get("type", "message"):
        case "message" if item["role"] == "user":
            yield _user(item["content"])
        case "message" if item["role"] == "assistant":
            yield Utterance("assistant", _text(item["content"]))
        case "function_call":
            yield _call(item["call_id"], item["name"], item["arguments"], calls, NAME)
        case "function_call_output":
            yield _result(item["call_id"], item["output"], calls)


def _messages_message(message: Body, calls: dict[str, str]) -> Said:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    rest = []
    for block in blocks:
        match block["type"]:
            case "tool_use":
                yield _call(block["id"], block["name"], json.dumps(block["input"]), calls, LONG_NAME)
            case "tool_result":
                yield _result(block["tool_use_id"], block.get("content") or "", calls)
            case "text" if message["role"] == "assistant":
                yield Utterance("assistant", block["text"])
            case _:
                rest.append(block)
    if rest:
        yield _user(rest)


def _user(content: Any) -> Utterance:
    return Utterance("user", _text(content), pictures=_pictures(content))


def _call(call_id: str, name: str, arguments: str, calls: dict[str, str], legal: re.Pattern[str]) -> Utterance:
    if not legal.fullmatch(name) or not LONG_NAME.fullmatch(call_id) or len(call_id) > 64:
        raise refusal("a call whose name or id the vendor does not take")
    if not isinstance(json.loads(arguments), dict):
        raise refusal("arguments that are no object")
    calls[call_id] = name
    return Utterance("call", arguments, name)


def _result(call_id: str, content: Any, calls: Mapping[str, str]) -> Utterance:
    if call_id not in calls:
        raise refusal("a result without its call")
    return Utterance("tool", _text(content), calls[call_id], _pictures(content))


def _tool(definition: Body, schema: str, legal: re.Pattern[str]) -> Tool:
    name = definition["name"]
    if not legal.fullmatch(name):
        raise refusal("a tool whose name the vendor does not take")
    return Tool(name, name, "client", definition.get("description") or "", definition[schema])


def _list(body: Body, name: str) -> list[Any]:
    value = body.get(name)
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        raise refusal(f"{name}: a list of objects is required")
    return value


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(str(part["text"]) for part in content if "text" in part)


def _pictures(content: Any) -> tuple[Picture, ...]:
    parts = [] if content is None or isinstance(content, str) else content
    return tuple(_picture(part) for part in parts if "image" in part.get("type", ""))


def _picture(part: Body) -> Picture:
    if "source" in part:
        return Picture(part["source"]["media_type"], base64.b64decode(part["source"]["data"], validate=True))
    url = part["image_url"]
    head, _, data = (url["url"] if isinstance(url, dict) else url).partition(",")
    return Picture(head.removeprefix("data:").partition(";")[0], base64.b64decode(data, validate=True))
