"""``manage.py prepare``: brings the database to where ``manage.py up`` needs it. ``up`` calls this; people need not."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command

from accounts.catalogue import ensure_catalogue
from accounts.models import Account
from config import demo
from core import command
from tenants import verbs as tenants


class Command(command.Command):
    help = "Migrate, and make the owner and the catalogue when they are missing. Prints JSON for `manage.py up`."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--simulator-url", help="also make the demo, served by this simulator")

    def handle(self, *_: Any, **options: Any) -> None:
        call_command("migrate", interactive=False, verbosity=0)
        ensure_catalogue()
        known: dict[str, Any] = {}
        if not User.objects.filter(username=tenants.OWNER).exists():
            known["admin_password"] = tenants.create_owner()
        if options["simulator_url"]:
            made = demo.install(settings.DATA_DIR, options["simulator_url"], known.get("admin_password"))
            known = {name: made[name] for name in ("api_key", "admin_password") if name in made}
        else:
            known["left_over_demo"] = (settings.DATA_DIR / demo.FILE).exists()
        known["without_accounts"] = not Account.objects.exists()
        self.stdout.write(json.dumps(known))
