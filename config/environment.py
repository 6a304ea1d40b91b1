"""Where this process finds its engines and secrets.

The environment wins. What it leaves out is looked up in the data dir, where ``manage.py up`` keeps what it made
itself: ``secrets.json`` (made once, mode 0600) and ``engines.json`` (addresses of the engines while they run). So
``manage.py issue_key`` in a second terminal talks to the same database as the server. Nothing found means empty,
never a default that works: ``manage.py preflight`` says what is missing.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from cryptography.fernet import Fernet
from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
SECRETS_FILE = "secrets.json"
ENGINES_FILE = "engines.json"
UP_FILE = "up.json"
"""In ``run``, while ``manage.py up`` runs: where the gateway and the simulator are."""

SECRETS: Mapping[str, str] = {
    "SECRET_KEY": "signs sessions and one-time links of the panel",
    "POOLGATE_KEY_PEPPER": "is mixed into the digest of every API key",
    "POOLGATE_ENCRYPTION_KEYS": "encrypts the credentials of accounts (Fernet keys, comma separated, newest first)",
    "POOLGATE_METRICS_TOKEN": "is the bearer token of /metrics",
}
ENGINES: Mapping[str, str] = {
    "DATABASE_URL": "the PostgreSQL database",
    "REDIS_URL": "Redis or Valkey",
}
EXAMPLE_WORDS = ("change-me", "changeme", "change_me", "example", "django-insecure", "your-", "placeholder")
SHORTEST_SECRET = 32


class Problem(Struct, frozen=True):
    """Something that keeps an installation from going live: what, and how to fix it."""

    what: str
    fix: str


def take_data_dir(argv: list[str]) -> list[str]:
    """``argv`` without ``--data-dir``, whose value becomes POOLGATE_DATA_DIR for this process and its children."""
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name != "--data-dir":
            rest.append(word)
            continue
        chosen = value if equals else next(words, "")
        if not chosen:
            raise SystemExit("--data-dir needs a directory.")
        os.environ["POOLGATE_DATA_DIR"] = str(Path(chosen).expanduser().resolve())
    return rest


def data_dir() -> Path:
    """The directory of this installation: POOLGATE_DATA_DIR, else ``var`` beside ``manage.py``."""
    return Path(os.environ.get("POOLGATE_DATA_DIR") or ROOT / "var")


def find(name: str) -> str:
    """The value of one of SECRETS or ENGINES: from the environment, else from the data dir, else ""."""
    value = os.environ.get(name, "").strip()
    if value:
        return value
    return str(read_json(data_dir() / (SECRETS_FILE if name in SECRETS else ENGINES_FILE)).get(name, ""))


def find_list(name: str) -> list[str]:
    """A comma separated variable as a list without empty items."""
    value = find(name) if name in SECRETS else os.environ.get(name, "")
    return [item.strip() for item in value.split(",") if item.strip()]


def upstream_hosts() -> list[str]:
    """POOLGATE_UPSTREAM_HOSTS; without it, in a second terminal, the simulator of the demo that runs here."""
    given = find_list("POOLGATE_UPSTREAM_HOSTS")
    simulator = read_json(data_dir() / "run" / UP_FILE).get("simulator_url") if not given else None
    return [urlsplit(simulator).netloc] if simulator else given


def make_secrets(directory: Path) -> dict[str, str]:
    """The secrets of an installation that looks after itself, made on first use; the environment's own win."""
    path = directory / SECRETS_FILE
    kept = read_json(path)
    fresh = {
        "SECRET_KEY": secrets.token_urlsafe(48),
        "POOLGATE_KEY_PEPPER": secrets.token_urlsafe(48),
        "POOLGATE_ENCRYPTION_KEYS": Fernet.generate_key().decode(),
        "POOLGATE_METRICS_TOKEN": secrets.token_urlsafe(32),
        "POSTGRES_PASSWORD": secrets.token_hex(24),
        "VALKEY_PASSWORD": secrets.token_hex(24),
    }
    if set(fresh) - set(kept):
        kept = fresh | kept
        write_json(path, kept)
    return kept | {name: os.environ[name] for name in SECRETS if os.environ.get(name)}


def secret_problems(values: Mapping[str, str]) -> list[Problem]:
    """Empty, short, shared and example secrets among ``values`` (name → value)."""
    problems: list[Problem] = []
    for name, purpose in SECRETS.items():
        value = values.get(name, "").strip()
        fix = f"Set {name} to a long random value, for example from: {_recipe(name)}"
        if not value:
            problems.append(Problem(f"{name} is empty; it {purpose}.", fix))
        elif any(word in value.lower() for word in EXAMPLE_WORDS):
            problems.append(Problem(f"{name} still holds an example value.", fix))
        elif len(value) < SHORTEST_SECRET:
            problems.append(Problem(f"{name} is shorter than {SHORTEST_SECRET} characters.", fix))
        elif name == "POOLGATE_ENCRYPTION_KEYS" and not all(map(_is_fernet_key, value.split(","))):
            problems.append(Problem(f"{name} holds something that is not a Fernet key.", fix))
    given = [value for name in SECRETS if (value := values.get(name, "").strip())]
    if len(set(given)) < len(given):
        problems.append(Problem("Two secrets have the same value.", "Give each of them a value of its own."))
    return problems


def parse_database_url(url: str) -> dict[str, Any]:
    """Django's settings for ``postgresql://user:password@host:port/name?option=value``.

    ``?host=`` names the directory of a Unix socket. Raises ``ValueError`` for another scheme.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("postgres", "postgresql"):
        raise ValueError("DATABASE_URL must begin with postgresql://")
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")) or "poolgate",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", "") or parts.hostname or "",
        "PORT": str(parts.port or ""),
        "OPTIONS": options,
        # Under ASGI each request has a context of its own: a connection that outlived it would never be used again.
        "CONN_MAX_AGE": 0,
    }


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file of the data dir; an absent file is an empty one."""
    try:
        value = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    return value if isinstance(value, dict) else {}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replaces a file whole, readable by its owner alone from the first byte."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(value, file, indent=2)
        file.write("\n")
    draft.replace(path)


def _recipe(name: str) -> str:
    if name == "POOLGATE_ENCRYPTION_KEYS":
        return 'python3 -c "import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())"'
    return 'python3 -c "import secrets; print(secrets.token_urlsafe(48))"'


def _is_fernet_key(text: str) -> bool:
    try:
        Fernet(text.strip())
    except ValueError:
        return False
    return True
