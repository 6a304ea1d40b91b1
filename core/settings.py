"""Every knob an admin can turn at run time: one dataclass field each, with default, bounds and help.

The form, the API schema, ``manage.py settings`` and the docs page are derived from ``KNOBS``. Rows in the database
hold only what differs from the default; ``compile_settings`` turns them into one frozen value that the snapshot
carries, and refuses a bad row with the same message that the form shows. What must differ between processes or is
secret (addresses, keys) is not a knob: that is the environment's, see ``config.settings``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from msgspec import Struct

MIB = 1024 * 1024
LONGEST_TEXT = 4000


class Knob(Struct, frozen=True):
    """What is known about a setting. ``minimum``/``maximum`` bound a number; ``unit`` is for display."""

    name: str
    kind: type
    default: Any
    help: str
    minimum: float | None = None
    maximum: float | None = None
    unit: str = ""
    group: str = ""

    @property
    def bounds(self) -> str:
        """What the knob may hold, in words."""
        if self.kind is bool:
            return "on or off"
        if self.minimum is None or self.maximum is None:
            return f"one line of at most {LONGEST_TEXT} characters"
        return f"{self.minimum:.10g} to {self.maximum:.10g} {self.unit}".rstrip()


def _knob(
    default: Any, text: str, *, low: float | None = None, high: float | None = None, unit: str = "", group: str = ""
) -> Any:
    metadata = {"help": text, "minimum": low, "maximum": high, "unit": unit, "group": group}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Settings:
    """The values in force. Field order is display order."""

    gemini_native_enabled: bool = _knob(
        False, "Serve the Gemini native endpoints. Off: they answer 404.", group="Endpoints"
    )
    exposed_models: str = _knob(
        "", "Base models to offer, comma separated. Empty: every enabled model of the catalogue.", group="Models"
    )
    expose_thinking: bool = _knob(
        False,
        "Show the model's thinking to Chat callers as reasoning_content, unless their key says otherwise. "
        "The other protocols show it when the request asks for it.",
        group="Models",
    )
    max_body_bytes: int = _knob(
        32 * MIB, "Largest request body after decompression.", low=1024, high=256 * MIB, unit="bytes", group="Budgets"
    )
    max_tool_definitions: int = _knob(
        128, "Most tools one request may declare.", low=0, high=1024, unit="tools", group="Budgets"
    )
    max_tool_schema_bytes: int = _knob(
        262_144, "Largest sum of all tool schemas as compact JSON.", low=0, high=8 * MIB, unit="bytes", group="Budgets"
    )
    max_output_schema_bytes: int = _knob(
        65_536, "Largest schema that an answer is asked to follow, as compact JSON.", low=0, high=262_144,
        unit="bytes", group="Budgets",
    )  # fmt: skip
    max_images: int = _knob(
        20, "Most images in one request, history included.", low=0, high=100, unit="images", group="Budgets"
    )
    max_image_bytes: int = _knob(
        5 * MIB, "Largest single image, decoded.", low=0, high=32 * MIB, unit="bytes", group="Budgets"
    )
    max_image_total_bytes: int = _knob(
        6 * MIB, "Largest sum of all images, decoded.", low=0, high=64 * MIB, unit="bytes", group="Budgets"
    )
    max_prompt_bytes: int = _knob(
        1_500_000, "Largest prompt text. Larger ones were seen to hang upstream and be billed.",
        low=1024, high=16 * MIB, unit="bytes", group="Budgets",
    )  # fmt: skip
    max_parts: int = _knob(
        10_000, "Most texts, images, calls and results in one request, history included.", low=100, high=1_000_000,
        unit="parts", group="Budgets",
    )  # fmt: skip
    max_attempts: int = _knob(3, "Accounts tried for one request.", low=1, high=5, unit="accounts", group="Failover")
    last_start: float = _knob(
        60.0, "Time after a request came beyond which no further attempt begins.", low=1, high=600, unit="s",
        group="Failover",
    )  # fmt: skip
    provider_retries: int = _knob(
        3, "Further tries, after 2, 5 and 10 seconds, of a provider account that no other can stand in for; 0: one, at "
        "once.", low=0, high=3, unit="tries", group="Failover",
    )  # fmt: skip
    retry_share: float = _knob(
        0.2, "Second attempts that one process makes, for each request of the last 10 seconds.", low=0, high=5,
        group="Failover",
    )  # fmt: skip
    retry_floor: int = _knob(
        10, "Second attempts in 10 seconds that one process may always make.", low=0, high=10_000, unit="attempts",
        group="Failover",
    )  # fmt: skip
    circuit_failures: int = _knob(
        5, "Failures within 10 seconds from which an upstream's model is asked by one request now and then alone (a "
        "canary), until that is answered.",
        low=2, high=1_000_000, unit="failures", group="Failover",
    )  # fmt: skip
    circuit_share: float = _knob(
        0.5, "Share of all attempts of those 10 seconds that must have failed as well.", low=0.05, high=1,
        group="Failover",
    )  # fmt: skip
    circuit_canary: float = _knob(
        5.0, "Time until the first canary; the next ones take twice as long each.", low=0.1, high=600, unit="s",
        group="Failover",
    )  # fmt: skip
    circuit_canary_longest: float = _knob(
        60.0, "Longest time between two canaries.", low=0.1, high=600, unit="s", group="Failover"
    )
    egress_faults: int = _knob(
        2, "Faults of one way out (a proxy, or none) after which it rests.", low=1, high=1000, unit="faults",
        group="Failover",
    )  # fmt: skip
    egress_window: float = _knob(60.0, "Time within which they count.", low=1, high=3600, unit="s", group="Failover")
    egress_rest: float = _knob(
        600.0, "How long it rests, unless a check gets through before.", low=1, high=86_400, unit="s", group="Failover"
    )
    refusal_memory: float = _knob(
        30.0, "How long a request that every account refused alike is answered from memory; 0: not at all.",
        low=0, high=600, unit="s", group="Failover",
    )  # fmt: skip
    body_timeout: float = _knob(
        30.0, "Longest wait for the next piece of a request body.", low=1, high=300, unit="s", group="Clocks"
    )
    connect_timeout: float = _knob(
        10.0, "Longest wait for a connection to an upstream.", low=0.5, high=60, unit="s", group="Clocks"
    )
    first_token_floor: float = _knob(
        30.0, "Wait for the first output that every attempt gets, however fast its model usually is.",
        low=1, high=600, unit="s", group="Clocks",
    )  # fmt: skip
    first_token_timeout: float = _knob(
        120.0, "Longest wait for the first output of one attempt; less where a model is usually faster.",
        low=1, high=600, unit="s", group="Clocks",
    )  # fmt: skip
    last_attempt_extra: float = _knob(
        60.0, "Further wait where no other account could be asked.", low=0, high=600, unit="s", group="Clocks"
    )
    idle_timeout: float = _knob(90.0, "Longest gap within an answer.", low=1, high=600, unit="s", group="Clocks")
    turn_timeout: float = _knob(900.0, "Longest turn.", low=10, high=3600, unit="s", group="Clocks")
    keepalive_interval: float = _knob(
        10.0, "Silence after which a stream gets a keepalive.", low=0.1, high=60, unit="s", group="Clocks"
    )
    tool_call_window: float = _knob(
        0.5,
        "Quiet time after a tool call in which a parallel one may still come.",
        low=0.05,
        high=3,
        unit="s",
        group="Clocks",
    )
    conversation_ttl: float = _knob(
        86_400.0,
        "How long stored responses can be built upon.",
        low=60,
        high=30 * 86_400,
        unit="s",
        group="Conversations",
    )
    trace_days: int = _knob(
        14, "How long decision traces of requests are kept.", low=1, high=365, unit="days", group="Records"
    )
    slot_ttl: float = _knob(600.0, "Life of a slot that nobody renews.", low=30, high=3600, unit="s", group="Pool")
    parked_streams: bool = _knob(
        True, "Keep the stream of an answer that ends with tool calls, and go on with it when the results come.",
        group="Pool",
    )  # fmt: skip
    parked_ttl: float = _knob(
        120.0, "How long such a stream waits for the results.", low=30, high=600, unit="s", group="Pool"
    )
    parked_most: int = _knob(
        64, "Most such streams that one process keeps; the oldest is closed.", low=1, high=4096, unit="streams",
        group="Pool",
    )  # fmt: skip
    wait_for_slot: float = _knob(30.0, "Longest wait for a free account slot.", low=0, high=45, unit="s", group="Pool")
    wait_for_sticky: float = _knob(
        45.0, "The same for a conversation that is bound to an account, where that is longer.",
        low=0, high=45, unit="s", group="Pool",
    )  # fmt: skip
    sticky_enabled: bool = _knob(True, "Prefer the account that a conversation was last served by.", group="Pool")
    sticky_ttl: float = _knob(
        3600.0, "A conversation is bound to its account for this long after each turn.", low=10, high=86_400, unit="s",
        group="Pool",
    )  # fmt: skip
    sticky_longest: float = _knob(
        86_400.0, "Longest time that a conversation is bound to one account.", low=10, high=30 * 86_400, unit="s",
        group="Pool",
    )  # fmt: skip
    sticky_grace: float = _knob(
        120.0, "A conversation waits elsewhere for its account when that rests no longer than this, and comes home.",
        low=0, high=3600, unit="s", group="Pool",
    )  # fmt: skip
    oauth_client_id: str = _knob(
        "",
        "OAuth client id with which browser logins are refreshed. Empty: a login serves until it ends, then its "
        "account needs a new one.",
        group="Health",
    )
    probe_budget: int = _knob(
        6, "Times an hour that an account which rests is asked whether it still has to.", low=0, high=60,
        unit="probes", group="Health",
    )  # fmt: skip
    login_refresh_ahead: float = _knob(
        1272.0,
        "Hours before its end at which a browser login is refreshed, but never in the first half of its life.",
        low=0.1, high=8760, unit="h", group="Health",
    )  # fmt: skip
    catalogue_auto_enable: bool = _knob(
        False,
        "Offer models to callers as soon as an upstream lists them. Off: they wait in the catalogue until an admin "
        "enables them.",
        group="Health",
    )
    probe_idle_after: int = _knob(
        10, "Minutes without a served request after which an account and its way out are asked how they are.",
        low=1, high=1440, unit="min", group="Health",
    )  # fmt: skip


KNOBS: Mapping[str, Knob] = {
    item.name: Knob(item.name, type(item.default), item.default, **item.metadata) for item in fields(Settings)
}


def check_value(name: str, value: object) -> Any:
    """The value in the knob's type. Raises ``ValueError`` with a sentence for the admin."""
    knob = KNOBS.get(name)
    if knob is None:
        raise ValueError(f"There is no setting named {name}.")
    converted = _convert(knob, value)
    if knob.minimum is not None and converted < knob.minimum:
        raise ValueError(f"{name} must be at least {knob.minimum:g} {knob.unit}".rstrip() + ".")
    if knob.maximum is not None and converted > knob.maximum:
        raise ValueError(f"{name} must be at most {knob.maximum:g} {knob.unit}".rstrip() + ".")
    return converted


