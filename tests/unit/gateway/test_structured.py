from __future__ import annotations

import time
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import structured
from gateway.structured import Check, Emulation, Refusal
from ir.errors import ApiError, Fault, Kind, Reason
from ir.events import Event, FinishReason, PartKind, Unified
from ir.request import OutputFormat, Request
from ir.response import Part, Response, fold, unfold
from ir.usage import Usage
from ops.budgets import BudgetError
from ops.record import Structured
from tenants.compile import StructuredOutput

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
LIMIT = 65_536


def request(schema: dict[str, Any] | None = None, **more: Any) -> Request:
    form = OutputFormat("response_format.type", schema, **more)
    return Request("m", (), system="Be brief.", output_format=form)


async def admit(schema: dict[str, Any] | None, policy: StructuredOutput = StructuredOutput.EMULATE) -> Check:
    _, check = await structured.admit(request(schema), policy, LIMIT)
    assert check is not None
    return check


async def refused(schema: dict[str, Any]) -> str:
    with pytest.raises(ApiError) as caught:
        await admit(schema)
    assert (caught.value.kind, caught.value.code) == (Kind.INVALID_REQUEST, "invalid_response_schema")
    assert caught.value.param == "response_format.type"
    return caught.value.message


def answer(*parts: Part, finish: Unified = Unified.STOP) -> list[Event]:
    return list(unfold(Response(parts, FinishReason(finish), Usage())))


def text(said: str) -> Part:
    return Part(PartKind.TEXT, said)


async def test_a_request_without_a_form_passes_as_it_is() -> None:
    plain = Request("m", ())
    assert await structured.admit(plain, StructuredOutput.REFUSE, LIMIT) == (plain, None)


@pytest.mark.parametrize("schema", [None, CITY])
async def test_a_key_that_refuses_names_the_callers_field(schema: dict[str, Any] | None) -> None:
    with pytest.raises(ApiError) as caught:
        await admit(schema, StructuredOutput.REFUSE)
    assert (caught.value.code, caught.value.param) == ("unsupported_response_format", "response_format.type")


async def test_the_form_is_asked_for_behind_the_callers_own_prompt() -> None:
    asked, _ = await structured.admit(
        request(CITY, name="weather", description="Today's."), StructuredOutput.EMULATE, LIMIT
    )
    assert asked.system.startswith("Be brief.\n\nAnswer with one JSON value")
    assert "weather" in asked.system
    assert "Today's." in asked.system
    assert asked.system.endswith(orjson.dumps(CITY).decode())
    asked, _ = await structured.admit(request(None), StructuredOutput.EMULATE, LIMIT)
    assert asked.system.startswith("Be brief.\n\nAnswer with one JSON object")


async def test_a_schema_at_the_limit_passes_and_one_byte_more_is_413() -> None:
    schema = {"description": "é" * 10}
    size = len(orjson.dumps(schema))
    await structured.admit(request(schema), StructuredOutput.EMULATE, size)
    with pytest.raises(BudgetError) as caught:
        await structured.admit(request(schema), StructuredOutput.EMULATE, size - 1)
    assert (caught.value.kind, caught.value.code) == (Kind.TOO_LARGE, "output_schema_bytes_exceeded")
    assert (caught.value.actual, caught.value.limit) == (size, size - 1)


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"type": "thing"}, "not valid"),
        ({"properties": []}, "not valid"),
        ({"$ref": "https://example.org/schema"}, "must stay within"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "must stay within"),
        ({"allOf": [{"$ref": "other.json"}]}, "must stay within"),
        ({"$ref": "#/$defs/gone"}, "leads nowhere"),
        ({"patternProperties": {"^(a+)+$": {}}}, "patternProperties is not supported"),
        ({"properties": {"a": {"$id": "http://x/"}}}, "not supported"),
        ({"$dynamicRef": "#x"}, "not supported"),
        ({"items": {"unevaluatedProperties": False}}, "not supported"),
    ],
)
async def test_a_schema_that_cannot_be_checked_is_the_callers_fault(schema: dict[str, Any], sentence: str) -> None:
    assert sentence in await refused(schema)


async def test_names_of_properties_are_no_rules() -> None:
    check = await admit({"properties": {"$ref": {"type": "string"}, "patternProperties": {"const": 1}}})
    assert check.accept('{"$ref": "x", "patternProperties": 1}')


@pytest.mark.parametrize(
    "said", ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"]
)
async def test_references_within_the_schema_are_followed(said: str) -> None:
    tree = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}, "required": ["kids"]}
    check = await admit({"$schema": said, "$id": "http://example.org/tree", **tree})
    assert check.accept('{"kids": [{"kids": []}]}')
    with pytest.raises(Refusal, match=r"\$\.kids\[0\] breaks the rule required"):
        check.accept('{"kids": [{}]}')


