"""The flow of one request, on one screen: ``serve``.

bytes → key → JSON → ``ir.Request`` → budgets → route → lease and attempts (``failover``) → events → bytes, and exactly
one record whatever dies. Who is asked and how often is ``failover``'s business, how it looks on the wire is the
protocol's; this file joins them.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Mapping
from contextlib import aclosing
from typing import Protocol

from msgspec import structs

from accounts.leases import Caller
from core import encryption, metrics
from core.metrics import Rejection
from gateway import affinity, aside, caller, continuity, refusals, routing, structured
from gateway.answer import Answer
from gateway.attempts import Errand
from gateway.continuity import Keep
from gateway.contracts import Policy, ResponseMeta, ServerRole
from gateway.exchange import CallerGone, Exchange
from gateway.failover import Turn
from gateway.registry import Services
from gateway.routing import Route
from gateway.snapshot import Snapshot
from gateway.wire import json
from ir import images, tokens
from ir.errors import ApiError, Culprit, Kind, invalid
from ir.request import Message, Request
from ops import budgets
from ops.record import Record
from tenants.compile import KeyView, ToolChoiceOutcome

log = logging.getLogger(__name__)

_CLIENT_REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_CLIENTS = ("claude-cli", "codex", "GeminiCLI", "opencode", "OpenAI/Python", "OpenAI/JS", "Anthropic/Python",
            "Anthropic/JS", "google-genai-sdk", "ai-sdk", "litellm", "Cline", "QwenCode", "python-httpx",
            "curl")  # fmt: skip
SIGNATURE = "reasoning"


class Role(ServerRole, Protocol):
    """``REASONING_BY_KEY``: whether the key's policy shows thinking, or else the request itself. ``OUTPUT_LIMIT``: what
    the protocol calls the limit of an answer."""

    NAME: str
    OUTPUT_LIMIT: str
    REASONING_BY_KEY: bool


async def serve(exchange: Exchange, role: Role, services: Services) -> None:
    """Answers one request for a model. Raises nothing but a cancellation that is not the caller's doing."""
    started = time.monotonic()
    try:
        snapshot = services.snapshot()
        key = caller.authenticate(exchange.headers, snapshot, services.pepper, time.time())
    except ApiError as error:
        metrics.count_rejected(Rejection.BAD_KEY if error.kind is Kind.AUTHENTICATION else Rejection.STATE)
        await exchange.respond_error(role.encode_error(error, exchange.request_id))
        return
    record = _open_record(exchange, role, key)
    answer = Answer(exchange, role, record, started)
    entry = None
    try:
        raw = await exchange.read_body(snapshot.settings.max_body_bytes, snapshot.settings.body_timeout)
        record.request_bytes, record.body_ms = len(raw), round((time.monotonic() - started) * 1000)
        errand, keep = await _prepare(raw, exchange, role, snapshot, key, record)
        if snapshot.settings.sticky_enabled:
            errand = await _identify(errand, exchange, key, services.pepper, len(raw), stored=keep is not None)
        entry = services.ledger.admit(record)
        session = affinity.ask(errand.conversation, snapshot.settings, services.ledger.pipe)
        turn = Turn(errand, snapshot.settings, entry, services, _caller(key), started, session)
        meta = _meta(exchange, errand, record, key)
        answer.begin(errand.request, meta, snapshot.settings, turn.last_sign, keep, turn.buffered)
        async with answer.watched(), aclosing(turn.events()) as batches:
            async for events in batches:
                await answer.send(events)
        await answer.finish()
    except ApiError as error:
        await answer.fail(error)
    except CallerGone:
        answer.gone()
    except asyncio.CancelledError:
        await answer.cancelled()
    except Exception as error:  # a bug of ours costs this request, not the connection
        log.exception("request %s failed: %s", exchange.request_id, type(error).__name__)
        await answer.fail(ApiError(Kind.INTERNAL, "internal_error", "The gateway failed.", culprit=Culprit.GATEWAY))
    finally:
        answer.settle()
        await (entry or services.ledger.admit(record)).close()


