"""The catalogue as a unary call: ``GetUsableModels``, without envelopes."""

from __future__ import annotations

from aiohttp import web

from protobufs import agent_v1_pb2 as pb
from simulator import catalogue, checks, connect
from simulator.accounts import Account
from simulator.causes import CAUSES, Failure
from simulator.faces import http
from simulator.world import World


class ModelsFace:
    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/agent.v1.AgentService/GetUsableModels", self.usable)]

    async def usable(self, request: web.Request) -> web.Response:
        """The models of the bearer's account. An enveloped body has an illegal tag; a stream's type is a 415."""
        account: Account | None = None
        try:
            account = self._world.account_of_token(request.headers)
            _check_body(request, await request.read())
        except Failure as failure:
            return self._end(request, account, failure.label, http.answer(request, failure.cause))
        except web.HTTPUnsupportedMediaType:
            return self._end(request, account, "refused:content type", http.unsupported(connect.UNARY_TYPE))
        cause = self._world.faults.at_unary(account.name)
        if cause:
            return self._end(request, account, f"error:{cause}", http.answer(request, CAUSES[cause]))
        body = _listing(account).SerializeToString()
        return self._end(request, account, "complete", web.Response(body=body, content_type=connect.UNARY_TYPE))

    def _end(self, request: web.Request, account: Account | None, how: str, answer: web.Response) -> web.Response:
        self._world.open_entry("get_usable_models", account, request.headers).end(how, self._world.now())
        return answer


def _check_body(request: web.Request, body: bytes) -> None:
    if request.content_type != connect.UNARY_TYPE:
        raise web.HTTPUnsupportedMediaType
    checks.parse(pb.GetUsableModelsRequest, body, "illegal tag: field no 0 wire type 0")


def _listing(account: Account) -> pb.GetUsableModelsResponse:
    response = pb.GetUsableModelsResponse()
    for model in catalogue.listed():
        if account.models is not None and model.id not in account.models:
            continue
        entry = response.models.add(
            model_id=model.id,
            display_model_id=model.id,
            display_name=model.display_name,
            display_name_short=model.display_name,
            aliases=model.aliases,
        )
        if "thinking" in model.parameters:
            entry.thinking_details.SetInParent()
    return response
