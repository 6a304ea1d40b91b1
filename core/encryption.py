"""Secrets at rest, and signatures for opaque values that come back to us.

One keyring from the environment serves both. The first key seals and signs, every key opens and verifies: a new key
goes in front, ``manage.py rotate_keys`` reseals the rows, then the old key may leave. A sealed value names its key
(``<8 hex>:<Fernet token>``), so that a missing key is told apart from a broken value and rotation can skip what is
done. Signing keys are derived, never the sealing keys themselves.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import models


class SealError(Exception):
    """A sealed value cannot be opened: its key is not configured, or it was altered."""


class SealedField(models.BinaryField):  # type: ignore[type-arg]
    """A column of sealed bytes. It seals nothing itself: the type is how ``rotate_keys`` finds what to reseal."""


class Keyring:
    """Fernet keys, newest first. Raises ``ValueError`` for an empty ring or a malformed key, without showing it."""

    def __init__(self, keys: Sequence[str]) -> None:
        if not keys:
            raise ValueError("at least one encryption key is needed")
        try:
            raw = [base64.urlsafe_b64decode(key) for key in keys]
            fernets = [Fernet(key) for key in keys]
        except ValueError:
            raise ValueError("an encryption key must be 32 bytes in URL-safe Base64") from None
        ids = [hashlib.sha256(b"poolgate key id\0" + key).hexdigest()[:8] for key in raw]
        self.key_id = ids[0]
        self._fernets = dict(zip(ids, fernets, strict=True))
        self._signers = [hmac.digest(key, b"poolgate signatures", "sha256") for key in raw]

    def __repr__(self) -> str:
        return f"Keyring({', '.join(self._fernets)})"

    def seal(self, data: bytes | str) -> bytes:
        plain = data.encode() if isinstance(data, str) else data
        return self.key_id.encode() + b":" + self._fernets[self.key_id].encrypt(plain)

    def open(self, sealed: bytes) -> bytes:
        """Raises ``SealError``."""
        key_id, _, token = sealed.partition(b":")
        fernet = self._fernets.get(key_id.decode("ascii", "replace"))
        if fernet is None:
            raise SealError("the key that sealed this value is not configured")
        try:
            return fernet.decrypt(token)
        except InvalidToken:
            raise SealError("the sealed value was altered") from None

    def reseal(self, sealed: bytes) -> bytes:
        """The same secret under the newest key; the very same bytes when it already is. Raises ``SealError``."""
        return sealed if self.is_current(sealed) else self.seal(self.open(sealed))

    def is_current(self, sealed: bytes) -> bool:
        return sealed.startswith(self.key_id.encode() + b":")

    def sign(self, purpose: str, tenant: int | str, data: bytes | str) -> str:
        """A MAC in URL-safe Base64 (43 characters), valid for this purpose and tenant only."""
        return _mac(self._signers[0], purpose, tenant, data)

    def verify(self, purpose: str, tenant: int | str, data: bytes | str, signature: str) -> bool:
        """Whether any key of the ring made ``signature``, compared in constant time."""
        given = signature.encode("utf-8", "replace")
        matches = [hmac.compare_digest(_mac(key, purpose, tenant, data).encode(), given) for key in self._signers]
        return any(matches)


@lru_cache(maxsize=4)
def _keyring(keys: tuple[str, ...]) -> Keyring:
    try:
        return Keyring(keys)
    except ValueError as error:
        raise ImproperlyConfigured(f"POOLGATE_ENCRYPTION_KEYS: {error}.") from None


def keyring() -> Keyring:
    """The ring of ``POOLGATE_ENCRYPTION_KEYS``. Raises ``ImproperlyConfigured``."""
    return _keyring(tuple(settings.POOLGATE_ENCRYPTION_KEYS))


def seal(data: bytes | str) -> bytes:
    return keyring().seal(data)


def open_sealed(sealed: bytes) -> bytes:
    """Raises ``SealError``."""
    return keyring().open(bytes(sealed))


def sign(purpose: str, tenant: int | str, data: bytes | str) -> str:
    return keyring().sign(purpose, tenant, data)


def verify(purpose: str, tenant: int | str, data: bytes | str, signature: str) -> bool:
    return keyring().verify(purpose, tenant, data, signature)


def _mac(key: bytes, purpose: str, tenant: int | str, data: bytes | str) -> str:
    mac = hmac.new(key, digestmod="sha256")
    for part in (purpose.encode(), str(tenant).encode(), data.encode() if isinstance(data, str) else data):
        mac.update(len(part).to_bytes(8, "big"))  # lengths keep ("a", "bc") and ("ab", "c") apart
        mac.update(part)
    return base64.urlsafe_b64encode(mac.digest()).rstrip(b"=").decode()
