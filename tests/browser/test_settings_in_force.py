"""A knob turned on the settings page, in a real browser, changes what the API answers within a second."""

from __future__ import annotations

import time

import httpx2
import pytest

from tests.browser.webdriver import CHROMIUM, DRIVER, browser
from tests.plugins.house import House, eventually

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="Chromium and chromedriver are not installed"),
]
BODY = {"contents": [{"parts": [{"text": "Hi"}]}]}


def test_the_gemini_switch_is_in_force_within_a_second_without_a_restart(house: House) -> None:
    ready = house.instance.ready

    def ask() -> int:
        address = f"{house.url}/v1beta/models/sim-echo:generateContent"
        return httpx2.post(address, json=BODY, headers={"x-goog-api-key": house.key}, trust_env=False).status_code

    with browser() as chromium:
        chromium.open(ready["panel_url"])
        chromium.type("#username", ready["admin_user"])
        chromium.type("#password", ready["admin_password"])
        chromium.click("form button.btn-primary")
        chromium.wait("return location.pathname === '/'")
        for status in (200, 404):
            assert ask() != status
            chromium.open(f"{house.url}/settings")
            chromium.click("#gemini_native_enabled")
            chromium.click(".save-bar button")
            chromium.wait("return document.querySelector('ins')")
            chromium.script("document.querySelector('.card-footer button').click()")
            chromium.wait("return document.querySelector('.alert-success')")
            began = time.monotonic()
            assert eventually(lambda: ask() == status, 5)  # noqa: B023 (asked within this round)
            assert time.monotonic() - began < 1
