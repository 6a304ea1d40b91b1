"""The panel in a real browser: what the content security policy, the live parts and the layout do there.

With ``POOLGATE_SCREENSHOTS`` set to a directory, the pictures of the documentation are written to it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from accounts.models import Account, CatalogueModel, Cooldown, Credential, Group
from core import settings_store
from core.audit import SYSTEM
from core.settings import Settings
from ops.models import RequestRecord
from ops.record import Attempt, Outcome
from tenants import keys
from tenants.models import ApiKey, Team
from tenants.verbs import change_password, create_owner, create_team, issue_key
from tests.browser.webdriver import CHROMIUM, DRIVER, Browser, browser
from tests.unit.panel.conftest import PASSWORD, make_record

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="Chromium and chromedriver are not installed"),
    pytest.mark.django_db(transaction=True),
]
MODELS = ("claude-sonnet-4.6", "claude-sonnet-4.6", "gpt-5.2", "composer-2.5", "claude-opus-4.6-thinking")
PAGES = (
    "/",
    "/requests",
    "/requests/req-0000",
    "/accounts",
    "/accounts/new/cursor",
    "/accounts/new/provider",
    "/jobs",
    "/jobs",
    "/keys",
    "/keys/new",
    "/settings",
    "/settings/history",
    "/password",
)


class LiveServer(Protocol):
    url: str


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as session:
        yield session


@pytest.fixture
def panel(live_server: LiveServer, redis_url: str, chromium: Browser) -> Browser:
    """A signed-in owner in front of a pool with some traffic."""
    create_owner(PASSWORD)
    change_password(User.objects.get(), PASSWORD, actor=SYSTEM)
    accounts = [make_account(name) for name in ("north", "south", "west")]
    CatalogueModel.objects.create(name="composer-2.5", upstream_id="composer-2.5")
    in_ten = timezone.now() + timedelta(minutes=10)
    Cooldown.objects.create(account=accounts[1], model="claude-opus-4.6", until=in_ten, reason="rate_limited")
    Account.objects.filter(name="west").update(state="needs_sign_in", state_reason="credential_refused")
    make_traffic([create_team(name) for name in ("Research", "Platform")], accounts)
    chromium.prefer("light")
    chromium.resize(1280, 900)
    chromium.open(f"{live_server.url}/sign-in")
    chromium.type("#username", "admin")
    chromium.type("#password", PASSWORD)
    chromium.click("form button.btn-primary")
    chromium.wait("return location.pathname === '/'")
    return chromium


def make_account(name: str) -> Account:
    row = Account.objects.create(
        name=name, kind="cursor", transport="agent_rpc", base_url="https://api2.cursor.sh", slots=3
    )
    Credential.objects.create(account=row, sealed=b"sealed", last_four="k3y" + name[0])
    row.groups.add(Group.objects.get_or_create(name="Main", slug="main")[0])
    return row


def make_traffic(teams: list[Team], accounts: list[Account]) -> None:
    """An hour of requests that looks like one: mostly served, a few of every other end."""
    dice = random.Random(7)
    issued = [issue_key(team, name)[0] for team, name in zip(teams, ("laptop", "nightly"), strict=True)]
    for number in range(240):
        key: ApiKey = dice.choice(issued)
        ends = [Outcome.OK] * 30 + [Outcome.CLIENT_ERROR, Outcome.REJECTED, Outcome.UPSTREAM_ERROR, Outcome.CLIENT_GONE]
        outcome = dice.choice(ends)
        first = dice.randint(280, 1900)
        protocol = dice.choice(["chat", "messages", "messages"])
        make_record(
            f"req-{number:04}",
            key.team_id,
            outcome,
            key_id=key.pk,
            started_at=timezone.now().timestamp() - 5 - number**1.49,
            protocol=protocol,
            endpoint="/v1/messages" if protocol == "messages" else "/v1/chat/completions",
            client="claude-cli" if protocol == "messages" else "openai-python",
            committed=outcome is Outcome.OK,
            finish="stop" if outcome is Outcome.OK else "",
            overhead_ms=2,
            request_bytes=dice.randint(4_000, 300_000),
            response_bytes=dice.randint(800, 40_000),
            message_count=dice.randint(1, 60),
            tool_count=dice.randint(0, 24),
            schema_bytes=dice.randint(0, 30_000),
            model=dice.choice(MODELS),
            stream=dice.random() < 0.8,
            code="" if outcome is Outcome.OK else outcome.value,
            first_token_ms=first if outcome is Outcome.OK else None,
            duration_ms=first + dice.randint(400, 14000),
            input_tokens=dice.randint(900, 60_000) if outcome is Outcome.OK else None,
            output_tokens=dice.randint(20, 2600) if outcome is Outcome.OK else None,
            attempts=(Attempt(dice.choice(accounts).pk, "agent_rpc", 2, first),),
        )


def test_no_page_makes_the_browser_complain(panel: Browser, live_server: LiveServer) -> None:
    panel.complaints()
    for scheme in ("light", "dark"):
        panel.prefer(scheme)
        for page in PAGES:
            panel.open(f"{live_server.url}{page}")
            panel.wait("return document.readyState === 'complete'")
            assert panel.script("return document.documentElement.dataset.bsTheme") == scheme
    panel.open(f"{live_server.url}/")
    panel.wait("return document.querySelector('.uplot canvas')")

    assert panel.complaints() == []


def test_the_description_of_the_api_is_drawn_without_a_complaint(panel: Browser, live_server: LiveServer) -> None:
    panel.complaints()
    panel.open(f"{live_server.url}/api/docs")

    panel.wait("return document.querySelector('#operations-default-panel_api_run_drill')")
    assert panel.complaints() == []


def test_the_browser_refuses_what_the_policy_forbids(panel: Browser) -> None:
    panel.complaints()
    panel.script("document.body.setAttribute('style', 'color: red')")
    panel.script(
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s)"
    )

    assert panel.script("return window.ran ?? null") is None
    assert len(panel.complaints()) == 2


def test_new_requests_appear_without_a_reload(panel: Browser) -> None:
    make_record("req-fresh", None, model="just-arrived")

    panel.wait("return document.querySelector('#pool-and-recent').textContent.includes('just-arrived')")


def test_the_page_says_when_it_is_no_longer_live(panel: Browser) -> None:
    panel.script("document.querySelector('#live').setAttribute('hx-get', '/nowhere'); htmx.process(document.body)")
    panel.script("htmx.ajax('GET', '/nowhere', '#live')")

    panel.wait("return !document.querySelector('[data-live-failed]').classList.contains('d-none')")


def test_a_chosen_theme_is_kept_over_the_preference(panel: Browser, live_server: LiveServer) -> None:
    panel.click("[data-theme-toggle]")
    panel.open(f"{live_server.url}/requests")

    assert panel.script("return document.documentElement.dataset.bsTheme") == "dark"
    panel.click("[data-theme-toggle]")
    panel.script("localStorage.clear()")


@pytest.mark.parametrize("page", PAGES)
def test_a_phone_needs_no_sideways_scrolling(panel: Browser, live_server: LiveServer, page: str) -> None:
    panel.resize(390, 844)
    panel.open(f"{live_server.url}{page}")

    assert panel.script("return document.documentElement.scrollWidth") <= 390


def test_every_control_has_a_name_and_every_page_its_landmarks(panel: Browser, live_server: LiveServer) -> None:
    for page in PAGES:
        panel.open(f"{live_server.url}{page}")
        nameless = panel.script(
            """return [...document.querySelectorAll("a, button, input:not([type=hidden]), select")].filter(
                 (e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length)).map((e) => e.outerHTML)"""
        )
        assert nameless == [], page
        landmarks = panel.script(
            "return ['main', 'nav', 'footer', 'h1'].map((name) => document.querySelectorAll(name).length > 0)"
        )
        assert landmarks == [True] * 4, page


def test_a_setting_is_changed_by_switch_and_number_after_a_look_at_the_difference(
    panel: Browser, live_server: LiveServer
) -> None:
    panel.open(f"{live_server.url}/settings")
    panel.click("#gemini_native_enabled")
    panel.script("document.querySelector('#max_images').value = 7")
    panel.click(".save-bar button")
    panel.wait("return document.querySelector('ins')")
    assert settings_store.current() == Settings()
    panel.click(".card-footer button")
    panel.wait("return document.querySelector('.alert-success')")

    assert settings_store.current() == Settings(gemini_native_enabled=True, max_images=7)
    assert panel.script("return document.querySelector('#gemini_native_enabled').checked")
    panel.script("document.querySelector('button[name=reset][value=max_images]').click()")
    panel.wait("return document.querySelector('ins')")
    panel.click(".card-footer button")
    panel.wait("return document.querySelector('.alert-success')")
    assert settings_store.current() == Settings(gemini_native_enabled=True)


def test_a_new_key_can_be_copied_and_is_gone_with_the_page(panel: Browser, live_server: LiveServer) -> None:
    panel.open(f"{live_server.url}/keys/new")
    panel.type("#id_name", "from the browser")
    panel.script("document.querySelector('form.form-narrow button.btn-primary').click()")
    text = panel.wait("return document.querySelector('#issued-key')?.textContent")
    assert keys.parse(text) is not None
    panel.click("[data-copy=issued-key]")
    panel.wait("return getSelection().toString() || document.querySelector('.copied')")
    panel.open(f"{live_server.url}/keys")
    assert text not in panel.script("return document.body.textContent")
    assert "from the browser" in panel.script("return document.body.textContent")


def test_pictures_for_the_documentation(panel: Browser, live_server: LiveServer) -> None:
    assert RequestRecord.objects.count() == 240
    panel.wait("return document.querySelector('.uplot canvas')")
    panel.resize(1280, 1250)
    panel.wait("return document.querySelector('.uplot canvas').clientWidth > 100")
    pictures = {"overview.png": panel.screenshot()}
    panel.prefer("dark")
    settings_store.set_setting("max_images", 7, SYSTEM)
    for name, page in {
        "requests-dark.png": "/requests",
        "request-dark.png": "/requests/req-0000",
        "settings-dark.png": "/settings",
        "keys-dark.png": "/keys",
        "key-dark.png": "/keys/new",
    }.items():
        panel.open(f"{live_server.url}{page}")
        pictures[name] = panel.screenshot()

    assert all(len(picture) > 10_000 for picture in pictures.values())
    if folder := os.environ.get("POOLGATE_SCREENSHOTS"):
        for name, picture in pictures.items():
            (Path(folder) / name).write_bytes(picture)
