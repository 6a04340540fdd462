"""HTTP of etcd's gateway: what stands around the JSON."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.etcd.gateway import WAIT_S, Gateway, Refused, b64, doors, unb64


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with doors(tmp_path_factory.mktemp("gateway")) as (_, ports):
        yield ports["a"]


def answers_to(port: int, sent: bytes, count: int = 1) -> list[tuple[int, bytes]]:
    """Statuses and bodies on one connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as stream:
        stream.sendall(sent)
        told = []
        reader = stream.makefile("rb")
        for _ in range(count):
            status = int(reader.readline().split()[1])
            length = 0
            while line := reader.readline().strip().lower():
                if line.startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            told.append((status, reader.read(length)))
        return told


def request(body: bytes, *, path: str = "kv/range", more: str = "") -> bytes:
    return f"POST /v3/{path} HTTP/1.1\r\nHost: a\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


def test_version_and_health_are_there_for_programs_that_look(port: int) -> None:
    with Gateway(port) as etcd:
        status, version = etcd.look("/version")
        assert (status, set(version)) == (200, {"etcdserver", "etcdcluster", "storage"})
        assert etcd.look("/health") == (200, {"health": "true", "reason": ""})
        assert etcd.look("/nothing") == (404, {"code": 5, "message": "Not Found", "details": []})


def test_a_look_with_a_body_is_answered_and_the_connection_goes_on(port: int) -> None:
    """Patroni sends one along with its first question."""
    asked = b"GET /version HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    told = answers_to(port, asked * 2, 2)
    assert [(status, "etcdserver" in json.loads(text)) for status, text in told] == [(200, True)] * 2


def test_paths_and_methods_that_are_not_there_are_refused(port: int) -> None:
    with Gateway(port) as etcd, pytest.raises(Refused) as refused:
        etcd.ask("kv/nothing")
    assert (refused.value.status, refused.value.code) == (404, 5)
    (answer,) = answers_to(port, b"GET /v3/kv/range HTTP/1.1\r\n\r\n")
    assert answer[0] == http.client.NOT_IMPLEMENTED


def test_requests_on_one_connection_are_answered_in_order(port: int) -> None:
    with Gateway(port) as etcd:
        etcd.put(b"pipelined", b"1")
    body = json.dumps({"key": b64(b"pipelined")}).encode()
    told = answers_to(port, request(body) * 20, 20)
    assert all(status == 200 for status, _ in told)
    assert {unb64(json.loads(text)["kvs"][0]["value"]) for _, text in told} == {b"1"}


def test_a_body_may_come_in_chunks_and_one_byte_at_a_time(port: int) -> None:
    body = json.dumps({"key": b64(b"chunked"), "value": b64(b"v")}).encode()
    chunks = b"".join(b"%x;a=b\r\n%c\r\n" % (1, byte) for byte in body)
    sent = b"POST /v3/kv/put HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\nTrailer: 1\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as stream:
        for byte in sent:
            stream.sendall(bytes([byte]))
        answer = http.client.HTTPResponse(stream)
        answer.begin()
        assert (answer.status, "header" in json.loads(answer.read())) == (200, True)
    with Gateway(port) as etcd:
        assert etcd.values(b"chunked") == {b"chunked": b"v"}


def test_an_empty_body_is_an_empty_request(port: int) -> None:
    (answer,) = answers_to(port, request(b"", path="maintenance/status"))
    assert (answer[0], "version" in json.loads(answer[1])) == (200, True)


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"key": 1}', b'{"key": "?"}', b"x"])
def test_what_is_no_json_of_the_call_is_refused(port: int, body: bytes) -> None:
    ((status, text),) = answers_to(port, request(body))
    assert (status, json.loads(text)["code"]) == (400, 3)


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /v3/kv/range HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /v3/kv/range HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        b"POST /v3/kv/range HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v3/kv/range HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
        b"POST /v3/kv/range HTTP/9.9\r\n\r\n",
        b"POST\r\n\r\n",
        b"POST /v3/kv/range HTTP/1.1\r\n" + b"A: b\r\n" * 4000,
        b"POST /v3/kv/range HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"POST /v3/watch HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ],
)
def test_hostile_heads_and_bodies_end_the_connection(port: int, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as stream:
        stream.sendall(sent)
        told = b""
        while part := stream.recv(65536):
            told += part
        assert told.startswith(b"HTTP/1.1 400 ")
        assert b"Connection: close" in told


def test_the_gateway_and_grpc_share_a_port(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as stream:
        stream.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        assert stream.recv(9)[3] == 4  # SETTINGS
    with Gateway(port) as etcd:
        assert etcd.revision() > 0


def test_a_member_that_lags_answers_for_the_revision_that_another_told(tmp_path: Path) -> None:
    """As etcd's transactional memory reads: each read of a transaction at the revision of the first, at any member."""
    with doors(tmp_path, names="abc") as (_, ports), contextlib.ExitStack() as stack:
        first, *others = [stack.enter_context(Gateway(port)) for port in ports.values()]
        for number in range(60):
            revision = first.put(b"lags", b"%d" % number)
            for etcd in others:
                read = {"request_range": {"key": b64(b"lags"), "revision": str(revision)}}
                told = etcd.ask("kv/txn", success=[read])["responses"][0]["response_range"]
                assert unb64(told["kvs"][0]["value"]) == b"%d" % number


def test_each_operation_of_a_transaction_tells_the_revision_that_it_saw(port: int) -> None:
    """etcd server/storage/mvcc kvstore_txn.go: the one before the first change, and the next one behind it."""
    read = {"request_range": {"key": b64(b"seen")}}
    put = {"request_put": {"key": b64(b"seen"), "value": b64(b"1")}}
    missing = {"request_delete_range": {"key": b64(b"seen-none")}}
    nested = {"request_txn": {"success": [read, put, read]}}
    with Gateway(port) as etcd:
        before = etcd.put(b"seen", b"0")
        changed = etcd.ask("kv/txn", success=[read, missing, nested, missing, read])
        unchanged = etcd.ask("kv/txn", success=[read, missing])
    first, second, inner, *later = changed["responses"]
    told = [first, second, *inner["response_txn"]["responses"], *later]
    assert revisions_told(told) == [before] * 3 + [before + 1] * 4
    assert int(changed["header"]["revision"]) == before + 1
    assert revisions_told(unchanged["responses"]) == [before + 1] * 2


def revisions_told(responses: list[dict[str, Any]]) -> list[int]:
    return [int(answer["header"]["revision"]) for response in responses for answer in response.values()]
