from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings

from core import redis
from core.audit import SYSTEM
from panel import drill
from panel.drill import Drill, Unavailable
from tenants.models import Profile, Team
from tests.unit.panel.conftest import make_user, signed_in


def error_of(response: object) -> dict[str, object]:
    body: dict[str, dict[str, object]] = json.loads(response.content)  # type: ignore[attr-defined]
    return body["error"]


def test_who_is_not_signed_in_is_told_so_in_json(db: None) -> None:
    response = Client().get("/api/drill")

    assert response.status_code == 401
    assert error_of(response)["code"] == "not_signed_in"


def test_a_role_that_is_too_low_is_refused_in_json(red: Team) -> None:
    response = signed_in(make_user("viewer", red)).get("/api/drill")

    assert response.status_code == 403
    assert error_of(response)["code"] == "not_allowed"


def test_a_one_time_password_opens_no_api(owner: User) -> None:
    Profile.objects.update_or_create(user=owner, defaults={"must_change_password": True})

    response = signed_in(owner).get("/api/drill")

    assert response.status_code == 403
    assert error_of(response)["code"] == "password_change_needed"


def test_an_order_without_the_csrf_token_is_refused(owner: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner)

    response = client.post("/api/drill", {"cause": "internal"}, content_type="application/json")

    assert response.status_code == 403


@pytest.mark.parametrize(
    ("order", "param"),
    [({}, "cause"), ({"cause": "internal", "after": -1}, "after"), ({"cause": "internal", "after": 51}, "after"),
     ({"cause": "x" * 65}, "cause"), ({"cause": "internal", "everywhere": "perhaps"}, "everywhere")],
)  # fmt: skip
def test_a_bad_order_names_its_field(owner: User, order: dict[str, object], param: str) -> None:
    response = signed_in(owner).post("/api/drill", order, content_type="application/json")

    assert response.status_code == 400
    assert error_of(response)["param"] == param


def test_a_drill_without_a_running_installation_says_what_to_do(owner: User, tmp_path: Path) -> None:
    with override_settings(DATA_DIR=tmp_path):
        response = signed_in(owner).post("/api/drill", {"cause": "internal"}, content_type="application/json")

    assert response.status_code == 409
    assert "--demo" in str(error_of(response)["message"])


def test_a_drill_needs_the_simulator(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "up.json").write_text(json.dumps({"base_url": "http://127.0.0.1:1", "simulator_url": None}))

    with override_settings(DATA_DIR=tmp_path), pytest.raises(Unavailable, match="simulator"):
        drill.addresses()


def test_there_is_one_drill_at_a_time(redis_url: str) -> None:
    redis.connection().delete(drill.LOCK)
    with Drill("http://127.0.0.1:1", "http://127.0.0.1:1", SYSTEM):
        with pytest.raises(Unavailable, match="Another"), Drill("http://127.0.0.1:1", "http://127.0.0.1:1", SYSTEM):
            pass
        assert redis.connection().exists(drill.LOCK)
    assert not redis.connection().exists(drill.LOCK)


def test_the_documentation_page_needs_no_foreign_host_and_no_inline_script(owner: User) -> None:
    page = signed_in(owner).get("/api/docs").content.decode()

    assert "//" not in page.replace("://www.w3.org", "")
    assert "<script>" not in page
    assert "/static/ninja/swagger-ui-bundle.js" in page
