"""What each dialect makes of every cause before any output, written out: the words of four wires in our one list."""

from __future__ import annotations

import json

import pytest

from gateway.protocols.agent import classify as agent
from gateway.protocols.cloud import classify as cloud
from gateway.protocols.messages import faults as anthropic
from gateway.protocols.openai import classify as openai
from gateway.upstreams.faults import as_fault
from ir.errors import Reason, Stage
from simulator import rest
from simulator.causes import CAUSES, HTML, Cause, Form, error_object
from simulator.faces import providers

REASONS = {
    # cause: Agent RPC, Cloud Agents, OpenAI, Anthropic; "": the vendor has no word for it
    "token_expired": ("auth_expired", "auth_revoked", "auth_revoked", "auth_expired"),
    "key_bad": ("auth_revoked", "auth_revoked", "auth_revoked", "auth_expired"),
    "usage_exhausted": ("quota", "quota", "quota", "payment"),
    "unpaid_invoice": ("payment", "forbidden", "payment", "payment"),
    "too_many_computers": ("device_limit", "forbidden", "", ""),
    "rate_limited": ("rate_limit", "rate_limit", "rate_limit", "rate_limit"),
    "rate_limited_hint": ("rate_limit", "rate_limit", "rate_limit", "rate_limit"),
    "bare_resource_exhausted": ("exhausted", "rate_limit", "rate_limit", "rate_limit"),
    "model_limit": ("model_limit", "quota", "rate_limit", "rate_limit"),
    "model_not_in_plan": ("model_gated", "forbidden", "model_gated", "model_gated"),
    "model_unknown": ("model_unknown", "model_unknown", "model_gated", "model_gated"),
    "bad_parameter": ("unsupported_param", "model_unknown", "", ""),
    "context_too_large": ("context_too_long", "bad_request", "context_too_long", "context_too_long"),
    "tools_too_large": ("tools_too_large", "bad_request", "", ""),
    "image_unsupported": ("image_unsupported", "bad_request", "image_unsupported", ""),
    "client_too_old": ("client_outdated", "protocol", "", ""),
    "update_required": ("client_outdated", "protocol", "", ""),
    "suspicious": ("blocked", "forbidden", "blocked", "forbidden"),
    "account_closed": ("account_closed", "auth_revoked", "account_closed", "forbidden"),
    "aborted": ("transient", "transient", "", ""),
    "deadline": ("timeout", "transient", "timeout", "timeout"),
    "unavailable": ("transient", "capacity", "capacity", "capacity"),
    "internal": ("transient", "transient", "transient", "transient"),
    "html_403": ("egress", "egress", "egress", "egress"),
    "wrong_content_type": ("protocol", "protocol", "protocol", "protocol"),
    "protocol_464": ("protocol", "protocol", "protocol", "protocol"),
    "goaway": ("transient", "transient", "transient", "transient"),
}
DIALECTS = ("agent_rpc", "cloud_agents", "openai_chat", "anthropic_messages")

KNOWN = {
    "openai_chat": frozenset(providers.OPENAI),
    "anthropic_messages": frozenset(providers.ANTHROPIC) | {"context_too_large"},  # told by its text
}
"""The causes that a provider has a word for."""


def reason_of(cause: Cause, dialect: str) -> Reason | None:
    """What the dialect makes of a cause before any output; None where its upstreams know no such thing."""
    match cause.form:
        case Form.HTML:
            return _classify(dialect, cause.status, "text/html", HTML.encode())
        case Form.PLAIN:
            return Reason.PROTOCOL  # every door takes a 200 of a strange type for a broken upstream
        case Form.EMPTY:
            return _classify(dialect, cause.status, "", b"")
        case Form.CLOSE:
            return as_fault(ConnectionResetError(), Stage.HEADERS).reason
    if dialect == "agent_rpc":
        if cause.form is Form.STREAM:
            return agent.classify_error(error_object(cause), Stage.PREAMBLE).reason
        return _classify(dialect, cause.status, "application/json", json.dumps(error_object(cause)).encode())
    if dialect == "cloud_agents":
        status, code = rest.error_of(cause)
        return _classify(dialect, status, "application/json", json.dumps({"error": {"code": code}}).encode())
    if cause.name not in KNOWN[dialect]:
        return None
    status, error = providers.error_of(cause, anthropic=dialect == "anthropic_messages")
    return _classify(dialect, status, "application/json", json.dumps({"error": error}).encode())


def _classify(dialect: str, status: int, media_type: str, body: bytes) -> Reason:
    headers = {"content-type": media_type}
    match dialect:
        case "agent_rpc":
            return agent.classify_http(status, headers, body).reason
        case "cloud_agents":
            return cloud.classify(status, headers, body).reason
        case "openai_chat":
            return openai.classify(status, headers, body).reason
    return anthropic.classify(status, headers, body).reason


def test_the_table_knows_every_cause() -> None:
    assert set(REASONS) == set(CAUSES)


@pytest.mark.parametrize("cause", REASONS)
def test_each_dialect_says_why_in_our_words(cause: str) -> None:
    assert tuple(reason_of(CAUSES[cause], dialect) or "" for dialect in DIALECTS) == REASONS[cause]
