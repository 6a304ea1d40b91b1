"""JSON by a schema from an upstream that promises none: asked for in the prompt, checked, and tried once more.

Only for keys whose policy says so; for others the request is refused. The answer is held whole, since a stream cannot
take back what turns out not to fit. What is told to the model about a refused answer is where and by which rule, never
what stood there.

A schema is the caller's program and runs here, so it is kept small: its size is bounded, references stay within it,
every step of a check is counted, and ``pattern`` is asked for but not checked, because Python cannot bound the time of
a regular expression. A check may still take a good part of a second, which is why it runs in a thread.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson
from jsonschema import Draft7Validator, Draft202012Validator, validators
from jsonschema.exceptions import SchemaError, ValidationError
from msgspec import structs
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7, DRAFT202012

from ir.errors import Fault, Reason, Stage, invalid
from ir.events import Event, PartKind, Unified
from ir.request import OutputFormat, Request
from ir.response import Part, fold, unfold
from ops.budgets import BudgetError
from ops.record import Structured
from tenants.compile import StructuredOutput

MOST_STEPS = 100_000
"""Rules applied in one check: far more than honest answers need, about half a second at most."""
CACHED = 64

ASK_OBJECT = "Answer with one JSON object and nothing else: no other text, no code fence."
ASK_SCHEMA = (
    "Answer with one JSON value and nothing else: no other text, no code fence. "
    "It must be valid against this JSON Schema"
)
ASK_AGAIN = "An earlier answer was not accepted"

_FENCE = re.compile(r"```[A-Za-z0-9]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL)
_SCHEMAS_BY_NAME = frozenset({"properties", "$defs", "definitions", "dependentSchemas", "dependencies"})
_DATA = frozenset({"enum", "const", "default", "examples", "required", "type"})
# Rules that would run regular expressions or look elsewhere, or whose work cannot be counted.
_REFUSED = frozenset(
    {"patternProperties", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef", "$id", "$schema"}
)
_DRAFT_7 = re.compile(r"https?://json-schema\.org/draft-07/schema#?")


class Refusal(Exception):
    """The answer is not what was asked for; the text says where and by which rule."""


class Check:
    """A compiled form. ``accept`` gives the JSON text of an answer, or raises ``Refusal``."""

    def __init__(self, schema: Mapping[str, Any] | None, draft: Any = Draft202012Validator) -> None:
        self._schema = schema
        self._draft = draft

    def accept(self, answer: str) -> str:
        """Blocking. Raises ``Refusal``, and a 400 for a schema that asks for too much work."""
        text, value = _read(answer)
        if self._schema is None:
            if not isinstance(value, dict):
                raise Refusal("$ must be an object")
            return text
        try:
            error = next(_metered(self._draft)(self._schema, registry=Registry()).iter_errors(value), None)
        except (_TooMuchWork, RecursionError):
            raise invalid("invalid_response_schema", "the schema is too complex to be checked") from None
        if error is not None:
            raise Refusal(_complaint(error))
        return text


class Emulation:
    """For one turn. ``outcome`` is what the record says of it."""

    def __init__(self, check: Check) -> None:
        self.outcome = Structured.UNCHECKED
        self._check = check
        self._complaint = ""

    def ask(self, request: Request) -> Request:
        """The request to send: after a refused answer with a word about what was wrong with it."""
        if not self._complaint:
            return request
        return structs.replace(request, system=f"{request.system}\n\n{ASK_AGAIN}: {self._complaint}.")

    async def settle(self, events: Sequence[Event]) -> Sequence[Event]:
        """A whole answer with nothing but JSON as its text. Raises ``Fault`` INVALID_OUTPUT.

        One that calls a tool, or that was cut short, is not the final answer and passes as it is.
        """
        response = fold(events)
        if response.finish.unified is not Unified.STOP:
            return events
        answer = "".join(part.text for part in response.of(PartKind.TEXT))
        try:
            text = await asyncio.to_thread(self._check.accept, answer)
        except Refusal as refusal:
            self._complaint, self.outcome = str(refusal), Structured.INVALID
            raise Fault(Reason.INVALID_OUTPUT, Stage.END) from None
        self.outcome = Structured.MENDED if self._complaint else Structured.VALID
        others = tuple(part for part in response.parts if part.kind is not PartKind.TEXT)
        return list(unfold(structs.replace(response, parts=(*others, Part(PartKind.TEXT, text)))))


async def admit(request: Request, policy: StructuredOutput, limit: int) -> tuple[Request, Check | None]:
    """The request with the form asked for in its prompt, and the check of the answer; without a form, as it came.

    Raises a 400 ``unsupported_response_format`` where the policy refuses, 413 for a schema over ``limit`` bytes, and
    400 ``invalid_response_schema`` for one that is none.
    """
    form = request.output_format
    if form is None:
        return request, None
    if policy is not StructuredOutput.EMULATE:
        raise invalid("unsupported_response_format", f"{form.param}: only text is supported", form.param)
    if form.schema is None:
        return _with_system(request, ASK_OBJECT), Check(None)
    schema = orjson.dumps(form.schema)
    if len(schema) > limit:
        raise BudgetError(
            "output schema bytes", "output_schema_bytes_exceeded", form.param, len(schema), limit, form.param
        )
    try:
        check = await asyncio.to_thread(_compile, schema)
    except Refusal as refusal:
        raise invalid("invalid_response_schema", f"{form.param}: {refusal}", form.param) from None
    return _with_system(request, _ask(form, schema.decode())), check


def _ask(form: OutputFormat, schema: str) -> str:
    name = f" (it is called {form.name})" if form.name else ""
    about = f" {form.description}" if form.description else ""
    return f"{ASK_SCHEMA}{name}.{about}\n\n{schema}"


def _with_system(request: Request, text: str) -> Request:
    return structs.replace(request, system="\n\n".join(filter(None, (request.system, text))))


@lru_cache(maxsize=CACHED)
def _compile(text: bytes) -> Check:
    """Blocking. Clients send the same few schemas again and again. Raises ``Refusal``."""
    schema: dict[str, Any] = orjson.loads(text)
    said = schema.pop("$schema", "")
    seventh = isinstance(said, str) and _DRAFT_7.fullmatch(said)
    draft, dialect = (Draft7Validator, DRAFT7) if seventh else (Draft202012Validator, DRAFT202012)
    schema.pop("$id", None)
    try:
        draft.check_schema(schema)
        resolver = Registry().resolver_with_root(dialect.create_resource(schema))
        for reference in _references(schema):
            resolver.lookup(reference)
    except SchemaError as error:
        raise Refusal(f"the schema is not valid at {error.json_path}") from None
    except Unresolvable:
        raise Refusal("a $ref of the schema leads nowhere") from None
    except RecursionError:
        raise Refusal("the schema is nested too deep") from None
    return Check(schema, draft)


def _references(schema: object) -> Iterator[str]:
    """Every ``$ref``. Raises ``Refusal`` for one that leaves the schema, and for rules that are not checked here."""
    if not isinstance(schema, dict):
        return
    for name, value in schema.items():
        if name in _REFUSED:
            raise Refusal(f"{name} is not supported in the schema")
        if name == "$ref":
            if not isinstance(value, str) or not value.startswith("#"):
                raise Refusal("a $ref must stay within the schema")
            yield value
        elif name in _SCHEMAS_BY_NAME and isinstance(value, dict):
            for inner in value.values():
                yield from _references(inner)
        elif name not in _DATA:
            for inner in value if isinstance(value, list) else [value]:
                yield from _references(inner)


def _read(answer: str) -> tuple[str, Any]:
    """The JSON of an answer: all of it, or what stands in its code fence."""
    text = answer.strip()
    for candidate in (text, *(found[1].strip() for found in _FENCE.finditer(text))):
        try:
            return candidate, orjson.loads(candidate)
        except orjson.JSONDecodeError:
            continue
    raise Refusal("$ must be JSON and nothing else")


def _complaint(error: ValidationError) -> str:
    rule = orjson.dumps(error.validator_value, default=str).decode()
    return f"{error.json_path[:200]} breaks the rule {error.validator}: {rule[:200]}"


class _TooMuchWork(Exception):
    pass


def _metered(draft: Any) -> Any:
    """A validator class of its own for one check, which counts every rule that it applies."""
    left = MOST_STEPS

    def counted(rule: Callable[..., Any]) -> Callable[..., Any]:
        def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise _TooMuchWork
            return rule(validator, value, instance, schema)

        return apply

    rules = {name: counted(rule) for name, rule in draft.VALIDATORS.items()}
    rules["pattern"] = _unchecked
    rules["uniqueItems"] = counted(_unique)
    return validators.extend(draft, rules)


def _unchecked(validator: Any, value: Any, instance: Any, schema: Any) -> Sequence[ValidationError]:
    return ()


def _unique(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """By the JSON text of each item: the library compares items pairwise."""
    if value and isinstance(instance, list):
        texts = {orjson.dumps(item, option=orjson.OPT_SORT_KEYS) for item in instance}
        if len(texts) < len(instance):
            yield ValidationError("items are not unique")
