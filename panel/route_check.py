"""Route checks: what would happen to a key's request now. Gathers what ``gateway.route_check`` looks at."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import structs

from accounts import live
from accounts.compile import AccountView
from accounts.leases import running_key
from accounts.live import Live
from core import redis
from core.invalid import InvalidValue
from gateway import route_check
from gateway.route_check import PROTOCOLS, Blocked, Finding, Limit
from gateway.snapshot import compose
from tenants.compile import KeyView
from tenants.models import ApiKey
from tenants.scope import Scope


def check(public_id: str, model: str, protocol: str, scope: Scope) -> Finding | None:
    """None for a key that ``scope`` does not show. Raises ``InvalidValue`` for an impossible question, ``RedisError``
    when the state store does not answer, ``ValueError`` for a configuration that cannot be compiled."""
    if protocol not in PROTOCOLS:
        raise InvalidValue("protocol", f"must be one of {', '.join(PROTOCOLS)}.")
    if "_" in public_id:
        raise InvalidValue("key", "is the key's public id, the eight characters in the middle: never the key itself.")
    known = public_id.isascii() and public_id.isalnum()
    row = ApiKey.objects.filter(public_id=public_id).first() if known else None
    if row is None or not (scope.everything or row.team_id in scope.team_ids):
        return None
    if row.revoked_at is not None:
        return Finding(protocol, model, False, Blocked("key", 401, "invalid_api_key", "The API key is revoked."))
    snapshot = compose(0)
    key = snapshot.keys[public_id]
    return route_check.check(key, model, protocol, snapshot, _limits(key), _look, time.time())


def without_names(finding: Finding) -> Finding:
    """For who may not know the accounts: they are numbered."""
    hidden = tuple(
        structs.replace(candidate, account_id=place, name=f"account {place}")
        for place, candidate in enumerate(finding.candidates, 1)
    )
    return structs.replace(finding, candidates=hidden)


def _look(accounts: Sequence[AccountView]) -> Live:
    return live.read(redis.connection(), accounts)


def _limits(key: KeyView) -> Sequence[Limit]:
    client = redis.connection()
    seconds, _ = client.time()
    whose = [("key", key.row_id, key.max_concurrency), ("member", key.member_id, key.member_limit),
             ("team", key.team_id, key.team_limit)]  # fmt: skip
    return [
        Limit(part, int(client.zcount(running_key(part, number), f"({seconds * 1000}", "+inf")), most)
        for part, number, most in whose
    ]
