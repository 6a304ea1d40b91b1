"""Browser logins: a session token that lives for weeks, and a refresh token that every refresh replaces.

A refresh token is good once, so the new one has to be written down before the old one is forgotten: first sealed into
Redis, which outlives a process that dies here, then into the row of the credential. The row's version only ever moves
from the one that was read (compare and set): a slow worker cannot put an old token over a newer one, nor over a login
that an admin imported meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol, TypeVar

import msgspec
import orjson
from django.db import DatabaseError, connection, transaction
from msgspec import Struct

from accounts.cursor import read_expiry
from accounts.models import Credential
from core import audit, publish
from core.audit import SYSTEM
from core.encryption import seal
from ir.errors import Fault, Reason, Stage

T = TypeVar("T")


class Login(Struct, frozen=True):
    """``access`` is the bearer; ``refresh`` "" where there is none; ``at``: Unix seconds at which we got them."""

    access: str
    refresh: str
    at: float

    def __repr__(self) -> str:
        return f"Login(at={self.at})"

    @property
    def expires_at(self) -> float:
        """Unix seconds."""
        return read_expiry(self.access)

    def is_due(self, now: float, ahead: float) -> bool:
        """Whether it is to be refreshed ``ahead`` seconds before its end, but never in the first half of its life."""
        ends = self.expires_at
        return ends - now < min(ahead, (ends - self.at) / 2)


class Kept(Struct, frozen=True):
    """The row of a login. ``version`` is what a change has to name."""

    login: bytes
    version: int


class Vault(Protocol):
    """Where logins are kept for good. Both raise ``Fault`` INTERNAL when it cannot be reached."""

    async def read(self, credential_id: int) -> Kept | None:
        """The sealed login as it is now; None for a credential that is not saved, or no more."""
        ...

    async def rotate(self, credential_id: int, version: int, login: Login) -> bool:
        """Writes a newer login down, if the row still is of this version. Returns whether it was."""
        ...


def parse(text: str, now: float) -> Login:
    """A login as it is imported: the JSON that the sign-in answers (``accessToken``, ``refreshToken``, also in snake
    case), or the session token alone. Raises ``ValueError`` with a sentence."""
    text = text.strip()
    try:
        found = orjson.loads(text) if text.startswith("{") else {"accessToken": text}
    except orjson.JSONDecodeError:
        raise ValueError("is no JSON.") from None
    access, refresh = (found.get(f"{name}Token") or found.get(f"{name}_token") or "" for name in ("access", "refresh"))
    if not all(isinstance(token, str) and token.isascii() and len(token) <= 8192 for token in (access, refresh)):
        raise ValueError("holds no accessToken.")
    login = Login(access.strip(), refresh.strip(), now)
    if login.expires_at <= now and not login.refresh:
        raise ValueError("has expired.")
    return login


encode: Callable[[Login], bytes] = msgspec.json.Encoder().encode
decode: Callable[[bytes], Login] = msgspec.json.Decoder(Login).decode


class Database:
    """The vault of the installation: one row a credential, read and written in a borrowed thread."""

    async def read(self, credential_id: int) -> Kept | None:
        return await asyncio.to_thread(_borrowed, lambda: read(credential_id))

    async def rotate(self, credential_id: int, version: int, login: Login) -> bool:
        return await asyncio.to_thread(_borrowed, lambda: rotate(credential_id, version, login))


def read(credential_id: int) -> Kept | None:
    """See ``Vault.read``; blocking."""
    rows = Credential.objects.filter(pk=credential_id, kind=Credential.Kind.LOGIN_TOKEN)
    found = rows.values_list("sealed", "version").first()
    return Kept(bytes(found[0]), found[1]) if found else None


@transaction.atomic
def rotate(credential_id: int, version: int, login: Login) -> bool:
    """See ``Vault.rotate``; blocking."""
    row = Credential.objects.select_for_update().filter(pk=credential_id, version=version).first()
    if row is None:
        return False
    before = audit.state(row)
    row.sealed, row.version = seal(encode(login)), version + 1
    row.expires_at, row.last_four = datetime.fromtimestamp(login.expires_at, UTC), login.access[-4:]
    row.save()
    audit.record(SYSTEM, "account.rotate_login", row, before=before, after=audit.state(row))
    publish.bump()
    return True


def _borrowed(work: Callable[[], T]) -> T:
    """Django would keep the thread's connection otherwise."""
    try:
        return work()
    except DatabaseError:
        raise Fault(Reason.INTERNAL, Stage.AUTH, upstream_code="vault_down") from None
    finally:
        connection.close()
