"""SHA-256 and its HMAC: by published vectors, and by the implementation of Python."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faces.native import are_equal, hmac_sha256, sha256_of

# FIPS 180-4 examples.
VECTORS = [
    (b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (
        b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
    ),
    (b"a" * 1_000_000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
]


@pytest.mark.parametrize(("data", "digest"), VECTORS)
def test_the_hash_is_that_of_the_standard(data: bytes, digest: str) -> None:
    assert sha256_of(data).hex() == digest


@given(st.binary(max_size=64), st.binary(max_size=300))
def test_hash_and_code_are_those_of_python(key: bytes, data: bytes) -> None:
    """Every length around the ends of blocks comes with them."""
    assert sha256_of(data) == hashlib.sha256(data).digest()
    assert hmac_sha256(key, data) == hmac.digest(key, data, "sha256")


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_equal_is_what_has_the_same_bytes(left: bytes, right: bytes) -> None:
    assert are_equal(left, left)
    assert are_equal(left, right) == (left == right)
