"""Parts of a message or a tool output → texts and images. Source: OpenAI's Responses reference, "Input item"."""

from __future__ import annotations

from gateway.contracts import JsonObject
from gateway.protocols.openai import fields
from ir.errors import invalid
from ir.images import parse_data_url
from ir.request import Image, Text

TEXTS = {"input_text": "text", "output_text": "text", "refusal": "refusal"}
IMAGE = "input_image"
LEFT_OUT = "[a {kind} was returned here that this model cannot be shown]"


def decode_content(value: object, path: str, images: bool) -> tuple[Text | Image, ...]:
    """A message's content, without empty texts. ``images``: whether the role may show any."""
    if isinstance(value, str):
        return (Text(value),) if value else ()
    found: list[Text | Image] = []
    for index, item in enumerate(fields.array(value, path, "a string or a list of parts")):
        where = f"{path}[{index}]"
        part = _part(fields.mapping(item, where), where, images)
        if part is None:
            accepted = " and ".join((*TEXTS, IMAGE) if images else TEXTS)
            raise invalid(
                "unsupported_content_type", f"{where}.type: only {accepted} are accepted here", f"{where}.type"
            )
        if isinstance(part, Image) or part.text:
            found.append(part)
    return tuple(found)


def decode_output(value: object, path: str, ignored: list[str]) -> str | tuple[Text | Image, ...]:
    """What a tool returned: a string stays a string.

    A file or other medium becomes a note and its path goes to ``ignored``: the result is part of the history from now
    on, and a refusal would lock the conversation for ever.
    """
    if value is None or isinstance(value, str):
        return value or ""
    found: list[Text | Image] = []
    for index, item in enumerate(fields.array(value, path, "a string or a list of parts")):
        where = f"{path}[{index}]"
        entry = fields.mapping(item, where)
        part = _part(entry, where, images=True)
        if part is None:
            kind = fields.text(entry.get("type"), f"{where}.type")
            part = Text(LEFT_OUT.format(kind="file" if kind == "input_file" else "medium"))
            ignored.append(where)
        if isinstance(part, Image) or part.text:
            found.append(part)
    return tuple(found)


def _part(part: JsonObject, path: str, images: bool) -> Text | Image | None:
    kind = fields.text(part.get("type"), f"{path}.type")
    if kind in TEXTS:
        return Text(fields.text(part.get(TEXTS[kind]), f"{path}.{TEXTS[kind]}"))
    if kind != IMAGE or not images:
        return None
    if part.get("image_url") is None and part.get("file_id") is not None:
        where = f"{path}.file_id"
        raise invalid("unsupported_image_source", f"{where}: only inline Base64 images are accepted", where)
    return parse_data_url(fields.text(part.get("image_url"), f"{path}.image_url"), f"{path}.image_url")
