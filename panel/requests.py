"""The request log: a list with filters that live in the URL, and one request with everything that is kept of it."""

from __future__ import annotations

import msgspec
from django.core.exceptions import BadRequest
from django.http import Http404, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from ops import queries
from ops.models import RequestRecord
from ops.record import Attempt, Outcome
from panel import timeline
from panel.access import PanelRequest
from panel.formats import UNKNOWN, count, milliseconds, size, words

WINDOWS = {1: "last hour", 24: "last 24 hours", 168: "last 7 days", queries.MAX_HOURS: "last 30 days"}
PROTOCOLS = ("chat", "messages", "responses", "gemini", "agent")


class Try(msgspec.Struct, frozen=True):
    """An attempt with the account's name, which only the operator gets to see."""

    attempt: Attempt
    account: str


def requests(request: PanelRequest) -> HttpResponseBase:
    filters = _read_filters(request.GET)
    try:
        page = queries.list_requests(request.visitor.scope, filters, timezone.now())
    except ValueError as error:
        raise BadRequest("before") from error
    older = request.GET.copy()
    older["before"] = page.next_before
    context = {
        "page": page,
        "filters": filters,
        "older": f"?{older.urlencode()}" if page.next_before else "",
        "outcomes": list(Outcome),
        "protocols": PROTOCOLS,
        "windows": WINDOWS.items(),
    }
    return render(request, "panel/requests.html", context)


def request(request: PanelRequest, request_id: str) -> HttpResponseBase:
    line = queries.find_request(request.visitor.scope, request_id)
    if line is None:
        raise Http404
    tries = [msgspec.convert(row, Attempt) for row in line.record.attempts]
    is_owner = request.visitor.is_owner
    trace = queries.find_trace(line.record)
    mentioned = {item.account_id for item in tries} | (timeline.accounts_of(trace) if trace else set())
    names = queries.name_accounts(sorted(mentioned)) if is_owner else {}
    context = {
        "record": line.record,
        "timeline": timeline.tell(trace, names if is_owner else None) if trace else None,
        "sections": _describe(line, is_owner),
        "attempts": [Try(item, names.get(item.account_id, "deleted")) for item in tries],
    }
    return render(request, "panel/request.html", context)


def _read_filters(query: QueryDict) -> queries.Filters:
    """What is not on offer is left out: a bookmarked filter must not break a page."""
    outcome, protocol, hours = query.get("outcome", ""), query.get("protocol", ""), query.get("hours", "")
    return queries.Filters(
        outcome=outcome if outcome in set(Outcome) else "",
        protocol=protocol if protocol in PROTOCOLS else "",
        model=query.get("model", "").strip().replace("\0", "")[:160],
        hours=int(hours) if hours.isascii() and hours.isdigit() and int(hours[:4]) in WINDOWS else 24,
        before=query.get("before", "").replace("\0", "")[:200],
    )


def _describe(line: queries.Line, is_owner: bool) -> list[tuple[str, list[tuple[str, str]]]]:
    """Titled groups of facts. What tells accounts and processes apart is for the operator alone."""
    record = line.record
    request = [
        ("Team", line.team or UNKNOWN),
        ("Key", line.key or UNKNOWN),
        ("Endpoint", record.endpoint),
        ("Protocol", f"{record.protocol}, {'streamed' if record.stream else 'whole'}"),
        ("Model", record.model or UNKNOWN),
        ("Client", record.client or UNKNOWN),
        ("Client's own id", record.client_request_id or UNKNOWN),
        ("Ignored fields", ", ".join(record.ignored) or UNKNOWN),
    ]
    result = [
        ("Outcome", words(record.outcome)),
        ("Status", str(record.status or UNKNOWN)),
        ("Code", record.code or UNKNOWN),
        ("Reason", words(record.reason) or UNKNOWN),
        ("Culprit", words(record.culprit) or UNKNOWN),
        ("Stage", words(record.stage) or UNKNOWN),
        ("Finish", words(record.finish) or UNKNOWN),
        ("Answer as JSON", words(record.structured) or UNKNOWN),
        ("Output had begun", "yes" if record.committed else "no"),
        ("Error behind a 200", "yes" if record.in_stream_error else "no"),
    ]
    if is_owner:
        request += [("Address", record.client_ip or UNKNOWN)]
        result += [("Upstream model", record.upstream_model or UNKNOWN), ("Process", record.process or UNKNOWN)]
    return [("Request", request), ("Result", result), *_measures(record)]


def _tool_choice(record: RequestRecord) -> str:
    unsatisfied = ", answered without the call" if record.tool_choice_unsatisfied else ""
    return f"{words(record.tool_choice) or UNKNOWN}{unsatisfied}"


def _measures(record: RequestRecord) -> list[tuple[str, list[tuple[str, str]]]]:
    measured = [
        ("First token", milliseconds(record.first_token_ms)),
        ("Duration", milliseconds(record.duration_ms)),
        ("Until the body was there", milliseconds(record.body_ms)),
        ("Then until the upstream was called", milliseconds(record.overhead_ms)),
        ("Of it waiting for a slot", milliseconds(record.wait_ms)),
        ("Tokens in", count(record.input_tokens)),
        ("Tokens out", count(record.output_tokens)),
        ("Tokens read from cache", count(record.cache_read_tokens)),
        ("Tokens written to cache", count(record.cache_write_tokens)),
        ("Tokens of reasoning", count(record.reasoning_tokens)),
        ("Counted by", words(record.usage_source) or UNKNOWN),
    ]
    sizes = [
        ("Request body", size(record.request_bytes)),
        ("Response body", size(record.response_bytes)),
        ("Prompt", size(record.prompt_bytes)),
        ("Messages", count(record.message_count)),
        ("Tools", f"{count(record.tool_count)}, schemas {size(record.schema_bytes)}"),
        ("Images", f"{count(record.image_count)}, {size(record.image_bytes)}"),
        ("Tool choice", _tool_choice(record)),
        ("Tool calls", count(record.tool_call_count)),
        ("Shape", record.summary or UNKNOWN),
    ]
    if record.budget:
        sizes += [("Budget", f"{words(record.budget)}: {count(record.budget_actual)} of {count(record.budget_limit)}")]
    return [("Time and tokens", measured), ("Sizes", sizes)]
