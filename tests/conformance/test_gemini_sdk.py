"""The real google-genai SDK against the whole product: text, streams, chats, refusals, sync and async."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google import genai
from google.genai import errors, types

from tests.plugins.gemini import Google
from tests.plugins.house import House


@pytest.fixture
def sdk(google: Google) -> Iterator[genai.Client]:
    client = connect(google.house)
    yield client
    client.close()


def connect(house: House, key: str = "", version: str | None = None) -> genai.Client:
    options = types.HttpOptions(base_url=house.url, api_version=version, timeout=30_000)
    return genai.Client(api_key=key or house.key, http_options=options)


@pytest.mark.parametrize("version", [None, "v1", "v1beta", "v1alpha"])
def test_a_whole_answer(google: Google, version: str | None) -> None:
    client = connect(google.house, version=version)
    answer = client.models.generate_content(model="sim-echo", contents="one two three")
    assert answer.text == "one two three"
    assert answer.candidates
    assert answer.candidates[0].finish_reason is types.FinishReason.STOP
    assert answer.model_version == "sim-echo"
    usage = answer.usage_metadata
    assert usage
    assert usage.total_token_count == (usage.prompt_token_count or 0) + (usage.candidates_token_count or 0)
    client.close()


def test_a_stream_comes_piece_by_piece(sdk: genai.Client) -> None:
    pieces = list(sdk.models.generate_content_stream(model="sim-echo", contents="one two three"))
    assert [piece.text for piece in pieces[:-1]] == ["one ", "two ", "three"]
    assert pieces[-1].candidates
    assert pieces[-1].candidates[0].finish_reason is types.FinishReason.STOP
    assert pieces[-1].usage_metadata is not None


@pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")  # the SDK's own use of aiohttp
async def test_the_async_client_streams_alike(google: Google) -> None:
    client = connect(google.house)
    stream = await client.aio.models.generate_content_stream(model="sim-lorem-20", contents="Hi")
    pieces = [piece async for piece in stream]
    answer = await client.aio.models.generate_content(model="sim-lorem-20", contents="Hi")
    assert "".join(piece.text or "" for piece in pieces) == answer.text
    await client.aio.aclose()
    client.close()


def test_a_configured_request(sdk: genai.Client) -> None:
    config = types.GenerateContentConfig(
        system_instruction="Be brief.",
        temperature=0.1,
        top_p=0.5,
        top_k=3,
        seed=1,
        max_output_tokens=50,
        stop_sequences=["three"],
        safety_settings=[
            types.SafetySetting(
                category=types.HarmCategory.HARM_CATEGORY_HARASSMENT, threshold=types.HarmBlockThreshold.BLOCK_NONE
            )
        ],
        thinking_config=types.ThinkingConfig(thinking_budget=0),
    )
    answer = sdk.models.generate_content(model="sim-echo", contents="one two three", config=config)
    assert answer.text == "one two "


def test_a_chat_keeps_its_history(sdk: genai.Client, google: Google) -> None:
    chat = sdk.chats.create(model="sim-echo")
    assert chat.send_message("first").text == "first"
    assert "".join(piece.text or "" for piece in chat.send_message_stream("second")) == "second"
    assert [role for role, _ in google.house.simulator.runs()[0]["history"]] == ["user", "assistant"]


def test_thoughts_are_told_apart(sdk: genai.Client) -> None:
    config = types.GenerateContentConfig(thinking_config=types.ThinkingConfig(include_thoughts=True))
    answer = sdk.models.generate_content(model="sim-think-3", contents="Hi", config=config)
    assert answer.candidates
    assert answer.candidates[0].content
    kinds = [part.thought for part in answer.candidates[0].content.parts or ()]
    assert kinds == [True, None]


def tool(**fields: Any) -> types.GenerateContentConfig:
    return types.GenerateContentConfig(tools=[types.Tool(**fields)])


REFUSED: list[tuple[types.GenerateContentConfig, str]] = [
    (
        tool(function_declarations=[types.FunctionDeclaration(name="f", description="d")]),
        "tools[0].functionDeclarations",
    ),
    (tool(google_search=types.GoogleSearch()), "tools[0].googleSearch"),
    (tool(code_execution=types.ToolCodeExecution()), "tools[0].codeExecution"),
    (
        types.GenerateContentConfig(response_mime_type="application/json", response_schema={"type": "OBJECT"}),
        "generationConfig.responseSchema",
    ),
    (types.GenerateContentConfig(candidate_count=2), "generationConfig.candidateCount"),
    (types.GenerateContentConfig(cached_content="cachedContents/1"), "cachedContent"),
]


@pytest.mark.parametrize(("config", "field"), REFUSED)
def test_a_refusal_is_a_client_error_with_its_field(
    sdk: genai.Client, google: Google, config: types.GenerateContentConfig, field: str
) -> None:
    with pytest.raises(errors.ClientError) as caught:
        sdk.models.generate_content(model="sim-echo", contents="Hi", config=config)
    assert (caught.value.code, caught.value.status) == (400, "INVALID_ARGUMENT")
    assert caught.value.details["error"]["details"][0]["fieldViolations"][0]["field"] == field
    assert google.house.simulator.log() == []


def test_media_is_a_client_error(sdk: genai.Client) -> None:
    image = types.Part.from_bytes(data=b"\x89PNG", mime_type="image/png")
    with pytest.raises(errors.ClientError) as caught:
        sdk.models.generate_content(model="sim-echo", contents=["What is this?", image])
    assert caught.value.details["error"]["details"][0]["fieldViolations"][0]["field"] == (
        "contents[0].parts[1].inlineData"
    )


def test_what_is_not_served_is_not_found(sdk: genai.Client) -> None:
    calls: list[Callable[[], object]] = [
        lambda: sdk.models.count_tokens(model="sim-echo", contents="Hi"),
        lambda: sdk.models.embed_content(model="sim-echo", contents="Hi"),
        lambda: sdk.models.get(model="sim-echo"),
        lambda: list(sdk.models.list()),
        lambda: list(sdk.files.list()),
        lambda: list(sdk.caches.list()),
    ]
    for call in calls:
        with pytest.raises(errors.ClientError) as caught:
            call()
        assert (caught.value.code, caught.value.status) == (404, "NOT_FOUND")


def test_a_bad_key_and_an_unknown_model_are_told_apart(google: Google, sdk: genai.Client) -> None:
    stranger = connect(google.house, key="test-key")
    with pytest.raises(errors.ClientError) as caught:
        stranger.models.generate_content(model="sim-echo", contents="Hi")
    assert (caught.value.code, caught.value.status) == (401, "UNAUTHENTICATED")
    stranger.close()
    with pytest.raises(errors.ClientError) as caught:
        sdk.models.generate_content(model="no-such-model", contents="Hi")
    assert (caught.value.code, caught.value.status) == (404, "NOT_FOUND")


def test_a_failure_in_the_middle_raises_after_the_text(sdk: genai.Client) -> None:
    seen: list[str | None] = []
    with pytest.raises(errors.ServerError) as caught:
        seen.extend(piece.text for piece in sdk.models.generate_content_stream(model="sim-cut-3", contents="Hi"))
    assert (caught.value.code, caught.value.status) == (502, "UNAVAILABLE")


def test_a_failure_before_the_first_piece_is_a_status(sdk: genai.Client) -> None:
    with pytest.raises(errors.ServerError) as caught:
        list(sdk.models.generate_content_stream(model="sim-error-internal", contents="Hi"))
    assert caught.value.code in (502, 503)
