"""Streams of gRPC at the etcd door: several on one connection, beside calls; and the rights of a watch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.etcd.client import EtcdClient, framed
from tests.etcd.messages import Message, decode, encode
from tests.etcd.test_rights import SecuredDoor

PACKED_NO_PUT = b"\x0a\x09\x0a\x04keys\x2a\x01\x00"  # a create request with filters as Go writes them


class Stream:
    """A stream of one method on a connection that has others."""

    def __init__(self, client: EtcdClient, path: str, request: str, reply: str) -> None:
        self._client, self._request, self._reply = client, request, reply
        self._stream = client.open(path)
        self._taken = 0

    def send(self, **values: Any) -> None:
        self.send_raw(encode(self._request, values))

    def send_raw(self, message: bytes, *, ends: bool = False) -> None:
        self._client.say(self._stream, framed(message), ends=ends)

    def take(self) -> Message:
        call = self._client.calls[self._stream]
        while len(call.messages()) == self._taken:
            assert not call.has_ended, call.head
            self._client.receive()
        self._taken += 1
        return decode(self._reply, call.messages()[self._taken - 1])

    def end(self) -> None:
        """The client has no more; the door ends the call."""
        self._client.http2.end_stream(self._stream)
        self._client.send()
        assert len(self._client.answer(self._stream)) == self._taken


def watching(client: EtcdClient) -> Stream:
    return Stream(client, "/etcdserverpb.Watch/Watch", "Watch", "WatchReply")


def test_streams_and_calls_share_a_connection(client: EtcdClient, prefix: bytes) -> None:
    first, second = watching(client), watching(client)
    for stream in (first, second):
        stream.send(create={"key": prefix, "range_end": prefix + b"\xff"})
        assert stream.take()["created"]
    revisions = [client.ask("Put", key=prefix + b"%d" % number)["header"]["revision"] for number in range(50)]
    for stream in (second, first):
        told: list[int] = []
        while len(told) < len(revisions):
            told += [event["kv"]["mod_revision"] for event in stream.take()["events"]]
        assert told == revisions
    keeping = Stream(client, "/etcdserverpb.Lease/LeaseKeepAlive", "KeepAlive", "KeepAliveReply")
    keeping.send(ID=12345)
    assert keeping.take() == {**keeping_reply(client), "ID": 12345}
    keeping.end()


def keeping_reply(client: EtcdClient) -> Message:
    """The answer for a lease that is not there, but for its id."""
    return {"header": client.ask("Range", key=b"k")["header"]}


def test_filters_may_come_packed(client: EtcdClient) -> None:
    stream = watching(client)
    stream.send_raw(PACKED_NO_PUT)
    assert stream.take()["created"]
    client.ask("Put", key=b"keys")
    client.ask("DeleteRange", key=b"keys")
    (event,) = stream.take()["events"]
    assert event["type"] == 1


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredDoor]:
    door = SecuredDoor(Path(tmp_path_factory.mktemp("secured")))
    yield door
    door.node.close()


def test_a_watch_needs_a_right_and_ends_with_it(secured: SecuredDoor) -> None:
    secured.enable_rights()
    auth = secured.node.auth
    auth.grant("shop", "watch", prefix="shop/")
    with secured.client("shop") as client:
        stream = watching(client)
        stream.send(create={"key": b"else/", "range_end": b"else0"})
        refused = stream.take()
        assert (refused["created"], refused["canceled"], refused["watch_id"]) == (True, True, -1)
        assert refused["cancel_reason"] == "etcdserver: permission denied"
        stream.send(create={"key": b"shop/", "range_end": b"shop0", "watch_id": 4})
        assert stream.take()["created"]
        client.ask("Put", key=b"shop/k")
        assert stream.take()["events"][0]["kv"]["key"] == b"shop/k"
        auth.revoke("shop", "watch", prefix="shop/")
        client.ask("Put", key=b"shop/k")
        ended = stream.take()
        assert (ended["canceled"], ended["watch_id"], ended["cancel_reason"]) == (
            True,
            4,
            "etcdserver: permission denied",
        )
        assert "events" not in ended
