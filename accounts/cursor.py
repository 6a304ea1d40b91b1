"""Cursor's control plane: the calls around an account that are not answers to a caller.

Wire facts: ``POST /auth/exchange_user_api_key`` with the API key as bearer gives a short-lived JWT (JSON
``accessToken``; its life is in the claim ``exp``; the signature is not ours to check). ``POST /oauth/token`` refreshes
a browser login (JSON ``{grant_type, client_id, refresh_token}`` → ``{access_token, refresh_token?, shouldLogout}``);
``shouldLogout`` is final. ``GetUsableModels`` and ``AvailableModels`` are unary Connect calls: protobuf without an
envelope, an empty request is zero bytes, an error is an HTTP status with JSON. ``GET /v1/models`` of the official REST
API takes the API key itself.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping

import orjson
from google.protobuf.message import DecodeError
from msgspec import Struct

from accounts.knowledge import Quota, read_quota
from accounts.offered import Offered, read_available, read_listed, read_usable
from core.outbound import Broken, Outbound, Refused, Reply
from ir.errors import Fault, Reason, Stage
from protobufs.agent_v1_pb2 import AvailableModelsRequest

EXCHANGE = "/auth/exchange_user_api_key"
REFRESH = "/oauth/token"
LISTED_MODELS = "/v1/models"
USABLE_MODELS = "/agent.v1.AgentService/GetUsableModels"
AVAILABLE_MODELS = "/aiserver.v1.AiService/AvailableModels"
PERIOD_USAGE = "/aiserver.v1.DashboardService/GetCurrentPeriodUsage"
MAX_BODY = 1024 * 1024


class Token(Struct, frozen=True):
    """A bearer for the Agent RPC. ``expires_at`` in Unix seconds."""

    jwt: str
    expires_at: float

    def __repr__(self) -> str:
        return f"Token(expires_at={self.expires_at})"


async def exchange(outbound: Outbound, base_url: str, api_key: str) -> Token:
    """A fresh token for the key. Raises ``Fault``: AUTH_REVOKED when the key is refused."""
    headers = {"content-type": "application/json"}
    reply = await _call(outbound, "POST", base_url + EXCHANGE, api_key, headers, b"{}", Reason.AUTH_REVOKED)
    try:
        jwt = orjson.loads(reply.body)["accessToken"]
        return Token(jwt, read_expiry(jwt))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise Fault(Reason.PROTOCOL, Stage.AUTH, upstream_code="exchange_answer") from None


async def refresh(outbound: Outbound, base_url: str, client_id: str, refresh_token: str) -> tuple[str, str]:
    """New access and refresh tokens for a login; the second "" where the old one stays good.

    Raises ``Fault``: AUTH_REVOKED when the session is over, INTERNAL when it is our client id that is refused.
    """
    order = {"grant_type": "refresh_token", "client_id": client_id, "refresh_token": refresh_token}
    headers = {"content-type": "application/json"}
    reply = await _ask(outbound, "POST", base_url + REFRESH, headers, orjson.dumps(order))
    try:
        answer = orjson.loads(reply.body)
        if reply.status == 200 and not answer.get("shouldLogout"):
            access = answer["access_token"]
            read_expiry(access)
            return access, answer.get("refresh_token") or ""
        over = answer.get("shouldLogout") is True or answer.get("error") == "invalid_grant"
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError):
        if reply.status == 200:
            raise Fault(Reason.PROTOCOL, Stage.AUTH, upstream_code="refresh_answer") from None
        over = False
    if over:
        raise Fault(Reason.AUTH_REVOKED, Stage.AUTH, upstream_code="session_over")
    if reply.status == 400:
        raise Fault(Reason.INTERNAL, Stage.AUTH, upstream_code="refresh_refused")
    raise _fault(reply, Reason.AUTH_REVOKED)


async def usable_models(outbound: Outbound, base_url: str, jwt: str) -> tuple[Offered, ...]:
    """The models that the account may use, sorted. Raises ``Fault``: AUTH_EXPIRED when the token is."""
    return await _unary(outbound, base_url + USABLE_MODELS, jwt, b"", read_usable)


async def available_models(outbound: Outbound, base_url: str, jwt: str) -> tuple[Offered, ...]:
    """What there is to know of all models, sorted. Raises ``Fault``: AUTH_EXPIRED when the token is."""
    asked = AvailableModelsRequest(include_long_context_models=True, use_model_parameters=True)
    return await _unary(outbound, base_url + AVAILABLE_MODELS, jwt, asked.SerializeToString(), read_available)


async def listed_models(outbound: Outbound, base_url: str, api_key: str) -> tuple[Offered, ...]:
    """What the REST API lists for the key, sorted. Raises ``Fault``: AUTH_REVOKED when the key is refused."""
    reply = await _call(outbound, "GET", base_url + LISTED_MODELS, api_key, {}, None, Reason.AUTH_REVOKED)
    try:
        return read_listed(reply.body)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise Fault(Reason.PROTOCOL, Stage.AUTH, upstream_code="models_answer") from None


async def period_usage(outbound: Outbound, base_url: str, jwt: str, now: float) -> Quota:
    """How much of its plan the account has used. Raises ``Fault``: FORBIDDEN or AUTH_EXPIRED when it is not told."""
    headers = {"content-type": "application/json", "connect-protocol-version": "1"}
    reply = await _call(outbound, "POST", base_url + PERIOD_USAGE, jwt, headers, b"{}", Reason.AUTH_EXPIRED)
    try:
        return read_quota(orjson.loads(reply.body), now)
    except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError):
        raise Fault(Reason.PROTOCOL, Stage.AUTH, upstream_code="usage_answer") from None


async def _unary(
    outbound: Outbound, url: str, jwt: str, body: bytes, read: Callable[[bytes], tuple[Offered, ...]]
) -> tuple[Offered, ...]:
    headers = {"content-type": "application/proto", "connect-protocol-version": "1"}
    reply = await _call(outbound, "POST", url, jwt, headers, body, Reason.AUTH_EXPIRED)
    try:
        return read(reply.body)
    except DecodeError:
        raise Fault(Reason.PROTOCOL, Stage.AUTH, upstream_code="models_answer") from None


def read_expiry(jwt: str) -> float:
    """The claim ``exp``, in Unix seconds. Raises ``ValueError`` for what is no JWT with one."""
    try:
        claims = jwt.split(".")[1]
        return float(orjson.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])
    except (AttributeError, IndexError, KeyError, TypeError, binascii.Error, orjson.JSONDecodeError):
        raise ValueError("no token with an expiry") from None


async def _call(
    outbound: Outbound,
    method: str,
    url: str,
    bearer: str,
    headers: Mapping[str, str],
    body: bytes | None,
    unauthorized: Reason,
) -> Reply:
    reply = await _ask(outbound, method, url, {"authorization": f"Bearer {bearer}", **headers}, body)
    if reply.status != 200:
        raise _fault(reply, unauthorized)
    return reply


async def _ask(outbound: Outbound, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
    """An answer of any status."""
    try:
        return await outbound.call(method, url, headers=headers, content=body, max_body=MAX_BODY)
    except Refused:
        raise Fault(Reason.INTERNAL, Stage.CONNECT, upstream_code="host_not_allowed") from None
    except Broken as error:
        raise Fault(_BROKEN.get(error.kind, Reason.TRANSIENT), Stage.CONNECT, upstream_code=error.kind) from None


_BROKEN = {"timeout": Reason.TIMEOUT, "connect": Reason.TRANSIENT, "too_large": Reason.PROTOCOL}
_STATUSES = {
    402: Reason.PAYMENT,
    403: Reason.FORBIDDEN,
    429: Reason.RATE_LIMIT,
    464: Reason.PROTOCOL,
    503: Reason.CAPACITY,
    529: Reason.CAPACITY,
}


def _fault(reply: Reply, unauthorized: Reason) -> Fault:
    status = reply.status
    if "text/html" in reply.headers.get("content-type", ""):
        reason = Reason.EGRESS  # something in front of the service answered: the way is at fault
    elif status == 401:
        reason = unauthorized
    else:
        reason = _STATUSES.get(status, Reason.TRANSIENT if status >= 500 else Reason.PROTOCOL)
    return Fault(reason, Stage.AUTH, retry_after=_seconds(reply.headers.get("retry-after")), upstream_code=str(status))


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isdigit() else None
