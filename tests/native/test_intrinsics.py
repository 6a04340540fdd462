"""Checksums, hashes and the seeded stream: fixed forever, so by published and frozen vectors and by a plain model."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftmeta.native.native_handle import crc32c, hash128
from tests.faces.native import big64, crc32c_by_table, hash64, random_stream

MASK_64 = (1 << 64) - 1

# RFC 3720 B.4, and the check value of the CRC catalogue.
CRC32C_VECTORS = [
    (b"", 0x00000000),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(reversed(range(32))), 0x113FDB5C),
]

# Frozen: what files and frames already hold (docs/formats.md "Checksums").
HASH128_VECTORS: list[tuple[int, bytes, tuple[int, int]]] = [
    (0, b"", (0xB99DF653E8487DB3, 0x0C37B1C8F6E225BB)),
    (0, b"a", (0x780FA5F00B424BBF, 0x9121121BAD142A59)),
    (0, b"raftmeta", (0x55241B81F7FF5914, 0x22024E7699FE1391)),
    (0, bytes(16), (0x3076A171E9CD8672, 0x4ECD905465B5A372)),
    (0, bytes(range(17)), (0xFD36945F9536E717, 0x41BF884155673528)),
    (1, bytes(range(64)), (0x66B2F04D74960076, 0x7B0F12724818D23F)),
    (MASK_64, b"\xff" * 33, (0x20AB9A26932F4036, 0x79F620C92C0FCA05)),
]

# splitmix64 of Steele, Lea and Flood, seed 1234567: the first numbers that its reference program prints.
SPLITMIX64_1234567 = [
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]


def crc32c_bit_by_bit(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def fold(a: int, b: int) -> int:
    product = a * b
    return product & MASK_64 ^ product >> 64


def hash128_model(seed: int, data: bytes) -> tuple[int, int]:
    """The definition in docs/formats.md "Checksums", one step per line."""
    k0, k1, k2, k3 = 0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3
    a, b = seed ^ k0, seed + k1 & MASK_64
    whole = len(data) // 16 * 16
    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, whole, 8)]
    for x, y in zip(words[::2], words[1::2], strict=True):
        a = fold(a ^ x ^ k2, y ^ k3)
        b = fold(b ^ y ^ k0, x ^ k1) + a & MASK_64
    tail = data[whole:].ljust(16, b"\0")
    x, y = int.from_bytes(tail[:8], "little"), int.from_bytes(tail[8:], "little")
    a = fold(a ^ x ^ k2, y ^ k3 ^ len(data))
    b = fold(b ^ y ^ k0, x ^ k1 ^ len(data) << 1) + a & MASK_64
    low = fold(a ^ k1, b ^ k2)
    return low, fold(b ^ k3, a ^ k0) + low & MASK_64


@pytest.mark.parametrize(("data", "expected"), CRC32C_VECTORS)
def test_crc32c_gives_the_published_values(data: bytes, expected: int) -> None:
    """RFC 3720 B.4; both ways of computing it."""
    assert crc32c(data) == expected
    assert crc32c_by_table(data) == expected


@given(st.binary(max_size=300), st.integers(0, 300))
def test_crc32c_of_parts_is_that_of_the_whole(data: bytes, cut: int) -> None:
    """A seed is an earlier result; hardware, table and model agree at every length and offset."""
    expected = crc32c_bit_by_bit(data)
    assert crc32c(data) == crc32c_by_table(data) == expected
    assert crc32c(data[cut:], seed=crc32c(data[:cut])) == expected
    assert crc32c_by_table(data[cut:], seed=crc32c_by_table(data[:cut])) == expected


@pytest.mark.parametrize("lane", [32, 96, 1024])
def test_crc32c_joins_its_three_rows_at_every_length(lane: int) -> None:
    """Long data is read in three rows at once: one and two rounds of each kind, a byte less and more, some behind."""
    data = random.Random(lane).randbytes(6 * lane + 40)
    for length in (3 * lane - 1, 3 * lane, 3 * lane + 1, 3 * lane + 15, 6 * lane - 1, 6 * lane, 6 * lane + 39):
        for begin in (0, 1):
            part = data[begin : begin + length]
            assert crc32c(part) == crc32c_bit_by_bit(part)
            assert crc32c(part, seed=0xDEADBEEF) == crc32c_by_table(part, seed=0xDEADBEEF)


@pytest.mark.parametrize(("seed", "data", "expected"), HASH128_VECTORS)
def test_hash128_gives_the_frozen_values(seed: int, data: bytes, expected: tuple[int, int]) -> None:
    """FORMAT: a change of these numbers makes every existing log and snapshot unreadable."""
    assert hash128(data, seed=seed) == expected
    assert hash64(data, seed=seed) == expected[0]


@given(st.integers(0, MASK_64), st.binary(max_size=200))
def test_hash128_is_what_its_definition_says(seed: int, data: bytes) -> None:
    """Native code against the definition in plain numbers."""
    assert hash128(data, seed=seed) == hash128_model(seed, data)


@given(st.binary(min_size=1, max_size=64), st.data())
def test_hash128_sees_every_bit_and_every_added_zero(data: bytes, draw: st.DataObject) -> None:
    """A flipped bit or a zero at the end changes both halves."""
    bit = draw.draw(st.integers(0, 8 * len(data) - 1))
    flipped = (int.from_bytes(data, "big") ^ 1 << bit).to_bytes(len(data), "big")
    for other in (flipped, data + b"\0"):
        assert hash128(other)[0] != hash128(data)[0]
        assert hash128(other)[1] != hash128(data)[1]


@given(st.integers(0, MASK_64))
def test_big64_orders_numbers_as_their_bytes(number: int) -> None:
    """Keys compare as unsigned bytes: the head of a key is read big-endian."""
    assert big64(number.to_bytes(8, "big")) == number


def test_the_seeded_stream_is_splitmix64() -> None:
    """One seed, one run: the simulator's seeds mean the same for ever."""
    assert random_stream(1234567, 5) == SPLITMIX64_1234567
