from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client, override_settings

from panel.checks import check_cookies
from tenants.models import Team
from tests.unit.panel.conftest import make_record, make_user, signed_in

STATIC = Path(settings.BASE_DIR) / "static"
TEMPLATES = sorted((Path(settings.BASE_DIR) / "templates").rglob("*.html"))
PAGES = (
    "/",
    "/requests",
    "/requests/req-1",
    "/accounts",
    "/keys",
    "/keys/new",
    "/settings",
    "/settings/history",
    "/password",
    "/nowhere",
    "/requests/unknown",
)


def directives(policy: str) -> dict[str, list[str]]:
    return {words[0]: words[1:] for words in (part.split() for part in policy.split(";")) if words}


def test_every_page_carries_the_strict_policy_and_its_companions(owner: User, red: Team) -> None:
    make_record("req-1", red.pk)
    client = signed_in(owner)

    for response in [*(client.get(page) for page in PAGES), Client().get("/sign-in")]:
        policy = directives(response.headers["Content-Security-Policy"])
        assert policy["default-src"] == ["'self'"]
        assert policy["frame-ancestors"] == policy["base-uri"] == policy["object-src"] == ["'none'"]
        assert not any("unsafe" in word or word.startswith("http") for words in policy.values() for word in words)
        assert response.headers["X-Frame-Options"] == "DENY"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "same-origin"
        assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_holds_inline_script_style_or_handler(template: Path) -> None:
    text = template.read_text()

    assert not re.findall(r"<script(?![^>]*\bsrc=)", text)
    assert not re.findall(r"<style|\sstyle=|\son[a-z]+=|javascript:|hx-on|hx-vals=.js|\|safe", text)
    assert not re.findall(r"(?:src|href)=[\"']?(?:https?:)?//", text)


def test_every_icon_that_a_template_or_page_names_is_in_the_sprite() -> None:
    sprite = (STATIC / "vendor/icons/icons.svg").read_text()
    there = set(re.findall(r'<symbol id="([^"]+)"', sprite))
    text = "\n".join(path.read_text() for path in TEMPLATES)
    named = set(re.findall(r'{% icon "([^"]+)" %}', text)) | set(re.findall(r'picture="([^"]+)"', text))
    from panel.context import NAVIGATION

    named |= {entry.icon for entry in NAVIGATION}

    assert named == there


def test_vendored_files_are_the_pinned_ones_and_nothing_else_lies_there() -> None:
    vendor = STATIC / "vendor"
    files = json.loads((vendor / "manifest.json").read_text())["files"]
    present = {str(path.relative_to(vendor)) for path in vendor.rglob("*") if path.is_file()}
    present = {name for name in present if "__pycache__" not in name}

    assert present == set(files) | {"manifest.json", "fetch.py"}
    for name, entry in files.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == entry["sha256"], name


def test_assets_are_served_without_a_web_server_in_front_and_nothing_beside_them(db: None) -> None:
    response = Client().get("/static/vendor/tabler/tabler.min.css")

    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/css")
    assert "Access-Control-Allow-Origin" not in response.headers
    assert Client().get("/static/../config/settings.py").status_code == 404


@pytest.mark.parametrize(
    ("hosts", "secure", "complains"),
    [
        (["localhost", "127.0.0.1", "[::1]"], False, False),
        (["pool.example.org"], False, True),
        (["*"], False, True),
        (["pool.example.org"], True, False),
    ],
)
def test_cookies_without_tls_are_for_loopback_only(hosts: list[str], secure: bool, complains: bool) -> None:
    with override_settings(ALLOWED_HOSTS=hosts, SESSION_COOKIE_SECURE=secure, CSRF_COOKIE_SECURE=secure):
        assert bool(check_cookies()) is complains


def test_cookies_are_out_of_reach_of_scripts_and_other_sites(red: Team) -> None:
    make_user("ann", red)
    client = Client()
    client.get("/sign-in")
    client.post("/sign-in", {"username": "ann", "password": "correct-horse-battery"})

    for name in (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME):
        cookie = client.cookies[name]
        assert cookie["httponly"]
        assert cookie["samesite"] == "Lax"
