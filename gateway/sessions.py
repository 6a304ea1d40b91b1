"""What an admin can do about conversations that are bound to accounts. Each verb leaves its row in the audit trail.

A conversation that was cleared is bound anew with its next turn, to whichever account is chosen then. Nothing is lost
but what its old account's upstream remembers. All raise ``RedisError``, and then nothing has been written down.
"""

from __future__ import annotations

from django.db import transaction

from accounts.models import Account
from core import audit, redis
from core.audit import SYSTEM, Actor
from core.invalid import InvalidValue
from gateway import affinity
from tenants.models import ApiKey


@transaction.atomic
def clear_account(account: Account, *, actor: Actor = SYSTEM) -> int:
    """Forgets every conversation that is bound to the account. How many there were."""
    count = affinity.clear(redis.connection(), account_id=account.pk)
    audit.record(actor, "account.clear_sessions", account, before={"sessions": count}, after={"sessions": 0})
    return count


@transaction.atomic
def clear_key(key: ApiKey, *, actor: Actor = SYSTEM) -> int:
    """Forgets every conversation of an API key. How many there were."""
    count = affinity.clear(redis.connection(), key_id=key.pk)
    audit.record(actor, "key.clear_sessions", key, before={"sessions": count}, after={"sessions": 0})
    return count


@transaction.atomic
def clear_session(name: str, *, actor: Actor = SYSTEM) -> int:
    """Forgets one conversation, by the name that traces show. How many there were: none or one. Raises
    ``InvalidValue`` for what is no name of one."""
    number, _, digest = name.partition("-")
    key = ApiKey.objects.filter(pk=number).first() if number.isdecimal() and len(number) < 10 and digest else None
    if key is None:
        raise InvalidValue("session", "is no conversation of any key; the page of a request shows its name.")
    count = affinity.clear(redis.connection(), name=name)
    audit.record(actor, "session.clear", key, before={"session": name, "bound": count}, after={"bound": 0})
    return count
