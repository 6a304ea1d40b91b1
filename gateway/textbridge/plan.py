"""Which calls a turn may bring: the caller's wishes and its key's policy, worked out once for prompt and answer."""

from __future__ import annotations

from msgspec import Struct, structs

from gateway.contracts import Policy
from ir.request import Request, Tool, ToolCall, ToolChoice, ToolMode, ToolResult


class Plan(Struct, frozen=True):
    """``offered`` tools are in the function list, ``known`` names can be called, ``counted`` ones go to the caller.

    ``listens``: the prompt needs a trigger, for calls to come or calls in the history. ``single``: the first call ends
    the turn. ``stops``: so does text after a call.
    """

    offered: tuple[Tool, ...]
    known: frozenset[str]
    counted: frozenset[str]
    demanded: bool
    listens: bool
    single: bool
    stops: bool


def demand(request: Request, policy: Policy) -> Request:
    """The request as the key's policy has it.

    Strictness holds only for what the user says: after a tool result the model may be done, and must be able to say so.
    """
    if policy.kilo_tool_strict and request.tools and request.tool_choice.mode is ToolMode.AUTO:
        last = request.messages[-1]
        if last.role == "user" and not any(isinstance(part, ToolResult) for part in last.content):
            return structs.replace(request, tool_choice=ToolChoice(ToolMode.REQUIRED))
    return request


def make(request: Request, policy: Policy) -> Plan:
    """For a request that went through ``demand``."""
    choice = request.tool_choice
    offered = () if choice.mode is ToolMode.NONE else request.tools
    if choice.mode is ToolMode.ALLOWED:
        offered = tuple(tool for tool in offered if tool.name in choice.names)
    names = frozenset(tool.name for tool in offered)
    past = frozenset(
        part.name for message in request.messages for part in message.content if isinstance(part, ToolCall)
    )
    return Plan(
        offered=offered,
        known=names or past | frozenset(tool.name for tool in request.tools),
        counted=names & frozenset(choice.names) if choice.mode is ToolMode.NAMED else names,
        demanded=choice.demands_call,
        listens=bool(names or past),
        single=request.parallel_tool_calls is False,
        stops=choice.demands_call if policy.stop_after_calls is None else policy.stop_after_calls,
    )
