"""A client of gRPC over HTTP/2, small enough to be read: one connection, and any number of calls on it."""

from __future__ import annotations

import socket
import ssl
import struct
from types import TracebackType
from typing import Any, Self

import h2.config
import h2.connection
import h2.events

from tests.etcd.messages import Message, decode, encode

TIMEOUT_S = 30.0
READ_BYTES = 1 << 16

METHODS = {
    "Range": "/etcdserverpb.KV/Range",
    "Put": "/etcdserverpb.KV/Put",
    "DeleteRange": "/etcdserverpb.KV/DeleteRange",
    "Txn": "/etcdserverpb.KV/Txn",
    "Compaction": "/etcdserverpb.KV/Compact",
    "MemberList": "/etcdserverpb.Cluster/MemberList",
    "MemberAdd": "/etcdserverpb.Cluster/MemberAdd",
    "MemberRemove": "/etcdserverpb.Cluster/MemberRemove",
    "MemberUpdate": "/etcdserverpb.Cluster/MemberUpdate",
    "MemberPromote": "/etcdserverpb.Cluster/MemberPromote",
    "LeaseGrant": "/etcdserverpb.Lease/LeaseGrant",
    "LeaseRevoke": "/etcdserverpb.Lease/LeaseRevoke",
    "LeaseTimeToLive": "/etcdserverpb.Lease/LeaseTimeToLive",
    "Lock": "/v3lockpb.Lock/Lock",
    "Unlock": "/v3lockpb.Lock/Unlock",
    "Status": "/etcdserverpb.Maintenance/Status",
    "Alarm": "/etcdserverpb.Maintenance/Alarm",
    "HashKV": "/etcdserverpb.Maintenance/HashKV",
    "Snapshot": "/etcdserverpb.Maintenance/Snapshot",
    "MoveLeader": "/etcdserverpb.Maintenance/MoveLeader",
    **{
        name: f"/etcdserverpb.Auth/{name}"
        for name in (
            "AuthEnable",
            "AuthDisable",
            "AuthStatus",
            "Authenticate",
            "UserAdd",
            "UserGet",
            "UserList",
            "UserDelete",
            "UserChangePassword",
            "UserGrantRole",
            "UserRevokeRole",
            "RoleAdd",
            "RoleGet",
            "RoleList",
            "RoleDelete",
            "RoleGrantPermission",
            "RoleRevokePermission",
        )
    },
}


class RpcError(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text


class Gone(Exception):
    """The door has closed the connection, or reset the stream."""


class Call:
    """What came for one stream so far."""

    def __init__(self) -> None:
        self.head: dict[str, str] = {}
        self.data = bytearray()
        self.has_ended = False
        self.reset: int | None = None

    def messages(self) -> list[bytes]:
        found = []
        at = 0
        while at + 5 <= len(self.data):
            (length,) = struct.unpack_from(">xI", self.data, at)
            found.append(bytes(self.data[at + 5 : at + 5 + length]))
            at += 5 + length
        return found


def framed(body: bytes) -> bytes:
    return struct.pack(">BI", 0, len(body)) + body


class EtcdClient:
    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket)
        self.http2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.http2.initiate_connection()
        self.calls: dict[int, Call] = {}
        self.token = ""
        self.send()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    # --- the wire ---------------------------------------------------------------------------------------------------
    def send(self) -> None:
        self.socket.sendall(self.http2.data_to_send())

    def receive(self) -> None:
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise Gone
        for event in self.http2.receive_data(data):
            self._take(event)
        self.send()

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ConnectionTerminated):
            raise Gone
        call = self.calls.get(getattr(event, "stream_id", 0) or 0)
        if call is None:
            return
        if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
            call.head |= {name.decode(): value.decode() for name, value in event.headers}
        elif isinstance(event, h2.events.DataReceived):
            call.data += event.data
            self.http2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            call.has_ended = True
        elif isinstance(event, h2.events.StreamReset):
            call.reset = event.error_code

    # --- calls --------------------------------------------------------------------------------------------------------
    def open(self, path: str, **headers: str) -> int:
        """A stream on which messages may be sent."""
        stream = self.http2.get_next_available_stream_id()
        self.calls[stream] = Call()
        fields = {
            ":method": "POST",
            ":scheme": "http",
            ":path": path,
            ":authority": "door",
            "content-type": "application/grpc",
            "te": "trailers",
            **headers,
        }
        self.http2.send_headers(stream, list(fields.items()))
        self.send()
        return stream

    def say(self, stream: int, body: bytes, *, ends: bool = False) -> None:
        """Bytes of the stream, as far as the door's windows let them go. Gone: the door has answered already."""
        call = self.calls[stream]
        while body:
            if call.has_ended or call.reset is not None:
                raise Gone
            room = min(self.http2.local_flow_control_window(stream), self.http2.max_outbound_frame_size, len(body))
            if room:
                self.http2.send_data(stream, body[:room])
                self.send()
                body = body[room:]
            else:
                self.receive()
        if ends:
            self.http2.end_stream(stream)
            self.send()

    def answer(self, stream: int) -> list[bytes]:
        """The messages of a call that has ended."""
        call = self.calls[stream]
        while not call.has_ended:
            if call.reset is not None:
                raise Gone
            self.receive()
        del self.calls[stream]
        code = int(call.head["grpc-status"])
        if code:
            raise RpcError(code, call.head.get("grpc-message", ""))
        return call.messages()

    def start(self, name: str, /, **values: Any) -> int:
        stream = self.open(METHODS[name], **({"token": self.token} if self.token else {}))
        self.say(stream, framed(encode(name, values)), ends=True)
        return stream

    def end(self, name: str, stream: int) -> Message:
        (body,) = self.answer(stream)
        return decode(f"{name}Reply", body)

    def snapshot(self) -> list[Message]:
        """The pieces of a database, and its hash."""
        return [decode("SnapshotReply", body) for body in self.answer(self.start("Snapshot"))]

    def ask(self, name: str, /, **values: Any) -> Message:
        return self.end(name, self.start(name, **values))
