"""What the commands of ``manage.py`` have in common."""

from __future__ import annotations

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    """A command whose ``--help`` shows its own options. Django's others still work; they are only not shown.

    System checks are for ``manage.py check``: they load every page, and an operator's command has to be quick.
    """

    requires_system_checks = ()
    suppressed_base_arguments = {  # noqa: RUF012 - Django declares it for the instance
        "--version",
        "--verbosity",
        "--settings",
        "--pythonpath",
        "--traceback",
        "--no-color",
        "--force-color",
    }
