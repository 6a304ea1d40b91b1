"""Browser logins of the fake upstream: a session token and a refresh token that is good for one refresh.

A refresh hands out a new refresh token and uses the old one up; who comes with a used one is told to sign out, which
is final. A login is approved through the control API in place of a browser; the poll then finds it, once.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass, field

CLIENT_ID = "sim-client"


@dataclass
class Pending:
    """An approved login that nobody fetched yet. ``challenge``: URL-safe Base64 of the verifier's SHA-256."""

    account: str
    challenge: str


@dataclass
class Logins:
    """``refreshable``: refresh token → account; what is not in it was used up or never given."""

    refreshable: dict[str, str] = field(default_factory=dict)
    approved: dict[str, Pending] = field(default_factory=dict)

    def issue(self, account: str) -> str:
        """A refresh token."""
        token = f"sim_refresh_{secrets.token_urlsafe(24)}"
        self.refreshable[token] = account
        return token

    def use(self, token: str) -> str | None:
        """The account of a refresh token, which is used up by this; None for one that is none any more."""
        return self.refreshable.pop(token, None)

    def approve(self, uuid: str, account: str, challenge: str) -> None:
        self.approved[uuid] = Pending(account, challenge)

    def fetch(self, uuid: str, verifier: str) -> str | None:
        """The account of an approved login whose verifier fits, once; None while there is none."""
        pending = self.approved.get(uuid)
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        if pending is None or not secrets.compare_digest(digest, pending.challenge):
            return None
        del self.approved[uuid]
        return pending.account
