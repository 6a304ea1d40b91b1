"""``manage.py accounts``: the pool from a terminal.

API keys are asked for, or read from standard input; never taken from the command line, which every user of the
machine can see.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Iterable, Iterator
from getpass import getpass
from typing import Any

from django.core.management.base import CommandError
from django.db import transaction
from django.utils import timezone

from accounts import channels, health, proxies, verbs
from accounts.compile import AccountState, Transport
from accounts.groups import allow_teams, create_group
from accounts.kinds import WAYS, AccountKind
from accounts.listing import AccountLine, list_accounts
from accounts.models import Account, Credential, Group, Proxy
from accounts.troubles import DIRECT
from core import command
from core.audit import COMMAND_LINE
from tenants.models import Team

GROUP = "main"
"""The group of an account that is added without naming one."""


CURSOR_WAYS = [way.value for way in WAYS[AccountKind.CURSOR]]
KINDS = {
    "openai-chat": Transport.OPENAI_CHAT,
    "openai-responses": Transport.OPENAI_RESPONSES,
    "anthropic": Transport.ANTHROPIC_MESSAGES,
}
"""The kinds of provider by the names of the command line."""
SIZES = ("context_tokens", "max_output_tokens", "thinking_budget", "idle_timeout")
CHANNEL = ("effort", "dialect", *SIZES)


class Command(command.Command):
    help = "Show the pool's accounts, add Cursor and provider accounts, wake or switch them off, let teams use them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="every account with its condition, every group with its teams")
        add = actions.add_parser("add", help="add a Cursor account; its API key is asked for, or read from stdin")
        _add_common(add)
        add.add_argument("--models", default="", help="upstream ids or patterns, comma separated; none: all")
        add.add_argument("--login", action="store_true", help="a browser login as JSON in place of an API key")
        add.add_argument("--transport", choices=CURSOR_WAYS, default=Transport.AGENT_RPC.value, help="how it is asked")
        server = actions.add_parser("add-text", help="add a text model server of your own")
        _add_common(server)
        server.add_argument("--base-url", required=True, help="without /api/chat")
        server.add_argument("--models", required=True, help="ids or patterns of its models, comma separated")
        way = actions.add_parser("transport", help="change how Cursor accounts are asked")
        way.add_argument(
            "transport", choices=CURSOR_WAYS, help="auto: the Agent RPC, then Cloud Agents where they may do"
        )
        way.add_argument("names", nargs="+", metavar="name", help="accounts")
        proxy = actions.add_parser("proxy", help="change the way out of accounts")
        proxy.add_argument("proxy", help="the name of a proxy, a new one's address, or direct")
        proxy.add_argument("names", nargs="+", metavar="name", help="accounts")
        provider = actions.add_parser(
            "add-provider", help="add an account at an OpenAI- or Anthropic-compatible provider"
        )
        _add_common(provider)
        _add_channel(provider)
        edit = actions.add_parser("edit-provider", help="change a provider account; what is not named stays as it is")
        edit.add_argument("name", help="the account")
        edit.add_argument("--rename", dest="new_name", metavar="NAME", help="what you call it from now on")
        edit.add_argument("--key", action="store_true", help="a new API key, asked for or read from stdin")
        edit.add_argument("--slots", type=int, help="requests at once")
        edit.add_argument("--priority", type=int, help="the lowest is asked first")
        _add_channel(edit, new=False)
        key = actions.add_parser("key", help="give an account a new API key, asked for or read from stdin")
        key.add_argument("name", help="the account")
        key.add_argument("--login", action="store_true", help="a browser login as JSON in place of an API key")
        test = actions.add_parser("test", help="ask accounts by a call that costs nothing, and say what it means")
        test.add_argument("names", nargs="+", metavar="name", help="accounts")
        test.add_argument("--end-rests", action="store_true", help="who answers rests no more")
        for action, text in (
            ("wake", "let accounts that rest, need a sign-in or were blocked try again"),
            ("enable", "switch accounts on"),
            ("disable", "switch accounts off; running requests go on"),
            ("drain", "give accounts no new conversations; those that are bound to them go on there"),
            ("fill", "give drained accounts new conversations again"),
            ("remove", "delete accounts and their credentials; records stay"),
        ):
            named = actions.add_parser(action, help=text)
            named.add_argument("names", nargs="+", metavar="name", help="accounts")
        for action, text in (("allow", "let teams use a group's accounts"), ("deny", "let them no longer")):
            teams = actions.add_parser(action, help=text)
            teams.add_argument("group", help="name or slug of the group")
            teams.add_argument("teams", nargs="+", metavar="team", help="names or slugs of teams")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with transaction.atomic():
                said = list(self._run(options))
        except ValueError as error:
            raise CommandError(str(error)) from None
        self.stdout.write("\n".join(said))  # after the commit: whoever reads only the head of it undoes nothing

    def _run(self, options: dict[str, Any]) -> Iterator[str]:
        match options["action"]:
            case "list":
                yield from show(list_accounts(timezone.now()))
            case "add" | "add-provider" | "add-text":
                self._add(options)
                yield from show_named([options["name"]])
            case "key" | "edit-provider":
                account = find_account(options["name"])
                self._edit(account, options)
                yield from show_named([account.name])
            case "remove":
                for account in [find_account(name) for name in options["names"]]:
                    verbs.delete_account(account, actor=COMMAND_LINE)
                    yield f"{account.name} is gone."
            case "allow" | "deny":
                yield describe_group(self._change_teams(options))
            case "test":
                for account in [find_account(name) for name in options["names"]]:
                    answer = health.ask_now(account, end_rests=options["end_rests"], actor=COMMAND_LINE)
                    yield answer.tell(account.name)
            case "proxy" | "transport":
                change_way(options)
                yield from show_named(options["names"])
            case action:
                for account in [find_account(name) for name in options["names"]]:
                    change(account, action)
                yield from show_named(options["names"])

    def _add(self, options: dict[str, Any]) -> None:
        teams = find_teams(options["team"])
        group = find_group(options["group"]) or create_group(options["group"], actor=COMMAND_LINE)
        common = {
            "groups": [group],
            "slots": options["slots"],
            "priority": options["priority"],
            "proxy": find_proxy(options["proxy"]) if options["proxy"] else None,
            "actor": COMMAND_LINE,
        }
        models = [name.strip() for name in options["models"].split(",") if name.strip()]
        if options["action"] == "add":
            key = read_key(options["name"], options["login"])
            verbs.create_cursor_account(
                options["name"],
                key,
                transport=Transport(options["transport"]),
                allowed_models=models,
                credential=credential_kind(options["login"]),
                **common,
            )
        elif options["action"] == "add-text":
            key, base_url = read_key(options["name"]), options["base_url"]
            verbs.create_text_account(options["name"], key, base_url, allowed_models=models, **common)
        else:
            verbs.create_provider_account(
                options["name"],
                read_key(options["name"]),
                options["base_url"],
                KINDS[options["kind"]],
                read_pairs(models),
                **common,
                **_channel(options),
            )
        if teams:
            allow_teams(group, {*group.teams.all(), *teams}, actor=COMMAND_LINE)

    def _edit(self, account: Account, options: dict[str, Any]) -> None:
        if options["action"] == "key":
            secret = read_key(account.name, options["login"])
            verbs.replace_credential(account, secret, credential_kind(options["login"]), actor=COMMAND_LINE)
            return
        given = {name: options[name] for name in ("base_url", "slots", "priority")}
        given |= {"name": options["new_name"], **_channel(options)}
        verbs.update_provider_account(
            account,
            api_key=read_key(account.name) if options["key"] else "",
            transport=KINDS[options["kind"]] if options["kind"] else None,
            models=read_pairs(options["models"].split(",")) if options["models"] else None,
            actor=COMMAND_LINE,
            **{name: value for name, value in given.items() if value is not None},
        )

    def _change_teams(self, options: dict[str, Any]) -> Group:
        group, teams = find_group(options["group"]), set(find_teams(options["teams"]))
        if group is None:
            known = ", ".join(Group.objects.values_list("name", flat=True)) or "none"
            raise CommandError(f"There is no group named {options['group']}. Groups: {known}.")
        had = set(group.teams.all())
        allow_teams(group, had | teams if options["action"] == "allow" else had - teams, actor=COMMAND_LINE)
        return group


def show_named(names: Iterable[str]) -> Iterator[str]:
    return show([line for line in list_accounts(timezone.now()) if line.account.name in names])


def show(lines: Iterable[AccountLine]) -> Iterator[str]:
    """The accounts, then their groups."""
    groups: set[str] = set()
    for line in lines:
        yield from describe(line)
        groups |= set(line.groups)
    for group in Group.objects.filter(name__in=groups):
        yield describe_group(group)
    if not groups:
        yield "There is no account that a group holds. Add one: manage.py accounts add NAME --team TEAM"


def _add_common(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="what you call it")
    parser.add_argument("--group", default=GROUP, help=f"group that it joins, made when missing ({GROUP})")
    parser.add_argument("--team", action="append", default=[], help="team that may use the group; may be repeated")
    parser.add_argument("--slots", type=int, default=3, help="requests at once (3)")
    parser.add_argument("--priority", type=int, default=100, help="the lowest is asked first (100)")
    parser.add_argument("--proxy", default="", help="its way out: the name of a proxy, or a new one's address")


def _add_channel(parser: ArgumentParser, *, new: bool = True) -> None:
    """``new``: an account needs some of it; to change one, nothing is needed."""
    parser.add_argument("--kind", choices=list(KINDS), required=new, help="what the provider speaks")
    parser.add_argument("--base-url", required=new, help="as the provider names it, with or without version")
    parser.add_argument("--models", required=new, help="public names, comma separated; NAME=ID where the ids differ")
    parser.add_argument("--custom-endpoint", action=BooleanOptionalAction, help="no version in the path")
    parser.add_argument("--effort", choices=("", *channels.EFFORTS), help="for requests that name none")
    parser.add_argument(
        "--dialect", choices=("", *channels.DIALECTS), help="how thinking is asked for; else by host and model"
    )
    for name, text in zip(SIZES, ("window", "longest answer", "tokens to think", "seconds of silence"), strict=True):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help=text)
    parser.add_argument("--extra-params", metavar="JSON", help="fields that every request gets")
    parser.add_argument("--header", action="append", metavar="NAME=TEXT", help="may be repeated; replaces all")


def _channel(options: dict[str, Any]) -> dict[str, Any]:
    """The columns of the channel that are named. Raises ``ValueError`` for extra parameters that are no JSON."""
    columns = {name: options[name] for name in CHANNEL if options[name] is not None}
    if options["custom_endpoint"] is not None:
        columns["endpoint"] = channels.CUSTOM if options["custom_endpoint"] else ""
    if options["extra_params"] is not None:
        columns["extra_params"] = json.loads(options["extra_params"])
    if options["header"] is not None:
        columns["headers"] = {name: text for name, _, text in (one.partition("=") for one in options["header"])}
    return columns


def read_pairs(words: Iterable[str]) -> dict[str, str]:
    """``NAME`` or ``NAME=ID`` → public name and the provider's id."""
    pairs = (word.strip().partition("=") for word in words)
    return {name: upstream or name for name, _, upstream in pairs if name}


