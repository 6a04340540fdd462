"""What the acceptance relies on: frames become lines, masks hide only what differs by chance, disorder is found."""

from __future__ import annotations

import struct

import pytest

from tests.doors.jute import NUMBERS, Conversation, order
from tests.doors.raw import EPHEMERAL, creation, data, look, number, operations, text
from tests.doors.traces import difference, read, written

SESSION = 0x7700_0000_0000_0001


def frame(body: bytes) -> bytes:
    return number(len(body)) + body


def stat(czxid: int, mzxid: int, *, owner: int = 0) -> bytes:
    return struct.pack(">qqqqiiiqiiq", czxid, mzxid, 5, 6, 1, 2, 3, owner, 4, 0, mzxid)


def connected() -> Conversation:
    conversation = Conversation()
    conversation.feed(frame(struct.pack(">iqiq", 0, 0, 6000, 0) + data(bytes(16)) + b"\0"), is_request=True)
    conversation.feed(frame(struct.pack(">iiq", 0, 6000, SESSION) + data(bytes(16)) + b"\0"), is_request=False)
    return conversation


def ask(conversation: Conversation, xid: int, kind: str, body: bytes) -> None:
    conversation.feed(frame(struct.pack(">ii", xid, NUMBERS[kind]) + body), is_request=True)


def answer(conversation: Conversation, xid: int, zxid: int, error: int, body: bytes = b"") -> None:
    conversation.feed(frame(struct.pack(">iqi", xid, zxid, error) + body), is_request=False)


def test_a_request_and_its_reply_are_lines() -> None:
    """Frames may come in pieces; ids, zxids and times are not shown, their order is."""
    conversation = connected()
    request = frame(struct.pack(">ii", 1, NUMBERS["create2"]) + creation("/a", b"x", flags=EPHEMERAL))
    for at in range(len(request)):
        conversation.feed(request[at : at + 1], is_request=True)
    answer(conversation, 1, 9, 0, text("/a") + stat(9, 9, owner=SESSION))
    ask(conversation, 2, "getData", look("/a", watch=True))
    answer(conversation, 2, 10, 0, data(None) + stat(9, 10, owner=77))
    assert conversation.lines == [
        "> connect version=0 timeout=6000 new read-only=False",
        "< connected version=0 timeout=6000 a session read-only=False",
        "> create2 /a 'x' [31 world:anyone] flags=1",
        "< create2 0 /a {czxid=mzxid=pzxid ctime<=mtime versions=1,2,3 owner=self length=4 children=0}",
        "> getData /a watch",
        "< getData 0 null {czxid<mzxid=pzxid ctime<=mtime versions=1,2,3 owner=other length=4 children=0}",
    ]
    assert not conversation.order_faults


def test_an_event_stands_where_it_came() -> None:
    conversation = connected()
    ask(conversation, 1, "delete", text("/a") + number(-1))
    conversation.feed(frame(struct.pack(">iqi", -1, 12, 0) + number(2) + number(3) + text("/a")), is_request=False)
    answer(conversation, 1, 12, 0)
    assert conversation.lines[2:] == ["! deleted connected /a", "> delete /a version=-1", "< delete 0"]


def test_a_failed_multi_shows_each_result() -> None:
    """The header says 0; the errors stand in the body."""
    conversation = connected()
    parts = [("create", creation("/a", b"")), ("check", text("/b") + number(7))]
    ask(conversation, 1, "multi", operations(parts))
    failed = b"".join(struct.pack(">i?ii", -1, False, error, error) for error in (0, -101))
    answer(conversation, 1, 5, 0, failed + struct.pack(">i?i", -1, True, -1))
    assert conversation.lines[2:] == [
        "> multi create /a '' [31 world:anyone] flags=0; check /b version=7",
        "< multi 0 error 0 0; error -101 -101",
    ]


def test_disorder_is_found() -> None:
    """A reply out of turn, and a zxid that falls."""
    conversation = connected()
    for xid in (1, 2, 3):
        ask(conversation, xid, "exists", look("/a"))
    answer(conversation, 2, 5, -101)
    answer(conversation, 2, 4, -101)
    assert conversation.order_faults == ["xid 2 where 1 was due", "zxid 0x4 after 0x5"]


@pytest.mark.parametrize("cut", [9, 12, 20])
def test_a_frame_that_cannot_be_read_is_said(cut: int) -> None:
    """A request that is cut stands as such before its answer; behind a reply that is cut nothing is read."""
    conversation = connected()
    whole = struct.pack(">ii", 1, NUMBERS["create"]) + creation("/abc", b"x")
    conversation.feed(frame(whole[:cut]), is_request=True)
    answer(conversation, 1, 5, -5)
    assert conversation.lines[2:] == [f"> create cut after {cut} bytes", "< create -5"]
    ask(conversation, 2, "getData", look("/a"))
    answer(conversation, 2, 6, 0, (data(b"x") + stat(5, 5))[:cut])
    assert conversation.lines[-1].startswith("< unreadable")
    answer(conversation, 3, 7, 0)
    assert len(conversation.lines) == 5


def test_masks_hide_names_of_one_run() -> None:
    """The identifiers of recipes, not what stands beside them."""
    lines = []
    for name in ("3f2504e0-4f89-41d3-9a0c-0305e82c3301", "0123456789abcdef0123456789abcdef"):
        conversation = connected()
        ask(conversation, 1, "exists", look(f"/lock/{name}__lock__0000000001"))
        lines.append(conversation.unanswered)
    assert lines[0] == lines[1]
    assert lines[0] == ["> exists /lock/<uuid>__lock__0000000001 -"]


def test_order_is_told() -> None:
    assert [order(1, 2), order(2, 2), order(3, 2)] == ["<", "=", ">"]


def test_a_difference_of_two_traces_is_shown() -> None:
    """A planted one: another error, and a missing event."""
    one = ["> exists /a -", "< exists -101", "! deleted connected /a"]
    other = ["> exists /a -", "< exists -102"]
    assert difference(one, one) == ""
    shown = difference(one, other)
    assert "-< exists -101" in shown and "+< exists -102" in shown and "-! deleted connected /a" in shown


def test_traces_are_read_as_they_were_written() -> None:
    traces = {"nodes": ["connection 1", "> exists /a -"], "empty": []}
    assert read(written(traces)) == {**traces, "empty": []}
