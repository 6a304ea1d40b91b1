from __future__ import annotations

from django.apps import AppConfig


class PanelConfig(AppConfig):
    name = "panel"
    label = "panel"

    def ready(self) -> None:
        from panel import checks  # noqa: F401, PLC0415 (registers itself once the apps are there)