def change(account: Account, action: str) -> None:
    """``enable``, ``disable``, ``drain``, ``fill`` or ``wake`` one account."""
    if action == "wake":
        verbs.set_state(account, AccountState.READY, actor=COMMAND_LINE)
        verbs.clear_cooldowns(account, actor=COMMAND_LINE)
    elif action in ("drain", "fill"):
        verbs.set_draining(account, action == "drain", actor=COMMAND_LINE)
    else:
        verbs.set_enabled(account, action == "enable", actor=COMMAND_LINE)


def change_way(options: dict[str, Any]) -> None:
    """The proxy of accounts, or their transport."""
    accounts = [find_account(name) for name in options["names"]]
    if options["action"] == "transport":
        for account in accounts:
            verbs.set_transport(account, Transport(options["transport"]), actor=COMMAND_LINE)
        return
    proxy = None if options["proxy"] == DIRECT else find_proxy(options["proxy"])
    for account in accounts:
        proxies.set_account_proxy(account, proxy, actor=COMMAND_LINE)


def read_key(name: str, login: bool = False) -> str:
    """The API key, from the terminal without showing it, or the first line of standard input; a login is all
    of it."""
    if sys.stdin.isatty():
        return getpass(f"{'Login' if login else 'API key'} of {name}: ")
    return sys.stdin.read().strip() if login else sys.stdin.readline().strip()


