"""The management API: JSON for scripts and for the panel's own pages, described at ``/api/docs``.

Thin, as the pages are: who may call is in ``panel.access.RULES``, what happens is in the verbs. Callers are signed in
as in the panel; whoever sends a POST sends the CSRF token with it. Every error has the shape
``{"error": {"code", "message", "param"}}``.
"""

from __future__ import annotations

import logging
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from msgspec import to_builtins
from ninja import NinjaAPI, Schema
from ninja.errors import HttpError, ValidationError
from ninja.security import django_auth
from pydantic import Field
from redis import RedisError

from core.invalid import InvalidValue
from core.version import VERSION
from panel import drill, route_check
from panel.access import PanelRequest, actor_of, api_error
from panel.drill import Drill, Order, Unavailable

log = logging.getLogger(__name__)

ModelName = Annotated[str, Field(min_length=1, max_length=160)]

api = NinjaAPI(
    title="Poolgate",
    version=VERSION,
    description="Manages what the panel manages.",
    urls_namespace="api",
    auth=django_auth,
)


@api.exception_handler(ValidationError)
def _invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    first = error.errors[0]
    param = ".".join(str(step) for step in first["loc"][1:] if step != "order")
    return api_error(400, "invalid_request", f"{param}: {first['msg']}", param)


@api.exception_handler(Exception)
def _failed(request: HttpRequest, error: Exception) -> HttpResponse:
    log.error("the management API failed: %s", type(error).__name__, exc_info=error)
    return api_error(500, "internal_error", "Something went wrong here; the log of the server says what.")


@api.exception_handler(HttpError)
def _refused(request: HttpRequest, error: HttpError) -> HttpResponse:
    return api_error(error.status_code, "invalid_request", str(error))


@api.get("/route-check", url_name="route_check", summary="What would happen to a request now")
def check_route(request: PanelRequest, key: str, model: ModelName, protocol: str = "chat") -> Any:
    """Spends nothing. ``key`` is the public id of an API key of one's own teams; ``protocol`` is chat, responses,
    messages or gemini. The answer says whether a request would be served, by which accounts, and what stops it first.
    """
    try:
        finding = route_check.check(key, model, protocol, request.visitor.scope)
    except InvalidValue as error:
        return api_error(400, "invalid_request", str(error), error.field)
    except RedisError:
        return api_error(503, "state_unavailable", "The state store does not answer.")
    if finding is None:
        return api_error(404, "key_not_found", "There is no such API key.", "key")
    return to_builtins(finding if request.visitor.is_owner else route_check.without_names(finding))


class DrillOrder(Schema):
    """What to rehearse; see ``panel.drill.Order``."""

    cause: str = Field(max_length=64)
    after: int = Field(0, ge=0, le=50)
    everywhere: bool = False


@api.get("/drill", url_name="drill", summary="What a drill can rehearse")
def drill_causes(request: HttpRequest) -> Any:
    """The causes that the simulator knows. 409 where there is no simulator."""
    try:
        _, simulator = drill.addresses()
        return {"causes": drill.list_causes(simulator)}
    except Unavailable as error:
        return api_error(409, "drill_unavailable", str(error))


@api.post("/drill", url_name="drill", summary="Inject a fault in the simulator and see the path taken")
def run_drill(request: HttpRequest, order: DrillOrder) -> Any:
    """Takes a few seconds. 409 where there is no simulator or another drill runs; 400 for an unknown cause."""
    try:
        with Drill(*drill.addresses(), actor_of(request)) as staff:
            return to_builtins(staff.run(Order(order.cause, order.after, order.everywhere)))
    except Unavailable as error:
        return api_error(409, "drill_unavailable", str(error))
    except ValueError as error:
        return api_error(400, "invalid_request", str(error), "cause")
