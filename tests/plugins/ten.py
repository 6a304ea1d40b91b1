"""A pool of ten: an installation whose ten accounts are the simulator's, for what shows only in a crowd."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psycopg
import redis
from msgspec import Struct

from config import environment
from tests.plugins import simulator
from tests.plugins.instance import Instance, clean_environment
from tests.plugins.simulator import Simulator

NAMES = tuple(f"acc{number}" for number in range(10))
TEAM = "crowd"
_MAKE = """
from core.audit import SYSTEM
from core.settings_store import set_setting
from accounts.catalogue import define_model
from accounts.groups import create_group
from accounts.verbs import create_cursor_account
from tenants.verbs import create_team, issue_key
team = create_team({team!r})
group = create_group({team!r}, teams=[team])
for name in {names!r}:
    create_cursor_account(name, "crsr_sim_" + name, {url!r}, [group], slots={slots})
define_model("sim-*")
for name, value in {knobs!r}.items():
    set_setting(name, value, SYSTEM)
print(issue_key(team, "crowd", "demo")[1])
"""
_JOIN = """
from accounts.models import Group
from tenants.verbs import create_team, issue_key
team = create_team({name!r})
Group.objects.get(name={group!r}).teams.add(team)
print(issue_key(team, {name!r}, "demo")[1])
"""


class Answer(Struct, frozen=True):
    """What a caller got. ``text`` is the whole answer, "" for an error; ``ended_at`` in Unix seconds."""

    model: str
    status: int
    code: str
    text: str
    seconds: float
    retry_after: str | None = None
    request_id: str = ""
    ended_at: float = 0.0


class Ten:
    """``accounts`` maps names to row ids."""

    def __init__(self, instance: Instance, fake: Simulator, key: str) -> None:
        self.instance = instance
        self.simulator = fake
        self.key = key
        self.url: str = instance.ready["base_url"]
        engines = environment.read_json(instance.data_dir / environment.ENGINES_FILE)
        self.redis: redis.Redis = redis.Redis.from_url(engines["REDIS_URL"], decode_responses=True)
        self.database = psycopg.connect(engines["DATABASE_URL"], autocommit=True)
        self.accounts: dict[str, int] = dict(self.database.execute("SELECT name, id FROM accounts_account").fetchall())

    def call(
        self, requests: Sequence[tuple[str, str]], at_once: int, *, key: str = "", apart: float = 0.0
    ) -> list[Answer]:
        """Asks for each (model, text), so many at once, one every ``apart`` seconds; in the order of ``requests``."""
        return asyncio.run(self._call(requests, at_once, key or self.key, apart))

    def call_and_leave(self, requests: Sequence[tuple[str, str]], after: float) -> None:
        """Asks, and hangs up on all of them after so many seconds."""

        async def leave() -> None:
            calls = asyncio.create_task(self._call(requests, len(requests), self.key, 0))
            await asyncio.sleep(after)
            calls.cancel()
            await asyncio.wait([calls])
            await asyncio.sleep(0.3)

        asyncio.run(leave())

    def add_team(self, name: str) -> str:
        """A key of another team, which may use the same accounts."""
        return _run(self.instance, _JOIN.format(name=name, group=TEAM), {})

    def reset(self) -> None:
        """Nothing ordered, nobody resting, nothing remembered."""
        self.simulator.reset()
        for pattern in ("cool", "strikes", "sticky", "refused", "egress"):
            for key in self.redis.keys(f"poolgate:{pattern}:*"):
                self.redis.delete(str(key))
        self.redis.delete("poolgate:trouble")
        self.redis.xtrim("poolgate:effects", maxlen=0)
        self.database.execute("DELETE FROM accounts_cooldown")
        self.redis.publish("poolgate:snapshot", str(self.redis.incr("poolgate:snapshot:version")))
        time.sleep(1.2)  # what a process believes of the trouble of others

    def states(self) -> dict[str, str]:
        return dict(self.database.execute("SELECT name, state FROM accounts_account").fetchall())

    def rests(self) -> set[tuple[str, str]]:
        """(account, model or ``*``) of everything that rests or has rested, held for a moment or not."""
        found = set()
        for name, number in self.accounts.items():
            for field in self.redis.hkeys(f"poolgate:cool:{number}"):
                found.add((name, str(field).rpartition("|")[2]))
        rows = self.database.execute("SELECT account_id, model FROM accounts_cooldown").fetchall()
        names = {number: name for name, number in self.accounts.items()}
        return found | {(names[number], model or "*") for number, model in rows}

    def served(self) -> Counter[str]:
        """Runs by account, of what the simulator still remembers."""
        return Counter(entry["account"] for entry in self.simulator.runs())

    async def _call(self, requests: Sequence[tuple[str, str]], at_once: int, key: str, apart: float) -> list[Answer]:
        gate = asyncio.Semaphore(at_once)
        limits = httpx2.Limits(max_connections=at_once, max_keepalive_connections=at_once)
        headers = {"authorization": f"Bearer {key}"}
        async with httpx2.AsyncClient(limits=limits, timeout=90, headers=headers) as web:

            async def one(place: int, model: str, text: str) -> Answer:
                await asyncio.sleep(place * apart)
                async with gate:
                    began = asyncio.get_running_loop().time()
                    body = {"model": model, "messages": [{"role": "user", "content": text}]}
                    answer = await web.post(f"{self.url}/v1/chat/completions", json=body)
                    return _read(model, answer, asyncio.get_running_loop().time() - began)

            return list(await asyncio.gather(*(one(place, *request) for place, request in enumerate(requests))))


def _read(model: str, answer: httpx2.Response, seconds: float) -> Answer:
    said, headers = answer.json(), answer.headers
    served = answer.status_code == 200
    return Answer(
        model=model,
        status=answer.status_code,
        code="" if served else said["error"]["code"],
        text=said["choices"][0]["message"]["content"] if served else "",
        seconds=seconds,
        retry_after=headers.get("retry-after"),
        request_id=headers["x-request-id"],
        ended_at=time.time(),
    )


@contextmanager
def pool_of_ten(folder: Path, *, slots: int = 3, workers: int = 1, **knobs: object) -> Iterator[Ten]:
    """Starts all of it, and stops it. ``knobs``: settings that differ from the defaults."""
    seed = folder / "seed.json"
    seed.write_text(json.dumps({"accounts": [{"name": name} for name in NAMES]}))
    process, url = simulator.start(folder, "--seed", str(seed))
    try:
        trusted = {"POOLGATE_UPSTREAM_HOSTS": urlsplit(url).netloc}
        with Instance(folder / "data", "--workers", str(workers), **trusted) as instance:
            fake = Simulator(url, {name: f"crsr_sim_{name}" for name in NAMES})
            program = _MAKE.format(team=TEAM, names=NAMES, url=url, slots=slots, knobs=knobs)
            ten = Ten(instance, fake, _run(instance, program, trusted))
            yield ten
            ten.redis.close()
            ten.database.close()
    finally:
        process.terminate()
        process.wait(timeout=10)


def _run(instance: Instance, program: str, trusted: dict[str, Any]) -> str:
    command = [sys.executable, "manage.py", "shell", "--no-imports", "-c", program]
    env = clean_environment(POOLGATE_DATA_DIR=str(instance.data_dir), **trusted)
    done = subprocess.run(
        command, cwd=environment.ROOT, env=env, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip().splitlines()[-1]