def show_value(value: object) -> str:
    """A value as a person types it; ``check_value`` takes it back."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def compile_settings(rows: Mapping[str, object]) -> Settings:
    """One frozen value from stored rows (name → JSON value). Raises ``ValueError`` for a bad row."""
    return Settings(**{name: check_value(name, value) for name, value in rows.items()})


def _convert(knob: Knob, value: object) -> Any:
    if knob.kind is bool:
        return _as_bool(knob.name, value)
    if knob.kind is str:
        text = str(value).strip()
        if len(text) > LONGEST_TEXT or not text.isprintable():
            raise ValueError(f"{knob.name} must be one line of at most {LONGEST_TEXT} characters.")
        return text
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{knob.name} must be a number.")
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"{knob.name} must be a number.") from None
    if not math.isfinite(number):
        raise ValueError(f"{knob.name} must be a number.")
    if knob.kind is int:
        if number != int(number):
            raise ValueError(f"{knob.name} must be a whole number.")
        return int(number)
    return number


def _as_bool(name: str, value: object) -> bool:
    words = {"true": True, "on": True, "1": True, "yes": True, "false": False, "off": False, "0": False, "no": False}
    if isinstance(value, bool):
        return value
    if str(value).lower() in words:
        return words[str(value).lower()]
    raise ValueError(f"{name} must be on or off.")
