from __future__ import annotations

import shlex

import msgspec

from config.card import Ready, card, curl

READY = Ready(
    base_url="http://127.0.0.1:8080",
    panel_url="http://127.0.0.1:8080/",
    metrics_url="http://127.0.0.1:8080/metrics",
    metrics_token="token-for-metrics",
    pid=42,
    admin_user="admin",
)
DEMO = msgspec.structs.replace(
    READY, admin_password="demo-password", api_key="pg_demo_x", simulator_url="http://127.0.0.1:9"
)


def test_the_ready_file_has_every_field_also_the_empty_ones() -> None:
    assert set(READY.as_json()) == {
        "base_url", "api_key", "panel_url", "admin_user", "admin_password",
        "metrics_url", "metrics_token", "simulator_url", "pid",
    }  # fmt: skip


def test_the_card_of_the_demo_shows_all_one_needs() -> None:
    text = card(DEMO, logs="var/logs")
    for part in ("http://127.0.0.1:8080/", "admin / demo-password", "http://127.0.0.1:8080/v1", "pg_demo_x", "Ctrl-C"):
        assert part in text


def test_a_one_time_password_is_marked_and_an_unknown_one_is_not_invented() -> None:
    first = card(msgspec.structs.replace(READY, admin_password="one-time"), logs="var/logs")
    assert "admin / one-time  (shown this once)" in first
    later = card(READY, logs="var/logs")
    assert "with your password" in later
    assert "None" not in later


def test_the_card_never_shows_the_metrics_token() -> None:
    assert "token-for-metrics" not in card(DEMO, logs="var/logs")


def test_the_curl_command_survives_a_shell() -> None:
    words = shlex.split(curl(DEMO).replace("\\\n", ""))
    assert words[:3] == ["curl", "-N", "http://127.0.0.1:8080/v1/chat/completions"]
    assert "Authorization: Bearer pg_demo_x" in words
    body = msgspec.json.decode(words[words.index("-d") + 1])
    assert body["stream"] is True


def test_notes_come_before_the_end() -> None:
    assert "Note: mind the gap" in card(READY, logs="var/logs", notes=("mind the gap",))
