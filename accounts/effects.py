"""What faults did to accounts, from the Redis stream into rows: cooldowns that survive Redis, and changes of state.

Safe to do twice, and an admin has the last word: only a ready account changes state; a fault that would change it, but
is older than the last change or met a credential that was replaced, does nothing and its rest is taken back; and a
cooldown that was cleared meanwhile is not written down.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import cast

import redis
from django.db import transaction
from django.utils import timezone
from msgspec import Struct

from accounts import cooldowns
from accounts.compile import AccountState
from accounts.cooldowns import EFFECTS, Resting
from accounts.leases import cooldowns_key
from accounts.models import Account, Cooldown
from accounts.pool import WHOLE
from accounts.verbs import set_state
from core.stream import CLAIM_AFTER, Entry, Inbox
from ir.errors import Reason

log = logging.getLogger(__name__)

BATCH = 200
KEPT_AFTER_END = timedelta(days=1)


class Effect(Struct, frozen=True):
    """``model`` "" is the whole account; ``until`` and ``at`` (when it happened) in Unix seconds; ``state`` None: it
    stays as it is."""

    account_id: int
    credential_id: int
    model: str
    until: float
    reason: Reason
    state: AccountState | None = None
    at: float = math.inf


def read(fields: Mapping[bytes, bytes], at: float = math.inf) -> Effect:
    """Raises ``KeyError`` or ``ValueError`` for what is no effect."""
    state = fields[b"state"].decode()
    return Effect(
        account_id=int(fields[b"account"]),
        credential_id=int(fields[b"credential"]),
        model=fields[b"model"].decode(),
        until=float(fields[b"until"]) / 1000,
        reason=Reason(fields[b"reason"].decode()),
        state=AccountState(state) if state else None,
        at=at,
    )


def apply_effects(client: redis.Redis, *, claim_after: float = CLAIM_AFTER) -> int:
    """Writes what is on the stream down. Returns how many entries left it. Raises ``RedisError``, ``DatabaseError``."""
    inbox = Inbox(client, EFFECTS, claim_after=claim_after)
    entries = inbox.read(BATCH)
    dead: set[bytes] = set()
    for entry in entries:
        effect = _effect(entry)
        if effect is None:
            dead.add(entry.id)
        else:
            apply(client, effect)
    inbox.settle(entries, dead)
    return len(entries)


@transaction.atomic
def apply(client: redis.Redis, effect: Effect) -> None:
    """Writes one effect down, if its account still is what it was."""
    account = Account.objects.select_for_update().filter(pk=effect.account_id).first()
    if account is None:
        return
    if effect.state is not None and _is_repaired(account, effect):
        _take_back(client, effect)
        return
    if _still_rests(client, effect):
        _write_cooldown(account, effect)
    if effect.state is not None and account.state == AccountState.READY:
        at = min(datetime.fromtimestamp(effect.at, UTC), timezone.now()) if math.isfinite(effect.at) else None
        set_state(account, effect.state, effect.reason.value, at=at)
        if effect.state is AccountState.BLOCKED:
            log.error("ALARM account %d is blocked (%s): an admin has to look", account.pk, effect.reason)


def restore_cooldowns(client: redis.Redis) -> int:
    """Brings the rows' cooldowns back into a Redis that forgot them, drops rows long over. Returns how many rest."""
    now = timezone.now()
    Cooldown.objects.filter(until__lt=now - KEPT_AFTER_END).delete()
    rows = Cooldown.objects.values_list("account_id", "model", "until")
    resting = (Resting(account_id, model, until.timestamp()) for account_id, model, until in rows)
    return cooldowns.restore(client, resting, now.timestamp())


def _effect(entry: Entry) -> Effect | None:
    try:
        return read(entry.fields, int(entry.id.split(b"-")[0]) / 1000)
    except (KeyError, ValueError):
        return None


def _still_rests(client: redis.Redis, effect: Effect) -> bool:
    until = cast("bytes | None", client.hget(cooldowns_key(effect.account_id), effect.model or WHOLE))
    return until is not None and float(until) / 1000 >= effect.until


def _write_cooldown(account: Account, effect: Effect) -> None:
    until = datetime.fromtimestamp(effect.until, UTC)
    row, created = Cooldown.objects.get_or_create(
        account=account, model=effect.model, defaults={"until": until, "reason": effect.reason.value}
    )
    if not created and row.until < until:
        row.until, row.reason, row.created_at = until, effect.reason.value, timezone.now()
        row.save(update_fields=["until", "reason", "created_at"])


def _is_repaired(account: Account, effect: Effect) -> bool:
    """Whether the credential was replaced, or the state set, after what the effect tells of."""
    credential = getattr(account, "credential", None)
    return credential is None or credential.pk != effect.credential_id or effect.at < _whole_ms(account.state_at)


def _whole_ms(at: datetime) -> float:
    """Unix seconds, as exact as the time of an effect."""
    return int(at.timestamp() * 1000) / 1000


def _take_back(client: redis.Redis, effect: Effect) -> None:
    """Ends the rest that went with a change of state which is not made, unless it is another's by now."""
    key, field = cooldowns_key(effect.account_id), effect.model or WHOLE
    until = cast("bytes | None", client.hget(key, field))
    if until is not None and float(until) / 1000 == effect.until:
        client.hdel(key, field)
