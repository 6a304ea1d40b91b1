"""The drill against the whole product: the path that it shows is the one that the request took."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from tests.plugins.house import House


def rehearse(house: House, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in house.manage("drill", "--json", *words).splitlines()]


def legs(seen: dict[str, Any]) -> list[tuple[str, str]]:
    return [(leg["account"], leg["reason"]) for leg in seen["legs"]]


def test_a_fault_of_one_account_leads_to_the_next(house: House) -> None:
    (seen,) = rehearse(house, "model_limit")

    assert legs(seen) == [("alpha", "model_limit"), ("beta", "")]
    assert seen["status"] == 200
    assert [account["account"] for account in seen["accounts"] if account["rests"]] == ["alpha"]


def test_a_fault_of_the_request_stops_at_the_first_account_and_marks_none(house: House) -> None:
    (seen,) = rehearse(house, "context_too_large")

    assert legs(seen) == [("alpha", "context_too_long")]
    assert (seen["status"], seen["code"]) == (400, "context_length_exceeded")
    assert all(account["state"] == "ready" and not account["rests"] for account in seen["accounts"])


def test_after_output_nobody_else_is_asked(house: House) -> None:
    (seen,) = rehearse(house, "--after", "3", "internal")

    assert legs(seen) == [("alpha", "transient")]
    assert seen["status"] == 200
    assert seen["interrupted"]


def test_every_account_may_be_made_to_fail(house: House) -> None:
    (seen,) = rehearse(house, "--everywhere", "account_closed")

    assert [name for name, _ in legs(seen)] == ["alpha", "beta", "gamma"]
    assert seen["status"] == 503


def test_nothing_of_a_drill_stays_but_its_records(house: House) -> None:
    before = house.manage("accounts", "list")
    (seen,) = rehearse(house, "suspicious")

    assert house.manage("accounts", "list") == before
    assert "drill-" not in house.manage("models", "list")
    assert house.record(seen["request_id"])["reason"] == "blocked"
    assert house.database.execute("SELECT count(*) FROM tenants_team WHERE name LIKE 'drill-%'").fetchone() == (0,)


def test_other_traffic_of_the_simulator_is_left_alone(house: House) -> None:
    rehearse(house, "--everywhere", "internal")

    assert all(row["fault"] is None for row in house.simulator.accounts().values())
    answer = httpx2.post(
        f"{house.url}/v1/chat/completions",
        json={"model": "sim-echo", "messages": [{"role": "user", "content": "still here"}]},
        headers={"authorization": f"Bearer {house.key}"},
        timeout=20,
    )
    assert answer.json()["choices"][0]["message"]["content"] == "still here"


def test_the_command_draws_the_path(house: House) -> None:
    drawn = house.manage("drill", "model_limit")

    assert "alpha model_limit at preamble (blames account_model, rests " in drawn
    assert "→ beta served → caller 200 in" in drawn


@pytest.mark.parametrize("words", [("--list",)])
def test_the_causes_are_those_of_the_simulator(house: House, words: tuple[str, ...]) -> None:
    assert "rate_limited_hint" in house.manage("drill", *words).split()


def test_the_api_rehearses_too(house: House) -> None:
    with httpx2.Client(base_url=house.url, timeout=60) as panel:
        page = panel.get("/sign-in").text
        token = page.partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]
        ready = house.instance.ready
        panel.post(
            "/sign-in",
            data={"username": ready["admin_user"], "password": ready["admin_password"], "csrfmiddlewaretoken": token},
            headers={"referer": house.url},
        )
        page = panel.get("/settings").text
        token = page.partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]
        headers = {"x-csrftoken": token, "referer": house.url}

        assert "internal" in panel.get("/api/drill").json()["causes"]
        seen = panel.post("/api/drill", json={"cause": "model_not_in_plan"}, headers=headers)
        unknown = panel.post("/api/drill", json={"cause": "nonsense"}, headers=headers)

    assert seen.status_code == 200, seen.text
    assert legs(seen.json()) == [("alpha", "model_gated"), ("beta", "")]
    assert unknown.status_code == 400
    assert unknown.json()["error"]["param"] == "cause"
