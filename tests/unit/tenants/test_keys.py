from __future__ import annotations

import hashlib
import hmac
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants import keys

RANDOM = st.binary(min_size=keys.RANDOM_BYTES, max_size=keys.RANDOM_BYTES)
BASE62 = string.digits + string.ascii_letters


@given(env=st.sampled_from(keys.ENVS), randomness=RANDOM)
def test_a_made_key_parses_to_itself(env: str, randomness: bytes) -> None:
    made = keys.make(env, randomness)
    assert keys.parse(made.text) == made
    prefix, seen_env, public_id, secret, checksum = made.text.split("_")
    assert (prefix, seen_env, public_id) == ("pg", env, made.public_id)
    assert [len(part) for part in (public_id, secret, checksum)] == [8, 43, 6]
    assert set(public_id + secret + checksum) <= set(BASE62)


def test_a_known_key_stays_what_it_is() -> None:
    made = keys.make("live", bytes(range(56)))
    assert made.text == "pg_live_OGusQGwp_DRBZr1jKqgWdrtemPrmMFHLnvrOewQwo0Sm4s543qch_4CLca4"


@given(randomness=RANDOM, data=st.data())
def test_one_changed_character_is_noticed(randomness: bytes, data: st.DataObject) -> None:
    text = keys.make("live", randomness).text
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from(BASE62 + "_- é").filter(lambda char: char != text[place]))
    assert keys.parse(text[:place] + other + text[place + 1 :]) is None


@given(randomness=RANDOM)
def test_a_key_of_one_env_is_no_key_of_the_other(randomness: bytes) -> None:
    text = keys.make("live", randomness).text
    assert keys.parse(text.replace("pg_live_", "pg_demo_", 1)) is None


@given(text=st.text() | st.from_regex(r"\Apg_(live|demo)_[0-9A-Za-z]{8}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}\Z"))
def test_parsing_junk_never_raises(text: str) -> None:
    parsed = keys.parse(text)
    assert parsed is None or parsed.text == text


@pytest.mark.parametrize("around", ["{} ", " {}", "{}\n", "Bearer {}"])
def test_a_key_with_something_around_it_is_no_key(around: str) -> None:
    assert keys.parse(around.format(keys.make("live", bytes(56)).text)) is None


@given(first=RANDOM, second=RANDOM)
def test_different_randomness_makes_different_keys(first: bytes, second: bytes) -> None:
    same = keys.make("live", first).text == keys.make("live", second).text
    assert same == (first == second)


def test_the_digest_is_the_hmac_of_the_whole_key() -> None:
    text = keys.make("live", bytes(56)).text
    expected = hmac.new(b"pepper", text.encode(), hashlib.sha256).digest()
    assert keys.digest(text, "pepper") == expected
    assert keys.digest(text, "other pepper") != expected


def test_an_empty_pepper_is_refused() -> None:
    with pytest.raises(ValueError, match="POOLGATE_KEY_PEPPER is empty"):
        keys.digest("pg_live_x", "")


def test_a_repr_does_not_show_the_secret() -> None:
    made = keys.make("demo", bytes(range(56)))
    assert made.text.split("_")[3] not in f"{made!r} {made}"


def test_too_little_randomness_and_unknown_envs_are_refused() -> None:
    with pytest.raises(ValueError, match="56 random bytes"):
        keys.make("live", bytes(55))
    with pytest.raises(ValueError, match="live, demo"):
        keys.make("test", bytes(56))