@pytest.mark.parametrize(
    "said",
    [
        '{"city": "Bonn"}',
        ' \n{"city": "Bonn"}\n',
        '```json\n{"city": "Bonn"}\n```',
        '```\n{"city": "Bonn"}\n```',
        'Here you are:\n```json\r\n{"city": "Bonn"}\r\n```\nAnything else?',
        'First some code:\n```python\nx = 1\n```\n```json\n{"city": "Bonn"}\n```',
    ],
)
async def test_only_the_json_is_taken_out_of_an_answer(said: str) -> None:
    assert (await admit(CITY)).accept(said) == '{"city": "Bonn"}'


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("Of course!", "$ must be JSON and nothing else"),
        ('{"city": "Bonn"} Enjoy!', "$ must be JSON and nothing else"),
        ("", "$ must be JSON and nothing else"),
        ("[]", '$ breaks the rule type: "object"'),
        ('{"degrees": 3}', '$ breaks the rule required: ["city"]'),
        ('{"city": "Bonn", "degrees": "three"}', '$.degrees breaks the rule type: "integer"'),
        ('{"city": "Bonn", "secret": 1}', "$ breaks the rule additionalProperties: false"),
    ],
)
async def test_a_complaint_tells_path_and_rule_and_never_what_stood_there(said: str, complaint: str) -> None:
    with pytest.raises(Refusal) as caught:
        (await admit(CITY)).accept(said)
    assert str(caught.value) == complaint


async def test_json_object_takes_any_object_and_nothing_else() -> None:
    check = await admit(None)
    assert check.accept('{"a": 1}') == '{"a": 1}'
    with pytest.raises(Refusal, match="must be an object"):
        check.accept("[1]")


async def test_unique_items_are_compared_by_value() -> None:
    check = await admit({"items": True, "uniqueItems": True})
    assert check.accept('[{"a": 1, "b": 2}, {"a": 1}, 1, "1", true]')
    with pytest.raises(Refusal, match="uniqueItems"):
        check.accept('[{"a": 1, "b": 2}, {"b": 2, "a": 1}]')


async def test_a_schema_that_multiplies_its_own_work_is_stopped() -> None:
    bomb = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)} | {"d60": {"type": "object"}}
    check = await admit({"$defs": bomb, "$ref": "#/$defs/d0"})
    began = time.monotonic()
    with pytest.raises(ApiError) as caught:
        check.accept("{}")
    assert caught.value.code == "invalid_response_schema"
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}])
async def test_a_schema_that_never_ends_is_stopped(schema: dict[str, Any]) -> None:
    check = await admit(schema)
    with pytest.raises(ApiError, match="too complex"):
        check.accept("{}")


async def test_a_pattern_is_asked_for_and_not_run() -> None:
    check = await admit({"type": "string", "pattern": "^(a+)+$"})
    began = time.monotonic()
    assert check.accept('"' + "a" * 60 + '!"')
    assert time.monotonic() - began < 1


async def test_a_valid_answer_goes_out_as_one_text_behind_the_thinking() -> None:
    emulation = Emulation(await admit(CITY))
    thought = Part(PartKind.REASONING, "hm")
    settled = fold(await emulation.settle(answer(text("```json\n"), thought, text('{"city": "Bonn"}\n```'))))
    assert settled.parts == (thought, text('{"city": "Bonn"}'))
    assert emulation.outcome is Structured.VALID


async def test_a_refused_answer_is_asked_for_again_with_the_complaint() -> None:
    emulation = Emulation(await admit(CITY))
    first = request(CITY)
    assert emulation.ask(first) is first
    with pytest.raises(Fault) as caught:
        await emulation.settle(answer(text('{"town": "my secret"}')))
    assert caught.value.reason is Reason.INVALID_OUTPUT
    assert emulation.outcome is Structured.INVALID
    again = emulation.ask(first).system
    assert again.startswith("Be brief.\n\nAn earlier answer was not accepted: $ breaks the rule")
    assert "secret" not in again
    await emulation.settle(answer(text('{"city": "Bonn"}')))
    assert emulation.outcome.value == "mended"


@pytest.mark.parametrize("finish", [Unified.LENGTH, Unified.TOOL_CALLS, Unified.STOP_SEQUENCE, Unified.REFUSAL])
async def test_what_is_not_the_final_answer_passes_unchecked(finish: Unified) -> None:
    emulation = Emulation(await admit(CITY))
    events = answer(text('{"city": "Bo'), finish=finish)
    assert await emulation.settle(events) == events
    assert emulation.outcome is Structured.UNCHECKED


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(json_values, st.text(max_size=20))
@settings(max_examples=50)
def test_an_accepted_answer_is_always_json(value: Any, noise: str) -> None:
    for said in (orjson.dumps(value).decode(), noise, f"{noise}\n```json\n{orjson.dumps(value).decode()}\n```"):
        try:
            taken = Check({}).accept(said)
        except Refusal:
            continue
        orjson.loads(taken)
