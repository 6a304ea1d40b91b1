from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest
import redis
from django.conf import LazySettings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from accounts import proxies, verbs
from accounts.compile import AccountKind, AccountState, AccountView, Transport, compile_account
from accounts.knowledge import note_served
from accounts.models import Account, Proxy
from accounts.proxies import CHECKS, Check
from accounts.troubles import TROUBLE
from core.invalid import InvalidValue
from core.models import AuditEntry
from core.redis_pipe import Pipe
from tests.unit.accounts.ways_out import Way, answering, serving


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def proxy(db: None, client: redis.Redis) -> Proxy:
    return proxies.create_proxy("hop", "http://proxy.internal:3128", user="me", password="canary p@ss")


@pytest.fixture
def account(settings: LazySettings, proxy: Proxy) -> Account:
    settings.POOLGATE_UPSTREAM_HOSTS = ["127.0.0.1"]
    return verbs.create_cursor_account("alpha", "crsr_sim_alpha", "http://127.0.0.1:1", proxy=proxy)


def test_the_data_plane_gets_the_whole_address_and_nobody_sees_the_password(account: Account, proxy: Proxy) -> None:
    view = compile_account(account)
    assert view.proxy_url == "http://me:canary%20p%40ss@proxy.internal:3128"
    assert (view.proxy_id, view.egress) == (proxy.pk, str(proxy.pk))
    assert b"canary" not in bytes(proxy.sealed or b"")
    assert "canary" not in repr(view)
    assert "canary" not in str(AuditEntry.objects.get(verb="proxy.create").after)


def test_an_account_whose_proxy_is_off_or_cannot_be_opened_is_out_of_use_and_never_goes_directly(
    account: Account, proxy: Proxy
) -> None:
    proxies.edit_proxy(proxy, enabled=False)
    view = compile_account(Account.objects.get())
    assert (view.state, view.proxy_url, view.egress) == (AccountState.DISABLED, "", str(proxy.pk))
    proxies.edit_proxy(proxy, enabled=True)
    Proxy.objects.update(sealed=b"00000000:by a key that is gone")
    assert compile_account(Account.objects.get()).state is AccountState.DISABLED


@pytest.mark.parametrize(
    "url", ["", "proxy:3128", "ftp://proxy:21", "http://user:pw@proxy", "socks5://proxy:1080/path", "http://p:x"]
)
def test_what_is_no_address_of_a_proxy_is_refused(url: str, db: None) -> None:
    with pytest.raises(InvalidValue) as refused:
        proxies.create_proxy("hop", url)
    assert refused.value.field == "url"
    assert not Proxy.objects.exists()


def test_a_password_without_a_name_is_refused(proxy: Proxy) -> None:
    with pytest.raises(InvalidValue):
        proxies.edit_proxy(proxy, user="", password="x")
    proxies.edit_proxy(proxy, user="")
    assert (proxy.user, proxy.sealed) == ("", None)


