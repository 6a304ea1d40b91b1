"""Who is asking: from request headers to the key that Poolgate issued.

A key is accepted from every header that some client uses, on every path (clients disagree: see the design page's
defaults); the first value that has the shape of one of our keys counts, so that a placeholder in another header does
no harm. The offline checksum keeps junk away from the HMAC. Every failure has the same answer.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping

from gateway.snapshot import Snapshot
from ir.errors import ApiError, Kind
from tenants import keys
from tenants.compile import KeyView

HEADERS = (b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key")


def authenticate(headers: Mapping[bytes, bytes], snapshot: Snapshot, pepper: str, now: float) -> KeyView:
    """The caller's key. Raises a 401 ``invalid_api_key``; ``now`` is Unix seconds."""
    texts = list(_candidates(headers))
    if not texts:
        raise _refused("No API key was sent. Use the header 'Authorization: Bearer <key>' or 'x-api-key: <key>'.")
    for text in texts:
        parsed = keys.parse(text)
        if parsed is None:
            continue
        view = snapshot.keys.get(parsed.public_id)
        if view is None or not hmac.compare_digest(view.digest, keys.digest(text, pepper)):
            break
        if view.expires_at is not None and view.expires_at <= now:
            break
        return view
    raise _refused("The API key is not valid: it is unknown, revoked or expired.")


def _candidates(headers: Mapping[bytes, bytes]) -> Iterable[str]:
    for name in HEADERS:
        value = headers.get(name, b"").decode("latin-1").strip()
        if name == b"authorization":
            scheme, _, rest = value.partition(" ")
            value = rest.strip() if scheme.lower() == "bearer" else ""
        if value:
            yield value


def _refused(message: str) -> ApiError:
    return ApiError(Kind.AUTHENTICATION, "invalid_api_key", message)
