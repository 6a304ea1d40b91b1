"""What ``manage.py up`` shows once everything answers, and what it writes to ``--ready-file``. Pure."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, to_builtins

DEMO_MODEL = "claude-sonnet-4.6"


class Ready(Struct, frozen=True):
    """A running installation. ``base_url`` is without ``/v1``; ``None`` where there is nothing to tell.

    ``admin_password`` is known in two cases only: it was made just now, or it belongs to the demo.
    """

    base_url: str
    panel_url: str
    metrics_url: str
    metrics_token: str
    pid: int
    admin_user: str
    admin_password: str | None = None
    api_key: str | None = None
    simulator_url: str | None = None

    def as_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = to_builtins(self)
        return fields


def card(ready: Ready, *, logs: str, notes: tuple[str, ...] = ()) -> str:
    """The text for the terminal."""
    rows = [
        ("Panel", ready.panel_url),
        ("Sign in", _sign_in(ready)),
        ("API base", f"{ready.base_url}/v1  (OpenAI clients)"),
        ("", f"{ready.base_url}     (Anthropic clients)"),
    ]
    if ready.api_key:
        rows.append(("API key", ready.api_key))
    else:
        rows.append(("API key", "manage.py issue_key --team NAME --name NAME --create-team"))
    if ready.simulator_url:
        rows.append(("Simulator", f"{ready.simulator_url}  (stands in for the upstream)"))
    rows.append(("Logs", logs))
    lines = ["", "Poolgate is ready.", "", *(f"  {name:<10} {value}".rstrip() for name, value in rows)]
    lines += ["", "Try it:", "", *(f"  {line}" for line in curl(ready).splitlines()), ""]
    lines += [f"Note: {note}" for note in notes]
    lines.append("Stop with Ctrl-C.")
    return "\n".join(lines)


def curl(ready: Ready) -> str:
    """A command that can be pasted into a shell as it is; without a demo key it reads POOLGATE_KEY."""
    key = ready.api_key or "$POOLGATE_KEY"
    return (
        f"curl -N {ready.base_url}/v1/chat/completions \\\n"
        f'  -H "Authorization: Bearer {key}" -H "Content-Type: application/json" \\\n'
        f'  -d \'{{"model": "{DEMO_MODEL}", "stream": true, "messages": [{{"role": "user", "content": "Hello!"}}]}}\''
    )


def _sign_in(ready: Ready) -> str:
    if ready.admin_password is None:
        return f"{ready.admin_user}, with your password (manage.py owner --reset makes a new one)"
    if ready.api_key:
        return f"{ready.admin_user} / {ready.admin_password}"
    return f"{ready.admin_user} / {ready.admin_password}  (shown this once)"
