from __future__ import annotations

from django.apps import AppConfig


class ConfigConfig(AppConfig):
    """An app only so that Django finds the commands that start and look after a whole installation."""

    name = "config"
    label = "config"
