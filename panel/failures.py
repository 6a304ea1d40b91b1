"""Pages for requests that no view saw."""

from __future__ import annotations

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponseBadRequest
from django.template.loader import render_to_string

from core.version import VERSION


def bad_request(_request: HttpRequest, exception: Exception) -> HttpResponseBadRequest:
    """Without the request, which may be what is broken. A name that is not served is the operator's to fix."""
    wrong_name = isinstance(exception, DisallowedHost)
    return HttpResponseBadRequest(render_to_string("400.html", {"wrong_name": wrong_name, "version": VERSION}))
