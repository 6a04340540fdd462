"""HELLO, the refusal of a connection, and the messages that found a cluster."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.names import GenesisMessageType, GenesisState, MemberRole
from tests.faces.membership import MembershipHandle
from tests.faces.wire import (
    genesis_message_decode,
    genesis_message_encode,
    hello_decode,
    hello_encode,
    hello_negotiate,
    refused_decode,
    refused_encode,
)
from tests.wire.guarded import flipped_bits, guarded
from tests.wire.names import Status

PEER, CLIENT = 1, 2
ANY_64 = st.integers(0, 2**64 - 1)
IDS = st.integers(1, 2**64 - 1)
FIELDS = [
    *("purpose", "version_min", "version_max", "genesis_state", "cluster", "id", "boot", "feature_level_max"),
    *("name", "cluster_name", "address", "membership"),
]


def packed(fields: dict[str, Any]) -> bytes:
    """The body by the msgpack package, in the order of docs/formats.md "HELLO"."""
    values: list[Any] = []
    for field in FIELDS:
        values.extend(fields[field] if field == "cluster" else [fields[field]])
    return msgpack.packb(values, use_bin_type=True)


def texts(least: int, most: int) -> st.SearchStrategy[bytes]:
    """Printable text by its length in bytes."""
    printable = st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"])
    return st.text(printable, min_size=least, max_size=most).map(str.encode).filter(lambda raw: len(raw) <= most)


@st.composite
def hellos(draw: st.DrawFn) -> dict[str, Any]:
    version_min = draw(st.integers(1, 255))
    is_peer = draw(st.booleans())
    return {
        "purpose": PEER if is_peer else CLIENT,
        "version_min": version_min,
        "version_max": draw(st.integers(version_min, 255)),
        "genesis_state": draw(st.sampled_from(list(GenesisState))) if is_peer else 0,
        "cluster": (draw(ANY_64), draw(ANY_64)),
        "id": draw(IDS if is_peer else ANY_64),
        "boot": draw(st.integers(0, 2**63 - 1)) if is_peer else 0,
        "feature_level_max": draw(st.integers(0, 2**32 - 1)),
        "name": draw(texts(int(is_peer), 64)),
        "cluster_name": draw(texts(1, 64)),
        "address": draw(texts(0, 255)),
        "membership": draw(st.integers(0, 2**63 - 1)) if is_peer else 0,
    }


HELLO: dict[str, Any] = {
    "purpose": PEER,
    "version_min": 1,
    "version_max": 2,
    "genesis_state": GenesisState.FOUNDED,
    "cluster": (3, 4),
    "id": 5,
    "boot": 6,
    "feature_level_max": 7,
    "name": b"a",
    "cluster_name": b"default",
    "address": b"h:1",
    "membership": 8,
}


@given(hellos())
def test_a_hello_is_read_as_it_was_written(fields: dict[str, Any]) -> None:
    """Bytes equal those of the msgpack package; the largest fits the cap for strangers."""
    status, body = hello_encode(fields)
    assert status == Status.OK
    assert body == packed(fields)
    assert len(body) <= 4096
    assert hello_decode(guarded(body)) == (Status.OK, fields)


@pytest.mark.parametrize(
    "changes",
    [
        {"purpose": 0},
        {"purpose": 3},
        {"version_min": 0},
        {"version_min": 3},
        {"genesis_state": 0},
        {"genesis_state": 6},
        {"id": 0},
        {"boot": 2**63},
        {"membership": 2**63},
        {"name": b""},
        {"name": b"\xff\xfe"},
        {"name": b"a\nb"},
        {"cluster_name": b"caf\xe9"},
        {"address": b"h:1\0"},
        {"address": b"\xed\xa0\x80:1"},
        {"cluster_name": b""},
        {"purpose": CLIENT},
        {"purpose": CLIENT, "genesis_state": 0},
        {"purpose": CLIENT, "boot": 0},
        {"purpose": CLIENT, "genesis_state": 0, "boot": 0},
    ],
)
def test_a_hello_that_contradicts_itself_is_refused_in_both_directions(changes: dict[str, Any]) -> None:
    """What is not sent is not accepted either."""
    assert hello_encode(HELLO | changes) == (Status.BAD_FIELD, b"")
    assert hello_decode(guarded(packed(HELLO | changes))) == (Status.BAD_FIELD, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": b"x" * 65},
        {"cluster_name": b"x" * 65},
        {"address": b"x" * 256},
        {"name": 1},
        {"name": "a"},
        {"id": -1},
        {"id": True},
        {"version_max": 256},
        {"feature_level_max": 2**32},
        {"boot": None},
    ],
)
def test_a_hello_field_out_of_range_is_refused(changes: dict[str, Any]) -> None:
    """Lengths are checked before a byte is copied into the struct."""
    assert hello_decode(guarded(packed(HELLO | changes))) == (Status.BAD_FIELD, None)


@given(hellos().map(packed))
def test_every_prefix_of_a_hello_is_refused(body: bytes) -> None:
    """And so is one with something behind it."""
    for length in range(len(body)):
        assert hello_decode(guarded(body[:length]))[0] in (Status.BAD_LENGTH, Status.BAD_FIELD)
    assert hello_decode(guarded(body + b"\0"))[0] == Status.BAD_LENGTH


@given(hellos().map(packed).flatmap(lambda body: st.sampled_from(flipped_bits(body))) | st.binary(max_size=300))
def test_whatever_hello_is_accepted_is_written_back_the_same(body: bytes) -> None:
    """Damaged and random bodies from a stranger."""
    status, fields = hello_decode(guarded(body))
    if status == Status.OK:
        assert fields is not None
        assert hello_encode(fields) == (Status.OK, body)
    else:
        assert status in (Status.BAD_LENGTH, Status.BAD_FIELD)


VERSIONS = st.tuples(st.integers(1, 6), st.integers(1, 6)).filter(lambda pair: pair[0] <= pair[1])


@given(VERSIONS, VERSIONS)
def test_two_sides_agree_on_the_highest_common_version(own: tuple[int, int], peer: tuple[int, int]) -> None:
    """Against sets; both sides come to the same answer."""
    common = set(range(own[0], own[1] + 1)) & set(range(peer[0], peer[1] + 1))
    expected = (Status.OK, max(common)) if common else (Status.BAD_VERSION, 0)
    assert hello_negotiate(own, peer) == hello_negotiate(peer, own) == expected


@given(st.integers(1, 127), st.binary(max_size=1024))
def test_a_refusal_tells_a_status_and_a_text(status: int, text: bytes) -> None:
    """[status, text]; every prefix and every later byte is refused."""
    encoded, body = refused_encode(status, text)
    assert encoded == Status.OK
    assert body == msgpack.packb([status, text], use_bin_type=True)
    assert refused_decode(guarded(body)) == (Status.OK, (status, text))
    for length in range(min(len(body), 20)):
        assert refused_decode(guarded(body[:length]))[0] == Status.BAD_LENGTH
    assert refused_decode(guarded(body + b"\0"))[0] == Status.BAD_LENGTH


@pytest.mark.parametrize("value", [[0, b""], [128, b""], [1, b"x" * 1025], [1, "x"], [1], [1, b"", 0], 1, []])
def test_a_refusal_of_another_shape_is_refused(value: Any) -> None:
    """OK is no reason to close a connection; texts are short."""
    assert refused_decode(guarded(msgpack.packb(value)))[0] == Status.BAD_FIELD


def test_a_refusal_that_cannot_be_read_is_not_sent() -> None:
    """The same limits at the sender."""
    assert refused_encode(0, b"") == refused_encode(128, b"") == (Status.BAD_FIELD, b"")
    assert refused_encode(1, b"x" * 1025) == (Status.BAD_FIELD, b"")


# --- founding -------------------------------------------------------------------------------------------------------
FOUNDING = MembershipHandle(
    [(number, MemberRole.VOTER_INCOMING, b"n%d" % number, b"h:%d" % number) for number in (1, 2, 3)]
).encode()[1]


@given(st.sampled_from(list(GenesisMessageType)), st.tuples(ANY_64, ANY_64), IDS, IDS, st.booleans())
def test_a_genesis_message_is_read_as_it_was_written(
    type: int, cluster: tuple[int, int], source: int, target: int, has_membership: bool
) -> None:
    """PROPOSE and FOUNDED carry the founding membership, in its own fixed layout; the others may."""
    fields = {"type": type, "cluster": cluster, "source": source, "target": target}
    must = type in (GenesisMessageType.GENESIS_PROPOSE, GenesisMessageType.GENESIS_FOUNDED)
    membership = FOUNDING if must or has_membership else None
    status, body = genesis_message_encode(fields, membership)
    assert status == Status.OK
    assert body == msgpack.packb([type, *cluster, source, target, membership], use_bin_type=True)
    assert genesis_message_decode(guarded(body)) == (Status.OK, fields, membership)
    for length in range(len(body)):
        assert genesis_message_decode(guarded(body[:length]))[0] in (Status.BAD_LENGTH, Status.BAD_FIELD)
    if must:
        assert genesis_message_encode(fields, None) == (Status.BAD_FIELD, b"")


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ([0, 1, 2, 3, 4, None], "BAD_FIELD"),
        ([5, 1, 2, 3, 4, None], "BAD_FIELD"),
        ([1, 1, 2, 3, 4, None], "BAD_FIELD"),
        ([2, 1, 2, 0, 4, None], "BAD_FIELD"),
        ([2, 1, 2, 3, 0, None], "BAD_FIELD"),
        ([2, 1, 2, 3, 4], "BAD_FIELD"),
        ([2, 1, 2, 3, 4, b""], "BAD_LENGTH"),
        ([1, 1, 2, 3, 4, FOUNDING[:-1]], "BAD_LENGTH"),
        ([1, 1, 2, 3, 4, b"\xff" + FOUNDING[1:]], "BAD_VERSION"),
        ([1, 1, 2, 3, 4, bytes(100_000)], "BAD_FIELD"),
        ([1, 1, 2, 3, 4, MembershipHandle([(1, MemberRole.VOTER_INCOMING, b"\xff", b"h:1")]).encode()[1]], "BAD_FIELD"),
    ],
)
def test_a_genesis_message_of_another_shape_is_refused(value: list[Any], status: str) -> None:
    """The membership is capped before it is read."""
    assert genesis_message_decode(guarded(msgpack.packb(value, use_bin_type=True)))[0] == Status[status]


@given(
    st.sampled_from(
        flipped_bits(genesis_message_encode({"type": 1, "cluster": (1, 2), "source": 3, "target": 4}, FOUNDING)[1])
    )
)
def test_a_damaged_genesis_message_is_refused_or_means_what_it_says(body: bytes) -> None:
    """Whatever is accepted is written back the same."""
    status, fields, membership = genesis_message_decode(guarded(body))
    if status == Status.OK:
        assert fields is not None
        assert genesis_message_encode(fields, membership) == (Status.OK, body)
    else:
        assert status in (Status.BAD_LENGTH, Status.BAD_FIELD, Status.BAD_VERSION)
