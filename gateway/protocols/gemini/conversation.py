"""``contents`` and ``systemInstruction`` → messages in normal form. Text is all there is.

A thought that comes back with the history is dropped and listed as ignored: Google's models do not read it either.
Some clients split one turn over several contents, so neighbours of one role are merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from gateway.protocols.gemini.features import PARTS, refuse_feature
from gateway.protocols.gemini.fields import refuse, spell, take_fields, take_flag, take_list, take_text
from ir.errors import ApiError, invalid
from ir.request import Message, Text

CONTENTS = "contents"
SYSTEM = "systemInstruction"

_CONTENT = spell(("role", "parts"))
_NOTES = ("thought", "thoughtSignature", "partMetadata", "mediaResolution")
_PART = spell(("text",), _NOTES, PARTS)
_DATA = frozenset({"text", *PARTS} - {"videoMetadata"})  # what a part can be; the rest says something about it
_ROLES: Mapping[str, Literal["user", "assistant"]] = {"user": "user", "model": "assistant"}


class Conversation(Struct, frozen=True):
    messages: tuple[Message, ...]
    ignored: tuple[str, ...]


def decode_contents(value: object) -> Conversation:
    """Raises a 400 unless there is something to answer: texts whose last is the user's."""
    contents = take_list([] if value is None else value, CONTENTS)
    if not contents:
        raise _malformed("contents is not specified")
    turns: list[tuple[Literal["user", "assistant"], list[Text]]] = []
    ignored: list[str] = []
    for index, content in enumerate(contents):
        role, texts = _decode_content(content, f"{CONTENTS}[{index}]", ignored)
        if not texts:
            continue
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(texts)
        else:
            turns.append((role, texts))
    if not turns:
        raise _malformed("contents holds no text")
    if turns[-1][0] != "user":
        raise _malformed("the last of contents must have the role user")
    return Conversation(tuple(Message(role, tuple(texts)) for role, texts in turns), tuple(ignored))


def decode_system(value: object) -> str:
    """The system text; its parts are paragraphs. A role is accepted, since the SDKs send one."""
    if value is None:
        return ""
    fields = take_fields(value, SYSTEM, _CONTENT)
    texts = []
    for index, part in enumerate(take_list(fields.get("parts", []), f"{SYSTEM}.parts")):
        path = f"{SYSTEM}.parts[{index}]"
        part_fields = take_fields(part, path, _PART)
        for name, feature in PARTS.items():
            if name in part_fields:
                raise refuse_feature(feature, path)
        texts.append(take_text(part_fields.get("text", ""), path))
    return "\n\n".join(text for text in texts if text)


def _decode_content(content: object, path: str, ignored: list[str]) -> tuple[Literal["user", "assistant"], list[Text]]:
    fields = take_fields(content, path, _CONTENT)
    role = _ROLES.get(take_text(fields.get("role", "user"), f"{path}.role"))
    if role is None:
        raise refuse(f"{path}.role", "Please use a valid role: user, model.", "invalid_role")
    parts = take_list(fields.get("parts", []), f"{path}.parts")
    if not parts:
        raise _malformed(f"{path}.parts must not be empty")
    texts = (_decode_part(part, f"{path}.parts[{index}]", ignored) for index, part in enumerate(parts))
    return role, [Text(text) for text in texts if text]


def _decode_part(part: object, path: str, ignored: list[str]) -> str:
    """The part's text, "" when it has none that counts."""
    fields = take_fields(part, path, _PART)
    given = [name for name in fields if name in _DATA]
    if len(given) > 1:
        raise _malformed(f"{path} must hold one kind of data, not {len(given)}")
    _refuse_media(fields, path)
    text = take_text(fields.get("text", ""), f"{path}.text")
    if take_flag(fields.get("thought", False), f"{path}.thought"):
        ignored.append("contents.parts.thought")
        return ""
    if not given and "thoughtSignature" not in fields:  # a signature may stand alone, at the end of an answer
        raise _malformed(f"{path} must hold data")
    return text


def _refuse_media(fields: dict[str, Any], path: str) -> None:
    for name, feature in PARTS.items():
        if name in fields:
            raise refuse_feature(feature, f"{path}.{name}")


def _malformed(problem: str) -> ApiError:
    return invalid("invalid_contents", problem, CONTENTS)
