"""API keys, for the operator: issued once and shown once, their policies edited, revoked for good."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.models import CatalogueModel
from accounts.naming import compile_names
from core.invalid import InvalidValue
from panel.access import PanelRequest, actor_of
from tenants.compile import StructuredOutput, ToolChoiceOutcome
from tenants.models import ApiKey, Team
from tenants.verbs import POLICIES, edit_key, issue_key, revoke_key

_TEXT = {"class": "form-control"}
_CHOICE = {"class": "form-select"}
_SWITCH = {"class": "form-check-input", "role": "switch"}
_MINUTES = "%Y-%m-%dT%H:%M"
_ANSWERS = {
    StructuredOutput.REFUSE: "Refuse the request",
    StructuredOutput.EMULATE: "Ask in the prompt, check the answer, try once more",
}
_MISSES = {
    ToolChoiceOutcome.STRICT: "Answer with an error",
    ToolChoiceOutcome.LENIENT: "Answer with the text that came instead",
}
_STOPS = {"": "Where a call is demanded", "yes": "Always", "no": "Never"}
_THINKING = {"": "As the setting says", "yes": "Show it", "no": "Hide it"}


class KeyForm(forms.Form):
    """Name and policies; what they may be is checked by the verbs."""

    name = forms.CharField(max_length=64, help_text="What or whom the key is for.", widget=forms.TextInput(_TEXT))
    expires_at = forms.DateTimeField(
        required=False,
        label="Expires (UTC)",
        help_text="Empty: never.",
        input_formats=[_MINUTES],
        widget=forms.DateTimeInput({**_TEXT, "type": "datetime-local"}, format=_MINUTES),
    )
    allowed_models = forms.CharField(
        required=False,
        label="Models",
        help_text="Names or patterns such as claude-*, one a line. Empty: every model.",
        widget=forms.Textarea({**_TEXT, "rows": 3}),
    )
    fallback_model = forms.CharField(
        required=False,
        max_length=160,
        help_text="Serves the names that stand for no model. Empty: they are not found.",
        widget=forms.TextInput(_TEXT),
    )
    structured_output = forms.ChoiceField(
        label="Answers by a JSON schema", choices=list(_ANSWERS.items()), widget=forms.Select(_CHOICE)
    )
    tool_choice_outcome = forms.ChoiceField(
        label="When a demanded call does not come",
        choices=list(_MISSES.items()),
        help_text="After the model was asked once more.",
        widget=forms.Select(_CHOICE),
    )
    kilo_tool_strict = forms.BooleanField(
        required=False,
        label="Demand a call in answer to the user",
        help_text="For orchestrators such as Kilo that expect one each time. Never after a tool result.",
        widget=forms.CheckboxInput(_SWITCH),
    )
    stop_after_calls = forms.TypedChoiceField(
        required=False,
        label="Over text, end the turn with its calls",
        choices=list(_STOPS.items()),
        coerce=lambda word: word == "yes",
        empty_value=None,
        widget=forms.Select(_CHOICE),
    )
    expose_thinking = forms.TypedChoiceField(
        required=False,
        label="Thinking on Chat",
        choices=list(_THINKING.items()),
        coerce=lambda word: word == "yes",
        empty_value=None,
        widget=forms.Select(_CHOICE),
    )
    drop_hosted_tools = forms.BooleanField(
        required=False,
        label="Leave out tools that run at the vendor",
        help_text="Off: a request that declares one is refused.",
        widget=forms.CheckboxInput(_SWITCH),
    )
    max_concurrency = forms.IntegerField(
        min_value=0,
        max_value=1000,
        label="Requests at once",
        help_text="0: no limit of its own.",
        widget=forms.NumberInput(_TEXT),
    )

    def clean_allowed_models(self) -> list[str]:
        return str(self.cleaned_data["allowed_models"]).replace(",", " ").split()

    def clean_fallback_model(self) -> str:
        name = str(self.cleaned_data["fallback_model"])
        if name and compile_names(CatalogueModel.objects.all()).find(name) is None:
            raise forms.ValidationError(f"There is no model {name}.")
        return name

    @property
    def policies(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in POLICIES}

    def refuse(self, error: InvalidValue) -> None:
        """Shows what a verb said beside its field."""
        self.add_error(error.field if error.field in self.fields else None, error.sentence)


class NewKeyForm(KeyForm):
    team = forms.ModelChoiceField(Team.objects.all(), empty_label=None, widget=forms.Select(_CHOICE))
    field_order = ("team",)


def keys(request: PanelRequest) -> HttpResponseBase:
    now = timezone.now()
    lines = [(row, row.state(now)) for row in ApiKey.objects.select_related("team")]
    return render(request, "panel/keys.html", {"lines": lines})


def key_new(request: PanelRequest) -> HttpResponseBase:
    """Issues a key. The answer to the form is the only page that ever shows it."""
    if request.method != "POST":
        form = NewKeyForm(initial=_values(ApiKey()))
        return render(request, "panel/key.html", {"form": form, "teams": Team.objects.exists()})
    form = NewKeyForm(request.POST)
    if form.is_valid():
        data, user = form.cleaned_data, request.user
        assert isinstance(user, User)  # noqa: S101 (the access table lets nobody else in)
        try:
            row, text = issue_key(data["team"], data["name"], created_by=user, actor=actor_of(request), **form.policies)
        except InvalidValue as error:
            form.refuse(error)
        else:
            return render(request, "panel/key_issued.html", {"row": row, "text": text})
    return render(request, "panel/key.html", {"form": form, "teams": Team.objects.exists()}, status=400)


def key(request: PanelRequest, public_id: str) -> HttpResponseBase:
    """One key: its policies, and the end of it."""
    row = _find(public_id)
    if request.method != "POST":
        return _page(request, row, KeyForm(initial=_values(row)))
    form = KeyForm(request.POST)
    if form.is_valid():
        try:
            edit_key(row, actor=actor_of(request), name=form.cleaned_data["name"], **form.policies)
        except InvalidValue as error:
            form.refuse(error)
        else:
            messages.success(request, f"{row.name} is saved, in force within a second.")
            return redirect("keys")
    return _page(request, row, form, status=400)


def key_revoke(request: PanelRequest, public_id: str) -> HttpResponseBase:
    """Only with the box ticked: there is no way back."""
    row = _find(public_id)
    if request.POST.get("sure") != "yes":
        return _page(request, row, KeyForm(initial=_values(row)), status=400, unsure=True)
    revoke_key(row, actor=actor_of(request))
    messages.success(request, f"{row.name} is revoked.")
    return redirect("keys")


def _page(
    request: PanelRequest, row: ApiKey, form: KeyForm, status: int = 200, unsure: bool = False
) -> HttpResponseBase:
    context = {"form": form, "row": row, "state": row.state(timezone.now()), "unsure": unsure}
    return render(request, "panel/key.html", context, status=status)


def _find(public_id: str) -> ApiKey:
    row = ApiKey.objects.select_related("team").filter(public_id=public_id).first()
    if row is None:
        raise Http404
    return row


def _values(row: ApiKey) -> dict[str, Any]:
    """A row as the form shows it."""
    values = {name: getattr(row, name) for name in ("name", *POLICIES)}
    for name in ("expose_thinking", "stop_after_calls"):
        values[name] = {None: "", True: "yes", False: "no"}[values[name]]
    return values | {"allowed_models": "\n".join(row.allowed_models)}
