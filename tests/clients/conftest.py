"""The real command-line clients, installed from npm once for each set of pinned versions, outside of the repository."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.command import Command
from tests.plugins.house import House

PACKAGES = Path(__file__).with_name("package.json")
INSTALL_SECONDS = 400
BINARIES = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "opencode": "opencode-ai",
}
Installed = Callable[[str], Path]


@pytest.fixture(scope="session")
def installed() -> Installed:
    """Gives the path of a client; skips the test, with the reason, where it cannot be had or does not run."""
    problem = _install()
    versions = json.loads(PACKAGES.read_text())["dependencies"]

    def find(name: str) -> Path:
        path = _folder() / "node_modules" / ".bin" / name
        if problem or not path.exists():
            pytest.skip(f"{BINARIES[name]} could not be installed: {problem or 'npm brought no such command'}")
        seen = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
        if versions[BINARIES[name]] not in seen.stdout:
            pytest.skip(f"{BINARIES[name]} does not run here: {(seen.stderr or seen.stdout).strip()[:200]}")
        return path

    return find


def _folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "poolgate-clients" / hashlib.sha256(PACKAGES.read_bytes()).hexdigest()[:12]


def _install() -> str:
    """What went wrong; empty when everything is there."""
    npm = shutil.which("npm")
    if npm is None:
        return "there is no npm"
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "done").exists():
            return ""
        shutil.copy(PACKAGES, folder)
        command = [npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return f"npm took longer than {INSTALL_SECONDS} s"
        if done.returncode != 0:
            return done.stderr.strip()[-300:]
        (folder / "done").touch()
        return ""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Where a client works; its home is beside it."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return workspace


@pytest.fixture
def command(workspace: Path) -> Command:
    return Command(workspace, workspace.with_name("home"))


@pytest.fixture
def picture(workspace: Path) -> Path:
    """A picture of 8 by 8 blue pixels in the workspace."""
    pixels = zlib.compress(b"".join(b"\0" + b"\x10\x80\xff" * 8 for _ in range(8)))
    parts = [(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)), (b"IDAT", pixels), (b"IEND", b"")]
    path = workspace / "blue.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts))
    return path


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@pytest.fixture
def described(picture: Path) -> str:
    """What the model ``sim-image`` says of the picture."""
    data = picture.read_bytes()
    return f"image/png {len(data)} {hashlib.sha256(data).hexdigest()}"


@pytest.fixture
def forms_key(house: House) -> str:
    """A key that emulates answers by a schema."""
    words = ("--team", "demo", "--name", "coder", "--structured-output", "emulate", "--fallback-model", "default")
    return house.manage("issue_key", *words).strip()