@pytest.mark.parametrize(
    ("change", "rests"),
    [({"notes": "slow"}, True), ({"url": "http://proxy.internal:3129"}, False), ({"user": "you"}, False)],
)
def test_a_proxy_that_leads_elsewhere_now_rests_no_more(
    proxy: Proxy,
    client: redis.Redis,
    change: dict[str, Any],
    rests: bool,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    client.hset(TROUBLE, f"egress|{proxy.pk}", int(time.time() * 1000) + 600_000)
    with django_capture_on_commit_callbacks(execute=True):
        proxies.edit_proxy(proxy, **change)
    assert client.hexists(TROUBLE, f"egress|{proxy.pk}") == rests


def test_a_proxy_that_accounts_go_through_is_not_deleted(account: Account, proxy: Proxy) -> None:
    with pytest.raises(InvalidValue, match="alpha"):
        proxies.delete_proxy(proxy)
    proxies.set_account_proxy(account, None)
    assert compile_account(account).egress == "direct"
    proxies.delete_proxy(proxy)
    verbs_seen = set(AuditEntry.objects.values_list("verb", flat=True))
    assert {"proxy.create", "account.set_proxy", "proxy.delete"} <= verbs_seen


def test_the_same_address_is_the_same_proxy(db: None, client: redis.Redis) -> None:
    first = proxies.find_or_create("socks5://127.0.0.1:1080")
    assert proxies.find_or_create("socks5://127.0.0.1:1080/") == first
    assert (first.name, Proxy.objects.count()) == ("127.0.0.1:1080", 1)


def test_a_list_tells_what_rests_what_failed_and_what_works(
    account: Account, proxy: Proxy, client: redis.Redis
) -> None:
    def condition() -> str:
        (line,) = proxies.list_proxies(client, timezone.now())
        assert line.accounts == 1
        return line.condition

    assert condition() == "unknown"
    client.hset(CHECKS, str(proxy.pk), msgspec.json.encode(Check(time.time(), 5, "connect")))
    assert condition() == "failing"
    client.hset(CHECKS, str(proxy.pk), msgspec.json.encode(Check(time.time(), 5)))
    assert condition() == "working"
    until = timezone.now() + timedelta(minutes=10)
    client.hset(TROUBLE, f"egress|{proxy.pk}", str(int(until.timestamp() * 1000)))
    assert condition() == "resting"
    proxies.edit_proxy(proxy, enabled=False)
    assert condition() == "disabled"


def view(url: str, way: Way | None = None, number: int = 0, **fields: object) -> AccountView:
    account = AccountView(
        1, "a", AccountKind.CURSOR, Transport.AGENT_RPC, url, frozenset(), 1,
        proxy_url=way.url if way else "", proxy_id=number,
    )  # fmt: skip
    return msgspec.structs.replace(account, **fields)


@pytest.mark.parametrize("scheme", ["http", "socks5"])
@pytest.mark.parametrize("named", [False, True])
async def test_the_control_plane_goes_through_the_proxy_and_signs_in_there(scheme: str, named: bool) -> None:
    way = Way(scheme, named=named)
    async with answering() as upstream, serving(way):
        if named:
            way.url = way.url.replace("://", "://me:p%40ss@")
        found = await proxies.ask(view(upstream, way, 1))
    assert found.code == ""
    assert way.asked == [upstream.removeprefix("http://")]
    assert [b"me:p@ss" in told or b"bWU6cEBzcw==" in told for told in way.signed_in] == ([True] if named else [])


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (b"403 Forbidden", b"text/html", "403"),
        (b"403 Forbidden", b"application/json", ""),
        (b"404 Not Found", b"text/html", ""),
        (b"502 Bad Gateway", b"text/html", "502"),
    ],
)
async def test_any_answer_will_do_but_a_refusal_by_something_in_between(status: bytes, kind: bytes, code: str) -> None:
    async with answering(status, kind) as upstream:
        assert (await proxies.ask(view(upstream))).code == code


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("scheme", ["http", "socks5", "https"])
async def test_a_proxy_that_talks_nonsense_or_is_not_there_is_a_way_out_that_fails(scheme: str) -> None:
    async with answering(b"200 OK") as nonsense:
        way = Way(scheme)
        for address in (nonsense, "http://127.0.0.1:1"):
            way.url = address.replace("http", scheme, 1)
            found = await proxies.ask(view("http://127.0.0.1:2", way, 1))
            assert (found.code != "") is (scheme != "http" or address != nonsense)
    gc.collect()  # the client library forgets the socket of a SOCKS proxy that talks nonsense: not in another test


async def test_a_resting_way_out_that_answers_rests_no_more_and_a_dead_one_goes_on_resting(
    pipe: Pipe, client: redis.Redis
) -> None:
    until = str(int((time.time() + 600) * 1000))
    client.hset(TROUBLE, mapping={"egress|1": until, "egress|2": until, "circuit|x": "{}"})
    good, dead = Way("http"), Way("socks5")
    dead.url = "socks5://127.0.0.1:1"
    async with answering() as upstream, serving(good):
        accounts = [view(upstream, good, 1), view(upstream, dead, 2)]
        assert await proxies.check(pipe, accounts) == {"asked": 2, "failed": 1, "back": 1}
        assert sorted(client.hkeys(TROUBLE)) == [b"circuit|x", b"egress|2"]
        assert await proxies.check(pipe, accounts) == {"asked": 1, "failed": 1, "back": 0}
        assert await proxies.check(pipe, accounts, everything=True) == {"asked": 2, "failed": 1, "back": 0}


async def test_a_way_out_that_traffic_proves_is_not_looked_at_unless_it_rests(pipe: Pipe, client: redis.Redis) -> None:
    async with answering() as upstream:
        accounts = [view(upstream)]
        await note_served(pipe, [1], time.time() - 30)
        assert (await proxies.check(pipe, accounts, proven_for=60))["asked"] == 0
        assert (await proxies.check(pipe, accounts, proven_for=10))["asked"] == 1
        client.hset(TROUBLE, "egress|direct", str(int((time.time() + 600) * 1000)))
        assert (await proxies.check(pipe, accounts, proven_for=60))["back"] == 1


def test_proxies_are_added_listed_and_switched_off_by_command(
    db: None, client: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("proxies", "add", "hop", "http://127.0.0.1:3128")
    call_command("proxies", "disable", "hop")
    assert "hop  http://127.0.0.1:3128  disabled  0 accounts" in capsys.readouterr().out
    with pytest.raises(CommandError, match="no proxy named"):
        call_command("proxies", "remove", "other")
    call_command("proxies", "remove", "hop")
    assert not Proxy.objects.exists()
