"""Requests of ZooKeeper as commands, results and nodes as answers, with the checks of PrepRequestProcessor."""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faces.zookeeper import Speaker, digest_of
from tests.faces.zookeeper_commands import (
    STAT_FIELDS,
    command_make,
    config_text,
    founded_children,
    founded_node,
    read_body,
    reply_refused,
    reply_result,
    who_am_i,
)
from tests.wire.guarded import guarded
from tests.wire.names import Status
from tests.zookeeper import jute
from tests.zookeeper.jute import OPEN, Acl, Request

UNIMPLEMENTED, BAD_ARGUMENTS, NO_NODE, NO_AUTH, BAD_VERSION = -6, -8, -101, -102, -103
NODE_EXISTS, SESSION_EXPIRED, INVALID_ACL, RECONFIG_DISABLED = -110, -112, -114, -123
COMMAND_ZNODES = 15
CREATE, DELETE, SET_DATA, SET_ACL, CHECK = 1, 2, 3, 4, 5
PERSISTENT, EPHEMERAL, CONTAINER, TTL = range(4)
STAT = (11, 12, 1_000, 2_000, 3, 4, 5, 0x100AB, 6, 7, 13)
STORED_STAT = jute.STORED_STAT.pack(*STAT)
JUTE_STAT = jute.STAT.pack(*STAT)


def speaker(*tokens: bytes) -> Speaker:
    one = Speaker()
    assert one.add_ip(bytes([127, 0, 0, 1])) == Status.OK
    assert all(one.auth(b"digest", token) == 0 for token in tokens)
    return one


def made(one: Request, who: Speaker | None = None, **how: Any) -> tuple[bool, list[Any], list[Any]]:
    """(is_multi, identities, operations) of the command that a request becomes."""
    error, _, payload = command_make(jute.request(one), who or speaker(), **how)
    assert error == 0
    command = msgpack.unpackb(payload, raw=True)
    assert command[0] == COMMAND_ZNODES
    [request] = [field for field in command if isinstance(field, bytes) and field[:1] == b"\x93"]
    return tuple(msgpack.unpackb(request, raw=True))


def stored(acl: list[Acl]) -> bytes:
    return bytes(msgpack.packb([list(entry) for entry in acl], use_bin_type=True))


# --- writes -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("flags", "kind", "is_sequential"),
    [
        (0, PERSISTENT, False),
        (1, EPHEMERAL, False),
        (2, PERSISTENT, True),
        (3, EPHEMERAL, True),
        (4, PERSISTENT, False),
    ],
)
@pytest.mark.parametrize("opcode", [1, 15, 19])
def test_a_create_becomes_one_operation(opcode: int, flags: int, kind: int, is_sequential: bool) -> None:
    """Its mode is a kind of node and a width of ten digits; the list that allows everything takes no byte.

    createContainer makes a container, whatever its mode, and no other request makes one.
    """
    is_multi, identities, operations = made(Request(opcode, path=b"/a", data=b"d", acl=OPEN, flags=flags))
    assert not is_multi and identities == [[b"ip", b"127.0.0.1"]]
    [[code, path, data, acl, *rest]] = operations
    assert (code, path, data) == (CREATE, b"/a", b"d") and not acl
    assert rest == [CONTAINER if opcode == 19 else kind, is_sequential, 10 if is_sequential else 0, 0]


def test_null_and_empty_data_are_two_things() -> None:
    assert made(Request(1, path=b"/a", data=None, acl=OPEN))[2][0][2] is None
    assert made(Request(1, path=b"/a", data=b"", acl=OPEN))[2][0][2] == b""
    assert made(Request(5, path=b"/a", data=None, version=3))[2] == [[SET_DATA, b"/a", None, 3]]


