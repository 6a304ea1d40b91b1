from __future__ import annotations

import base64
from collections.abc import Mapping

import orjson
import pytest

from accounts import cursor
from accounts.cursor import read_expiry
from core.outbound import AllowList, Broken, Outbound, Refused, Reply
from ir.errors import Fault, Reason, Stage
from protobufs.agent_v1_pb2 import GetUsableModelsResponse, ModelDetails


def jwt(**claims: object) -> str:
    parts = ({"alg": "none"}, claims)
    return ".".join(base64.urlsafe_b64encode(orjson.dumps(part)).rstrip(b"=").decode() for part in parts) + ".sig"


class Answering(Outbound):
    """Gives one answer, and keeps the call."""

    def __init__(self, answer: Reply | Exception) -> None:
        self._answer = answer
        self.seen: tuple[str, str, Mapping[str, str], bytes] | None = None

    async def call(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, content: bytes | None = None,
        max_body: int = 0,
    ) -> Reply:  # fmt: skip
        self.seen = (method, url, headers or {}, content or b"")
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def reply(status: int, body: bytes = b"{}", **headers: str) -> Reply:
    return Reply(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


async def test_a_key_is_exchanged_for_a_token_with_its_expiry() -> None:
    token = jwt(exp=1_800_000_000, type="api_key_token")
    outbound = Answering(reply(200, orjson.dumps({"accessToken": token, "refreshToken": "r"})))
    got = await cursor.exchange(outbound, "https://api2.cursor.sh", "crsr_key")
    assert (got.jwt, got.expires_at) == (token, 1_800_000_000)
    assert outbound.seen is not None
    method, url, headers, body = outbound.seen
    assert (method, url, body) == ("POST", "https://api2.cursor.sh/auth/exchange_user_api_key", b"{}")
    assert headers == {"authorization": "Bearer crsr_key", "content-type": "application/json"}
    assert token not in repr(got)


async def test_usable_models_are_asked_unary_without_an_envelope() -> None:
    answer = GetUsableModelsResponse(models=[ModelDetails(model_id=name) for name in ("b", "a", "a", "")])
    outbound = Answering(reply(200, answer.SerializeToString()))
    found = await cursor.usable_models(outbound, "https://api2.cursor.sh", "token")
    assert [model.id for model in found] == ["a", "b"]
    assert outbound.seen is not None
    _, url, headers, body = outbound.seen
    assert url == "https://api2.cursor.sh/agent.v1.AgentService/GetUsableModels"
    assert (headers["content-type"], body) == ("application/proto", b"")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (reply(401), Reason.AUTH_REVOKED),
        (reply(402), Reason.PAYMENT),
        (reply(403), Reason.FORBIDDEN),
        (reply(403, b"<html>", content_type="text/html; charset=utf-8"), Reason.EGRESS),
        (reply(404), Reason.PROTOCOL),
        (reply(302, location="http://elsewhere"), Reason.PROTOCOL),
        (reply(429), Reason.RATE_LIMIT),
        (reply(464), Reason.PROTOCOL),
        (reply(500), Reason.TRANSIENT),
        (reply(503), Reason.CAPACITY),
        (reply(200, b"not json"), Reason.PROTOCOL),
        (reply(200, b"[]"), Reason.PROTOCOL),
        (reply(200, b'{"accessToken": 5}'), Reason.PROTOCOL),
        (reply(200, b'{"accessToken": "a.b.c"}'), Reason.PROTOCOL),
        (Broken("timeout"), Reason.TIMEOUT),
        (Broken("connect"), Reason.TRANSIENT),
        (Broken("broken"), Reason.TRANSIENT),
        (Broken("too_large"), Reason.PROTOCOL),
        (Refused("no"), Reason.INTERNAL),
    ],
)
async def test_every_answer_but_a_token_is_a_fault(answer: Reply | Exception, reason: Reason) -> None:
    with pytest.raises(Fault) as fault:
        await cursor.exchange(Answering(answer), "https://api2.cursor.sh", "crsr_key")
    assert fault.value.reason is reason


async def test_a_refused_token_is_expired_until_proved_otherwise() -> None:
    with pytest.raises(Fault) as fault:
        await cursor.usable_models(Answering(reply(401)), "https://api2.cursor.sh", "token")
    assert (fault.value.reason, fault.value.stage) == (Reason.AUTH_EXPIRED, Stage.AUTH)


