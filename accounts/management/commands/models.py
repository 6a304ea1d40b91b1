from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from accounts.catalogue import define_alias, define_model, delete_model
from accounts.kinds import BINDINGS
from accounts.models import CatalogueModel
from core import command
from core.audit import COMMAND_LINE

ANY = "any"
COLUMNS = ("upstream_id", "owner", "display_name", "context_tokens", "max_output_tokens")


class Command(command.Command):
    help = "Show and change the models that callers may name, and the aliases that lead to them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="every model and alias")
        define = actions.add_parser("define", help="add a model or change one; * in the name makes a pattern")
        define.add_argument("name", help="what callers call it")
        define.add_argument("--upstream-id", help="what the upstream calls it; without: the same")
        bindings = [*BINDINGS, ANY]
        define.add_argument(
            "--upstream", choices=bindings, help="only accounts of this kind or transport; without: any"
        )
        define.add_argument("--owner", help="owned_by in /v1/models")
        define.add_argument("--display-name", help="for people")
        define.add_argument("--context-tokens", type=int, help="longest prompt and answer together")
        define.add_argument("--max-output-tokens", type=int, help="longest answer")
        define.add_argument("--enabled", choices=["yes", "no"], help="no: callers do not get it")
        alias = actions.add_parser("alias", help="let a name, or with * a pattern of names, lead to a model")
        alias.add_argument("name", help="what callers call it")
        alias.add_argument("target", help="the model or alias that serves it")
        actions.add_parser("remove", help="take a model or an alias away").add_argument("name", help="its name")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._run(options)
        except ValueError as error:
            raise CommandError(str(error)) from None

    def _run(self, options: dict[str, Any]) -> None:
        match options["action"]:
            case "define":
                given = {column: options[column] for column in COLUMNS if options[column] is not None}
                if options["upstream"]:
                    given["upstream"] = "" if options["upstream"] == ANY else options["upstream"]
                if options["enabled"]:
                    given["enabled"] = options["enabled"] == "yes"
                self.stdout.write(describe(define_model(options["name"], actor=COMMAND_LINE, **given)))
            case "alias":
                self.stdout.write(describe(define_alias(options["name"], options["target"], actor=COMMAND_LINE)))
            case "remove":
                delete_model(find_model(options["name"]), actor=COMMAND_LINE)
                self.stdout.write(f"{options['name']} is gone.")
            case _:
                for row in CatalogueModel.objects.all():
                    self.stdout.write(describe(row))


def find_model(name: str) -> CatalogueModel:
    """Raises ``CommandError`` when there is none."""
    row = CatalogueModel.objects.filter(name=name).first()
    if row is None:
        raise CommandError(f"There is no model or alias named {name}.")
    return row


def describe(row: CatalogueModel) -> str:
    """One line: an alias and where it leads, or a model with its sizes in tokens."""
    off = "" if row.enabled else "  (off)"
    if row.alias_of:
        return f"{row.name} → {row.alias_of}{off}"
    upstream = f" as {row.upstream_id}" if row.upstream_id and row.upstream_id != row.name else ""
    upstream += f" by {row.upstream} accounts" if row.upstream else ""
    return f"{row.name}{upstream}  {row.owner}  context {row.context_tokens}, output {row.max_output_tokens}{off}"
