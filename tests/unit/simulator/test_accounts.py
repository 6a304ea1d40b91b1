from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from simulator.accounts import Tokens, bearer, load
from simulator.causes import Failure


def test_without_a_seed_there_is_an_account_for_every_face_and_provider() -> None:
    assert [(one.name, one.key) for one in load(None)] == [
        ("alpha", "crsr_sim_alpha"),
        ("beta", "crsr_sim_beta"),
        ("gamma", "crsr_sim_gamma"),
        ("cloud", "crsr_sim_cloud"),
        ("text", "crsr_sim_text"),
        ("openai", "sk-sim-openai"),
        ("responses", "sk-sim-responses"),
        ("anthropic", "sk-sim-anthropic"),
    ]


def test_a_seed_names_accounts_keys_and_models(tmp_path: Path) -> None:
    seed = tmp_path / "seed.json"
    seed.write_text(json.dumps({"accounts": [{"name": "a"}, {"name": "b", "key": "crsr_x", "models": ["sim-echo"]}]}))
    first, second = load(seed)
    assert (first.key, first.models) == ("crsr_sim_a", None)
    assert (second.key, second.models) == ("crsr_x", frozenset({"sim-echo"}))


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", "not json", '{"accounts": [{}]}', '{"accounts": [{"name": "a"}, {"name": "a"}]}', '{"accounts": 3}'],
)
def test_a_seed_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    seed = tmp_path / "seed.json"
    seed.write_text(text)
    with pytest.raises(ValueError, match=r"seed\.json"):
        load(seed)


def test_a_token_shows_type_and_expiry_and_names_its_account() -> None:
    tokens = Tokens()
    token = tokens.mint("alpha", 1000.0, 60.0)
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert (claims["type"], claims["exp"]) == ("api_key_token", 1060)
    assert tokens.check(token, 1059.0) == "alpha"


def test_an_expired_token_is_refused() -> None:
    tokens = Tokens()
    with pytest.raises(Failure, match="expired"):
        tokens.check(tokens.mint("alpha", 1000.0, 60.0), 1060.0)


@pytest.mark.parametrize("token", ["", "crsr_sim_alpha", "a.b.c", Tokens(b"other").mint("alpha", 0.0, 1e9)])
def test_a_token_that_is_not_ours_is_refused(token: str) -> None:
    with pytest.raises(Failure, match="not a token"):
        Tokens(b"ours").check(token, 0.0)


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic abc"])
def test_a_request_without_a_bearer_is_refused(header: str) -> None:
    with pytest.raises(Failure, match="no bearer"):
        bearer({"authorization": header})
