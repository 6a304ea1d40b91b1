"""Compaction, emulated: one turn writes a summary of the conversation, and the caller carries it on as an opaque item.

A conversation is compacted when the last input item is a ``compaction_trigger`` (Codex from 0.150 on) or by
``POST /v1/responses/compact``. ``summary_request`` turns the request into the summary turn: no tools, and calls and
results of the history as text, since some vendors refuse them where no tools are offered. The summary is sealed for
the caller's tenant; ``references.expand`` opens it when it comes back, and it becomes a user message.

The caller keeps its user messages verbatim beside the item: Codex does so by itself, the answer of
``/responses/compact`` holds them (``kept_messages``), as OpenAI's own does.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence

import orjson
from msgspec.structs import replace

from gateway.contracts import JsonObject
from gateway.wire.json import dump, is_writable
from ir.errors import ApiError, invalid
from ir.history import merge
from ir.request import Content, Image, Message, Request, Text, Thinking, ToolCall, ToolChoice, ToolMode, ToolResult

TRIGGER = "compaction_trigger"
COMPACTION = "compaction"
PREFILL = "prefill"
"""Listed as ignored when a conversation ends with a part of an answer."""

KEPT_BYTES = 80_000
"""How much of the user's messages an answer repeats, newest first: about 20,000 tokens, as Codex keeps."""

VERSION = "v1."
INSTRUCTIONS = (
    "The conversation is about to be cut off here and continued by another assistant, who will see the user's messages "
    "and your summary, nothing else. Write that hand-over summary: what the user wants, what was done and found, "
    "decisions and their reasons, names, paths, identifiers and figures that are needed again, what is still open, and "
    "the next step. Leave nothing out that the work depends on. Do not call tools and do not answer the user."
)
ASK = "Write the hand-over summary now."
CONTEXT = "The conversation so far was compacted. Summary of what came before:\n\n"


def is_compaction(body: JsonObject) -> bool:
    """Whether the last input item asks to compact what stands before it."""
    items = body.get("input")
    return isinstance(items, list) and bool(items) and isinstance(items[-1], dict) and items[-1].get("type") == TRIGGER


def summary_request(request: Request) -> Request:
    """The turn that writes the summary of ``request``'s conversation."""
    names: dict[str, str] = {}
    messages = [_as_text(message, names) for message in request.messages]
    messages.append(Message("user", (Text(ASK),)))
    merged, _ = merge(messages, [""] * len(messages))
    return replace(
        request,
        messages=merged,
        system="\n\n".join(filter(None, (request.system, INSTRUCTIONS))),
        tools=(),
        tool_choice=ToolChoice(ToolMode.NONE),
        parallel_tool_calls=None,
        max_output_tokens=None,
        output_format=None,
        thinking=Thinking(enabled=request.thinking.enabled, effort=request.thinking.effort),
        store=False,
        echo={**request.echo, "store": False},
        ignored=tuple(name for name in request.ignored if name != PREFILL),  # an open end is summed up like the rest
        compaction=True,
    )


def seal_summary(summary: str, seal: Callable[[bytes], bytes]) -> str:
    """The opaque text of a compaction item."""
    return VERSION + base64.urlsafe_b64encode(seal(dump({"summary": summary}))).decode()


def open_summary(opaque: str, unseal: Callable[[bytes], bytes], path: str) -> str:
    """The summary in an opaque text. Raises a 400 when it is not ours, was altered, or is another tenant's."""
    if not opaque.startswith(VERSION):
        raise invalid_compaction(path)
    try:
        sealed = base64.b64decode(opaque[len(VERSION) :], altchars=b"-_", validate=True)
        summary = orjson.loads(unseal(sealed))["summary"]
    except (ValueError, binascii.Error, KeyError, TypeError):
        raise invalid_compaction(path) from None
    if not isinstance(summary, str):
        raise invalid_compaction(path)
    return summary


def invalid_compaction(path: str) -> ApiError:
    where = f"{path}.encrypted_content"
    return invalid("invalid_compaction", f"{where}: this compaction item was not made here", where)


def context_text(summary: str) -> str:
    """How a summary is told to the model that goes on from it."""
    return CONTEXT + summary


def compaction_item(item_id: str, opaque: str) -> JsonObject:
    return {"id": item_id, "type": COMPACTION, "encrypted_content": opaque}


def kept_messages(items: Sequence[JsonObject]) -> list[JsonObject]:
    """The user's messages among ``items`` word for word, as many of the newest as fit into ``KEPT_BYTES``."""
    kept: list[JsonObject] = []
    room = KEPT_BYTES
    for item in reversed(items):
        if item.get("type") == "message" and item.get("role") == "user" and is_writable(item):
            room -= len(dump(item))
            if room < 0:
                break
            kept.append(item)
    return kept[::-1]


def _as_text(message: Message, names: dict[str, str]) -> Message:
    content: list[Content] = []
    for part in message.content:
        match part:
            case ToolCall():
                names[part.id] = part.name
                content.append(Text(f"[called {part.name} with {part.arguments}]"))
            case ToolResult():
                content += _result(part, names.get(part.call_id, "a tool"))
            case _:
                content.append(part)
    return Message(message.role, tuple(content))


def _result(result: ToolResult, name: str) -> list[Text | Image]:
    parts = [Text(result.content)] if isinstance(result.content, str) else list(result.content)
    texts = "\n".join(part.text for part in parts if isinstance(part, Text))
    return [Text(f"[{name} returned]\n{texts}"), *(part for part in parts if isinstance(part, Image))]
