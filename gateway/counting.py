"""``POST /v1/messages/count_tokens``: our estimate of a prompt, by the weights that every estimate here uses.

The answer costs no account and leaves no record; how far off the estimate is can be read from the records of real
requests, which hold both numbers. Clients send dozens of these at once.
"""

from __future__ import annotations

import time
from typing import Protocol

from core import metrics
from core.metrics import Rejection
from gateway import aside, caller, routing, structured
from gateway.contracts import ErrorReply
from gateway.exchange import CallerGone, Exchange
from gateway.registry import Services
from gateway.wire import json
from ir import images
from ir.errors import ApiError, Kind
from ir.request import Request
from ir.tokens import estimate_request
from ops import budgets


class CountingRole(Protocol):
    def decode_count(self, body: object) -> Request: ...

    def encode_error(self, error: ApiError, request_id: str) -> ErrorReply: ...


async def serve(exchange: Exchange, role: CountingRole, services: Services) -> None:
    """``{"input_tokens": N}``, or the error that the real request would get for the same fault."""
    try:
        snapshot = services.snapshot()
        key = caller.authenticate(exchange.headers, snapshot, services.pepper, time.time())
        body = await exchange.read_body(snapshot.settings.max_body_bytes, snapshot.settings.body_timeout)
        request = await aside.work(len(body), role.decode_count, json.parse(body))
        routing.check_name(request.model, key, snapshot)
        request, _ = await structured.admit(request, key.structured_output, snapshot.settings.max_output_schema_bytes)
        measured = await aside.work(len(body), budgets.measure, request)
        budgets.check(measured, snapshot.settings)
        await aside.work(len(body), images.verify, request.images())
        count = await aside.work(len(body), estimate_request, request, measured.tool_bytes)
        await exchange.respond(200, json.dump({"input_tokens": count}))
    except CallerGone:
        pass
    except ApiError as error:
        if error.kind is Kind.AUTHENTICATION:
            metrics.count_rejected(Rejection.BAD_KEY)
        await exchange.respond_error(role.encode_error(error, exchange.request_id))
