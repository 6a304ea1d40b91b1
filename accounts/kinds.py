"""The kinds of account, and the wires by which they are reached."""

from __future__ import annotations

from enum import StrEnum


class AccountKind(StrEnum):
    CURSOR = "cursor"
    TEXT_CHAT = "text_chat"
    PROVIDER = "provider"


class Transport(StrEnum):
    """How an account is spoken to. ``AUTO``: the Agent RPC, and the Cloud Agents API where it may stand in."""

    AUTO = "auto"
    AGENT_RPC = "agent_rpc"
    CLOUD_AGENTS = "cloud_agents"
    TEXT_CHAT = "text_chat"
    OPENAI_CHAT = "openai_chat"
    OPENAI_RESPONSES = "openai_responses"
    ANTHROPIC_MESSAGES = "anthropic_messages"


PROVIDERS = (Transport.OPENAI_CHAT, Transport.OPENAI_RESPONSES, Transport.ANTHROPIC_MESSAGES)
WAYS = {
    AccountKind.CURSOR: (Transport.AUTO, Transport.AGENT_RPC, Transport.CLOUD_AGENTS),
    AccountKind.TEXT_CHAT: (Transport.TEXT_CHAT,),
    AccountKind.PROVIDER: PROVIDERS,
}
"""The transports that an account of the kind may have."""
Binding = AccountKind | Transport
"""What a model of the catalogue may be bound to: accounts of a kind, or of one transport setting."""
BINDINGS = tuple(dict.fromkeys([*map(str, AccountKind), *map(str, Transport)]))


def read_binding(value: str) -> Binding:
    """Raises ``ValueError`` for what is neither."""
    return AccountKind(value) if value in set(AccountKind) else Transport(value)
