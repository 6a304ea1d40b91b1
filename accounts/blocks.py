"""What blocks mean for accounts that were not blocked.

A block or an abuse notice stops its account until an admin has looked, and nothing is sent another way in its place.
When a second account that goes out the same way is blocked within a day, it may be the address that the upstream
objects to: then that way out is paused, with all accounts that use it, until an admin has woken one of the two.

The rows say what is paused; Redis holds a copy in the hash of troubles (``accounts.troubles``), where requests look.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from datetime import datetime, timedelta
from itertools import pairwise
from typing import cast

import redis

from accounts.compile import AccountState, way_out_of
from accounts.models import Account
from accounts.troubles import KEPT, PAUSED, TROUBLE, read_trouble
from ir.errors import Reason

log = logging.getLogger(__name__)

WITHIN = timedelta(days=1)


def paused_ways_out() -> set[str]:
    """The ways out (``AccountView.egress``) on which two accounts were blocked within a day, and are still."""
    blocked: defaultdict[str, list[datetime]] = defaultdict(list)
    rows = Account.objects.filter(state=AccountState.BLOCKED.value, state_reason=Reason.BLOCKED.value)
    for proxy_id, state_at in rows.order_by("state_at").values_list("proxy_id", "state_at"):
        blocked[way_out_of(proxy_id)].append(state_at)
    return {name for name, times in blocked.items() if any(second - one <= WITHIN for one, second in pairwise(times))}


def enforce(client: redis.Redis) -> set[str]:
    """Brings into force what the rows say. Returns the ways out that are paused now. Raises ``RedisError``."""
    paused = paused_ways_out()
    fields = cast("dict[bytes, bytes]", client.hgetall(TROUBLE))
    known = read_trouble(fields).paused
    for name in paused - known:
        log.error("ALARM way out %s is paused: two accounts that use it were blocked within a day", name)
    for name in known - paused:
        client.hdel(TROUBLE, PAUSED + name)
    if paused:
        client.hset(TROUBLE, mapping={PAUSED + name: 1 for name in paused})
        if client.pttl(TROUBLE) < KEPT * 1000:
            client.pexpire(TROUBLE, int(KEPT * 1000))
    return paused
