"""The forms of the pool's accounts: a Cursor account, a text server, a provider channel, and a new key.

Fields are named like the columns that the verbs check, so that what a verb refuses is shown beside its field. A key is
never shown again, not even to whoever has just typed it.
"""

from __future__ import annotations

from typing import Any

import orjson
from django import forms

from accounts.channels import CUSTOM, DIALECTS, EFFORTS
from accounts.kinds import PROVIDERS, WAYS, AccountKind, Transport
from accounts.models import Account, Channel, Group, Proxy
from core.invalid import InvalidValue

_TEXT = {"class": "form-control"}
_CHOICE = {"class": "form-select"}
_SWITCH = {"class": "form-check-input", "role": "switch"}
_SPOKEN = {
    Transport.OPENAI_CHAT: "OpenAI Chat Completions",
    Transport.OPENAI_RESPONSES: "OpenAI Responses",
    Transport.ANTHROPIC_MESSAGES: "Anthropic Messages",
}
_WAYS = {
    Transport.AUTO: "Agent RPC, then Cloud Agents where they may do",
    Transport.AGENT_RPC: "Agent RPC",
    Transport.CLOUD_AGENTS: "Cloud Agents",
}
SIZES = ("context_tokens", "max_output_tokens", "thinking_budget", "idle_timeout")


def _text(label: str, hint: str = "", *, rows: int = 0, required: bool = False, longest: int = 200) -> forms.CharField:
    widget = forms.Textarea({**_TEXT, "rows": rows}) if rows else forms.TextInput(_TEXT)
    return forms.CharField(label=label, help_text=hint, required=required, max_length=longest, widget=widget)


def _number(label: str, hint: str = "", *, most: int = 10_000_000) -> forms.IntegerField:
    widget = forms.NumberInput(_TEXT)
    return forms.IntegerField(label=label, help_text=hint, min_value=0, max_value=most, widget=widget)


def _key(hint: str, *, required: bool = True) -> forms.CharField:
    widget = forms.PasswordInput({**_TEXT, "autocomplete": "off"}, render_value=False)
    return forms.CharField(label="Key", help_text=hint, required=required, max_length=8192, widget=widget)


class AccountForm(forms.Form):
    """What every account has."""

    name = _text("Name", "What you call it.", required=True, longest=64)
    groups = forms.ModelMultipleChoiceField(
        Group.objects.all(), required=False, widget=forms.CheckboxSelectMultiple, help_text="Teams reach it by these."
    )
    priority = _number("Priority", "The lowest is asked first.", most=1000)
    slots = _number("Slots", "Requests at once.", most=1000)
    proxy = forms.ModelChoiceField(
        Proxy.objects.all(), required=False, empty_label="Directly", label="Way out", widget=forms.Select(_CHOICE)
    )
    notes = _text("Notes", rows=2, longest=2000)

    def refuse(self, error: InvalidValue) -> None:
        """Shows what a verb said beside its field."""
        self.add_error(error.field if error.field in self.fields else None, error.sentence)

    def columns(self) -> dict[str, Any]:
        """What the verbs take, by their names of it."""
        return dict(self.cleaned_data)


class _ModelsForm(AccountForm):
    allowed_models = _text("Models", "Ids or patterns, one a line. Empty: all.", rows=3, longest=8000)

    def clean_allowed_models(self) -> list[str]:
        return str(self.cleaned_data["allowed_models"]).replace(",", " ").split()


class CursorForm(_ModelsForm):
    api_key = _key("An API key of the account. It is shown to nobody any more.")
    transport = forms.ChoiceField(
        label="Asked by",
        choices=[(way.value, _WAYS[way]) for way in WAYS[AccountKind.CURSOR]],
        widget=forms.Select(_CHOICE),
    )
    client_type = _text("Client type", "Sent as it is; empty: not sent.", longest=32)
    client_version = _text("Client version", "Sent as it is; empty: not sent.", longest=32)
    field_order = ("name", "api_key", "transport", "groups", "allowed_models")

    def columns(self) -> dict[str, Any]:
        return self.cleaned_data | {"transport": Transport(self.cleaned_data["transport"])}


class TextForm(_ModelsForm):
    base_url = _text("Base URL", "Without /api/chat.", required=True)
    api_key = _key("Any word where the server asks for none.")
    field_order = ("name", "base_url", "api_key", "groups", "allowed_models")


