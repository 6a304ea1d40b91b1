from __future__ import annotations

import pytest

from gateway.protocols.gemini.paths import Call, is_gemini, parse, read_parameter
from gateway.protocols.gemini.server import admit
from ir.errors import ApiError, Kind

GOOGLE = {b"x-goog-api-key": b"k"}


def refusal(method: str, path: str, query: bytes = b"") -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse(method, path, query)
    return caught.value


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
def test_both_actions_are_served_under_every_version(version: str) -> None:
    path = f"/{version}/models/gemini-2.5-flash"
    assert parse("POST", f"{path}:generateContent", b"") == Call(
        "gemini-2.5-flash", "generateContent", stream=False, version=version
    )
    assert parse("POST", f"{path}:streamGenerateContent", b"alt=sse&key=k") == Call(
        "gemini-2.5-flash", "streamGenerateContent", stream=True, sse=True, version=version
    )


@pytest.mark.parametrize(
    ("written", "model"),
    [("models/m", "m"), ("org/m", "org/m"), ("ft:m:1", "ft:m:1"), ("", ""), ("模型", "模型")],
)
def test_the_model_is_all_between_the_path_and_the_last_colon(written: str, model: str) -> None:
    assert parse("POST", f"/v1beta/models/{written}:generateContent", b"").model == model


def test_a_record_is_shown_the_path_without_the_model() -> None:
    role = admit("POST", "/v1alpha/models/my-secret:generateContent", b"", enabled=True)
    assert role.endpoint == "/v1alpha/models/{model}:generateContent"


@pytest.mark.parametrize("query", [b"", b"alt=json", b"alt=SSE", b"x=alt%3Dsse"])
def test_only_alt_sse_is_sse(query: bytes) -> None:
    assert not parse("POST", "/v1beta/models/m:streamGenerateContent", query).sse


@pytest.mark.parametrize(
    "action",
    [
        "countTokens", "embedContent", "batchEmbedContents", "asyncBatchEmbedContent", "batchGenerateContent",
        "predict", "predictLongRunning", "bidiGenerateContent", "generateAnswer", "x",
    ],
)  # fmt: skip
def test_other_methods_are_not_found_by_name(action: str) -> None:
    error = refusal("POST", f"/v1beta/models/gemini-2.5-flash:{action}")
    assert (error.kind, error.code) == (Kind.NOT_FOUND, "unsupported_method")
    assert error.message == f"Method {action} is not supported for models/gemini-2.5-flash."
    assert error.details == {"method": action}


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/v1beta/models", "unsupported_resource"),
        ("/v1beta/models/gemini-2.5-flash", "unsupported_resource"),
        ("/v1beta/files", "unsupported_resource"),
        ("/upload/v1beta/files", "unsupported_resource"),
        ("/v1beta/cachedContents/x", "unsupported_resource"),
        ("/v1beta/tunedModels/x:generateContent", "unsupported_resource"),
        ("/v1alpha/corpora", "unsupported_resource"),
        ("/v1beta/batches", "unsupported_resource"),
        ("/v1beta", "not_found"),
        ("/upload/x", "not_found"),
        ("/v1beta/模型", "not_found"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_other_resources_are_not_found(method: str, path: str, code: str) -> None:
    error = refusal(method, path)
    assert (error.kind, error.code) == (Kind.NOT_FOUND, code)


@pytest.mark.parametrize("action", ["generateContent", "streamGenerateContent"])
@pytest.mark.parametrize("method", ["GET", "PUT", "HEAD"])
def test_an_action_takes_posts_only(method: str, action: str) -> None:
    assert refusal(method, f"/v1beta/models/m:{action}").kind is Kind.METHOD_NOT_ALLOWED


def test_what_is_no_name_is_not_repeated() -> None:
    error = refusal("POST", "/v1beta/models/my secret:my secret")
    assert error.message == "Method ? is not supported for models/?."


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1beta/models/m:generateContent"),
        ("POST", "/v1beta/models/m:countTokens"),
        ("GET", "/v1beta"),
        ("POST", "/v1alpha/files"),
        ("GET", "/v1beta/models/m:generateContent"),
        ("POST", "/v1/models/m:countTokens"),
        ("GET", "/v1/models/m:streamGenerateContent"),
    ],
)
def test_these_paths_are_googles_whoever_asks(method: str, path: str) -> None:
    assert is_gemini(method, path, {})
    assert is_gemini(method, path, {b"anthropic-version": b"2023-06-01"})


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/m", "/v1/files", "/v1/files/x", "/v1/batches"])
def test_these_paths_are_googles_only_for_its_clients(path: str) -> None:
    assert not is_gemini("GET", path, {b"authorization": b"Bearer k"})
    assert is_gemini("GET", path, GOOGLE)
    assert is_gemini("GET", path, {b"x-goog-api-client": b"google-genai-sdk/3.6.1"})
    assert not is_gemini("GET", path, {**GOOGLE, b"anthropic-version": b"2023-06-01"})


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/", "/v1", "/v1/modelsx", "/v1/nothing"]
)
def test_these_paths_are_never_googles(path: str) -> None:
    assert not is_gemini("POST", path, GOOGLE)


def test_a_fine_tuned_model_of_openai_is_looked_up_in_openais_catalogue() -> None:
    assert not is_gemini("GET", "/v1/models/ft:gpt-4:org", {})


def test_while_the_gate_is_shut_nothing_is_there() -> None:
    for method, path in (("POST", "/v1beta/models/m:generateContent"), ("GET", "/v1beta/models"), ("PUT", "/v1beta")):
        with pytest.raises(ApiError) as caught:
            admit(method, path, b"", enabled=False)
        assert (caught.value.kind, caught.value.code) == (Kind.NOT_FOUND, "gemini_native_disabled")


def test_the_key_is_read_from_the_query() -> None:
    assert admit("POST", "/v1/models/m:generateContent", b"alt=sse&key=pg%5Flive", enabled=True).key == "pg_live"
    assert admit("POST", "/v1/models/m:generateContent", b"", enabled=True).key == ""


@pytest.mark.parametrize("query", [b"key", b"key=", b"&&&", b"\xff\xfe=%ff", b"a=b;c=d"])
def test_a_broken_query_names_nothing(query: bytes) -> None:
    assert read_parameter(query, "key") == ""
