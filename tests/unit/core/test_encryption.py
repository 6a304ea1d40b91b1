from __future__ import annotations

import base64

import pytest
from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from core import encryption
from core.encryption import Keyring, SealError

OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()


@given(secret=st.binary(max_size=300))
def test_what_was_sealed_can_be_opened(secret: bytes) -> None:
    ring = Keyring([NEW])
    sealed = ring.seal(secret)
    assert ring.open(sealed) == secret
    assert len(secret) < 4 or secret not in sealed


def test_text_is_sealed_as_utf8() -> None:
    assert Keyring([NEW]).open(Keyring([NEW]).seal("größe")) == "größe".encode()


def test_an_older_key_still_opens_and_resealing_moves_to_the_newest() -> None:
    sealed = Keyring([OLD]).seal("secret")
    both = Keyring([NEW, OLD])
    assert both.open(sealed) == b"secret"
    assert not both.is_current(sealed)
    moved = both.reseal(sealed)
    assert both.is_current(moved)
    assert Keyring([NEW]).open(moved) == b"secret"
    assert both.reseal(moved) == moved


def test_a_value_of_an_unknown_key_says_so() -> None:
    with pytest.raises(SealError, match="not configured"):
        Keyring([NEW]).open(Keyring([OLD]).seal("secret"))


@pytest.mark.parametrize("junk", [b"", b":", b"secret", b"\xff\xfe:x"])
def test_junk_cannot_be_opened(junk: bytes) -> None:
    with pytest.raises(SealError):
        Keyring([NEW]).open(junk)


def test_an_altered_value_says_so() -> None:
    sealed = Keyring([NEW]).seal("secret")
    with pytest.raises(SealError, match="altered"):
        Keyring([NEW]).open(sealed[:-8] + b"AAAAAAA=")


@pytest.mark.parametrize("keys", [[], ["short"], [NEW, "äöü"], [NEW[:-4]], [base64.b64encode(b"x" * 31).decode()]])
def test_a_bad_ring_is_refused_without_showing_a_key(keys: list[str]) -> None:
    with pytest.raises(ValueError, match="encryption key") as caught:
        Keyring(keys)
    assert not any(key in str(caught.value) for key in keys)


def test_a_ring_without_keys_is_a_configuration_error(settings: Settings) -> None:
    settings.POOLGATE_ENCRYPTION_KEYS = []
    with pytest.raises(ImproperlyConfigured, match="POOLGATE_ENCRYPTION_KEYS"):
        encryption.keyring()


def test_a_repr_shows_key_ids_only() -> None:
    ring = Keyring([NEW, OLD])
    assert NEW not in repr(ring)
    assert OLD not in repr(ring)
    assert ring.key_id in repr(ring)


def test_a_signature_holds_for_its_purpose_tenant_and_data_alone() -> None:
    ring = Keyring([NEW])
    signature = ring.sign("thinking", 7, "a thought")
    assert ring.verify("thinking", 7, "a thought", signature)
    assert not ring.verify("state", 7, "a thought", signature)
    assert not ring.verify("thinking", 8, "a thought", signature)
    assert not ring.verify("thinking", 7, "another", signature)
    assert not ring.verify("thinking", 7, "a thought", signature[:-1])
    assert not ring.verify("thinking", 7, "a thought", "é")


def test_parts_of_a_signed_text_cannot_be_moved_across_their_border() -> None:
    ring = Keyring([NEW])
    assert ring.sign("ab", "c", "d") != ring.sign("a", "bc", "d") != ring.sign("a", "b", "cd")


def test_a_signature_outlives_a_new_key_in_front() -> None:
    signature = Keyring([OLD]).sign("thinking", 7, b"x")
    assert Keyring([NEW, OLD]).verify("thinking", 7, b"x", signature)
    assert not Keyring([NEW]).verify("thinking", 7, b"x", signature)


def test_the_sealing_key_is_not_the_signing_key() -> None:
    ring = Keyring([NEW])
    token = ring.seal("x").partition(b":")[2].decode()
    assert not ring.verify("thinking", 7, "x", token)
