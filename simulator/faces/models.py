"""The catalogue as unary calls without envelopes: ``GetUsableModels``, and ``AvailableModels`` with more of each."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from google.protobuf.message import Message

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
        return [
            web.post("/agent.v1.AgentService/GetUsableModels", self.usable),
            web.post("/aiserver.v1.AiService/AvailableModels", self.available),
        ]

    async def usable(self, request: web.Request) -> web.Response:
        """The models of the bearer's account."""
        return await self._answer(request, "get_usable_models", pb.GetUsableModelsRequest, _listing)

    async def available(self, request: web.Request) -> web.Response:
        """All models, with their context, parameters and variants."""
        return await self._answer(request, "available_models", pb.AvailableModelsRequest, lambda _: _details())

    async def _answer(
        self,
        request: web.Request,
        transport: str,
        asked: type[Message],
        answer: Callable[[Account], Message],
    ) -> web.Response:
        """An enveloped body has an illegal tag; a stream's type is a 415."""

        def end(how: str, response: web.Response) -> web.Response:
            self._world.open_entry(transport, account, request.headers).end(how, self._world.now())
            return response

        account: Account | None = None
        try:
            account = self._world.account_of_token(request.headers)
            if request.content_type != connect.UNARY_TYPE:
                return end("refused:content type", http.unsupported(connect.UNARY_TYPE))
            checks.parse(asked, await request.read(), "illegal tag: field no 0 wire type 0")
        except Failure as failure:
            return end(failure.label, http.answer(request, failure.cause))
        cause = self._world.faults.at_unary(account.name)
        if cause:
            return end(f"error:{cause}", http.answer(request, CAUSES[cause]))
        body = answer(account).SerializeToString()
        return end("complete", web.Response(body=body, content_type=connect.UNARY_TYPE))


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


def _details() -> pb.AvailableModelsResponse:
    response = pb.AvailableModelsResponse()
    for model in catalogue.listed():
        entry = response.models.add(
            name=model.id,
            supports_thinking="thinking" in model.parameters,
            supports_images=True,
            context_token_limit=model.window,
            client_display_name=model.display_name,
            aliases=model.aliases,
        )
        for name in model.parameters:
            entry.parameter_definitions.add(id=name, display_name=name)
        for effort in model.parameters.get("effort", ()):
            variant = entry.variants.add(variant_string_representation=f"{model.id}-{effort}")
            variant.parameter_values.add(id="effort", value=effort)
    return response
