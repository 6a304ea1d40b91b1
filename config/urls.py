"""Addresses that Django serves. The data plane's are not here: ``config.asgi`` sends them past Django.

``panel.access`` decides who may open them, and answers 404 for one that it does not know.
"""

from __future__ import annotations

from django.urls import include, path

handler400 = "panel.failures.bad_request"
urlpatterns = [path("", include("panel.urls"))]
