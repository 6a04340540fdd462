"""The etcd door itself: gRPC's rules, hostile frames, rights, and a cluster without a leader."""

from __future__ import annotations

import gzip
import socket
import struct

import h2.exceptions
import pytest

from tests.etcd.client import METHODS, EtcdClient, Gone, RpcError, framed
from tests.etcd.conftest import Door
from tests.etcd.messages import encode
from tests.processes.waiting import wait_until

UNIMPLEMENTED, INTERNAL, RESOURCE_EXHAUSTED, UNAVAILABLE = 12, 13, 8, 14
MESSAGE_BYTES_MAX = 6 * 1024 * 1024
RESETS = 4000
SETTLE_S = 20.0


def code_of(client: EtcdClient, stream: int) -> int:
    with pytest.raises(RpcError) as caught:
        client.answer(stream)
    return caught.value.code


# --- calls ------------------------------------------------------------------------------------------------------------
def test_an_unknown_method_is_unimplemented(client: EtcdClient) -> None:
    """Also a path that is longer than any; the connection goes on."""
    for path in ("/etcdserverpb.KV/Nothing", "/" + "x" * 4000):
        stream = client.open(path)
        client.say(stream, framed(b""), ends=True)
        assert code_of(client, stream) == UNIMPLEMENTED
    assert client.ask("Range", key=b"k")["header"]


def test_bytes_that_are_no_message_end_the_call_only(client: EtcdClient) -> None:
    for body, code in (
        (framed(b"\xff\xff"), INTERNAL),
        (framed(b"")[:3], INTERNAL),
        (b"", INTERNAL),
        (framed(b"") * 2, INTERNAL),
        (struct.pack(">BI", 1, 0), UNIMPLEMENTED),
        (struct.pack(">BI", 0, MESSAGE_BYTES_MAX + 1), RESOURCE_EXHAUSTED),
    ):
        stream = client.open(METHODS["Range"])
        client.say(stream, body, ends=True)
        assert code_of(client, stream) == code, body
    assert client.ask("Range", key=b"k")["header"]


def test_a_compressed_message_is_refused_and_its_client_told_what_is_read(client: EtcdClient) -> None:
    """gRPC, "Compression": UNIMPLEMENTED, and the encodings that the server accepts."""
    stream = client.open(METHODS["Range"], **{"grpc-encoding": "gzip"})
    client.say(stream, b"\x01" + framed(gzip.compress(encode("Range", {"key": b"k"})))[1:], ends=True)
    call = client.calls[stream]
    with pytest.raises(RpcError) as caught:
        client.answer(stream)
    assert (caught.value.code, call.head["grpc-accept-encoding"]) == (UNIMPLEMENTED, "identity")
    assert client.ask("Range", key=b"k")["header"]


def test_a_request_may_come_byte_by_byte(client: EtcdClient) -> None:
    stream = client.open(METHODS["Range"])
    for byte in framed(encode("Range", {"key": b"k"})):
        client.say(stream, bytes([byte]))
    client.say(stream, b"", ends=True)
    assert client.end("Range", stream)["header"]


def test_calls_of_one_connection_overlap(client: EtcdClient, prefix: bytes) -> None:
    """Those that are sent later need not wait for one that has not ended."""
    open_one = client.open(METHODS["Put"])
    client.say(open_one, framed(encode("Put", {"key": prefix, "value": b"late"})))
    streams = [client.start("Put", key=prefix + b"%d" % number) for number in range(50)]
    revisions = [client.end("Put", stream)["header"]["revision"] for stream in reversed(streams)]
    assert len(set(revisions)) == len(streams)
    client.say(open_one, b"", ends=True)
    assert client.end("Put", open_one)["header"]["revision"] > max(revisions)


def test_a_large_value_comes_and_goes(client: EtcdClient, prefix: bytes) -> None:
    """More than the first windows of both sides."""
    value = bytes(range(256)) * 4000
    client.ask("Put", key=prefix, value=value)
    assert client.ask("Range", key=prefix)["kvs"][0]["value"] == value


