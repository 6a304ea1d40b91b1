from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from core import command
from core.audit import COMMAND_LINE
from tenants.compile import StructuredOutput, ToolChoiceOutcome
from tenants.models import ApiKey
from tenants.verbs import edit_key, revoke_key

SWITCHES = {"yes": True, "no": False, "default": None}


class Command(command.Command):
    help = "Show API keys, change their policies, revoke them. `issue_key` makes one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="every key with its id, team and policies")
        edit = actions.add_parser("edit", help="change what is named; the rest stays")
        edit.add_argument("id", help="the eight characters behind pg_live_")
        edit.add_argument("--name", help="what the key is for")
        edit.add_argument("--models", help="names or patterns it may use, comma separated; empty: all")
        edit.add_argument("--fallback-model", help="what serves names that stand for no model; empty: nothing")
        edit.add_argument("--structured-output", choices=list(StructuredOutput), help="for JSON by a schema")
        edit.add_argument("--expose-thinking", choices=list(SWITCHES), help="default: as the setting says")
        edit.add_argument("--drop-hosted-tools", choices=["yes", "no"], help="no: such requests are refused")
        edit.add_argument("--tool-choice-outcome", choices=list(ToolChoiceOutcome), help="when no demanded call came")
        edit.add_argument("--kilo-tool-strict", choices=["yes", "no"], help="yes: what the user says demands a call")
        edit.add_argument("--stop-after-calls", choices=list(SWITCHES), help="default: where a call is demanded")
        edit.add_argument("--max-concurrency", type=int, help="requests at once; 0: no cap of its own")
        revoke = actions.add_parser("revoke", help="end a key for good")
        revoke.add_argument("id", help="the eight characters behind pg_live_")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            match options["action"]:
                case "edit":
                    edit_key(find_key(options["id"]), actor=COMMAND_LINE, **read_changes(options))
                case "revoke":
                    revoke_key(find_key(options["id"]), actor=COMMAND_LINE)
                case _:
                    for row in ApiKey.objects.select_related("team"):
                        self.stdout.write(describe(row))
        except ValueError as error:
            raise CommandError(str(error)) from None


def find_key(public_id: str) -> ApiKey:
    """Raises ``CommandError`` when there is none."""
    row = ApiKey.objects.filter(public_id=public_id).first()
    if row is None:
        raise CommandError(f"There is no key {public_id}; `manage.py keys list` shows them.")
    return row


def read_changes(options: dict[str, Any]) -> dict[str, Any]:
    """The policies that were named on the command line."""
    plain = ("name", "fallback_model", "structured_output", "tool_choice_outcome", "max_concurrency")
    changes = {name: options[name] for name in plain if options[name] is not None}
    if options["models"] is not None:
        changes["allowed_models"] = [name.strip() for name in options["models"].split(",") if name.strip()]
    for name in ("expose_thinking", "drop_hosted_tools", "kilo_tool_strict", "stop_after_calls"):
        if options[name] is not None:
            changes[name] = SWITCHES[options[name]]
    return changes


def describe(row: ApiKey) -> str:
    """One line; policies are shown where they differ from a new key's."""
    notes = [row.state(timezone.now())]
    notes += [f"models {','.join(row.allowed_models)}"] if row.allowed_models else []
    notes += [f"fallback {row.fallback_model}"] if row.fallback_model else []
    notes += ["emulates schemas"] if row.structured_output == StructuredOutput.EMULATE else []
    notes += ["refuses hosted tools"] if not row.drop_hosted_tools else []
    notes += ["text for a missing call"] if row.tool_choice_outcome == ToolChoiceOutcome.LENIENT else []
    notes += ["demands calls"] if row.kilo_tool_strict else []
    if row.stop_after_calls is not None:
        notes.append("stops after calls" if row.stop_after_calls else "goes on after calls")
    if row.expose_thinking is not None:
        notes.append("shows thinking" if row.expose_thinking else "hides thinking")
    notes += [f"{row.max_concurrency} at once"] if row.max_concurrency else []
    return f"{row.public_id} …{row.last_four}  {row.team.slug}  {row.name}  ({'; '.join(notes)})"
