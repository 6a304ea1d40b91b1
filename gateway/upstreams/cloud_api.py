"""The calls of the Cloud Agents API, each under its own time limit. What is said in them is ``protocols.cloud``'s."""

from __future__ import annotations

import asyncio

from gateway.contracts import Target
from gateway.protocols.cloud import bodies
from gateway.protocols.cloud.bodies import Outcome
from gateway.protocols.cloud.catalogue import Offer, parse
from gateway.protocols.cloud.classify import classify, read_code
from gateway.upstreams.http import Answer, Door, header_lines
from ir.errors import Fault, Reason, Stage
from ir.usage import Usage

USER_AGENT = "poolgate/0.1.0"
MAX_BODY = 4 * 1024 * 1024
ERROR_BODY = 64 * 1024
PROBE_SECONDS = 5.0  # for what a request can do without: the list of models, the usage
CALL_SECONDS = 15.0

_JSON = {"content-type": "application/json"}


class CloudApi:
    """The API as one account sees it. Whatever goes wrong is raised as ``Fault``."""

    def __init__(self, door: Door, target: Target, connect_timeout: float) -> None:
        self._door = door
        self._origin = door.origin(target.base_url, target.proxy_url)
        self._connect_timeout = connect_timeout
        headers = {
            "authorization": f"Bearer {target.credential}",
            "user-agent": USER_AGENT,
            "accept-encoding": "identity",
        }
        self._head = header_lines(headers)
        self._json = header_lines({**headers, **_JSON})
        self._sse = {**headers, "accept": "text/event-stream"}

    async def create(self, body: bytes, seconds: float) -> str:
        """Starts an agent; gives the id of its run."""
        _, reply = await self._whole("POST", "/v1/agents", body, seconds)
        return bodies.decode_created(reply)

    async def stream(self, agent: str, run: str, last_id: str, seconds: float) -> Answer:
        """The run's stream, from the start or after ``last_id``."""
        head = header_lines({**self._sse, "last-event-id": last_id}) if last_id else header_lines(self._sse)
        try:
            async with asyncio.timeout(seconds):
                answer = await self._call("GET", f"/v1/agents/{agent}/runs/{run}/stream", head)
                if answer.status == 200 and answer.headers.get("content-type", "").startswith("text/event-stream"):
                    return answer
                reply = await answer.read_all(ERROR_BODY)
        except TimeoutError:
            raise Fault(Reason.TIMEOUT, Stage.HEADERS) from None
        raise classify(answer.status, answer.headers, reply)

    async def read_run(self, agent: str, run: str) -> Outcome:
        _, reply = await self._whole("GET", f"/v1/agents/{agent}/runs/{run}")
        return bodies.decode_run(reply)

    async def cancel(self, agent: str, run: str) -> None:
        """A run that is over already is as good as cancelled."""
        await self._whole("POST", f"/v1/agents/{agent}/runs/{run}/cancel", b"{}", accept=("run_not_cancellable",))

    async def delete(self, agent: str) -> bool:
        """For good. False when there was no such agent."""
        status, _ = await self._whole("DELETE", f"/v1/agents/{agent}", accept=("agent_not_found",))
        return status < 400

    async def usage(self, agent: str, run: str) -> Usage:
        _, reply = await self._whole("GET", f"/v1/agents/{agent}/usage?runId={run}", seconds=PROBE_SECONDS)
        return bodies.decode_usage(reply)

    async def models(self) -> tuple[Offer, ...]:
        _, reply = await self._whole("GET", "/v1/models", seconds=PROBE_SECONDS)
        try:
            return parse(reply)
        except ValueError:
            raise Fault(Reason.PROTOCOL, Stage.HEADERS, upstream_code="models_answer") from None

    async def _whole(
        self, method: str, path: str, body: bytes = b"", seconds: float = CALL_SECONDS, accept: tuple[str, ...] = ()
    ) -> tuple[int, bytes]:
        """Status and body of a good answer; an error whose code is in ``accept`` is good as well."""
        try:
            async with asyncio.timeout(seconds):
                answer = await self._call(method, path, self._json if body else self._head, body)
                reply = await answer.read_all(MAX_BODY)
        except TimeoutError:
            raise Fault(Reason.TIMEOUT, Stage.HEADERS) from None
        if answer.status >= 300 and read_code(reply) not in accept:
            raise classify(answer.status, answer.headers, reply)
        return answer.status, reply

    async def _call(self, method: str, path: str, head: bytes, body: bytes = b"") -> Answer:
        return await self._door.call(
            method, self._origin, path, head, body, connect_timeout=self._connect_timeout, repeatable=method != "POST"
        )