def test_other_writes_become_their_operations() -> None:
    assert made(Request(2, path=b"/a", version=-1))[2] == [[DELETE, b"/a", -1]]
    assert made(Request(5, path=b"/a", data=b"x", version=2))[2] == [[SET_DATA, b"/a", b"x", 2]]
    assert made(Request(13, path=b"/a", version=4))[2] == [[CHECK, b"/a", 4]]
    acl: list[Acl] = [(1, b"world", b"anyone"), (31, b"ip", b"10.0.0.0/8")]
    assert made(Request(7, path=b"/a", acl=acl, version=0))[2] == [[SET_ACL, b"/a", stored(acl), 0]]


def test_a_multi_becomes_one_command() -> None:
    """ClickHouse makes and removes a node in one; Kafka checks first."""
    operations = [
        Request(13, path=b"/controller_epoch", version=7),
        Request(1, path=b"/a", data=b"1", acl=OPEN),
        Request(2, path=b"/a", version=-1),
        Request(1, path=b"/b-", data=b"", acl=[(1, b"world", b"anyone")], flags=3),
        Request(1, path=b"/c", data=b"", acl=[(2, b"world", b"anyone")]),
    ]
    is_multi, _, found = made(Request(14, operations=operations))
    assert is_multi and [one[0] for one in found] == [CHECK, CREATE, DELETE, CREATE, CREATE]
    assert found[3][3] == stored([(1, b"world", b"anyone")]) and found[4][3] == stored([(2, b"world", b"anyone")])
    assert made(Request(14)) == (True, [[b"ip", b"127.0.0.1"]], [])


@pytest.mark.parametrize(
    ("flags", "ttl_ms", "has_ttl", "error"),
    [
        (5, 1000, True, 0),
        (6, 1000, True, 0),
        (5, 0xFFFFFFFFFF, True, 0),
        (5, 1 << 40, True, BAD_ARGUMENTS),
        (5, 0, True, BAD_ARGUMENTS),
        (5, -1, True, BAD_ARGUMENTS),
        (5, 1000, False, UNIMPLEMENTED),
        (0, 1000, True, BAD_ARGUMENTS),
        (0, -1, True, 0),
        (7, 1000, True, BAD_ARGUMENTS),
        (-1, 1000, True, BAD_ARGUMENTS),
    ],
)
def test_a_time_to_live_is_checked_as_zookeeper_checks_it(flags: int, ttl_ms: int, has_ttl: bool, error: int) -> None:
    """EphemeralType.validateTTL; -6 unless extended types are allowed."""
    one = Request(21, path=b"/a", acl=OPEN, flags=flags, ttl_ms=ttl_ms)
    assert command_make(jute.request(one), speaker(), has_ttl=has_ttl)[0] == error
    if error == 0 and flags >= 5:
        assert made(one)[2][0][4:] == [TTL, flags == 6, 10 if flags == 6 else 0, ttl_ms]


def test_a_create_without_a_time_to_live_makes_no_ttl_node() -> None:
    for flags in (5, 6):
        assert command_make(jute.request(Request(1, path=b"/a", acl=OPEN, flags=flags)), speaker())[0] == BAD_ARGUMENTS