async def test_a_models_answer_that_does_not_decode_is_a_fault() -> None:
    with pytest.raises(Fault) as fault:
        await cursor.usable_models(Answering(reply(200, b"\xff\xff")), "https://api2.cursor.sh", "token")
    assert fault.value.reason is Reason.PROTOCOL


@pytest.mark.parametrize(("text", "seconds"), [("17", 17.0), ("", None), ("soon", None), ("-3", None)])
async def test_a_pace_hint_is_kept_when_it_is_seconds(text: str, seconds: float | None) -> None:
    with pytest.raises(Fault) as fault:
        await cursor.exchange(Answering(reply(429, retry_after=text)), "https://api2.cursor.sh", "crsr_key")
    assert fault.value.retry_after == seconds


@pytest.mark.parametrize("token", ["", "a", "a.b", "a.!!!.c", jwt(), jwt(exp="x"), jwt(exp=None)])
def test_what_has_no_expiry_is_no_token(token: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (any message will do: it is never shown)
        read_expiry(token)


async def test_a_host_that_is_not_allowed_is_never_called() -> None:
    async with Outbound(allowed=AllowList([])) as outbound:
        with pytest.raises(Fault) as fault:
            await cursor.exchange(outbound, "http://169.254.169.254", "crsr_key")
    assert fault.value.upstream_code == "host_not_allowed"


async def test_the_listed_models_are_asked_with_the_key_itself() -> None:
    outbound = Answering(reply(200, orjson.dumps({"items": [{"id": "b"}, {"id": "a", "aliases": ["c"]}]})))
    found = await cursor.listed_models(outbound, "https://api.cursor.com", "crsr_key")
    assert [model.names for model in found] == [("a", "c"), ("b",)]
    assert outbound.seen is not None
    method, url, headers, body = outbound.seen
    assert (method, url, body) == ("GET", "https://api.cursor.com/v1/models", b"")
    assert headers["authorization"] == "Bearer crsr_key"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (reply(401), Reason.AUTH_REVOKED),
        (reply(200, b"[]"), Reason.PROTOCOL),
        (reply(200, b'{"items": [1]}'), Reason.PROTOCOL),
    ],
)
async def test_a_list_that_is_none_is_a_fault(answer: Reply, reason: Reason) -> None:
    with pytest.raises(Fault) as fault:
        await cursor.listed_models(Answering(answer), "https://api.cursor.com", "crsr_key")
    assert fault.value.reason is reason


async def test_a_login_is_refreshed_with_the_operators_client_id() -> None:
    token = jwt(exp=1_800_000_000, type="session")
    outbound = Answering(
        reply(200, orjson.dumps({"access_token": token, "refresh_token": "r2", "shouldLogout": False}))
    )
    assert await cursor.refresh(outbound, "https://api2.cursor.sh", "client", "r1") == (token, "r2")
    assert outbound.seen is not None
    method, url, headers, body = outbound.seen
    assert (method, url, "authorization" in headers) == ("POST", "https://api2.cursor.sh/oauth/token", False)
    assert orjson.loads(body) == {"grant_type": "refresh_token", "client_id": "client", "refresh_token": "r1"}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (reply(200, b'{"access_token": "", "shouldLogout": true}'), Reason.AUTH_REVOKED),
        (reply(400, b'{"error": "invalid_grant"}'), Reason.AUTH_REVOKED),
        (reply(400, b'{"error": "invalid_client"}'), Reason.INTERNAL),
        (reply(401, b"{}"), Reason.AUTH_REVOKED),
        (reply(200, b"{}"), Reason.PROTOCOL),
        (reply(200, b'{"access_token": "no jwt"}'), Reason.PROTOCOL),
        (reply(502, b"<html>", content_type="text/html"), Reason.EGRESS),
        (reply(503), Reason.CAPACITY),
    ],
)
async def test_a_refused_refresh_says_who_has_to_act(answer: Reply, reason: Reason) -> None:
    with pytest.raises(Fault) as fault:
        await cursor.refresh(Answering(answer), "https://api2.cursor.sh", "client", "r1")
    assert (fault.value.reason, fault.value.stage) == (reason, Stage.AUTH)
