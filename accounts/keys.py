"""What an account signs in with, as it is stored: an API key, or a browser login (``accounts.logins``)."""

from __future__ import annotations

from datetime import UTC, datetime

from django.utils import timezone

from accounts import logins
from accounts.models import Account, Credential
from core.encryption import seal
from core.invalid import InvalidValue


def add_credential(account: Account, secret: str, kind: str, expires_at: datetime | None) -> Credential:
    """Seals what the account signs in with from now on; it must have no other. Raises ``InvalidValue``."""
    if kind == Credential.Kind.LOGIN_TOKEN:
        return _add_login(account, secret)
    secret = secret.strip()
    if not secret or len(secret) > 8192 or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise InvalidValue("api_key", "must be one word of printable characters.")
    if kind not in Credential.Kind.values:
        raise InvalidValue("kind", f"must be one of {', '.join(Credential.Kind.values)}.")
    return Credential.objects.create(
        account=account,
        kind=kind,
        sealed=seal(secret),
        last_four=secret[-4:] if len(secret) >= 16 else "",  # of a short one, four characters tell too much
        expires_at=expires_at,
    )


def _add_login(account: Account, secret: str) -> Credential:
    try:
        login = logins.parse(secret, timezone.now().timestamp())
    except ValueError as error:
        raise InvalidValue("login", str(error)) from None
    return Credential.objects.create(
        account=account,
        kind=Credential.Kind.LOGIN_TOKEN,
        sealed=seal(logins.encode(login)),
        last_four=login.access[-4:],
        expires_at=datetime.fromtimestamp(login.expires_at, UTC),
    )
