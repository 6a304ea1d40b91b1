"""HTTP as no well-behaved client sends it: bodies that stop, lie or explode, wrong methods and paths, keys in every
header. No upstream is asked, and the server goes on serving."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from collections.abc import Iterator

import httpx2
import pytest

from tests.functional.callers import CHAT, MESSAGES, PATHS, Wire, body_of, error_of, post, unwrap
from tests.functional.conftest import Expectation
from tests.plugins.house import House, eventually

GOOD = {path: json.dumps(body_of(path)).encode() for path in PATHS}


def coded(house: House, path: str, body: bytes, coding: str) -> httpx2.Response:
    return post(house, path, body, headers={"content-encoding": coding})


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("body", "coding", "status", "code"),
    [
        (b"not gzip", "gzip", 400, "invalid_content_encoding"),
        (gzip.compress(b"{}", mtime=0)[:-4], "gzip", 400, "invalid_content_encoding"),
        (gzip.compress(b"{}", mtime=0) + b"junk", "gzip", 400, "invalid_content_encoding"),
        (b"", "gzip", 400, "invalid_content_encoding"),
        (b"not deflate", "deflate", 400, "invalid_content_encoding"),
        (b"{}", "br", 415, "unsupported_content_encoding"),
        (b"{}", "gzip, gzip", 415, "unsupported_content_encoding"),
    ],
)
def test_a_coding_that_is_broken_or_unknown_is_named(
    untouched: House, refused: Expectation, path: str, body: bytes, coding: str, status: int, code: str
) -> None:
    answer = coded(untouched, path, body, coding)
    refused(answer, status, code)
    error_of(path, answer)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_bomb_is_refused_before_it_is_whole(untouched: House, refused: Expectation, path: str, coding: str) -> None:
    spaces = b" " * (300 * 1024 * 1024)
    bomb = gzip.compress(spaces, 1) if coding == "gzip" else zlib.compress(spaces, 1)
    began = time.monotonic()
    answer = coded(untouched, path, bomb, coding)
    refused(answer, 413, "request_too_large")
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("path", PATHS)
def test_a_coded_body_is_served(calm_house: House, path: str) -> None:
    for coding, body in (("gzip", gzip.compress(GOOD[path])), ("deflate", zlib.compress(GOOD[path]))):
        assert coded(calm_house, path, body, coding).status_code == 200
    calm_house.simulator.reset()


@pytest.mark.parametrize("path", PATHS)
def test_a_declared_length_over_the_limit_is_refused_without_waiting_for_it(untouched: House, path: str) -> None:
    with Wire(untouched) as wire:
        status, headers, body = wire.send(path, b"{", length=64 * 1024 * 1024).answer()
        assert status == 413
        assert "limit of 33554432 bytes" in unwrap(path, json.loads(body), headers["x-request-id"])["message"]


@pytest.mark.parametrize("path", PATHS)
def test_a_caller_that_closes_half_way_through_its_body_leaves_a_record(untouched: House, path: str) -> None:
    before = len(untouched.records("outcome = 'client_gone'"))
    with Wire(untouched) as wire:
        wire.send(path, GOOD[path][:20], length=len(GOOD[path]))
        time.sleep(0.1)
    eventually(lambda: len(untouched.records("outcome = 'client_gone'")) == before + 1)
    [newest] = untouched.records("outcome = 'client_gone' ORDER BY started_at DESC LIMIT 1")
    assert (newest["status"], newest["culprit"], newest["attempts"]) == (499, "caller", [])


@pytest.mark.parametrize("raw", [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 8,
    b"GET\r\n\r\n",
    b"POST /v1/messages HTTP/1.1\r\ncontent-length: -5\r\n\r\n",
    b"POST /v1/messages HTTP/1.1\r\ncontent-length: 99999999999999999999999\r\n\r\n",
    b"POST /v1/messages HTTP/1.1\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
    b"POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    b"POST /v1/messages HTTP/1.1\r\nx-a: b\0c\r\n\r\n",
])  # fmt: skip
def test_what_is_no_http_closes_the_connection(untouched: House, raw: bytes) -> None:
    with Wire(untouched) as wire:
        wire.socket.sendall(raw)
        assert wire.answer()[0] == 400
        assert wire.ended(2)


@pytest.mark.parametrize(
    ("method", "path", "status", "shape"),
    [
        ("GET", CHAT, 405, CHAT),
        ("PUT", MESSAGES, 405, MESSAGES),
        ("DELETE", "/v1/models", 405, CHAT),
        ("OPTIONS", CHAT, 405, CHAT),
        ("OPTIONS", MESSAGES, 405, MESSAGES),
        ("POST", "/v1/nothing", 404, CHAT),
        ("POST", "/v1/messages/nothing", 404, MESSAGES),
        ("GET", "/v1/models/nothing", 404, CHAT),
        ("POST", "/v1/nothing%0d%0ax-evil:%201", 404, CHAT),
        ("POST", "/v1/%00%ff%c3%28", 404, CHAT),
        ("POST", "/v1/" + "a" * 50_000, 404, CHAT),
    ],
)
def test_a_wrong_path_or_method_is_told_in_the_shape_of_its_prefix(
    untouched: House, method: str, path: str, status: int, shape: str
) -> None:
    with Wire(untouched) as wire:
        got, headers, body = wire.send(path, method=method).answer(method)
    assert got == status
    error = unwrap(shape, json.loads(body), headers["x-request-id"])
    assert error["type"] == ("not_found_error" if (status, shape) == (404, MESSAGES) else "invalid_request_error")
    assert "x-evil" not in headers
    assert len(body) < 400
    assert ("allow" in headers) == (status == 405)


def test_the_gemini_surface_answers_in_its_own_shape(untouched: House) -> None:
    for path in ("/v1beta/models/gemini-2.5-flash:generateContent", "/v1beta/nothing"):
        answer = post(untouched, path, {})
        assert answer.status_code == 404
        assert answer.json()["error"]["status"] == "NOT_FOUND"


def test_head_has_no_body_and_the_connection_lives_on(untouched: House) -> None:
    with Wire(untouched) as wire:
        assert wire.send("/", method="HEAD").answer("HEAD")[::2] == (200, b"")
        assert wire.send("/api/hello", method="HEAD").answer("HEAD")[::2] == (200, b"")
        assert wire.send(CHAT, method="HEAD").answer("HEAD")[::2] == (405, b"")
        assert wire.send("/livez", method="GET").answer("GET")[0] == 200


def test_a_header_of_16_kilobytes_is_carried(calm_house: House) -> None:
    answer = post(calm_house, CHAT, body_of(CHAT), headers={"x-big": "a" * 16_384})
    assert answer.status_code == 200
    calm_house.simulator.reset()


def test_a_head_without_end_is_refused(untouched: House) -> None:
    with Wire(untouched) as wire:
        wire.socket.sendall(b"POST /v1/messages HTTP/1.1\r\n")
        try:
            for number in range(20_000):
                wire.socket.sendall(b"x-%d: " % number + b"a" * 200 + b"\r\n")
        except ConnectionError:
            pass
        assert wire.ended(5)


def test_pipelined_requests_are_answered_in_their_order(calm_house: House) -> None:
    texts = [f"number {index}" for index in range(5)]
    with Wire(calm_house) as wire:
        for text in texts:
            wire.send(CHAT, json.dumps(body_of(CHAT, text=text)).encode())
        raw = b""
        while raw.count(b"HTTP/1.1 200") < 5 or not raw.endswith(b"}"):
            raw += wire.socket.recv(65536)
    assert [raw.find(text.encode()) for text in texts] == sorted(raw.find(text.encode()) for text in texts)
    assert all(text.encode() in raw for text in texts)
    calm_house.simulator.reset()


HEADERS = ["authorization", "x-api-key", "api-key", "x-goog-api-key"]


def value_of(header: str, key: str) -> str:
    return f"Bearer {key}" if header == "authorization" else key


@pytest.fixture(scope="module")
def dead_keys(calm_house: House) -> Iterator[dict[str, str]]:
    """Keys that were good once: one revoked, one expired."""
    keys = {}
    for name, column in (("revoked", "revoked_at"), ("expired", "expires_at")):
        keys[name] = calm_house.manage("issue_key", "--team", "demo", "--name", f"edge {name}").strip()
        where = "WHERE name = %s"
        calm_house.database.execute(
            f"UPDATE tenants_apikey SET {column} = now() - interval '1 minute' {where}", [f"edge {name}"]
        )
    calm_house.publish()
    yield keys
    calm_house.database.execute("DELETE FROM tenants_apikey WHERE name LIKE 'edge %'")
    calm_house.publish()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("header", HEADERS)
def test_a_key_that_is_no_good_is_refused_in_every_header(
    untouched: House, dead_keys: dict[str, str], path: str, header: str
) -> None:
    good = untouched.key
    bad = {
        "empty": "", "junk": "sk-123", "latin": "pg_dämo", "long": "pg_live_" + "x" * 8000, "cut": good[:-1],
        "changed": good[:-9] + ("A" if good[-9] != "A" else "B") + good[-8:], **dead_keys,
    }  # fmt: skip
    with Wire(untouched) as wire:
        for name, key in bad.items():
            given = {header: value_of(header, key)}
            status, headers, body = wire.send(path, GOOD[path], headers=given).answer()
            assert status == 401, name
            error = unwrap(path, json.loads(body), headers["x-request-id"])
            assert error["type"] == "authentication_error"
            assert not key or key not in body.decode()
            assert headers["x-should-retry"] == "false"


@pytest.mark.parametrize("header", HEADERS)
def test_a_good_key_is_taken_from_every_header_whatever_stands_in_the_others(untouched: House, header: str) -> None:
    for other in HEADERS:
        others = {} if other == header else {other: value_of(other, "sk-placeholder")}
        with Wire(untouched) as wire:
            given = {**others, header: value_of(header, untouched.key)}
            assert wire.send(CHAT, b"[]", headers=given).answer()[0] == 400


def test_no_key_at_all_says_how_to_send_one(untouched: House) -> None:
    for path in PATHS:
        answer = post(untouched, path, body_of(path), key="")
        assert answer.status_code == 401
        assert "Authorization: Bearer" in error_of(path, answer)["message"]
