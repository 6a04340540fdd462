"""Frames: whole, sound and for this connection, or refused; never read beyond their bytes."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftmeta.native.native_handle import crc32c
from tests.faces.wire import frame_check_identity, frame_decode, frame_encode
from tests.wire.guarded import flipped_bits, guarded
from tests.wire.names import FrameType, Status

HEADER_BYTES = 96
BODY_BYTES_MAX = 8 * 1024 * 1024
HELLO_BYTES_MAX = 4096
HEADER = struct.Struct("<IIBBHIIIQQQQQQQQII")
FIELDS = [
    *("magic", "crc", "version", "type", "flags", "group", "body_length", "records_length"),
    *("cluster_low", "cluster_high", "source", "target", "source_boot", "sequence"),
    *("target_boot", "reserved0", "reserved1", "header_crc"),
]
IDS = st.integers(1, 2**64 - 1)
WITH_RECORDS = [FrameType.FRAME_MESSAGE, FrameType.FRAME_SNAPSHOT]


def identity(**changes: Any) -> dict[str, Any]:
    return {"cluster": (7, 8), "peer": 21, "self": 20, "peer_boot": 3} | changes


def frame(type: int = FrameType.FRAME_MESSAGE, *, body: bytes = b"body", records: bytes = b"", **changes: Any) -> bytes:
    own = identity() | {"self": 20, "peer": 21} | changes
    return frame_encode(type, own, self_boot=5, sequence=own.get("sequence", 1), body=body, records=records)


def header_of(data: bytes) -> dict[str, int]:
    return dict(zip(FIELDS, HEADER.unpack_from(data), strict=True))


def with_header(data: bytes, *, sealed: bool = True, **changes: int) -> bytes:
    """data with other header fields; sealed: with checksums that fit them."""
    fields = header_of(data) | changes
    header = bytearray(HEADER.pack(*(fields[name] for name in FIELDS)))
    if sealed:
        struct.pack_into("<I", header, 92, crc32c(bytes(header[8:92])))
        struct.pack_into("<I", header, 4, crc32c(bytes(header[8:]) + data[HEADER_BYTES:]))
    return bytes(header) + data[HEADER_BYTES:]


@given(
    st.sampled_from(WITH_RECORDS),
    st.tuples(IDS, IDS),
    IDS,
    IDS,
    st.integers(0, 2**63),
    st.integers(0, 2**63),
    st.integers(1, 2**63),
    st.binary(max_size=300),
    st.binary(max_size=300),
)
def test_a_frame_is_read_as_it_was_written(
    type: int,
    cluster: tuple[int, int],
    peer: int,
    own: int,
    boot: int,
    peer_boot: int,
    sequence: int,
    body: bytes,
    records: bytes,
) -> None:
    """Every field at its place, both checksums by their definition, the length exact."""
    data = frame_encode(
        type,
        {"cluster": cluster, "peer": peer, "self": own, "peer_boot": peer_boot},
        self_boot=boot,
        sequence=sequence,
        body=body,
        records=records,
    )
    assert frame_decode(guarded(data)) == (Status.OK, len(data))
    header = header_of(data)
    assert data[:4] == b"RFTM" and header["version"] == 1 and header["type"] == type
    assert (header["cluster_low"], header["cluster_high"]) == cluster
    assert (header["source"], header["target"]) == (own, peer)
    assert (header["source_boot"], header["target_boot"]) == (boot, peer_boot)
    assert (header["sequence"], header["body_length"], header["records_length"]) == (sequence, len(body), len(records))
    assert header["crc"] == crc32c(data[8:]) and header["header_crc"] == crc32c(data[8:92])
    assert data[HEADER_BYTES:] == body + records
    peer_side = {"cluster": cluster, "peer": own, "self": peer, "peer_boot": boot}
    assert frame_check_identity(data, peer_side) == Status.OK


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_every_prefix_of_a_frame_is_incomplete(body: bytes, records: bytes) -> None:
    """Nothing is wrong so far; total first asks for the header, then for the frame."""
    data = frame(body=body, records=records)
    for length in range(len(data)):
        wanted = HEADER_BYTES if length < HEADER_BYTES else len(data)
        assert frame_decode(guarded(data[:length])) == (Status.INCOMPLETE, wanted)


@given(st.binary(max_size=24), st.binary(max_size=24), st.binary(max_size=10))
def test_every_flipped_bit_of_a_frame_is_refused_at_once(body: bytes, records: bytes, next_frame: bytes) -> None:
    """A damaged length too: the header has a checksum of its own, so nobody waits for bytes that never come."""
    data = frame(body=body, records=records)
    for damaged in flipped_bits(data):
        status, _ = frame_decode(guarded(damaged + next_frame))
        assert status in (Status.BAD_MAGIC, Status.BAD_VERSION, Status.BAD_CHECKSUM)


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda tail: b"RFTM\0\0\0\0\1" + tail))
def test_random_bytes_are_never_a_frame(data: bytes) -> None:
    """Not a crash, not OK; INCOMPLETE only while a header may still follow."""
    status, total = frame_decode(guarded(data))
    if status == Status.INCOMPLETE:
        assert len(data) < HEADER_BYTES == total
    else:
        assert status in (Status.BAD_MAGIC, Status.BAD_VERSION, Status.BAD_CHECKSUM)


@pytest.mark.parametrize(
    ("data", "status"), [(b"GET / HTTP", "BAD_MAGIC"), (b"RFTX", "BAD_MAGIC"), (b"X", "BAD_MAGIC")]
)
def test_a_stranger_is_found_out_by_the_first_wrong_byte(data: bytes, status: str) -> None:
    """Who speaks another protocol is not waited for."""
    assert frame_decode(guarded(data))[0] == Status[status]


def test_another_version_is_found_out_by_its_byte() -> None:
    """Nine bytes are enough."""
    data = with_header(frame(), version=2)
    assert frame_decode(guarded(data[:9]))[0] == Status.BAD_VERSION


@pytest.mark.parametrize(
    ("limit", "body", "records", "fits"),
    [
        (HELLO_BYTES_MAX, HELLO_BYTES_MAX, 0, True),
        (HELLO_BYTES_MAX, HELLO_BYTES_MAX + 1, 0, False),
        (HELLO_BYTES_MAX, HELLO_BYTES_MAX, 1, False),
        (BODY_BYTES_MAX, 1, BODY_BYTES_MAX - 1, True),
        (BODY_BYTES_MAX, 2**32 - 1, 2**32 - 1, False),
        (BODY_BYTES_MAX, 2**32 - 1, 2, False),
        (BODY_BYTES_MAX, 0, BODY_BYTES_MAX + 1, False),
    ],
)
def test_a_length_over_the_cap_is_refused_by_the_header_alone(limit: int, body: int, records: int, fits: bool) -> None:
    """Nobody allocates for a length that was only claimed."""
    header = with_header(frame(body=b""), body_length=body, records_length=records)
    expected = (Status.INCOMPLETE, HEADER_BYTES + body + records) if fits else (Status.BAD_LENGTH, HEADER_BYTES)
    assert frame_decode(guarded(header), body_bytes_max=limit) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"type": 0},
        {"type": max(FrameType) + 1},
        {"flags": 1},
        {"group": 1},
        {"reserved0": 1},
        {"reserved1": 1},
        {"sequence": 0},
    ],
)
def test_a_header_field_that_this_version_does_not_know_is_refused(changes: dict[str, int]) -> None:
    """The checksums are right; the sender means something that we would miss."""
    assert frame_decode(guarded(with_header(frame(), **changes)))[0] == Status.BAD_FIELD


@pytest.mark.parametrize("type", list(FrameType))
def test_only_messages_and_snapshots_carry_records(type: int) -> None:
    """For all other types the raw part is empty."""
    data = frame(type, records=b"records!")
    assert frame_decode(guarded(data))[0] == (Status.OK if type in WITH_RECORDS else Status.BAD_FIELD)
    assert frame_decode(guarded(frame(type)))[0] == Status.OK


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "OK"),
        ({"cluster": (7, 9)}, "FOREIGN_CLUSTER"),
        ({"cluster": (6, 8)}, "FOREIGN_CLUSTER"),
        ({"peer": 22}, "FOREIGN_NODE"),
        ({"self": 22}, "FOREIGN_NODE"),
        ({"peer_boot": 6}, "OLD_BOOT"),
        ({"peer_boot": 4}, "FOREIGN_NODE"),
        ({"cluster": (0, 0)}, "NOT_READY"),
    ],
)
def test_a_sound_frame_belongs_to_one_connection(changes: dict[str, Any], status: str) -> None:
    """Cluster, both incarnations and the boot number."""
    data = frame()  # from 20, boot 5, to 21
    receiver = {"cluster": (7, 8), "peer": 20, "self": 21, "peer_boot": 5} | changes
    assert frame_check_identity(data, receiver) == Status[status]


@pytest.mark.parametrize("type", list(FrameType))
def test_before_the_founding_messages_and_snapshots_are_dropped(type: int) -> None:
    """A founded node and a blank one talk about founding; what else comes early is nobody's fault."""
    receiver = {"cluster": (7, 8), "peer": 20, "self": 21, "peer_boot": 5}
    status = frame_check_identity(frame(type, cluster=(0, 0)), receiver)
    assert status == (Status.NOT_READY if type in WITH_RECORDS else Status.OK)
    both_blank = receiver | {"cluster": (0, 0)}
    assert frame_check_identity(frame(type, cluster=(0, 0)), both_blank) == Status.OK