def test_a_client_that_leaves_is_forgotten(door: Door, prefix: bytes) -> None:
    """With calls under way, on both sides of their commands."""
    for _ in range(5):
        client = door.client()
        for number in range(20):
            client.start("Put", key=prefix + b"%d" % number, value=b"v")
        client.socket.close()
    with door.client() as other:
        assert other.ask("Range", key=prefix)["header"]
    wait_until(lambda: door.node.metrics()["etcd_connections"] == 0, timeout_s=SETTLE_S, what="closed")


# --- Cluster and Maintenance ------------------------------------------------------------------------------------------
def test_members_and_status_say_who_is_there(client: EtcdClient, door: Door) -> None:
    (member,) = client.ask("MemberList", linearizable=True)["members"]
    status = client.ask("Status")
    assert (member["name"], member["clientURLs"]) == ("a", [f"http://{door.address}"])
    assert member["ID"] == status["leader"] == status["header"]["member_id"]
    assert status["raftAppliedIndex"] <= status["raftIndex"] and "errors" not in status
    assert "alarms" not in client.ask("Alarm")


def test_the_hash_of_keys_is_of_a_revision(client: EtcdClient, prefix: bytes) -> None:
    before = client.ask("Put", key=prefix, value=b"1")["header"]["revision"]
    first = client.ask("HashKV")
    assert first["hash_revision"] == before
    client.ask("Put", key=prefix, value=b"2")
    assert client.ask("HashKV")["hash"] != first["hash"]
    assert client.ask("HashKV", revision=before)["hash"] == first["hash"]


def test_leadership_moves_only_to_a_voter(client: EtcdClient) -> None:
    with pytest.raises(RpcError, match="bad leader transferee"):
        client.ask("MoveLeader", targetID=77)


# --- hostile clients --------------------------------------------------------------------------------------------------
def raw(door: Door, data: bytes) -> bytes:
    """The door's answer to these bytes, until it closes the connection."""
    said = bytearray()
    with socket.create_connection(tuple(door.address.rsplit(":", 1)), SETTLE_S) as link:
        link.sendall(data)
        try:
            while part := link.recv(1 << 16):
                said += part
        except ConnectionResetError:
            pass
    return bytes(said)


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-me\r\n",
        b"\x16\x03\x01\x02\x00",
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 64,
    ],
)
def test_bytes_of_another_protocol_close_the_connection(door: Door, data: bytes) -> None:
    raw(door, data)
    with door.client() as client:
        assert client.ask("Range", key=b"k")["header"]


def test_a_client_that_resets_its_streams_is_sent_away(door: Door) -> None:
    """CVE-2023-44487."""
    client = door.client()
    with pytest.raises((Gone, ConnectionError, h2.exceptions.ProtocolError)):
        for _ in range(RESETS):
            stream = client.open(METHODS["Range"])
            client.http2.reset_stream(stream)
            client.send()
        while True:
            client.receive()
    client.socket.close()
    with door.client() as other:
        assert other.ask("Range", key=b"k")["header"]


def test_a_list_of_headers_has_a_bound(door: Door) -> None:
    with door.client() as client:
        stream = client.open(METHODS["Range"], **{f"x-{number}": "v" for number in range(100)})
        client.say(stream, framed(encode("Range", {"key": b"k"})), ends=True)
        with pytest.raises(Gone):
            client.answer(stream)
        assert client.ask("Range", key=b"k")["header"]


def test_requests_that_never_end_are_bounded(door: Door) -> None:
    """One connection keeps 16 MiB of them, and the rest is refused; others are served."""
    with door.client() as client, door.client() as other:
        streams = [client.open(METHODS["Put"]) for _ in range(4)]
        begun = struct.pack(">BI", 0, MESSAGE_BYTES_MAX) + bytes(MESSAGE_BYTES_MAX - 1)
        refused = 0
        for stream in streams:
            try:
                client.say(stream, begun)
            except (Gone, h2.exceptions.StreamClosedError):
                refused += 1
        for stream in streams:
            refused += client.calls[stream].has_ended
        assert other.ask("Range", key=b"k")["header"]
        assert refused
