"""When an account's second way may stand in for its first: the Cloud Agents API for the Agent RPC. Pure.

Only for faults that say "not now", before anything was written, and for requests that lose nothing on the way:
a Cloud Agent is given one text, so tools, images and an exchange that was stored in another form stay where they are.
"""

from __future__ import annotations

from ir.errors import Reason
from ir.request import Request, ToolCall, ToolResult

REASONS = frozenset(
    {
        Reason.RATE_LIMIT,
        Reason.EXHAUSTED,
        Reason.QUOTA,
        Reason.MODEL_LIMIT,
        Reason.CAPACITY,
        Reason.TRANSIENT,
        Reason.TIMEOUT,
        Reason.CUT,
    }
)
"""The faults that an HTTP status would call 429 or 5xx."""


def obstacle(request: Request) -> str:
    """What keeps the request from going by the second way, in a word; "" when nothing does."""
    if request.tools:
        return "client_tools"
    if any(isinstance(part, ToolCall | ToolResult) for message in request.messages for part in message.content):
        return "tool_continuation"
    if request.images():
        return "inline_images"
    return "responses_continuation" if request.echo.get("previous_response_id") else ""