async def _prepare(
    raw: bytes, exchange: Exchange, role: Role, snapshot: Snapshot, key: KeyView, record: Record
) -> tuple[Errand, Keep | None]:
    """Everything that can be refused without asking an upstream, cheapest and most telling first."""
    settings = snapshot.settings
    body = await continuity.recall(role, json.parse(raw), key)
    size = len(raw)
    request = await aside.work(size, role.decode_request, body)
    record.model, record.stream = routing.served_name(request.model, key, snapshot), request.stream
    if request.dropped_tools and not key.drop_hosted_tools:
        raise _refuse_hosted(request.dropped_tools[0])
    check = None
    if request.output_format is not None and not routing.takes_formats(request, key, snapshot):
        request, check = await structured.admit(request, key.structured_output, settings.max_output_schema_bytes)
    measured = await aside.work(size, budgets.measure, request)
    _describe(request, measured, record)
    route = routing.resolve(request, key, snapshot)
    request = routing.note_carried(_clamp(request, route, role.OUTPUT_LIMIT), route)
    request = routing.note_thinking(request, route, _policy(key), role.NAME)
    record.ignored, record.upstream_model = request.ignored, route.upstream_id
    if route.served != request.model:
        exchange.extra.append((b"x-poolgate-model", route.served.encode()))
    input_tokens = await aside.work(size, tokens.estimate_request, request, measured.tool_bytes)
    record.input_estimate = input_tokens
    if input_tokens > route.model.context_tokens:
        raise invalid(
            "context_length_exceeded",
            f"prompt is too long: {input_tokens} tokens > {route.model.context_tokens} maximum",
            "messages",
        )
    budgets.check(measured, settings)
    await aside.work(size, images.verify, request.images())
    by_key = settings.expose_thinking if key.expose_thinking is None else key.expose_thinking
    expose = by_key if role.REASONING_BY_KEY else request.thinking.visible
    keep = continuity.keeper(role, body, request, key, settings.conversation_ttl)
    fingerprint = await aside.work(size, refusals.fingerprint, key.team_id, exchange.endpoint, raw)
    return Errand(request, route, input_tokens, expose, check, _policy(key), fingerprint), keep


async def _identify(
    errand: Errand, exchange: Exchange, key: KeyView, secret: str, size: int, *, stored: bool
) -> Errand:
    """The errand with the conversation that it belongs to. ``stored``: the answer will be there to go on from."""
    conversation = await aside.work(
        size,
        affinity.identify,
        errand.request,
        exchange.headers,
        team_id=key.team_id,
        key_id=key.row_id,
        model=errand.route.upstream_id,
        secret=secret,
        answer_id=_response_id(exchange) if stored else "",
    )
    return structs.replace(errand, conversation=conversation)


def _policy(key: KeyView) -> Policy:
    return Policy(
        kilo_tool_strict=key.kilo_tool_strict,
        stop_after_calls=key.stop_after_calls,
        strict_outcome=key.tool_choice_outcome is ToolChoiceOutcome.STRICT,
    )


def _caller(key: KeyView) -> Caller:
    return Caller(key.row_id, key.max_concurrency, key.member_id, key.member_limit, key.team_id, key.team_limit)


def _refuse_hosted(path: str) -> ApiError:
    return invalid("unsupported_tool_type", f"{path}: this API key refuses tools that run at the vendor", path)


def _clamp(request: Request, route: Route, name: str) -> Request:
    """An output limit above the model's own is lowered to it, and listed as ignored under the protocol's ``name``."""
    most = route.model.max_output_tokens
    if request.max_output_tokens is None or request.max_output_tokens <= most:
        return request
    return structs.replace(request, max_output_tokens=most, ignored=(*request.ignored, name))


def _meta(exchange: Exchange, errand: Errand, record: Record, key: KeyView) -> ResponseMeta:
    return ResponseMeta(
        response_id=_response_id(exchange),
        created=int(record.started_at),
        model=errand.request.model,
        expose_reasoning=errand.expose_reasoning,
        input_tokens=errand.input_tokens,
        sign=lambda text: encryption.sign(SIGNATURE, key.team_id, text),
        seal=lambda data: continuity.seal(key.team_id, data),
    )


def _response_id(exchange: Exchange) -> str:
    return exchange.request_id.removeprefix("req_")


def _open_record(exchange: Exchange, role: Role, key: KeyView) -> Record:
    given = exchange.header(b"x-client-request-id") or exchange.header(b"x-request-id")
    agent = exchange.header(b"user-agent")
    return Record(
        request_id=exchange.request_id,
        started_at=time.time(),
        protocol=role.NAME,
        endpoint=exchange.endpoint,
        team_id=key.team_id,
        key_id=key.row_id,
        key_prefix=key.public_id,
        client_request_id=given if _CLIENT_REQUEST_ID.fullmatch(given) else "",
        client_ip=exchange.client_ip,
        client=next((name for name in _CLIENTS if name in agent), "other"),
    )


def _describe(request: Request, measured: budgets.Measured, record: Record) -> None:
    """Sizes and counts for the record: structure, never content."""
    record.tool_choice = request.tool_choice.mode if request.tools else ""
    record.message_count = len(request.messages)
    record.tool_count = measured.tool_count
    record.schema_bytes = measured.schema_bytes
    record.image_count = len(measured.image_sizes)
    record.image_bytes = sum(measured.image_sizes)
    record.prompt_bytes = measured.prompt_bytes
    record.summary = _summary(request.messages)


def _summary(messages: tuple[Message, ...]) -> str:
    roles: dict[str, int] = {}
    parts: dict[str, int] = {}
    for message in messages:
        roles[message.role] = roles.get(message.role, 0) + 1
        for part in message.content:
            name = type(part).__name__
            parts[name] = parts.get(name, 0) + 1
    return f"roles={_counts(roles)} parts={_counts(parts).lower()}"


def _counts(found: Mapping[str, int]) -> str:
    return ",".join([f"{name}:{count}" for name, count in sorted(found.items())])
