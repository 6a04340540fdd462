"""Keys and ciphers as docs/formats.md "Encryption" has them."""

from __future__ import annotations

import hashlib
import hmac
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftmeta.security.cipher_handle import SEALING_BYTES, KeyRingHandle, key_id

KEY = bytes(range(32))
OTHER = bytes(32)


def derive(key: bytes, label: bytes, salt: bytes) -> bytes:
    return hmac.new(key, label + salt + b"\1", hashlib.sha256).digest()


def ring() -> KeyRingHandle:
    made = KeyRingHandle()
    made.add(KEY)
    made.add(OTHER)
    return made


@given(st.binary(min_size=32, max_size=32))
def test_an_id_is_derived_from_its_key(key: bytes) -> None:
    assert key_id(key) == int.from_bytes(derive(key, b"raftmeta key id", b"")[:8], "little")


def test_the_id_of_the_document() -> None:
    assert f"{key_id(KEY):016x}" == "1051f95fc2a40811"


@given(st.binary(max_size=100), st.binary(max_size=500))
def test_what_was_sealed_is_opened_and_its_salt_is_that_of_the_document(context: bytes, message: bytes) -> None:
    keys = ring()
    sealed = keys.seal(key_id(KEY), context, message)
    assert len(sealed) == len(message) + SEALING_BYTES
    assert keys.open(key_id(KEY), context, sealed) == message
    digest = hashlib.sha256(struct.pack("<Q", len(context) << 32 | len(message)) + context + message).digest()
    assert sealed[:16] == derive(KEY, b"raftmeta sealing salt", digest)[:16]
    assert sealed == ring().seal(key_id(KEY), context, message)


def test_the_cipher_is_aes_256_gcm() -> None:
    """Test vector: made with another implementation (the class AESGCM of the package cryptography 48)."""
    sealed = ring().seal(key_id(KEY), b"context", b"message")
    assert sealed.hex() == "8375ff0c8ea418fbaadc1ee19615b2ccfbd20c9835d85f4bef410e0893442e766bca9187fb9aa2"


@given(st.binary(max_size=40), st.data())
def test_any_changed_byte_is_noticed(message: bytes, data: st.DataObject) -> None:
    keys = ring()
    sealed = bytearray(keys.seal(key_id(KEY), b"here", message))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError):
        keys.open(key_id(KEY), b"here", bytes(sealed))


def test_another_place_another_key_and_a_cut_message_are_noticed() -> None:
    keys = ring()
    sealed = keys.seal(key_id(KEY), b"here", b"message")
    for id, context, message in (
        (key_id(KEY), b"there", sealed),
        (key_id(OTHER), b"here", sealed),
        (key_id(KEY), b"here", sealed[:-1]),
        (key_id(KEY), b"here", sealed[: SEALING_BYTES - 1]),
        (key_id(KEY), b"here", b""),
    ):
        with pytest.raises(ValueError):
            keys.open(id, context, message)


def test_a_ring_has_the_keys_that_it_was_given() -> None:
    keys = KeyRingHandle()
    assert (keys.current, keys.ids) == (0, ())
    with pytest.raises(KeyError):
        keys.use(key_id(KEY))
    assert keys.add(KEY) == keys.add(KEY) == key_id(KEY)
    keys.use(key_id(KEY))
    assert (keys.current, keys.ids) == (key_id(KEY), (key_id(KEY),))
    assert key_id(KEY) in keys and key_id(OTHER) not in keys
    with pytest.raises(KeyError):
        keys.seal(key_id(OTHER), b"", b"")
    with pytest.raises(ValueError):
        keys.add(b"short")
    keys.use(0)
    assert keys.current == 0


def test_a_ring_that_is_full_takes_no_key() -> None:
    keys = KeyRingHandle()
    for number in range(256):
        keys.add(number.to_bytes(32, "little"))
    keys.add(bytes(32))  # is there already
    with pytest.raises(MemoryError):
        keys.add(b"\xff" * 32)
