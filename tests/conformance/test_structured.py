"""Answers as JSON: refused by name, or emulated where the key's policy says so; over sockets, with the real SDKs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from pydantic import BaseModel

from tests.conformance import wire
from tests.conformance.caller import Caller
from tests.plugins.house import House

pytestmark = pytest.mark.usefixtures("calm")
SCHEMA = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}
CHAT = {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}}
MESSAGES = {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
FORMS: dict[str, dict[str, Any]] = {"chat": CHAT, "messages": MESSAGES}
PARAMS = {"chat": "response_format.type", "messages": "output_config.format"}
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
BOTH = pytest.mark.parametrize("protocol", list(FORMS))


class City(BaseModel):
    city: str
    degrees: int


def say(text: str) -> list[Any]:
    return [{"role": "user", "content": f"SAYTEXT {text} END"}]


@pytest.fixture(scope="module")
def emulating_key(house_process: House) -> str:
    return house_process.manage(
        "issue_key", "--team", "demo", "--name", "forms", "--structured-output", "emulate"
    ).strip()


@pytest.fixture(scope="module")
def emulating(house_process: House, emulating_key: str) -> Iterator[Caller]:
    caller = Caller(house_process.url, emulating_key)
    with caller.http:
        yield caller


@STREAMED
@BOTH
def test_a_form_is_refused_by_name_unless_the_key_says_otherwise(
    caller: Caller, calm: House, protocol: str, stream: bool
) -> None:
    answer = caller.post(protocol, "sim-json", stream=stream, **FORMS[protocol])

    assert answer.status_code == 400
    assert PARAMS[protocol] in answer.text
    record = calm.record(answer.headers["x-request-id"])
    assert (record["code"], record["structured"]) == ("unsupported_response_format", "")
    assert record["attempts"] == []


@STREAMED
@BOTH
def test_a_valid_answer_is_served(emulating: Caller, calm: House, protocol: str, stream: bool) -> None:
    answer = emulating.post(protocol, "sim-json", stream=stream, **FORMS[protocol])
    turn = wire.read_chat(answer) if protocol == "chat" else wire.read_message(answer)

    assert turn.text.startswith('{"answer": 42')
    assert calm.record(answer.headers["x-request-id"])["structured"] == "valid"


@STREAMED
@BOTH
def test_an_answer_that_does_not_fit_is_asked_for_once_more(
    emulating: Caller, calm: House, protocol: str, stream: bool
) -> None:
    answer = emulating.post(protocol, "sim-json-late", stream=stream, **FORMS[protocol])
    turn = wire.read_chat(answer) if protocol == "chat" else wire.read_message(answer)

    assert turn.text.startswith('{"answer": 42')
    assert "Of course" not in answer.text
    record = calm.record(answer.headers["x-request-id"])
    assert (record["outcome"], record["structured"]) == ("ok", "mended")
    assert [attempt.get("reason", "") for attempt in record["attempts"]] == ["invalid_output", ""]
    assert len({attempt["account_id"] for attempt in record["attempts"]}) == 1


@STREAMED
@BOTH
def test_a_model_that_does_not_obey_is_a_named_502_and_no_account_suffers(
    emulating: Caller, calm: House, protocol: str, stream: bool
) -> None:
    answer = emulating.post(protocol, "sim-echo", "my secret answer", stream=stream, **FORMS[protocol])

    assert answer.status_code == 502
    assert "secret" not in answer.text
    record = calm.record(answer.headers["x-request-id"])
    assert (record["code"], record["structured"]) == ("structured_output_invalid", "invalid")
    assert (record["reason"], record["culprit"], len(record["attempts"])) == ("invalid_output", "upstream", 2)
    assert "secret" not in str(record)
    assert emulating.post(protocol, "sim-echo").status_code == 200


@BOTH
def test_an_answer_cut_by_the_callers_own_limit_passes_as_it_is(emulating: Caller, protocol: str) -> None:
    turn = emulating.ask(protocol, "sim-json", max_tokens=3, **FORMS[protocol])

    assert turn.finish in ("length", "max_tokens")


def test_json_object_is_emulated_on_chat(emulating: Caller) -> None:
    fields = {"response_format": {"type": "json_object"}}

    assert emulating.ask("chat", "sim-echo", '```json\n{"a": 1}\n```', **fields).text == '{"a": 1}'
    assert emulating.chat("sim-echo", "[1]", **fields).json()["error"]["code"] == "structured_output_invalid"


@pytest.mark.parametrize(
    ("schema", "status", "code"),
    [
        ({"$ref": "http://127.0.0.1:9/schema"}, 400, "invalid_response_schema"),
        ({"type": "thing"}, 400, "invalid_response_schema"),
        ({"description": "x" * 70_000}, 413, "output_schema_bytes_exceeded"),
    ],
)
def test_a_schema_that_cannot_be_followed_is_refused_before_any_account_is_asked(
    emulating: Caller, calm: House, schema: dict[str, Any], status: int, code: str
) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    answer = emulating.chat("sim-json", response_format=form)

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert calm.record(answer.headers["x-request-id"])["attempts"] == []


def test_a_form_counts_as_part_of_the_prompt(emulating: Caller, caller: Caller) -> None:
    body = {"model": "sim-echo", "messages": [{"role": "user", "content": "Hi"}]}
    bare, with_form = (emulating.http.post("/v1/messages/count_tokens", json=body | more) for more in ({}, MESSAGES))

    assert with_form.json()["input_tokens"] > bare.json()["input_tokens"] + 20
    assert caller.http.post("/v1/messages/count_tokens", json=body | MESSAGES).status_code == 400


@pytest.fixture(scope="module")
def openai_forms(house_process: House, emulating_key: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key=emulating_key, base_url=f"{house_process.url}/v1", max_retries=0) as sdk:
        yield sdk


@pytest.fixture(scope="module")
def anthropic_forms(house_process: House, emulating_key: str) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(api_key=emulating_key, base_url=house_process.url, max_retries=0) as sdk:
        yield sdk


def test_openais_parse_gets_its_model(openai_forms: openai.OpenAI) -> None:
    answer = openai_forms.chat.completions.parse(
        model="gpt-5.2", messages=say('{"city": "Oslo", "degrees": 7}'), response_format=City
    )

    assert answer.choices[0].message.parsed == City(city="Oslo", degrees=7)


def test_openais_stream_helper_parses_the_streamed_answer(openai_forms: openai.OpenAI) -> None:
    with openai_forms.chat.completions.stream(
        model="gpt-5.2", messages=say('{"city": "Oslo", "degrees": 7}'), response_format=City
    ) as stream:
        final = stream.get_final_completion()

    assert final.choices[0].message.parsed == City(city="Oslo", degrees=7)


def test_openais_parse_of_an_answer_of_another_form_is_an_error(openai_forms: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        openai_forms.chat.completions.parse(model="gpt-5.2", messages=say('{"city": 7}'), response_format=City)
    assert caught.value.code == "structured_output_invalid"


def test_openais_responses_parse_gets_its_model_and_the_answer_repeats_the_form(openai_forms: openai.OpenAI) -> None:
    answer = openai_forms.responses.parse(
        model="gpt-5.2", input='SAYTEXT {"city": "Oslo", "degrees": 7} END', text_format=City
    )

    assert answer.output_parsed == City(city="Oslo", degrees=7)
    assert answer.text is not None
    assert answer.text.format is not None
    assert answer.text.format.type == "json_schema"


def test_responses_refuses_a_form_by_name(openai_sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        openai_sdk.responses.parse(model="sim-json", input="Hi", text_format=City)
    assert (caught.value.code, caught.value.param) == ("unsupported_response_format", "text.format.type")


def test_anthropics_parse_gets_its_model(anthropic_forms: anthropic.Anthropic) -> None:
    answer = anthropic_forms.messages.parse(
        model="claude-sonnet-4.6",
        max_tokens=1000,
        messages=say('{"city": "Oslo", "degrees": 7}'),
        output_format=City,
    )

    assert answer.parsed_output == City(city="Oslo", degrees=7)
