"""Ways out: proxies that accounts go through, and whether they work.

A proxy is an http, https or socks5 address; what it signs in with is sealed. An account whose proxy is switched off is
out of use: it never goes another way than its own. Two faults on a way out rest it for all (``accounts.troubles``); a
job then asks through it for something that costs nothing, and the first answer ends the rest.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec
import redis
from django.db import transaction
from django.db.models import Count
from msgspec import Struct

from accounts.compile import AccountKind, AccountView, check_proxy_address, compile_account
from accounts.knowledge import served_since
from accounts.models import Account, Proxy
from accounts.troubles import DIRECT, TROUBLE, clear_egress
from core import audit, publish
from core.audit import SYSTEM, Actor
from core.columns import check_columns
from core.encryption import seal
from core.invalid import InvalidValue
from core.jobs import Counts
from core.outbound import AllowList, Broken, Outbound, Refused
from core.redis import connection
from core.redis_pipe import Pipe

CHECKS = "poolgate:proxy-checks"
"""A hash: field = name of the way out, value = ``Check`` as JSON."""

EVERY = 600.0
"""Seconds between two looks at a way out that is not in trouble."""

TIMEOUT, AT_ONCE = 5.0, 5


class Check(Struct, frozen=True):
    """What came of asking through a way out. ``at``: Unix seconds; ``code`` "" when it worked."""

    at: float
    took_ms: int = 0
    code: str = ""


class Line(Struct, frozen=True):
    """A proxy as lists show it: off, resting, failing (at its last check), working, or unknown."""

    proxy: Proxy
    accounts: int
    resting_until: datetime | None = None
    check: Check | None = None

    @property
    def condition(self) -> str:
        if not self.proxy.enabled:
            return "disabled"
        if self.resting_until is not None:
            return "resting"
        if self.check is None:
            return "unknown"
        return "failing" if self.check.code else "working"

    @property
    def checked_at(self) -> datetime | None:
        return datetime.fromtimestamp(self.check.at, UTC) if self.check else None


_decode = msgspec.json.Decoder(Check).decode


@transaction.atomic
def create_proxy(
    name: str, url: str, *, user: str = "", password: str = "", notes: str = "", actor: Actor = SYSTEM
) -> Proxy:
    """A new way out. Raises ``InvalidValue``."""
    row = Proxy(name=name.strip(), url=url.strip().rstrip("/"), notes=notes)
    _sign_in(row, user, password)
    _check_and_save(row)
    audit.record(actor, "proxy.create", row, after=audit.state(row))
    return row


@transaction.atomic
def edit_proxy(
    proxy: Proxy, *, user: str | None = None, password: str = "", actor: Actor = SYSTEM, **columns: Any
) -> None:
    """Changes ``url``, ``enabled`` or ``notes``; a ``user`` replaces both name and password, "" takes them away.

    Where it leads elsewhere now, or is used again, it rests no more. Raises ``InvalidValue``, and ``TypeError`` for
    other columns. Running requests go on as they are.
    """
    if unknown := set(columns) - {"url", "enabled", "notes"}:
        raise TypeError(f"a proxy has no {', '.join(sorted(unknown))} to change")
    row = Proxy.objects.select_for_update().get(pk=proxy.pk)
    before = audit.state(row)
    for column, value in columns.items():
        setattr(row, column, value)
    if user is not None:
        _sign_in(row, user, password)
    _check_and_save(row)
    audit.record(actor, "proxy.edit", row, before=before, after=audit.state(row))
    if user is not None or set(columns) - {"notes"}:
        transaction.on_commit(lambda: clear_egress(connection(), str(row.pk)), robust=True)
    publish.bump()
    proxy.refresh_from_db()


@transaction.atomic
def delete_proxy(proxy: Proxy, *, actor: Actor = SYSTEM) -> None:
    """Raises ``InvalidValue`` while accounts go through it: they would go another way."""
    using = list(Account.objects.filter(proxy=proxy).values_list("name", flat=True))
    if using:
        raise InvalidValue("name", f"accounts go through it: {', '.join(using)}.")
    audit.record(actor, "proxy.delete", proxy, before=audit.state(proxy))
    proxy.delete()
    publish.bump()


@transaction.atomic
def set_account_proxy(account: Account, proxy: Proxy | None, *, actor: Actor = SYSTEM) -> None:
    """Which way the account goes from now on; None: directly. Running requests go on as they are."""
    row = Account.objects.select_for_update().get(pk=account.pk)
    if row.proxy_id == (proxy.pk if proxy else None):
        return
    before = audit.state(row)
    row.proxy = proxy
    compile_account(row)
    row.save(update_fields=["proxy"])
    audit.record(actor, "account.set_proxy", row, before=before, after=audit.state(row))
    publish.bump()
    account.refresh_from_db()


def find_or_create(url: str, *, actor: Actor = SYSTEM) -> Proxy:
    """The proxy of that address that wants no sign-in, named after its host when it is new. Raises ``InvalidValue``."""
    row = Proxy.objects.filter(url=url.rstrip("/"), sealed=None).first()
    return row or create_proxy(urlsplit(url).netloc[:64], url, actor=actor)


def list_proxies(client: redis.Redis, now: datetime) -> list[Line]:
    """Every proxy by name; one query and one round trip to Redis. Raises ``RedisError``."""
    rows = list(Proxy.objects.annotate(used_by=Count("accounts")))
    pipe = client.pipeline(transaction=False)
    pipe.hgetall(TROUBLE)
    pipe.hgetall(CHECKS)
    troubles, checks = pipe.execute()
    lines = []
    for row in rows:
        until = float(troubles.get(f"egress|{row.pk}".encode(), 0)) / 1000
        known = checks.get(str(row.pk).encode())
        resting = datetime.fromtimestamp(until, UTC) if until > now.timestamp() else None
        lines.append(Line(row, row.used_by, resting, _decode(known) if known else None))
    return lines


async def check(
    pipe: Pipe, accounts: Sequence[AccountView], *, everything: bool = False, proven_for: float = 0.0
) -> Counts:
    """Looks at each way out that rests, and now and then at the others, unless an account served through them in the
    last ``proven_for`` seconds; with ``everything`` at all. One that answers rests no more. Raises ``PipeDown``."""
    ways = _ways(accounts)
    served = await served_since(pipe, time.time() - proven_for)
    proven = {account.egress for account in accounts if account.id in served}
    troubles, checks = [_pairs(await pipe.call("HGETALL", key)) for key in (TROUBLE, CHECKS)]
    now = time.time()
    resting = {name for name in ways if float(troubles.get(f"egress|{name}", 0)) / 1000 > now}
    due = [
        name for name in ways
        if everything or name in resting
        or (name not in proven and (name not in checks or _decode(checks[name]).at < now - EVERY))
    ]  # fmt: skip
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> Check:
        async with gate:
            return await ask(ways[name])

    found = dict(zip(due, await asyncio.gather(*map(one, due)), strict=True))
    for name, result in found.items():
        await pipe.call("HSET", CHECKS, name, msgspec.json.encode(result))
    back = [name for name in resting if not found[name].code]
    for name in back:
        await pipe.call("HDEL", TROUBLE, f"egress|{name}")
    failed = sum(bool(result.code) for result in found.values())
    return {"asked": len(due), "failed": failed, "back": len(back)}


async def ask(account: AccountView) -> Check:
    """Whether the account's upstream can be reached by its way out. Any answer will do but a page of HTML that refuses:
    that is something in between."""
    began = time.monotonic()
    allowed = AllowList([urlsplit(account.base_url).netloc])
    try:
        async with Outbound(timeout=TIMEOUT, proxy_url=account.proxy_url, allowed=allowed) as outbound:
            reply = await outbound.call("GET", account.base_url + "/")
        refused = reply.status in (403, 407, 502, 503, 504)
        code = str(reply.status) if refused and "text/html" in reply.headers.get("content-type", "") else ""
    except Broken as broken:
        code = broken.kind
    except Refused:
        code = "refused"
    return Check(time.time(), round((time.monotonic() - began) * 1000), code)


def _ways(accounts: Iterable[AccountView]) -> dict[str, AccountView]:
    """By name of the way out, an account to ask for, a Cursor account where there is one: its address is known to
    answer."""
    ways: dict[str, AccountView] = {}
    for account in sorted(accounts, key=lambda one: one.kind is not AccountKind.CURSOR):
        if account.proxy_id or account.kind is AccountKind.CURSOR:
            ways.setdefault(account.egress, account)
    if DIRECT in ways:
        ways[DIRECT] = ways.pop(DIRECT)  # last: proxies are what is likely to fail
    return ways


def _pairs(found: Sequence[bytes]) -> Mapping[str, bytes]:
    return {field.decode(): value for field, value in zip(found[::2], found[1::2], strict=True)}


def _sign_in(row: Proxy, user: str, password: str) -> None:
    if any(len(text) > 255 or not text.isprintable() for text in (user, password)) or (password and not user):
        raise InvalidValue("user", "a user name and a password, of at most 255 visible characters each.")
    row.user = user
    row.sealed = seal(password) if user else None


def _check_and_save(row: Proxy) -> None:
    check_proxy_address(row.url)
    check_columns(row)
    row.save()
