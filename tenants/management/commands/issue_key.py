from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db import transaction

from core import command
from core.audit import COMMAND_LINE
from tenants.compile import StructuredOutput, ToolChoiceOutcome
from tenants.keys import ENVS
from tenants.management.commands.keys import SWITCHES
from tenants.models import Team
from tenants.verbs import create_team, issue_key


class Command(command.Command):
    help = "Issue an API key and print it, and nothing else, on standard output. It cannot be shown again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--team", required=True, help="name or slug of the team")
        parser.add_argument("--name", required=True, help="what the key is for")
        parser.add_argument("--env", default="live", choices=ENVS, help="the word after pg_ (live); a label alone")
        parser.add_argument("--models", default="", help="names or patterns it may use, comma separated; none: all")
        parser.add_argument("--fallback-model", default="", help="what serves names that stand for no model")
        parser.add_argument(
            "--structured-output",
            default="refuse",
            choices=list(StructuredOutput),
            help="what requests for JSON by a schema get (refuse); emulate: asked for in the prompt, checked",
        )
        parser.add_argument(
            "--tool-choice-outcome",
            default="strict",
            choices=list(ToolChoiceOutcome),
            help="when a demanded call does not come: an error (strict), or the text that came instead",
        )
        parser.add_argument(
            "--kilo-tool-strict", action="store_true", help="what the user says demands a call, also on auto"
        )
        parser.add_argument(
            "--stop-after-calls",
            default="default",
            choices=list(SWITCHES),
            help="over text: whether a turn ends with its calls (default: where a call is demanded)",
        )
        parser.add_argument("--create-team", action="store_true", help="make the team when there is none of that name")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with transaction.atomic():
                team = find_team(options["team"], create=options["create_team"])
                _, text = issue_key(
                    team,
                    options["name"],
                    options["env"],
                    actor=COMMAND_LINE,
                    allowed_models=[name.strip() for name in options["models"].split(",") if name.strip()],
                    fallback_model=options["fallback_model"],
                    structured_output=options["structured_output"],
                    tool_choice_outcome=options["tool_choice_outcome"],
                    kilo_tool_strict=options["kilo_tool_strict"],
                    stop_after_calls=SWITCHES[options["stop_after_calls"]],
                )
        except ValueError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(text)


def find_team(name: str, *, create: bool) -> Team:
    """The team of that name, or else slug. Raises ``CommandError`` that lists the teams there are."""
    team = Team.objects.filter(name=name).first() or Team.objects.filter(slug=name).first()
    if team is not None:
        return team
    if create:
        return create_team(name, actor=COMMAND_LINE)
    known = ", ".join(Team.objects.values_list("name", flat=True)) or "none"
    raise CommandError(f"There is no team named {name}. Teams: {known}. Add --create-team to make it.")
