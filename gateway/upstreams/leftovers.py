"""Agents that must not stay behind.

Every agent is on the list in Redis from before it is made until it is deleted, with the time from which nobody else
looks after it any more. So whatever dies, the request, a deletion or the whole process, a job finds the agent and
deletes it with its account's key. After a week an agent that cannot be deleted is given up, with a word in the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from accounts.compile import AccountView, Transport
from accounts.credentials import open_key
from core.outbound import Broken, Outbound, Refused
from core.redis_pipe import Pipe
from ir.errors import Fault

log = logging.getLogger(__name__)

LIST = "poolgate:cloud-agents"
"""A hash: agent id → ``account id:Unix seconds from which it is a leftover``."""

WEEK = 7 * 86_400.0
LATER = 60.0
"""Seconds for a creation whose answer never came to have been finished upstream."""


class Leftovers:
    """The list, for one process. Writing never waits and never fails: a list that cannot be written is a worse sweep,
    not a failed request. ``now`` gives Unix seconds."""

    def __init__(self, pipe: Pipe, *, now: Callable[[], float] = time.time) -> None:
        self._pipe = pipe
        self._now = now

    def note(self, agent: str, account_id: int, life: float) -> None:
        """The agent is about to be made; its request looks after it for ``life`` seconds at most."""
        self._write(agent, account_id, self._now() + life)

    def give_up(self, agent: str, account_id: int, after: float = 0.0) -> None:
        """The agent could not be deleted: from ``after`` seconds on it is the sweep's."""
        self._write(agent, account_id, self._now() + after)

    def forget(self, agent: str) -> None:
        """The agent is gone."""
        self._pipe.send("HDEL", LIST, agent)

    def _write(self, agent: str, account_id: int, due: float) -> None:
        self._pipe.send("HSET", LIST, agent, f"{account_id}:{int(due)}")


async def sweep(pipe: Pipe, accounts: Iterable[AccountView], sealed: Mapping[int, bytes], now: float) -> int:
    """Deletes what is due. Returns how many agents left the list. Raises ``PipeDown``."""
    known = {account.id: account for account in accounts}
    listed = await pipe.call("HGETALL", LIST)
    pairs = zip(listed[::2], listed[1::2], strict=True)
    gone = 0
    for agent, value in ((name.decode(), kept.decode()) for name, kept in pairs):
        account_id, _, due = value.partition(":")
        if int(due) > now:
            continue
        account = known.get(int(account_id))
        deleted = account is None or await _delete(account, sealed, agent)
        if not deleted and now - int(due) > WEEK:
            log.warning("account %s: an agent could not be deleted for a week and is given up", account_id)
            deleted = True
        if deleted:
            await pipe.call("HDEL", LIST, agent)
            gone += 1
    return gone


async def _delete(account: AccountView, sealed: Mapping[int, bytes], agent: str) -> bool:
    if account.credential_id not in sealed:
        return False
    url = f"{account.address(Transport.CLOUD_AGENTS)}/v1/agents/{agent}"
    try:
        headers = {"authorization": f"Bearer {open_key(sealed[account.credential_id])}"}
        async with Outbound(proxy_url=account.proxy_url) as outbound:
            reply = await outbound.call("DELETE", url, headers=headers)
    except (Broken, Refused, Fault) as error:
        log.warning("account %d: an agent is still not deleted (%s)", account.id, type(error).__name__)
        return False
    return reply.status < 300 or reply.status == 404