def credential_kind(login: bool) -> str:
    return Credential.Kind.LOGIN_TOKEN if login else Credential.Kind.API_KEY


def find_account(name: str) -> Account:
    """Raises ``CommandError`` when there is none."""
    row = Account.objects.filter(name=name).first()
    if row is None:
        raise CommandError(f"There is no account named {name}; `manage.py accounts list` shows them.")
    return row


def find_proxy(name: str) -> Proxy:
    """A proxy by its name; for an address the one of it, made when missing. Raises ``CommandError``."""
    if "://" in name:
        return proxies.find_or_create(name, actor=COMMAND_LINE)
    row = Proxy.objects.filter(name=name).first()
    if row is None:
        raise CommandError(f"There is no proxy named {name}; `manage.py proxies list` shows them.")
    return row


def find_group(name: str) -> Group | None:
    return Group.objects.filter(name=name).first() or Group.objects.filter(slug=name).first()


def find_teams(names: Iterable[str]) -> list[Team]:
    """Raises ``CommandError`` for the first that there is not."""
    return [find_team(name) for name in names]


def find_team(name: str) -> Team:
    team = Team.objects.filter(name=name).first() or Team.objects.filter(slug=name).first()
    if team is None:
        known = ", ".join(Team.objects.values_list("name", flat=True)) or "none"
        raise CommandError(f"There is no team named {name}. Teams: {known}. `manage.py issue_key` makes one.")
    return team


def describe(line: AccountLine) -> Iterator[str]:
    """An account in a line, one more for its channel, and one for each thing that rests."""
    account = line.account
    reason = f" ({line.reason})" if line.reason else ""
    way = f"  by {account.proxy}" if account.proxy else ""
    in_use = "?" if line.in_use is None else line.in_use
    yield (
        f"{account.name}  {account.kind}  {line.condition}{reason}  {in_use} of {account.slots} slots"
        f"  key {line.credential or 'missing'}{way}  groups {', '.join(line.groups) or 'none'}"
    )
    channel = getattr(account, "channel", None)
    if channel is not None:
        names = (name if name == upstream else f"{name}={upstream}" for name, upstream in channel.names.items())
        yield f"    channel {channel.channel_id}  {account.transport}  {account.base_url}  {', '.join(names)}"
    for rest in line.cooling:
        yield f"    {rest.model or 'the whole account'} rests until {rest.until:%H:%M:%S} ({rest.reason})"


def describe_group(group: Group) -> str:
    teams = ", ".join(group.teams.values_list("name", flat=True))
    hint = f"no team yet; let one: manage.py accounts allow {group.slug} TEAM"
    return f"group {group.name}  teams {teams}" if teams else f"group {group.name}  {hint}"
