"""``kill -9`` at any point leaves exactly one row for every admitted request, and no slot taken."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import pytest
import redis
from django.db import connection

from accounts.leases import slots_key
from ops.drain import drain_records, reap_lost
from ops.models import RequestRecord
from ops.record import Record, encode
from ops.recorder import RECORDS, alive_key

ROOT = Path(__file__).parents[2]

# Serves requests as fast as it can, a few at a time, and tells of each that got a slot.
GATEWAY = """
import asyncio, os, random, sys
from accounts.compile import AccountKind, AccountView, Transport
from accounts.leases import Lease
from core.redis_pipe import Pipe
from gateway.ledger import Ledger
from ops.record import Record

ACCOUNTS = [AccountView(n, f"a{n}", AccountKind.CURSOR, Transport.AGENT_RPC, "http://127.0.0.1:1", frozenset(), n,
                        slots=4) for n in (1, 2, 3)]

async def serve(ledger, lane):
    for number in range(100_000):
        entry = ledger.admit(Record(request_id=f"{lane}-{number}", started_at=1.0, protocol="chat", endpoint="/"))
        try:
            lease = await entry.take(ACCOUNTS, "m")
            if isinstance(lease, Lease):
                os.write(1, f"{lane}-{number}\\n".encode())
            await asyncio.sleep(random.random() / 200 if lane else 60)  # the first lane is a long stream
            entry.record.outcome = "ok"
        finally:
            await entry.close()

async def main():
    ledger = Ledger(await Pipe.connect(sys.argv[1]), "victim")
    await ledger.start()
    await asyncio.gather(*[serve(ledger, lane) for lane in range(8)])

asyncio.run(main())
"""

# Drains, and is killed by itself after the insert and before the entries leave the stream.
DRAIN = """
import os, signal, sys
import django
django.setup()
import redis
from core.stream import Inbox
from ops.drain import drain_records

Inbox.settle = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
drain_records(redis.Redis.from_url(sys.argv[1]))
"""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("after", [0.3, 0.45, 0.6])
def test_a_gateway_killed_in_the_middle_leaves_one_row_for_every_request(redis_url: str, after: float) -> None:
    gateway = subprocess.Popen([sys.executable, "-c", GATEWAY, redis_url], cwd=ROOT, stdout=subprocess.PIPE)
    assert gateway.stdout is not None
    first = gateway.stdout.readline()
    time.sleep(after)
    gateway.send_signal(signal.SIGKILL)
    served = (first + gateway.stdout.read()).decode().split()
    gateway.stdout.close()
    gateway.wait()
    assert len(served) > 20
    with redis.Redis.from_url(redis_url) as client:
        assert reap_lost(client) == 0  # it is not known to be gone yet
        client.delete(alive_key("victim"))  # its life runs out
        lost = reap_lost(client)
        while drain_records(client):
            pass
        assert [client.zcard(slots_key(number)) for number in (1, 2, 3)] == [0, 0, 0]
    outcomes = dict(RequestRecord.objects.values_list("request_id", "outcome"))
    assert set(served) <= set(outcomes)
    assert Counter(outcomes.values())["lost"] == lost
    assert 1 <= lost <= 8


@pytest.mark.django_db(transaction=True)
def test_a_drain_killed_between_the_insert_and_the_end_makes_no_second_row(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        for number in range(50):
            item = Record(request_id=f"r{number}", started_at=1.0, protocol="chat", endpoint="/", outcome="ok")
            client.xadd(RECORDS, {"record": encode(item)})
        killed = subprocess.run(
            [sys.executable, "-c", DRAIN, redis_url], cwd=ROOT, env=os.environ | {"DATABASE_URL": _test_database()},
            check=False,
        )  # fmt: skip
        assert killed.returncode == -signal.SIGKILL
        assert RequestRecord.objects.count() == 50
        assert client.xlen(RECORDS) == 50
        assert drain_records(client, claim_after=0) == 50
        assert client.xlen(RECORDS) == 0
    assert RequestRecord.objects.count() == 50


def _test_database() -> str:
    database = connection.settings_dict
    who = f"{quote(database['USER'])}:{quote(database['PASSWORD'])}"
    return f"postgresql://{who}@{database['HOST']}:{database['PORT']}/{database['NAME']}"
