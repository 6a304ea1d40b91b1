"""Slows down guessing of passwords. Counts live in Redis, so that every process sees the same.

An attempt is counted before the password is looked at, so that guesses made at once cannot slip through together.
Two limits: per address and name (five), which does not let a stranger lock the operator out from elsewhere, and per
address alone (fifty), against one guess for each of many names. A success takes its own count back.
"""

from __future__ import annotations

import hashlib

from core.redis import connection, key

WINDOW_S = 15 * 60
PER_NAME = 5
PER_ADDRESS = 50


def count_attempt(address: str, name: str) -> int:
    """Seconds to wait, or 0 when this attempt may go on. Raises ``redis.RedisError`` when nobody can count."""
    keys = (_key("name", address, name.casefold()), _key("address", address))
    with connection().pipeline() as pipe:
        for name_or_address in keys:
            pipe.set(name_or_address, 0, ex=WINDOW_S, nx=True)
            pipe.incr(name_or_address)
            pipe.ttl(name_or_address)
        _, by_name, name_ttl, _, by_address, address_ttl = pipe.execute()
    name_wait = int(name_ttl) if by_name > PER_NAME else 0
    address_wait = int(address_ttl) if by_address > PER_ADDRESS else 0
    return max(name_wait, address_wait)


def forget_attempts(address: str, name: str) -> None:
    """After a success: this name's count is gone, and the address gets its one attempt back."""
    with connection().pipeline() as pipe:
        pipe.delete(_key("name", address, name.casefold()))
        pipe.decr(_key("address", address))
        pipe.execute()


def _key(kind: str, *parts: str) -> str:
    """Hashed: what people type into a name field is sometimes a password."""
    return key("sign-in", kind, hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32])
