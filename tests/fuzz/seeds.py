"""Makes the first corpora: what three real nodes and a client say to each other, cut into frames, and what is in those.

python -m tests.fuzz.seeds FOLDER

Every connection goes through a relay that keeps the bytes. Frames of each kind are taken, the shortest first, and their
bodies go to the targets that read such a body. A type of message that no quiet cluster sends is encoded as the tests of
the codec do it. A corpus grows by what a fuzzer finds: those files are added by hand, with the name of the finding.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
import ssl
import struct
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgpack

import raftmeta
import raftmeta.snapshot
from raftmeta import operations
from tests.etcd.messages import encode as etcd_encode
from tests.faces.wire import message_encode, refused_encode, snapshot_message_encode
from tests.kafka.batches import Record, batch
from tests.kafka.codec import encode as kafka_encode
from tests.kafka.nodes import KEYS as KAFKA_KEYS
from tests.kafka.schema import messages as kafka_messages
from tests.node.nodes import QUICK
from tests.processes.waiting import free_addresses, wait_until
from tests.wire.names import FrameType, MessageType
from tests.wire.records import payloads, record
from tests.wire.test_messages import FIELDS, message
from tests.zookeeper import jute
from tests.zookeeper.jute import Request
from tests.zookeeper.record import requests
from tests.zookeeper.sasl import proof, response

FILE_BYTES_MAX = 1000
OF_A_KIND = 3
PEER_HEADER_BYTES = 96
CLIENT_HEADER_BYTES = 8
ENTRY_COMMAND = 2
COMMAND_SESSION_OPEN = 6
SNAPSHOT_FETCH, SNAPSHOT_PIECE = 2, 3
# As tests/faces/fuzz_etcd numbers them, by the names of tests/etcd/messages.
ETCD_METHODS = (
    *("Range", "Put", "DeleteRange", "Txn", "Compaction", "Watch", "LeaseGrant", "LeaseRevoke", "KeepAlive"),
    *("LeaseTimeToLive", "MemberRemove", "HashKV", "Lock", "Unlock", "Campaign", "Proclaim", "Leader", "Resign"),
    *("UserAdd", "UserGrantRole", "RoleAdd", "RoleGrantPermission", "RoleRevokePermission", "RoleGet"),
)
KAFKA_LAST = {"ListOffsets": 9, "DescribeGroups": 5, "DeleteGroups": 2, "OffsetCommit": 9, "OffsetFetch": 9}  # known


class Relay:
    """Accepts at one address, forwards to another, and keeps what was sent each way."""

    def __init__(self, source: str, target: str) -> None:
        self.address = source
        self._target = target.rpartition(":")
        self._listener = socket.create_server((source.rpartition(":")[0], int(source.rpartition(":")[2])))
        self.requests: list[bytearray] = []
        self.answers: list[bytearray] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection((self._target[0], int(self._target[2])))
                except OSError:
                    near.close()
                    continue
                self.requests.append(bytearray())
                self.answers.append(bytearray())
                for one, other, kept in ((near, far, self.requests[-1]), (far, near, self.answers[-1])):
                    threading.Thread(target=self._copy, args=(one, other, kept), daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket, kept: bytearray) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(1 << 16):
                kept += part
                target.sendall(part)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


class Corpus:
    """Files by target; of each kind the shortest few."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, object], set[bytes]] = defaultdict(set)

    def add(self, target: str, kind: object, data: bytes) -> None:
        if 0 < len(data) <= FILE_BYTES_MAX:
            self._found[target, kind].add(bytes(data))

    def of(self, target: str) -> list[bytes]:
        """What one target has so far."""
        return sorted(data for (name, _), files in self._found.items() if name == target for data in files)

    def write(self, folder: Path) -> int:
        count = 0
        for (target, _), files in self._found.items():
            (folder / target).mkdir(parents=True, exist_ok=True)
            for data in sorted(files, key=lambda one: (len(one), one))[:OF_A_KIND]:
                (folder / target / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
                count += 1
        return count


# --- cut ------------------------------------------------------------------------------------------------------------


def peer_frames(stream: bytes) -> Iterator[tuple[int, bytes, bytes, bytes]]:
    """(type, whole frame, body, records) of each frame."""
    at = 0
    while len(stream) - at >= PEER_HEADER_BYTES:
        kind = stream[at + 9]
        body, records = struct.unpack_from("<II", stream, at + 16)
        end = at + PEER_HEADER_BYTES + body + records
        if end > len(stream):
            return
        body_at = at + PEER_HEADER_BYTES
        yield kind, stream[at:end], stream[body_at : body_at + body], stream[body_at + body : end]
        at = end


def client_frames(stream: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while len(stream) - at >= CLIENT_HEADER_BYTES:
        (length,) = struct.unpack_from("<I", stream, at)
        end = at + CLIENT_HEADER_BYTES + length
        if end > len(stream):
            return
        yield stream[at:end], stream[at + CLIENT_HEADER_BYTES : end]
        at = end


def commands_in(records: bytes) -> Iterator[tuple[int, bytes]]:
    """Index and payload of each command in the records of an APPEND."""
    at = 0
    while len(records) - at >= 64:
        (length,) = struct.unpack_from("<I", records, at + 4)
        if records[at + 60] == ENTRY_COMMAND and at + 64 + length <= len(records):
            yield struct.unpack_from("<Q", records, at + 8)[0], records[at + 64 : at + 64 + length]
        at += 64 + length + -length % 8


def behind_lengths(parts: list[bytes]) -> bytes:
    return b"".join(struct.pack("<H", len(part)) + part for part in parts)


def take_peers(corpus: Corpus, stream: bytes) -> None:
    bodies = {
        FrameType.FRAME_HELLO: "peer_hello",
        FrameType.FRAME_GENESIS: "peer_genesis",
        FrameType.FRAME_REFUSED: "peer_refused",
    }
    for kind, frame, body, records in peer_frames(stream):
        message_type = body[1] if kind == FrameType.FRAME_MESSAGE and len(body) > 1 else 0
        corpus.add("peer_stream", (kind, message_type), frame)
        if kind in bodies:
            corpus.add(bodies[FrameType(kind)], body[1], body)
        if kind == FrameType.FRAME_GENESIS and (membership := msgpack.unpackb(body)[5]):
            corpus.add("peer_membership", 0, membership)
        if kind == FrameType.FRAME_MESSAGE:
            corpus.add("peer_message", message_type, behind_lengths([body]) + records)
            for _, payload in commands_in(records):
                corpus.add("command", payload[:2], payload)
    whole = [frame for _, frame, _, _ in peer_frames(stream)]
    corpus.add("peer_stream", "many", b"".join(whole[:4]))


def take_log(corpus: Corpus, streams: list[bytes]) -> None:
    """The commands of the log in their order: the sessions that are opened, then some of what they did."""
    log: dict[int, bytes] = {}
    for stream in streams:
        for _, _, _, records in peer_frames(stream):
            log |= dict(commands_in(records))
    found = [log[index] for index in sorted(log)]
    opened = [payload for payload in found if payload[1] == COMMAND_SESSION_OPEN]
    others = [payload for payload in found if payload[1] != COMMAND_SESSION_OPEN]
    for count in (1, 4, 8, 16, len(others)):
        for number, at in enumerate(range(0, len(others), count)):
            corpus.add("machine", (count, number % 3), behind_lengths([*opened, *others[at : at + count]]))


def take_clients(corpus: Corpus, relay: Relay) -> None:
    for stream in relay.requests:
        for number, (frame, body) in enumerate(client_frames(bytes(stream))):
            corpus.add("client_stream", (number == 0, body[:2]), frame)
            corpus.add("client_request" if number else "peer_hello", body[:2], body)
    for stream in relay.answers:
        for number, (frame, body) in enumerate(client_frames(bytes(stream))):
            corpus.add("node_stream", body[:2], frame)
            if number:
                corpus.add("client_message", body[:2], body)


def take_rare(corpus: Corpus) -> None:
    """A message of each type, as the codec writes it; records where the type has some."""
    for name, fields in FIELDS.items():
        values = {field: number + 2 for number, field in enumerate(fields) if field not in ("reject", "count")}
        behind = b""
        if name == "APPEND":
            values |= {"index": 4, "log_term": 2, "term": 3, "count": 2}
            behind = record(5, 2, b"first") + record(6, 3, b"")
        elif name == "ENTRY_RESPONSE":
            values |= {"index": 5, "count": 1}
            behind = record(5, 2, b"repaired")
        elif name == "PROPOSE":
            values |= {"count": 2}
            behind = payloads(b"one", b"two")
        elif name == "MEMBERSHIP_PROPOSE":
            behind = b"membership"
        status, body = message_encode(message(name, **values), behind)
        assert status == 0, f"{name}: {status}"
        corpus.add("peer_message", MessageType[name], behind_lengths([body]) + behind)
    for text in (b"another cluster", b""):
        corpus.add("peer_refused", text, refused_encode(3, text)[1])
    for type in range(1, 5):
        piece = 5 if type == SNAPSHOT_PIECE else 0
        fields = {
            "type": type,
            "point": (70, 3, 2**60),
            "size_bytes": 900,
            "hash": (1, 2**63),
            "offset": 0,
            "length": 5,
        }
        if type not in (SNAPSHOT_FETCH, SNAPSHOT_PIECE):
            fields["length"] = 0
        status, body = snapshot_message_encode(fields)
        assert status == 0, f"{type}: {status}"
        corpus.add("peer_snapshot", type, struct.pack("<H", piece) + body)
    corpus.add("peer_state", 0, msgpack.packb([90, 2**64 - 1, 3]))


def take_zookeeper(corpus: Corpus) -> None:
    """A connect request, then one request of each kind; and a conversation of SASL, a word, a short connect."""
    connect = jute.buffer(jute.connect() + b"\x00")
    for name, one in requests():
        corpus.add("zookeeper_stream", name, connect + jute.buffer(jute.request(one)))
    answer = response(
        nonce=b'"' + b"0" * 32 + b'"', response=proof(b"bob", b"bobsecret", b"AUTHENTICATE", nonce=b"0" * 32)
    )
    steps = [Request(102, data=b""), Request(102, data=answer), Request(1, path=b"/a", acl=[(31, b"auth", b"")])]
    corpus.add("zookeeper_stream", "sasl", connect + b"".join(jute.buffer(jute.request(one)) for one in steps))
    corpus.add("zookeeper_stream", "word", b"ruok")
    corpus.add(
        "zookeeper_stream", "short", jute.buffer(jute.connect(session=7)) + jute.buffer(jute.request(Request(11)))
    )


def kafka_frame(name: str, version: int, **values: object) -> bytes:
    """A request of Kafka's protocol behind its length."""
    key = KAFKA_KEYS[name]
    message = kafka_messages()[key]
    head = struct.pack(">hhih", key, version, 1, 1) + b"c" + (b"\0" if message.is_flexible(version) else b"")
    body = head + kafka_encode(message, version, values, is_request=True)
    return struct.pack(">i", len(body)) + body


def take_kafka(corpus: Corpus) -> None:
    """Each request in its first and last version, some after others that make what it needs."""
    topic = {"name": "t", "num_partitions": 2, "replication_factor": 1}
    made = kafka_frame("CreateTopics", 5, topics=[topic], timeout_ms=1)
    records = batch([Record(b"k", b"v"), Record(b"k", None)])
    part = {"index": 0, "records": records}
    produced = kafka_frame("Produce", 9, acks=-1, timeout_ms=1, topic_data=[{"name": "t", "partition_data": [part]}])
    protocols = [{"name": "range", "metadata": b"m"}]
    session = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000}
    joined = kafka_frame("JoinGroup", 3, group_id="g", protocol_type="consumer", protocols=protocols, **session)
    offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}
    committed = kafka_frame("OffsetCommit", 8, group_id="g", topics=[{"name": "t", "partitions": [offset]}])
    change = [{"name": "cleanup.policy", "config_operation": 2, "value": "compact"}]
    place = {"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1, "offset": 1}]}
    sought = [{"topic": "t", "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}]
    epochs = [{"topic": "t", "partitions": [{"partition": 0}]}]
    resource = {"resource_type": 2, "resource_name": "t", "configs": change, "configuration_keys": None}
    asked: dict[str, tuple[bytes, dict[str, object]]] = {
        "Produce": (made, {"acks": -1, "topic_data": [{"name": "t", "partition_data": [part]}]}),
        "Fetch": (made + produced, {"topics": sought, "max_wait_ms": 1}),
        "ListOffsets": (made + produced, {"topics": [place]}),
        "OffsetForLeaderEpoch": (made + produced, {"topics": epochs}),
        "DeleteRecords": (made + produced, {"topics": [place]}),
        "InitProducerId": (b"", {"transactional_id": None}),
        "Metadata": (made, {"topics": [{"name": "t"}, {"name": "auto"}]}),
        "CreateTopics": (b"", {"topics": [topic | {"configs": [{"name": "retention.ms", "value": "1"}]}]}),
        "DeleteTopics": (made, {"topics": [{"name": "t"}], "topic_names": ["t", "none"]}),
        "CreatePartitions": (made, {"topics": [{"name": "t", "count": 3}]}),
        "DescribeConfigs": (made, {"resources": [resource]}),
        "AlterConfigs": (made, {"resources": [resource]}),
        "IncrementalAlterConfigs": (made, {"resources": [resource]}),
        "JoinGroup": (b"", {"group_id": "g", "protocol_type": "consumer", "protocols": protocols, **session}),
        "SyncGroup": (joined, {"group_id": "g", "generation_id": 1, "member_id": "m"}),
        "Heartbeat": (joined, {"group_id": "g", "generation_id": 1, "member_id": "m"}),
        "LeaveGroup": (joined, {"group_id": "g", "member_id": "m", "members": [{"member_id": "m"}]}),
        "DescribeGroups": (joined, {"groups": ["g", "none"]}),
        "ListGroups": (joined, {"states_filter": ["Stable"]}),
        "DeleteGroups": (joined, {"groups_names": ["g"]}),
        "OffsetCommit": (made, {"group_id": "g", "topics": [{"name": "t", "partitions": [offset]}]}),
        "OffsetFetch": (made + committed, {"group_id": "g", "topics": None, "groups": [{"group_id": "g"}]}),
        "OffsetDelete": (made + committed, {"group_id": "g", "topics": [place]}),
        "FindCoordinator": (b"", {"key": "g", "coordinator_keys": ["g"]}),
        "DescribeCluster": (b"", {}),
        "ApiVersions": (b"", {}),
        "SaslHandshake": (b"", {"mechanism": "SCRAM-SHA-256"}),
    }
    for name, (before, values) in asked.items():
        message = kafka_messages()[KAFKA_KEYS[name]]
        for version in {message.first, min(message.flexible, message.last), KAFKA_LAST.get(name, message.last)}:
            told = values | ({"topics": []} if name == "OffsetFetch" and version < 2 else {})
            corpus.add("kafka_stream", (name, version), before + kafka_frame(name, version, **told))
    steps = kafka_frame("SaslHandshake", 1, mechanism="SCRAM-SHA-256")
    steps += kafka_frame("SaslAuthenticate", 2, auth_bytes=b"n,,n=bob,r=abcdefgh")
    corpus.add("kafka_stream", "sasl", steps + kafka_frame("SaslAuthenticate", 2, auth_bytes=b"c=biws,r=abcdefgh,p="))


def etcd_call(method: str, values: dict[str, object], *, stays_open: bool = False) -> bytes:
    body = etcd_encode(method, values)
    return struct.pack("<BBH", ETCD_METHODS.index(method), stays_open, len(body)) + body


def take_etcd(corpus: Corpus) -> None:
    """Each method once, some after others that make what it needs."""
    put = etcd_call("Put", {"key": b"k", "value": b"v"})
    grant = etcd_call("LeaseGrant", {"TTL": 60, "ID": 7})
    lock = etcd_call("Lock", {"name": b"n", "lease": 7}, stays_open=True)
    campaign = etcd_call("Campaign", {"name": b"n", "lease": 7, "value": b"v"}, stays_open=True)
    leader = {"name": b"n", "key": b"n/7", "rev": 4, "lease": 7}
    role = etcd_call("RoleAdd", {"name": "r"})
    given = etcd_call("RoleGrantPermission", {"name": "r", "perm": {"permType": 2, "key": b"a", "range_end": b"b"}})
    user = etcd_call("UserAdd", {"name": "u", "options": {"no_password": True}})
    nested = {"txn": {"success": [{"range": {"key": b"k"}}], "failure": [{"delete": {"key": b"k", "prev_kv": True}}]}}
    compare = [{"target": 3, "key": b"k", "value": b"v"}, {"result": 1, "target": 1, "key": b"k", "create_revision": 0}]
    txn = {
        "compare": compare,
        "success": [{"put": {"key": b"l", "value": b"w", "lease": 7}}, nested],
        "failure": [nested],
    }
    sorted_range = {"key": b"\0", "range_end": b"\0", "limit": 3, "sort_order": 2, "sort_target": 4}
    asked: dict[str, tuple[bytes, dict[str, object]]] = {
        "Range": (put, sorted_range),
        "Put": (put, {"key": b"k", "prev_kv": True, "ignore_value": True}),
        "DeleteRange": (put, {"key": b"a", "range_end": b"z", "prev_kv": True}),
        "Txn": (put + grant, txn),
        "Compaction": (put * 3, {"revision": 3}),
        "Watch": (b"", {"create": {"key": b"k", "start": 1}}),
        "LeaseGrant": (b"", {"TTL": 60}),
        "LeaseRevoke": (grant, {"ID": 7}),
        "KeepAlive": (grant, {"ID": 7}),
        "LeaseTimeToLive": (grant, {"ID": 7, "keys": True}),
        "MemberRemove": (b"", {"ID": 1}),
        "HashKV": (put, {}),
        "Lock": (grant + lock, {"name": b"n", "lease": 8}),
        "Unlock": (grant + lock, {"key": b"n/7"}),
        "Campaign": (grant + campaign, {"name": b"n", "lease": 8, "value": b"w"}),
        "Proclaim": (grant + campaign, {"leader": leader, "value": b"w"}),
        "Leader": (grant + campaign, {"name": b"n"}),
        "Resign": (grant + campaign, {"leader": leader}),
        "UserAdd": (b"", {"name": "u", "password": "p"}),
        "UserGrantRole": (role + user, {"user": "u", "role": "r"}),
        "RoleAdd": (b"", {"name": "root"}),
        "RoleGrantPermission": (role + given, {"name": "r", "perm": {"permType": 1, "key": b"a", "range_end": b"b"}}),
        "RoleRevokePermission": (role + given, {"role": "r", "key": b"a", "range_end": b"b"}),
        "RoleGet": (role + given, {"role": "r"}),
    }
    for method, (before, values) in asked.items():
        corpus.add("etcd_calls", method, before + etcd_call(method, values))


def take_tls(corpus: Corpus) -> None:
    """The first words of both sides of a handshake, and what peers and clients say, to be carried in some parts."""
    protocols = ("raftmeta-peer/1", "raftmeta-client/1")
    for number, protocol in enumerate(protocols):
        context = ssl.create_default_context()
        context.set_alpn_protocols([protocol])
        context.minimum_version = ssl.TLSVersion.TLSv1_3 if number == 0 else ssl.TLSVersion.TLSv1_2
        heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
        with contextlib.suppress(ssl.SSLWantReadError):
            context.wrap_bio(heard, said, server_hostname="node").do_handshake()
        hello = said.read()
        for first in (0, 2):
            corpus.add("tls_handshake", ("hello", first), bytes([first]) + hello)
        corpus.add("tls_handshake", ("records", number), bytes([0]) + cut_into_records(hello))
    alert = bytes.fromhex("15030300020228")
    server_hello = (
        bytes.fromhex("160303005a02000056" + "0303")
        + bytes(range(32))
        + bytes([0])
        + bytes.fromhex("130100002e002b0002030400330024001d0020")
        + bytes(range(32))
    )
    for first in (1, 3):
        corpus.add("tls_handshake", ("alert", first), bytes([first]) + alert)
        corpus.add("tls_handshake", ("server", first), bytes([first]) + server_hello)
    for target in ("peer_stream", "client_stream"):
        for number, data in enumerate(corpus.of(target)):
            corpus.add(f"tls_{target}", number % 8, bytes([number % 32]) + data)


def cut_into_records(hello: bytes) -> bytes:
    """The same handshake message in records of one to forty bytes."""
    message, records, length = hello[5:], b"", 1
    while message:
        records += hello[:3] + struct.pack(">H", len(message[:length])) + message[:length]
        message, length = message[length:], min(2 * length, 40)
    return records


# --- record ---------------------------------------------------------------------------------------------------------


def some_life(client: raftmeta.Client) -> None:
    """Each kind of request at least once."""
    client.ready(30)
    client.put("a", b"1")
    client.create("b", b"2")
    client.update("b", b"3")
    client.put_many([("m/1", b"x"), ("m/2", b"y")])
    client.get("a")
    client.range(prefix="m/", limit=1)
    client.delete("m/1")
    client.add("counter", 5)
    client.txn(
        [operations.Version("a") > 0, operations.Value("b") == b"3", operations.RangeEmpty("x", "y")],
        [operations.Put("a", b"4"), operations.Txn([], [operations.Get("b")], [])],
        [operations.Range("a", "z"), operations.DeleteRange("m/", "m0")],
    )
    held = client.get("a")
    assert held is not None
    client.put("f", b"5", fence=operations.Fence(b"a", held.create_revision))
    client.compact(client.put("g", b"6").revision)
    with client.lease(5) as lease, client.watch(prefix="w") as watch:
        client.put("w/1", b"z", lease=lease)
        next(iter(watch))
    client.status()
    client.members()


def main(folder: Path) -> None:
    corpus = Corpus()
    peers = dict(zip("abc", free_addresses(3), strict=True))
    listens = dict(zip("abc", free_addresses(3), strict=True))
    clients, client_relay = free_addresses(2)
    relays = [Relay(peers[name], listens[name]) for name in "abc"]
    asked = Relay(client_relay, clients)
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        nodes = {
            name: raftmeta.Node(
                name,
                peers=peers,
                data_dir=Path(place) / name,
                listen=listens[name],
                client_listen=clients if name == "a" else None,
                config=raftmeta.Config(**{**QUICK, "snapshot_log_bytes": 1 << 16}),
            )
            for name in "abc"
        }
        for node in nodes.values():
            stack.callback(node.close)
            node.start()
        for node in nodes.values():
            node.ready(30)
        for number, key in enumerate(("", "k")):
            if key:
                nodes["a"].put(key, b"1", lease=nodes["a"].lease(60))
            raftmeta.snapshot.save(nodes["a"], Path(place) / f"small{number}")
            corpus.add("sealed", number, (Path(place) / f"small{number}").read_bytes())
        with raftmeta.Client(f"raft://{client_relay}") as client:
            some_life(client)
            raftmeta.snapshot.save(client, Path(place) / "backup")
            corpus.add("sealed", 1, (Path(place) / "backup").read_bytes())
        nodes["a"].transfer("b")
        wait_until(lambda: nodes["a"].status().leader == "b", timeout_s=20, what="b to lead")
        nodes["a"].get("a")
    for relay in relays:
        for stream in [*relay.requests, *relay.answers]:
            take_peers(corpus, bytes(stream))
    take_log(corpus, [bytes(stream) for relay in relays for stream in relay.requests])
    take_clients(corpus, asked)
    take_rare(corpus)
    take_zookeeper(corpus)
    take_kafka(corpus)
    take_etcd(corpus)
    take_tls(corpus)
    for relay in [*relays, asked]:
        relay.close()
    print(f"{corpus.write(folder)} files in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