@pytest.mark.parametrize(
    "acl",
    [
        [],
        [(31, b"world", b"everybody")],
        [(31, b"digest", b"ann")],
        [(31, b"foo", b"bar")],
        [(31, b"auth", b"")],
        [(31, b"super", b"")],
        [(31, b"ip", b"10.0.0.0/99")],
        [(31, b"ip", b"10.%d.%d.1" % (i // 200, i % 200)) for i in range(1001)],
    ],
)
def test_a_list_of_rights_that_no_provider_takes_is_refused(acl: list[Acl]) -> None:
    """AuthUtil.fixupACL: -114; `auth` needs somebody who proved more than an address."""
    for one in (Request(1, path=b"/a", acl=acl), Request(7, path=b"/a", acl=acl, version=-1)):
        assert command_make(jute.request(one), speaker())[0] == INVALID_ACL


def test_auth_stands_for_all_whom_the_speaker_proved_to_be() -> None:
    """The address is left out. As in 3.9.5, doubles are removed before `auth` is expanded, and not afterwards."""
    who = speaker(b"ann:1", b"bob:2")
    ann, bob = digest_of(b"ann:1"), digest_of(b"bob:2")
    acl: list[Acl] = [(31, b"auth", b""), (31, b"auth", b"ignored"), (1, b"world", b"anyone"), (1, b"world", b"anyone")]
    everybody: list[Acl] = [(31, b"digest", ann), (31, b"digest", bob)]
    expected: list[Acl] = [*everybody, *everybody, (1, b"world", b"anyone")]
    assert made(Request(1, path=b"/a", acl=acl), who)[2][0][3] == stored(expected)
    assert made(Request(1, path=b"/a", acl=OPEN), who)[1] == [[b"ip", b"127.0.0.1"], [b"digest", ann], [b"digest", bob]]


def test_an_operation_of_a_multi_that_is_wrong_is_named_by_its_position() -> None:
    """Those before are told 0, those behind -2, and the header has no error."""
    wrong = Request(1, path=b"/b", acl=[])
    one = Request(14, operations=[Request(2, path=b"/a"), wrong, Request(2, path=b"/c")])
    error, position, payload = command_make(jute.request(one), speaker())
    assert (error, position, payload) == (INVALID_ACL, 1, b"")
    tail = jute.failed(0) + jute.failed(INVALID_ACL) + jute.failed(-2) + jute.END
    assert reply_refused(jute.request(one), 9, error, position) == jute.reply(7, 9, 0, tail)


@pytest.mark.parametrize(
    "text", [b"some thing", b"server.=a:1:2", b"server.1", b"server.1=a:1", b"server.1=a:1:2,x", b"9"]
)
def test_a_reconfig_that_cannot_be_read_is_told_so(text: bytes) -> None:
    """Servers that join, numbers of those that leave, all servers: each may be wrong by itself."""
    leaving = b"server.1=a:1:2" if text == b"9" else text
    for servers in ((text, None, None), (None, leaving, None), (None, None, text)):
        assert command_make(jute.request(Request(16, servers=servers)), speaker())[0] == BAD_ARGUMENTS


def test_no_client_of_zookeeper_changes_the_members() -> None:
    """-102 to one without the right to /zookeeper/config, and -123 to the super user."""
    chief = Speaker(super_digest=digest_of(b"super:admin"))
    assert chief.auth(b"digest", b"super:admin") == 0
    for servers in ((b"server.7=a:1:2:observer;0.0.0.0:3", None, None), (None, b"7,8", None), (None, None, None)):
        reconfig = jute.request(Request(16, servers=servers))
        assert command_make(reconfig, speaker())[0] == NO_AUTH
        assert command_make(reconfig, chief)[0] == RECONFIG_DISABLED


def test_long_paths_are_refused() -> None:
    """A key has at most 480 bytes."""
    assert command_make(jute.request(Request(2, path=b"/" + b"a" * 480)), speaker())[0] == BAD_ARGUMENTS


# --- results ----------------------------------------------------------------------------------------------------------
def result(status: int, revision: int, body: Any) -> bytes:
    return bytes(msgpack.packb([status, revision, body], use_bin_type=True))


@pytest.mark.parametrize(
    ("opcode", "outcome", "tail"),
    [
        (1, [b"/a1", STORED_STAT], jute.buffer(b"/a1")),
        (15, [b"/a1", STORED_STAT], jute.buffer(b"/a1") + JUTE_STAT),
        (19, [b"/a1", STORED_STAT], jute.buffer(b"/a1") + JUTE_STAT),
        (21, [b"/a1", STORED_STAT], jute.buffer(b"/a1") + JUTE_STAT),
        (2, None, b""),
        (5, STORED_STAT, JUTE_STAT),
        (7, STORED_STAT, JUTE_STAT),
        (13, None, b""),
    ],
)
def test_a_result_reads_as_the_answer_of_its_request(opcode: int, outcome: Any, tail: bytes) -> None:
    """The header has the revision, or the later one that the node has reached."""
    body = jute.request(Request(opcode, path=b"/a", acl=OPEN))
    whole = result(0, 42, [outcome])
    assert reply_result(body, guarded(whole)) == (Status.OK, 42, jute.reply(7, 42, 0, tail))
    assert reply_result(body, guarded(whole), 50)[2] == jute.reply(7, 50, 0, tail)
    for length in range(len(whole)):
        assert reply_result(body, guarded(whole[:length]))[::2] == (Status.BAD_FIELD, b"")


def test_a_multi_is_answered_operation_by_operation() -> None:
    """create tells a path, the other creates a stat too and are all create2; the end has type -1."""
    operations = [Request(opcode, path=b"/a", acl=OPEN) for opcode in (13, 1, 19, 5, 2)]
    body = jute.request(Request(14, operations=operations))
    outcomes = [None, [b"/a", STORED_STAT], [b"/b", STORED_STAT], STORED_STAT, None]
    tail = (
        jute.result(13, b"")
        + jute.result(1, jute.buffer(b"/a"))
        + jute.result(15, jute.buffer(b"/b") + JUTE_STAT)
        + jute.result(5, JUTE_STAT)
        + jute.result(2, b"")
        + jute.END
    )
    assert reply_result(body, guarded(result(0, 8, outcomes))) == (Status.OK, 8, jute.reply(7, 8, 0, tail))
    assert reply_result(body, guarded(result(0, 8, outcomes[1:])))[0] == Status.BAD_FIELD
    empty = jute.request(Request(14))
    assert reply_result(empty, guarded(result(0, 8, [])))[2] == jute.reply(7, 8, 0, jute.END)


def test_a_refusal_has_its_error_in_the_header_and_that_of_a_multi_in_the_body() -> None:
    body = jute.request(Request(2, path=b"/a"))
    refused = result(Status.ZNODE_REFUSED, 5, [0, BAD_VERSION])
    assert reply_result(body, guarded(refused)) == (Status.OK, 5, jute.reply(7, 5, BAD_VERSION))
    multi = jute.request(Request(14, operations=[Request(13, path=b"/a"), Request(2, path=b"/b")]))
    tail = jute.failed(0) + jute.failed(NODE_EXISTS) + jute.END
    answer = reply_result(multi, guarded(result(Status.ZNODE_REFUSED, 5, [1, NODE_EXISTS])))
    assert answer == (Status.OK, 5, jute.reply(7, 5, 0, tail))


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (Status.LEASE_EXPIRED, SESSION_EXPIRED),
        (Status.PERMISSION_DENIED, NO_AUTH),
        (Status.COMMAND_INVALID, UNIMPLEMENTED),
        (Status.TOO_MANY_CHANGES, BAD_ARGUMENTS),
        (Status.VALUE_TOO_LARGE, BAD_ARGUMENTS),
    ],
)
def test_other_refusals_have_a_code_of_zookeeper(status: int, error: int) -> None:
    body = jute.request(Request(2, path=b"/a"))
    assert reply_result(body, guarded(result(status, 5, None)))[2] == jute.reply(7, 5, error)


@pytest.mark.parametrize(
    "status", [Status.SESSION_UNKNOWN, Status.RESULT_EVICTED, Status.OUT_OF_ORDER, Status.NO_LEADER]
)
def test_what_is_no_answer_is_left_to_the_caller(status: int) -> None:
    """It sends the command again, or lets the connection go."""
    body = jute.request(Request(2, path=b"/a"))
    assert reply_result(body, guarded(result(status, 5, None))) == (status, 5, b"")


@given(st.binary(max_size=60))
def test_noise_is_no_result(noise: bytes) -> None:
    """It is told, and nothing is written."""
    body = jute.request(Request(14, operations=[Request(1, path=b"/a", acl=OPEN)]))
    for bytes_ in (noise, b"\x93\x00\x05" + noise):
        status, _, answer = reply_result(body, guarded(bytes_))
        assert bool(answer) == (status == Status.OK)


# --- reads ------------------------------------------------------------------------------------------------------------
def test_reads_show_what_the_node_has() -> None:
    node = (b"data", b"", STAT)
    who = speaker()
    assert read_body(jute.request(Request(3, path=b"/a")), who, node) == (0, JUTE_STAT)
    assert read_body(jute.request(Request(4, path=b"/a")), who, node) == (0, jute.buffer(b"data") + JUTE_STAT)
    null = read_body(jute.request(Request(4, path=b"/a")), who, (None, b"", STAT))
    assert null == (0, jute.integer(-1) + JUTE_STAT)
    assert read_body(jute.request(Request(6, path=b"/a")), who, node) == (0, jute.acl_vector(OPEN) + JUTE_STAT)
    for opcode in (3, 4, 6):
        assert read_body(jute.request(Request(opcode, path=b"/a")), who, None) == (NO_NODE, b"")


def test_a_node_is_read_by_those_whom_its_list_names() -> None:
    """As 3.9.5: exists needs READ; getACL needs READ or ADMIN, and hides digests from those without ADMIN."""
    ann, bob = digest_of(b"ann:1"), digest_of(b"bob:2")
    acl: list[Acl] = [(16 | 1, b"digest", ann), (1, b"digest", bob), (2, b"world", b"anyone")]
    node = (b"data", stored(acl), STAT)
    hidden: list[Acl] = [(17, b"digest", b"ann:x"), (1, b"digest", b"bob:x"), (2, b"world", b"anyone")]
    stranger, reader, admin = speaker(), speaker(b"bob:2"), speaker(b"ann:1")
    for opcode in (3, 4, 6):
        assert read_body(jute.request(Request(opcode, path=b"/a")), stranger, node) == (NO_AUTH, b"")
    assert read_body(jute.request(Request(3, path=b"/a")), reader, node) == (0, JUTE_STAT)
    assert read_body(jute.request(Request(4, path=b"/a")), reader, node)[0] == 0
    assert read_body(jute.request(Request(6, path=b"/a")), reader, node) == (0, jute.acl_vector(hidden) + JUTE_STAT)
    assert read_body(jute.request(Request(6, path=b"/a")), admin, node) == (0, jute.acl_vector(acl) + JUTE_STAT)


def test_every_tree_has_four_nodes_before_its_first_write() -> None:
    """With zeros for a stat, and children that are there too."""
    assert founded_children(b"/") == [b"zookeeper"]
    assert founded_children(b"/zookeeper") == [b"config", b"quota"]
    assert founded_children(b"/zookeeper/quota") == founded_children(b"/a") == []
    for path, count in ((b"/", 1), (b"/zookeeper", 2), (b"/zookeeper/quota", 0), (b"/zookeeper/config", 0)):
        stat = founded_node(path)
        assert stat is not None and tuple(stat) == STAT_FIELDS
        assert (stat["children"], stat["czxid"], stat["ctime_ms"]) == (count, 0, 0)
    for path in (b"", b"/a", b"zookeeper", b"/zookeeper/"):
        assert founded_node(path) is None


def test_the_configuration_reads_as_that_of_a_zookeeper() -> None:
    """QuorumMaj.toString; no addresses of clients, to which Curator would go."""
    servers = [(b"a.example:7400", False), (b"[::1]:7401", True)]
    expected = b"server.1=a.example:7400:7400:participant\nserver.2=[::1]:7401:7401:observer\nversion=1f"
    assert config_text(servers, 31) == expected
    assert struct.calcsize("<QQQQiiiQiiQ") == 68


def test_who_am_i_tells_users_without_hashes() -> None:
    """vector<ClientInfo>: scheme, user."""
    expected = [jute.buffer(b"ip") + jute.buffer(b"127.0.0.1"), jute.buffer(b"digest") + jute.buffer(b"ann")]
    assert who_am_i(speaker(b"ann:1")) == jute.vector(expected)
