"""``GET /v1/models`` and ``/v1/models/{id}``: what the caller's key may name, in the dialect of the caller's client."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Protocol
from urllib.parse import unquote

from accounts.compile import ModelView
from core import metrics
from core.metrics import Rejection
from gateway import caller, routing
from gateway.contracts import ErrorReply
from gateway.exchange import Exchange
from gateway.registry import Services
from ir.errors import ApiError, Kind


class CatalogueRole(Protocol):
    """A protocol that has a catalogue of models."""

    def encode_models(self, models: Iterable[ModelView]) -> bytes: ...

    def encode_model(self, model: ModelView) -> bytes: ...

    def encode_error(self, error: ApiError, request_id: str) -> ErrorReply: ...


async def serve(exchange: Exchange, role: CatalogueRole, services: Services, name: str | None = None) -> None:
    """The whole list, or with ``name`` (percent-encoded, as in the path) one model: 404 if the key may not name it."""
    try:
        snapshot = services.snapshot()
        key = caller.authenticate(exchange.headers, snapshot, services.pepper, time.time())
        if name is None:
            body = role.encode_models(routing.listed(key, snapshot))
        else:
            body = role.encode_model(routing.describe(unquote(name), key, snapshot))
        await exchange.respond(200, body)
    except ApiError as error:
        if error.kind is Kind.AUTHENTICATION:
            metrics.count_rejected(Rejection.BAD_KEY)
        await exchange.respond_error(role.encode_error(error, exchange.request_id))
