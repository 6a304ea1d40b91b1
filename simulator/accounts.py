"""The accounts of the fake upstream: their keys, and the JWT a key is exchanged for.

The token looks like the real one (three parts, claims ``exp`` and ``type``); its signature is the simulator's own, so
that a forged or mangled token is told from an expired one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protobufs import agent_v1_pb2 as pb
from simulator.causes import Failure, refusal

DEFAULT_NAMES = ("alpha", "beta", "gamma", "cloud", "text")
PROVIDER_NAMES = ("openai", "responses", "anthropic")
KEY_PREFIX = "crsr_"


@dataclass
class Account:
    """``models`` None: every model. The counters live until a reset."""

    name: str
    key: str
    models: frozenset[str] | None = None
    exchanges: int = 0
    runs: int = 0
    active_streams: int = 0
    contacts: int = 0

    def forget(self) -> None:
        """Back to zero, except for streams that are still open."""
        self.exchanges = self.runs = self.contacts = 0

    def describe(self) -> dict[str, Any]:
        """As ``GET /_sim/accounts`` shows it: no key."""
        return {
            "name": self.name,
            "exchanges": self.exchanges,
            "runs": self.runs,
            "active_streams": self.active_streams,
            "contacted": self.contacts,
        }


def load(path: Path | None) -> list[Account]:
    """Reads ``{"accounts": [{"name", "key"?, "models"?}]}``; without a file the default ones.

    Raises ``ValueError`` when the file has another shape or repeats a name or key.
    """
    if path is None:
        cursor = [Account(name, f"{KEY_PREFIX}sim_{name}") for name in DEFAULT_NAMES]
        return [*cursor, *(Account(name, f"sk-sim-{name}") for name in PROVIDER_NAMES)]
    try:
        rows = json.loads(path.read_text())["accounts"]
        accounts = [
            Account(
                str(row["name"]),
                str(row.get("key") or f"{KEY_PREFIX}sim_{row['name']}"),
                frozenset(row["models"]) if row.get("models") else None,
            )
            for row in rows
        ]
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: expected {{'accounts': [{{'name': …, 'key': …}}]}}") from error
    if len({one.name for one in accounts}) < len(accounts) or len({one.key for one in accounts}) < len(accounts):
        raise ValueError(f"{path}: names and keys must be unique")
    return accounts


class Tokens:
    """Mints and checks the JWTs of one simulator process."""

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secret or secrets.token_bytes(32)

    def mint(self, account: str, now: float, life: float, kind: str = "api_key_token") -> str:
        """A token of type ``kind`` that expires ``life`` seconds after ``now`` (Unix time)."""
        claims = {
            "sub": f"auth0|sim_{account}",
            "iss": "https://authentication.cursor.sh",
            "type": kind,
            "iat": int(now),
            "exp": int(now + life),
            "randomness": secrets.token_hex(8),
        }
        signed = f"{_encode({'alg': 'HS256', 'typ': 'JWT'})}.{_encode(claims)}"
        return f"{signed}.{self._sign(signed)}"

    def check(self, token: str, now: float) -> str:
        """The account's name. Raises the 401 ``Failure`` for a token that is not ours or has expired."""
        signed, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(signed).encode()):
            raise not_logged_in("not a token of this upstream")
        claims = _decode(signed.partition(".")[2])
        if claims["exp"] <= now:
            raise not_logged_in("the token has expired")
        return str(claims["sub"]).removeprefix("auth0|sim_")

    def kind(self, token: str) -> str:
        """The claim ``type`` of a token that was checked."""
        return str(_decode(token.split(".")[1])["type"])

    def _sign(self, signed: str) -> str:
        return _base64(hmac.new(self._secret, signed.encode(), hashlib.sha256).digest())


def not_logged_in(reason: str) -> Failure:
    """The 401 of a bearer that cannot be used."""
    return refusal(reason, code="unauthenticated", error=pb.ERROR_NOT_LOGGED_IN)


def bearer(headers: Mapping[str, str]) -> str:
    """The bearer of a request. Raises the 401 ``Failure`` when there is none."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not value.strip():
        raise not_logged_in("no bearer")
    return value.strip()


def _encode(claims: Mapping[str, Any]) -> str:
    return _base64(json.dumps(claims, separators=(",", ":")).encode())


def _decode(part: str) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return decoded


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
