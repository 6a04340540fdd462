"""The codec of the ZooKeeper door: every request as jute has it, and no byte read beyond what came."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faces.zookeeper import (
    connect_decode,
    connected_encode,
    event,
    frame_look,
    reply,
    request_decode,
    rows,
)
from tests.wire.guarded import flipped_bits, guarded
from tests.wire.names import Status
from tests.zookeeper import jute
from tests.zookeeper.jute import OPEN, Request

NAMES = {row[0]: row[1] for row in rows()}
IN_MULTI, IN_MULTI_READ, IS_WRITE = 32, 64, 1
MARSHALLING_ERROR, UNIMPLEMENTED, BAD_ARGUMENTS = -5, -6, -8

paths = st.binary(max_size=20)
acls = st.lists(st.tuples(st.integers(0, 31), st.binary(max_size=6), st.binary(max_size=12)), max_size=4)
ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
watches = st.fixed_dictionaries(
    {name: st.lists(paths, max_size=3) for name in ("data", "exist", "child", "persistent", "recursive")}
)


def requests_of(opcodes: list[int]) -> st.SearchStrategy[Request]:
    """Requests of these kinds, without operations."""
    return st.builds(
        Request,
        opcode=st.sampled_from(opcodes),
        path=paths,
        data=st.none() | st.binary(max_size=30),
        acl=acls,
        flags=ints,
        ttl_ms=longs,
        version=ints,
        is_watching=st.booleans(),
        mode=ints,
        zxid=st.integers(0, 2**63 - 1),
        scheme=st.binary(max_size=8),
        watches=watches,
        xid=ints,
    )


def opcodes(trait: int) -> list[int]:
    return [row[0] for row in rows() if row[4] & trait]


multis = st.builds(
    Request,
    opcode=st.just(14),
    operations=st.lists(requests_of(opcodes(IN_MULTI)), max_size=5),
) | st.builds(
    Request,
    opcode=st.just(22),
    operations=st.lists(requests_of(opcodes(IN_MULTI_READ)), max_size=5),
)
any_request = requests_of([opcode for opcode in NAMES if opcode not in (14, 22)]) | multis


def said(one: Request) -> dict[str, Any]:
    """What the codec must show: the fields that this kind has, and nothing in the others."""
    fields = {row[0]: row[2] for row in rows()}[one.opcode]
    has = dict.fromkeys(fields, True)
    names = ("data", "exist", "child", "persistent", "recursive")
    return {
        "xid": one.xid,
        "opcode": one.opcode,
        "error": 0,
        "name": NAMES[one.opcode],
        "path": one.path if has.get(1) else b"",
        "data": one.data if has.get(2) else b"",
        "acl": list(one.acl) if has.get(3) else [],
        "flags": one.flags if has.get(4) else 0,
        "ttl_ms": one.ttl_ms if has.get(5) else 0,
        "version": one.version if has.get(6) else 0,
        "is_watching": one.is_watching if has.get(7) else False,
        "mode": one.mode if has.get(8) else 0,
        "zxid": one.zxid if has.get(9) else 0,
        "watches": {name: one.watches.get(name, []) if has.get(10 + i) else [] for i, name in enumerate(names)},
        "scheme": one.scheme if has.get(15) else b"",
        "operations": [{**said(each), "xid": 0} for each in one.operations] if has.get(17) else [],
    }


@given(any_request)
def test_each_request_is_read_as_jute_has_it(one: Request) -> None:
    """All kinds, all fields, vectors with many elements; a multi with its operations."""
    status, found = request_decode(guarded(jute.request(one)))
    assert status == Status.OK
    assert found == said(one)


@given(any_request)
def test_no_cut_request_is_taken_for_a_whole_one(one: Request) -> None:
    """Every prefix is refused, ends where reading must end, and keeps its number for the answer."""
    whole = jute.request(one)
    for length in range(len(whole)):
        status, found = request_decode(guarded(whole[:length]))
        if length < 8:
            assert (status, found) == (Status.BAD_LENGTH, None)
        else:
            assert found is not None and found["error"] == MARSHALLING_ERROR and found["xid"] == one.xid


@given(st.sampled_from(sorted(NAMES)), st.data())
def test_no_flipped_bit_makes_the_codec_read_beyond_a_request(opcode: int, data: st.DataObject) -> None:
    """It is refused or read as something else; the guarded page ends the run if a byte too many is read."""
    one = data.draw(multis if opcode in (14, 22) else requests_of([opcode]))
    for bytes_ in flipped_bits(jute.request(one)):
        status, found = request_decode(guarded(bytes_))
        assert status == Status.OK and found is not None


@given(st.binary(max_size=200))
def test_noise_is_no_request(noise: bytes) -> None:
    """Any bytes behind any opcode."""
    for opcode in (*NAMES, 0, 20, -10, 500):
        status, found = request_decode(guarded(struct.pack(">ii", 1, opcode) + noise))
        assert status == Status.OK and found is not None
        assert (found["error"] == UNIMPLEMENTED) == (opcode not in NAMES)


def test_claimed_lengths_cost_nothing() -> None:
    """A string, a vector and a list of rights that claim two thousand million elements, and negative ones."""
    for length in (2**31 - 1, -2, -(2**31)):
        for opcode, head in ((3, b""), (1, jute.buffer(b"/a") + jute.buffer(b"")), (101, jute.long(5))):
            status, found = request_decode(
                guarded(struct.pack(">ii", 1, opcode) + head + jute.integer(length) + b"\x00" * 40)
            )
            assert status == Status.OK and found is not None and found["error"] == MARSHALLING_ERROR


def test_a_null_vector_has_no_elements() -> None:
    """Length -1: kazoo and Java send it for none."""
    body = jute.buffer(b"/a") + jute.buffer(None) + jute.integer(-1) + jute.integer(0)
    _, found = request_decode(guarded(struct.pack(">ii", 1, 1) + body))
    assert found is not None and (found["error"], found["acl"], found["data"]) == (0, [], None)


def test_bytes_behind_a_request_are_left_alone() -> None:
    """A client of a later version may have more fields."""
    _, found = request_decode(guarded(jute.request(Request(3, path=b"/a")) + b"more"))
    assert found is not None and (found["error"], found["path"]) == (0, b"/a")


def test_operations_of_a_multi_are_of_one_sort() -> None:
    """A read in a multi, a write in a multiRead, and a multi in a multi are no requests."""
    read, write = Request(4, path=b"/a"), Request(2, path=b"/a")
    for outer, inner in ((14, read), (22, write), (14, Request(14)), (22, Request(22)), (14, Request(99))):
        _, found = request_decode(guarded(jute.request(Request(outer, operations=[inner]))))
        assert found is not None and found["error"] == MARSHALLING_ERROR


def test_a_multi_has_bounded_operations() -> None:
    """10,000 of them are read, and one more is refused."""
    many = [Request(13, path=b"/a")] * 10_000
    _, found = request_decode(guarded(jute.request(Request(14, operations=many))))
    assert found is not None and found["error"] == 0 and len(found["operations"]) == 10_000
    _, found = request_decode(guarded(jute.request(Request(14, operations=[*many, many[0]]))))
    assert found is not None and found["error"] == BAD_ARGUMENTS


# --- frames, connects -------------------------------------------------------------------------------------------------
def test_a_frame_is_looked_at_before_it_is_there() -> None:
    """Its length says how many bytes are needed; none, a negative number and too many close the connection."""
    frame = jute.buffer(b"abcdefgh")
    for length in range(len(frame)):
        assert frame_look(guarded(frame[:length]), 8) == (Status.INCOMPLETE, 4 if length < 4 else 12)
    assert frame_look(guarded(frame + b"next"), 8) == (Status.OK, 12)
    for head in (jute.integer(9), jute.integer(-1), jute.integer(0), b"ruok"):
        assert frame_look(guarded(head + b"abcdefghi"), 8)[0] == Status.BAD_LENGTH


@given(st.integers(0, 2**63 - 1), ints, st.integers(0, 2**63 - 1), st.binary(max_size=16))
def test_a_connect_has_44_or_45_bytes(zxid: int, timeout_ms: int, session: int, password: bytes) -> None:
    """ClickHouse sends no byte for read-only sessions; Java and kazoo do."""
    body = jute.connect(zxid=zxid, timeout_ms=timeout_ms, session=session, password=password)
    fields = {
        "protocol_version": 0,
        "zxid": zxid,
        "timeout_ms": timeout_ms,
        "session": session,
        "password": password,
        "has_read_only": False,
        "is_read_only": False,
    }
    assert connect_decode(guarded(body)) == (Status.OK, fields)
    for flag in (False, True):
        shown = {**fields, "has_read_only": True, "is_read_only": flag}
        assert connect_decode(guarded(body + bytes([flag]))) == (Status.OK, shown)
    for length in range(len(body)):
        assert connect_decode(guarded(body[:length])) == (Status.BAD_LENGTH, None)


def test_the_answer_to_a_connect_is_of_its_kind() -> None:
    """36 bytes for 44, 37 for 45, each behind its length."""
    password = bytes(range(16))
    short = connected_encode(4000, 0x1122334455667788, password, True, has_read_only=False)
    assert short == struct.pack(">iiiqi", 36, 0, 4000, 0x1122334455667788, 16) + password
    long = connected_encode(4000, 0x1122334455667788, password, True)
    assert long == struct.pack(">iiiqi", 37, 0, 4000, 0x1122334455667788, 16) + password + b"\x01"
    assert connected_encode(0, 0, bytes(16), False)[-1] == 0


def test_replies_and_events_have_the_header_of_their_kind() -> None:
    """xid, zxid, error; an event has -1 for the first and the zxid of the change."""
    assert reply(3, 9, -101) == jute.reply(3, 9, -101)
    assert reply(-2, 2**40, 0) == jute.reply(-2, 2**40, 0)
    tail = jute.integer(3) + jute.integer(3) + jute.buffer(b"/a/b")
    assert event(77, 3, 3, b"/a/b") == jute.reply(-1, 77, 0, tail)


# --- the table --------------------------------------------------------------------------------------------------------
def test_every_request_of_the_table_has_a_number_and_a_version_of_its_own() -> None:
    """And an operation of a multi is a write or `check`, which never stands alone; one of a multiRead is a read."""
    assert len(NAMES) == len(rows()) and len(set(NAMES.values())) == len(rows())
    for _, name, fields, _, traits, since in rows():
        assert since[0] == "3", name
        assert bool(traits & IN_MULTI) <= bool(traits & IS_WRITE or name == "check"), name
        assert not (traits & IN_MULTI_READ and traits & IS_WRITE), name
        assert 17 not in fields or fields == [17], name


@pytest.mark.parametrize("name", ["createSession", "error", "notification", "deleteContainer"])
def test_no_client_sends_what_servers_say_among_themselves(name: str) -> None:
    """-10, -1, 0 and 20 are refused as unknown."""
    opcode = {"createSession": -10, "error": -1, "notification": 0, "deleteContainer": 20}[name]
    _, found = request_decode(guarded(struct.pack(">ii", 5, opcode)))
    assert found is not None and (found["xid"], found["error"], found["name"]) == (5, UNIMPLEMENTED, None)


def test_a_create_is_read_as_kazoo_wrote_it() -> None:
    """The bytes of a client, taken apart by hand: xid 2, create, /a, data d, world:anyone:31, ephemeral."""
    taken = bytes.fromhex(
        "00000002 00000001 00000002 2f61 00000001 64"
        " 00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 00000001"
    )
    assert taken == jute.request(Request(1, path=b"/a", data=b"d", acl=OPEN, flags=1, xid=2))
    _, found = request_decode(guarded(taken))
    assert found is not None and (found["path"], found["data"], found["flags"], found["acl"]) == (b"/a", b"d", 1, OPEN)