class ProviderForm(AccountForm):
    transport = forms.ChoiceField(
        label="Speaks",
        choices=[(way.value, _SPOKEN[way]) for way in PROVIDERS],
        help_text="A base URL that ends in an endpoint decides.",
        widget=forms.Select(_CHOICE),
    )
    base_url = _text("Base URL", "As the provider names it, with or without version.", required=True)
    api_key = _key("It is shown to nobody any more.")
    names = _text("Models", "One a line: the public name, or NAME=ID where the provider's id differs.", rows=3,
                  required=True, longest=8000)  # fmt: skip
    effort = forms.ChoiceField(
        label="Effort",
        required=False,
        choices=[("", "As the caller says"), *((word, word) for word in EFFORTS)],
        help_text="For requests that name none.",
        widget=forms.Select(_CHOICE),
    )
    dialect = forms.ChoiceField(
        label="How thinking is asked for",
        required=False,
        choices=[("", "By host and model"), *((word, word) for word in DIALECTS)],
        widget=forms.Select(_CHOICE),
    )
    endpoint = forms.BooleanField(
        label="No version in the path", required=False, widget=forms.CheckboxInput(_SWITCH)
    )  # fmt: skip
    extra_params = _text("Extra parameters", "A JSON object: fields of every request.", rows=3, longest=20_000)
    headers = _text("Headers", "A JSON object of texts. No credentials: they are the key.", rows=2, longest=20_000)
    context_tokens = _number("Context, tokens")
    max_output_tokens = _number("Longest answer, tokens")
    thinking_budget = _number("Budget to think, tokens", "For models that want one.")
    idle_timeout = _number("Idle timeout, seconds", "Silence that ends a turn; 0: the default.", most=86_400)
    field_order = ("name", "transport", "base_url", "api_key", "names", "groups", "effort", "dialect")

    def clean_names(self) -> dict[str, str]:
        words = str(self.cleaned_data["names"]).replace(",", " ").split()
        pairs = (word.partition("=") for word in words)
        return {name: upstream or name for name, _, upstream in pairs}

    def clean_endpoint(self) -> str:
        return CUSTOM if self.cleaned_data["endpoint"] else ""

    def clean_extra_params(self) -> dict[str, Any]:
        return _read_object(self.cleaned_data["extra_params"])

    def clean_headers(self) -> dict[str, Any]:
        return _read_object(self.cleaned_data["headers"])

    def columns(self) -> dict[str, Any]:
        columns = self.cleaned_data | {"transport": Transport(self.cleaned_data["transport"])}
        return columns | {"models": columns.pop("names")}


class ProviderEditForm(ProviderForm):
    api_key = _key("Empty: the key stays.", required=False)


class KeyForm(forms.Form):
    """A new key in place of the old one."""

    api_key = _key("The old one is forgotten at once.")

    def refuse(self, error: InvalidValue) -> None:
        self.add_error("api_key", error.sentence)


def new_values(kind: str) -> dict[str, Any]:
    """The form of an account that is not there yet: columns as they are by themselves."""
    values: dict[str, Any] = {name: getattr(Account(), name) for name in ("priority", "slots")}
    groups = list(Group.objects.values_list("pk", flat=True)[:2])
    values["groups"] = groups if len(groups) == 1 else []
    if kind == AccountKind.CURSOR:
        values["transport"] = Transport.AGENT_RPC.value
    if kind == AccountKind.PROVIDER:
        values |= {name: getattr(Channel(), name) for name in SIZES}
    return values


def provider_values(row: Account) -> dict[str, Any]:
    """A provider account as its form shows it."""
    channel = row.channel
    values = {name: getattr(row, name) for name in ("name", "transport", "base_url", "priority", "slots")}
    values |= {name: getattr(channel, name) for name in ("effort", "dialect", *SIZES)}
    names = [name if name == upstream else f"{name}={upstream}" for name, upstream in channel.names.items()]
    return values | {
        "names": "\n".join(names),
        "endpoint": channel.endpoint == CUSTOM,
        "extra_params": _write_object(channel.extra_params),
        "headers": _write_object(channel.headers),
        "groups": [group.pk for group in row.groups.all()],
        "proxy": row.proxy_id,
        "notes": row.notes,
    }


def _read_object(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        raise forms.ValidationError("This is no JSON.") from None
    if not isinstance(value, dict):
        raise forms.ValidationError("This is no JSON object.")
    return value


def _write_object(value: dict[str, Any]) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() if value else ""
