"""A browser for tests: headless Chromium over the W3C WebDriver protocol, as little of it as the tests need."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # https://www.w3.org/TR/webdriver2/#elements
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")


class Browser:
    """One session. ``script`` runs in the page and returns its value."""

    def __init__(self, driver_url: str, session: str) -> None:
        self._base = f"{driver_url}/session/{session}"

    def open(self, url: str) -> None:
        call(f"{self._base}/url", {"url": url})

    def script(self, source: str, *arguments: object) -> Any:
        return call(f"{self._base}/execute/sync", {"script": source, "args": list(arguments)})

    def type(self, selector: str, text: str) -> None:
        call(f"{self._base}/element/{self._find(selector)}/value", {"text": text})

    def click(self, selector: str) -> None:
        call(f"{self._base}/element/{self._find(selector)}/click", {})

    def resize(self, width: int, height: int) -> None:
        """Sets the size of the page itself, also below the smallest window."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._devtools("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        """``light`` or ``dark``, as the system's preference."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._devtools("Emulation.setEmulatedMedia", {"features": features})

    def wait(self, source: str, seconds: float = 10) -> Any:
        """Until the script returns something true."""
        return wait_until(lambda: self.script(source), source, seconds)

    def complaints(self) -> list[str]:
        """What the console holds of warnings and errors since the last call: blocked content, failed loads."""
        entries = call(f"{self._base}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in {"WARNING", "SEVERE"}]

    def screenshot(self) -> bytes:
        return base64.b64decode(call(f"{self._base}/screenshot"))

    def _devtools(self, command: str, parameters: dict[str, Any]) -> None:
        call(f"{self._base}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _find(self, selector: str) -> str:
        found = call(f"{self._base}/element", {"using": "css selector", "value": selector})
        return str(found[ELEMENT])


@contextmanager
def browser() -> Iterator[Browser]:
    """Starts the driver on a free port and one headless session; ends both."""
    assert DRIVER is not None
    process = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        with tempfile.TemporaryDirectory() as profile:
            url = f"http://127.0.0.1:{_read_port(process)}"
            session = call(f"{url}/session", {"capabilities": {"alwaysMatch": _capabilities(profile)}})["sessionId"]
            try:
                yield Browser(url, session)
            finally:
                call(f"{url}/session/{session}", method="DELETE")
    finally:
        process.terminate()
        process.wait(timeout=10)
        assert process.stdout is not None
        process.stdout.close()


def call(url: str, body: dict[str, Any] | None = None, method: str = "") -> Any:
    """One WebDriver command; raises ``AssertionError`` with the driver's message."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method or None)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)["value"]
    except urllib.error.HTTPError as error:
        with error:
            raise AssertionError(json.load(error)["value"]["message"].split("\n")[0]) from None


def wait_until(check: Callable[[], Any], what: str, seconds: float) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := check():
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")


def _read_port(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"started successfully on port (\d+)", line):
            return int(found[1])
    raise AssertionError("chromedriver did not start")


def _capabilities(profile: str) -> dict[str, Any]:
    arguments = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--no-first-run",
        "--disable-background-networking",
        f"--user-data-dir={profile}",
    ]
    return {
        "browserName": "chrome",
        "goog:chromeOptions": {"binary": CHROMIUM, "args": arguments},
        "goog:loggingPrefs": {"browser": "ALL"},
    }
