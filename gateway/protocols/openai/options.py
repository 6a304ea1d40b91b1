"""The fields that Chat and Responses read alike: model, flags, sampling numbers, effort, and refusals by name."""

from __future__ import annotations

from gateway.contracts import JsonObject
from gateway.protocols.openai import fields
from gateway.wire.json import is_writable
from ir.errors import ApiError, invalid
from ir.request import OutputFormat, Thinking

EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")


def unsupported(name: str, why: str) -> ApiError:
    """A known field that would change the answer and that no upstream here can carry."""
    return invalid("unsupported_parameter", f"{name}: {why}", name)


def decode_model(body: JsonObject) -> str:
    model = body.get("model")
    if model is None or model == "":
        raise invalid("missing_model", "model: is required", "model")
    return fields.text(model, "model")


def decode_flag(body: JsonObject, name: str) -> bool | None:
    value = body.get(name)
    return None if value is None else fields.boolean(value, name)


def decode_number(body: JsonObject, name: str, high: float) -> float | None:
    """A number from 0 to ``high``."""
    value = body.get(name)
    return None if value is None else fields.number(value, name, 0, high)


def decode_effort(value: object, path: str) -> Thinking:
    if value is None:
        return Thinking()
    effort = fields.text(value, path)
    if effort == "none":
        return Thinking(enabled=False)
    if effort not in EFFORTS:
        raise invalid("invalid_value", f"{path}: must be none, {', '.join(EFFORTS)}", path)
    return Thinking(enabled=True, effort=effort)


def encode_effort(thinking: Thinking) -> str | None:
    """OpenAI knows efforts only; a budget in tokens becomes the effort that is usual for its size."""
    if thinking.enabled is False:
        return "none"
    if thinking.effort or thinking.budget_tokens is None:
        return thinking.effort
    if thinking.budget_tokens < 4096:
        return "low"
    return "medium" if thinking.budget_tokens < 16384 else "high"


def decode_format(value: object, path: str, inside: str = "") -> OutputFormat | None:
    """The form of the answer; None for plain text. ``inside``: the field that holds what belongs to the schema."""
    form = {"type": "text"} if value is None else fields.mapping(value, path)
    param = f"{path}.type"
    match form.get("type"):
        case "text":
            return None
        case "json_object":
            return OutputFormat(param)
        case "json_schema":
            where = f"{path}.{inside}" if inside else path
            return _decode_schema(fields.mapping(form.get(inside), where) if inside else form, where, param)
    raise invalid("unsupported_response_format", f"{param}: must be text, json_object or json_schema", param)


def _decode_schema(form: JsonObject, path: str, param: str) -> OutputFormat:
    schema, strict, description = form.get("schema"), form.get("strict"), form.get("description")
    if not is_writable(schema):
        raise invalid("invalid_value", f"{path}.schema: is nested too deep", f"{path}.schema")
    return OutputFormat(
        param,
        schema={} if schema is None else fields.mapping(schema, f"{path}.schema"),
        name=fields.text(form.get("name"), f"{path}.name"),
        description="" if description is None else fields.text(description, f"{path}.description"),
        strict=None if strict is None else fields.boolean(strict, f"{path}.strict"),
    )


def encode_format(form: OutputFormat) -> JsonObject:
    """A form in Responses' notation; what belongs to a schema stands beside its type."""
    if form.schema is None:
        return {"type": "json_object"}
    body = {"type": "json_schema", "name": form.name or "answer", "schema": form.schema}
    if form.description:
        body["description"] = form.description
    return body if form.strict is None else {**body, "strict": form.strict}


def decode_session(body: JsonObject) -> str:
    """What keeps the turns of one conversation together. The end user is none: there are many conversations of one."""
    if body.get("user"):
        fields.text(body["user"], "user")
    value = body.get("prompt_cache_key")
    return fields.text(value, "prompt_cache_key") if value else ""
