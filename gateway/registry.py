"""What there is: the kinds of upstream, and the services that all requests of one process share."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping

from django.conf import settings as environment

from accounts.compile import Transport
from accounts.credentials import Bearers
from accounts.troubles import Troubles
from core.outbound import Outbound, allow_list, provider_hosts
from core.redis_pipe import Pipe
from gateway.contracts import Upstream
from gateway.ledger import Ledger
from gateway.pace import Pace
from gateway.parked import Parked
from gateway.rests import Rests
from gateway.retry_budget import RetryBudget
from gateway.snapshot import Snapshot, Snapshots, load
from gateway.upstreams.agent_rpc import AgentRpc
from gateway.upstreams.asking import WIRES
from gateway.upstreams.cloud_agents import CloudAgents
from gateway.upstreams.http import Door
from gateway.upstreams.leftovers import Leftovers
from gateway.upstreams.provider import Provider
from gateway.upstreams.text_chat import TextChat
from ir.errors import ApiError, Culprit, Fault, Kind, Reason, Stage


class Services:
    """Alive between ``start`` and ``stop``; one set for each process, since it belongs to one event loop."""

    pipe: Pipe
    ledger: Ledger
    outbound: Outbound
    bearers: Bearers
    snapshots: Snapshots
    troubles: Troubles

    def __init__(self) -> None:
        self.pepper = ""
        self.rests, self.pace, self.retries = Rests(), Pace(), RetryBudget()
        self.parked = Parked(lambda: self.snapshots.current, time.monotonic)
        self.upstreams: Mapping[Transport, Upstream] = {}

    async def start(self) -> None:
        """Connects and loads. Raises ``PipeDown`` without Redis: whoever runs the process starts it again. Without
        Postgres it starts all the same, says so in ``problems``, and refuses requests until it has a configuration."""
        self.pepper = environment.POOLGATE_KEY_PEPPER
        self.pipe = await Pipe.connect(environment.REDIS_URL)
        self.ledger = Ledger(self.pipe, secrets.token_hex(6))
        self.troubles = Troubles(self.pipe)
        self.outbound = Outbound()
        self.bearers = Bearers(self.pipe, self.outbound, client_id=lambda: self.snapshot().settings.oauth_client_id)
        self.snapshots = Snapshots(load, environment.REDIS_URL, self.ledger.slots.hints.forget)
        allowed, providers = allow_list(), Door(provider_hosts())
        self.upstreams = {
            Transport.AGENT_RPC: AgentRpc(Door(allowed)),
            Transport.CLOUD_AGENTS: CloudAgents(Door(allowed), Leftovers(self.pipe)),
            Transport.TEXT_CHAT: TextChat(Door(allowed)),
            **{wire.transport: Provider(providers, wire) for wire in WIRES},
        }
        await self.ledger.start()
        await self.snapshots.start()

    async def stop(self) -> None:
        """Waits for the records of requests that just ended, then lets go of every connection."""
        self.parked.close()
        await self.ledger.stop()
        await self.snapshots.stop()
        for upstream in self.upstreams.values():
            await upstream.close()
        await self.bearers.close()
        await self.outbound.close()
        await self.pipe.close()

    def snapshot(self) -> Snapshot:
        """The configuration in force. Raises a 503 while there is none."""
        current = self.snapshots.current
        if current is None:
            raise ApiError(
                Kind.NO_CAPACITY, "starting", "The gateway is starting.", retry_after=2, culprit=Culprit.GATEWAY
            )
        return current

    def sealed(self, credential_id: int) -> bytes:
        """The encrypted credential. Raises ``Fault`` when the account has lost it since it was chosen."""
        try:
            return self.snapshot().sealed[credential_id]
        except KeyError:
            raise Fault(Reason.AUTH_REVOKED, Stage.AUTH) from None

    def problems(self) -> list[str]:
        """What keeps this process from serving, in words for an operator; empty when it can."""
        found = [self.snapshots.problem] if self.snapshots.current is None else []
        if not self.pipe.up:
            found.append("the state store (Redis) is unreachable")
        return found
