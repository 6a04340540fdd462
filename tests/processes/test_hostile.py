"""Hostile bytes on the ports of a running cluster: closed and counted, and the cluster goes on as if nothing were."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import raftmeta
from raftmeta import faults
from tests.faces.plant import session_of
from tests.faces.wire import frame_encode, hello_encode, message_encode
from tests.machine.commands import KEEP_ALIVE as COMMAND_KEEP_ALIVE
from tests.machine.commands import command
from tests.processes.cluster import Cluster, NodeProcess, get, put, status
from tests.processes.load import start_again
from tests.processes.remote import RemoteError
from tests.processes.waiting import wait_until
from tests.wire.names import FrameType, Status
from tests.wire.test_frame import header_of, with_header

LEVEL = 7  # highest feature level of this version
PEER = 1
FOUNDED = 3
PROPOSE = 9
PROPOSE_RESPONSE = 10
BATCHES = 2_000  # more than b has handed to its leader in this boot
SETTINGS = {"hello_timeout_s": 0.5, "unbound_connections_max": 8}


def metrics(node: raftmeta.Node) -> dict[str, int]:
    return node.metrics()


def cut_to(node: raftmeta.Node, *peers: str) -> None:
    """From now on frames to these peers are lost, and to no others."""
    faults.set_link_faults(node, {peer: faults.LinkFault(cut_to=True) for peer in peers})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Its node b was started twice: there is a boot number below its own."""
    with Cluster(tmp_path_factory.mktemp("hostile"), **SETTINGS) as running:
        running.nodes["b"].kill()
        start_again(running.nodes["b"])
        yield running


@pytest.fixture(autouse=True)
def goes_on(cluster: Cluster) -> Iterator[None]:
    """Around each test: the same leader in the same term, every node writes, reads and is connected to all."""
    leader = cluster.leader()
    term = told(leader)["term"]
    yield
    now = told(leader)
    assert (now["role"], now["term"]) == ("leader", term)
    for name, node in cluster.nodes.items():
        node.call(put, f"after/{name}", name.encode())
        assert node.call(get, f"after/{name}") == name.encode()
    wait_until(lambda: all(is_connected(node) for node in cluster.nodes.values()), timeout_s=20, what=cluster.logs)


def told(node: NodeProcess) -> dict[str, Any]:
    found: dict[str, Any] = node.call(status)
    return found


def is_connected(node: NodeProcess) -> bool:
    return all(member["is_connected"] for member in told(node)["members"] if member["role"])


def is_linked(node: NodeProcess, peer: str) -> bool:
    return any(member["is_connected"] for member in told(node)["members"] if member["name"] == peer)


def connect(cluster: Cluster, name: str = "a") -> socket.socket:
    host, _, port = cluster.peers[name].rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=5)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def rest_of(connection: socket.socket) -> bytes:
    """What comes until the other side ends the connection; TimeoutError if it does not."""
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(4096):
            answer += part
    return answer


@contextlib.contextmanager
def counted(cluster: Cluster, *names: str, count: int = 1, name: str = "a") -> Iterator[None]:
    """So many more are counted in the sum of the metrics `names` of a node."""

    def total() -> int:
        found = cluster.nodes[name].call(metrics)
        return sum(found[one] for one in names)

    before = total()
    yield
    wait_until(lambda: total() >= before + count, timeout_s=20, what=lambda: f"{names}: {total()} after {before}")


def hello_of(running: Cluster, sender: str = "b", **changes: Any) -> bytes:
    """The HELLO that node `sender` would say to a, with other fields."""
    told_by = told(running.nodes[sender])
    number = int(told_by["cluster_id"], 16)
    fields: dict[str, Any] = {
        "purpose": PEER,
        "version_min": 1,
        "version_max": 1,
        "genesis_state": FOUNDED,
        "cluster": (number & (2**64 - 1), number >> 64),
        "id": told_by["id"],
        "boot": told_by["boot"],
        "membership": 0,
        "feature_level_max": LEVEL,
        "name": sender.encode(),
        "cluster_name": b"default",
        "address": running.peers[sender].encode(),
    } | changes
    encoded, body = hello_encode(fields)
    assert encoded == Status.OK
    identity = {"cluster": fields["cluster"], "self": fields["id"], "peer": 0, "peer_boot": 0}
    return frame_encode(FrameType.FRAME_HELLO, identity, self_boot=fields["boot"], sequence=1, body=body)


def refusal_of(answer: bytes) -> int:
    """The status in a FRAME_REFUSED: the only thing that was said."""
    assert answer[9] == FrameType.FRAME_REFUSED
    body = answer[96:]
    assert body[0] == 0x92  # msgpack: an array of status and text
    return body[1]


# --- before a HELLO is accepted ---------------------------------------------------------------------------------------


def test_random_bytes_are_closed_and_counted(cluster: Cluster) -> None:
    """On every node; most of them fail by their first bytes, all by their first header."""
    source = random.Random(7)
    for name in cluster.nodes:
        with counted(cluster, "connections_refused", count=30, name=name):
            for _ in range(30):
                with connect(cluster, name) as connection:
                    connection.sendall(source.randbytes(96 + source.randrange(400)))
                    assert rest_of(connection) == b""


@pytest.mark.parametrize(
    "spoil",
    [
        lambda frame: frame[:-1] + bytes([frame[-1] ^ 1]),
        lambda frame: with_header(frame, sealed=False, crc=header_of(frame)["crc"] ^ 1),
        lambda frame: with_header(frame, body_length=5000),
        lambda frame: with_header(frame, body_length=2**32 - 1, records_length=2**32 - 1),
        lambda frame: with_header(frame, version=2),
        lambda frame: with_header(frame, magic=0),
    ],
    ids=["bad CRC", "bad header CRC", "too long before HELLO", "absurdly long", "newer version", "bad magic"],
)
def test_a_hello_that_is_not_sound_is_closed_and_counted(cluster: Cluster, spoil: Callable[[bytes], bytes]) -> None:
    """No answer, and for a length no waiting and no memory."""
    with counted(cluster, "connections_refused"), connect(cluster) as connection:
        connection.sendall(spoil(hello_of(cluster)))
        assert rest_of(connection) == b""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cluster_name": b"other"}, "FOREIGN_CLUSTER"),
        ({"cluster": (1, 2)}, "FOREIGN_CLUSTER"),
        ({"boot": 1}, "OLD_BOOT"),
        ({"version_min": 9, "version_max": 9}, "BAD_VERSION"),
        ({"feature_level_max": 1}, "BAD_VERSION"),
    ],
    ids=[
        "another cluster's name",
        "another cluster's id",
        "a lower boot number",
        "no common version",
        "a feature level below the cluster's",
    ],
)
def test_a_hello_that_does_not_belong_here_is_told_why(cluster: Cluster, changes: dict[str, Any], reason: str) -> None:
    """One frame that names the reason, then the end; the peer's own connections are not touched."""
    with counted(cluster, "connections_refused", "frames_refused"), connect(cluster) as connection:
        connection.sendall(hello_of(cluster, **changes))
        assert refusal_of(rest_of(connection)) == Status[reason]


def test_a_boot_that_nobody_has_is_not_believed_beside_one_that_answers(cluster: Cluster) -> None:
    """Whoever says that b is in its last possible boot would else end every connection with b."""
    with counted(cluster, "frames_refused"), connect(cluster) as connection:
        connection.sendall(hello_of(cluster, boot=2**63 - 1))
        assert refusal_of(rest_of(connection)) == Status["NOT_READY"]


def test_a_boot_that_was_only_claimed_is_disproved_by_the_answer(cluster: Cluster) -> None:
    """While the member is away nobody contradicts the claim; it answers at its address when it is back."""
    away = next(node for name, node in cluster.nodes.items() if name != "a" and node is not cluster.leader())
    name = told(away)["name"]
    frame = hello_of(cluster, name, boot=2**63 - 1)
    away.kill()
    wait_until(lambda: not is_linked(cluster.nodes["a"], name), timeout_s=20, what=cluster.logs)
    with connect(cluster) as connection:
        connection.sendall(frame)
        assert connection.recv(4096)[9] == FrameType.FRAME_HELLO
        start_again(away)
        wait_until(lambda: is_linked(cluster.nodes["a"], name), timeout_s=20, what=cluster.logs)
        number = int(told(away)["cluster_id"], 16)
        identity = {"cluster": (number & (2**64 - 1), number >> 64), "self": told(away)["id"]}
        identity |= {"peer": told(cluster.nodes["a"])["id"], "peer_boot": 0}
        connection.sendall(frame_encode(FrameType.FRAME_PING, identity, self_boot=2**63 - 1, sequence=2))
        assert rest_of(connection) == b""


def test_a_member_that_answers_is_not_moved_by_whoever_claims_to_be_it(cluster: Cluster) -> None:
    """The connection would move to the false address at once."""
    leader = cluster.leader()
    name = next(name for name, node in cluster.nodes.items() if node is not leader)
    frame = hello_of(cluster, name, address=b"127.0.0.1:9")
    for _ in range(10):  # the look may come just when it is back at the true address
        with connect(cluster, leader.name) as connection:
            connection.sendall(frame)
            assert connection.recv(4096)[9] == FrameType.FRAME_HELLO
            assert is_linked(leader, name)


def is_heard_out(connection: socket.socket, frame: bytes) -> bool:
    """Send a byte each 20 ms; False when the other side ends the connection before the last."""
    connection.settimeout(0.02)
    for byte in frame:
        with contextlib.suppress(TimeoutError):
            try:
                connection.sendall(bytes([byte]))
                connection.recv(1)
            except (ConnectionResetError, BrokenPipeError):
                return False
            return False
    return True


def test_half_a_frame_and_a_slow_hello_are_closed_when_their_time_is_over(cluster: Cluster) -> None:
    """hello_timeout_s is for the whole HELLO, also for one that comes a byte at a time."""
    frame = hello_of(cluster)
    with counted(cluster, "connections_evicted", count=2), connect(cluster) as half, connect(cluster) as slow:
        began = time.monotonic()
        half.sendall(frame[:50])
        assert not is_heard_out(slow, frame)
        assert rest_of(half) == b""
        assert time.monotonic() - began > 0.4


def test_half_a_frame_and_an_end_is_nothing_at_all(cluster: Cluster) -> None:
    for length in (1, 95, 96, 120):
        with connect(cluster) as connection:
            connection.sendall(hello_of(cluster)[:length])
            connection.shutdown(socket.SHUT_WR)
            assert rest_of(connection) == b""


def test_strangers_do_not_use_up_the_places_of_members(cluster: Cluster) -> None:
    """Forty nodes that nobody knows say HELLO, more than there are places for members."""
    with contextlib.ExitStack() as stack:
        for number in range(40):
            connection = stack.enter_context(connect(cluster))
            connection.sendall(hello_of(cluster, id=1000 + number, boot=1, name=b"stranger-%d" % number, address=b""))
    assert {member["name"] for member in told(cluster.nodes["a"])["members"] if member["role"]} == set(cluster.nodes)


# --- after it ---------------------------------------------------------------------------------------------------------


def bound(cluster: Cluster, name: str = "a") -> socket.socket:
    """A connection to a node on which a stranger was welcomed. Members have connections of their own, which it must not
    disturb; so it is nobody of them."""
    connection = connect(cluster, name)
    connection.sendall(hello_of(cluster, id=77, boot=1, name=b"stranger-0", address=b""))
    answer = connection.recv(4096)
    assert answer[9] == FrameType.FRAME_HELLO
    return connection


def stranger_frame(running: Cluster, *, body: bytes = b"", **identity: Any) -> bytes:
    number = int(told(running.nodes["a"])["cluster_id"], 16)
    own: dict[str, Any] = {
        "cluster": (number & (2**64 - 1), number >> 64),
        "self": 77,
        "peer": told(running.nodes["a"])["id"],
        "peer_boot": 0,
    } | identity
    return frame_encode(FrameType.FRAME_MESSAGE, own, self_boot=1, sequence=2, body=body)


@pytest.mark.parametrize(
    "spoil",
    [
        {"body": b"\xc1"},
        {"body": b"\x93\x01\x02\x03"},
        {"cluster": (1, 2)},
        {"self": 78},
        {"peer": 5},
    ],
    ids=["no msgpack", "no message", "another cluster", "another sender", "another target"],
)
def test_a_frame_that_makes_no_sense_after_hello_is_closed_and_counted(cluster: Cluster, spoil: dict[str, Any]) -> None:
    with counted(cluster, "connections_refused", "frames_refused"), bound(cluster) as connection:
        connection.sendall(stranger_frame(cluster, **spoil))
        rest_of(connection)


def forge(cluster: Cluster, *proposals: tuple[int, list[bytes]]) -> None:
    """To the leader, in the name of a follower: a HELLO, and a PROPOSE of each (context, payloads).

    All at once, because the follower's own connection ends with that HELLO, and ends this one when it comes back.
    """
    leader = cluster.leader()
    name = next(name for name, node in cluster.nodes.items() if node is not leader)
    sender, target = told(cluster.nodes[name]), told(leader)
    number = int(sender["cluster_id"], 16)
    identity = {"cluster": (number & (2**64 - 1), number >> 64), "self": sender["id"]}
    identity |= {"peer": target["id"], "peer_boot": target["boot"]}
    frames = hello_of(cluster, name)
    for context, payloads in proposals:
        records = b"".join(len(payload).to_bytes(4, "little") + payload for payload in payloads)
        encoded, body = message_encode({"type": PROPOSE, "context": context, "count": len(payloads)}, records)
        assert encoded == Status.OK
        frames += frame_encode(
            FrameType.FRAME_MESSAGE, identity, self_boot=sender["boot"], sequence=2, body=body, records=records
        )
    with connect(cluster, leader.name) as connection:
        connection.sendall(frames)
        rest_of(connection)


KEEP_ALIVE = bytes.fromhex("9604000000c090")  # of no lease: it may be applied any number of times
UNKNOWN_KIND = bytes.fromhex("96ccc8000000c009")
LATER_LEVEL = bytes.fromhex("960a000000c009")


@pytest.mark.parametrize("payloads", [[UNKNOWN_KIND], [KEEP_ALIVE, UNKNOWN_KIND], [b"\xc1"]])
def test_a_command_that_no_version_of_ours_wrote_ends_the_connection(cluster: Cluster, payloads: list[bytes]) -> None:
    """At apply it would stop every member; the fixture asks all of them."""
    with counted(cluster, "frames_refused", name=cluster.leader().name):
        forge(cluster, (0, payloads))


@pytest.mark.parametrize("context", [0, 2**40])
def test_a_command_that_a_member_cannot_apply_never_reaches_the_log(cluster: Cluster, context: int) -> None:
    """A level that this version does not know would stop every member. A sender of a later version is not at fault: it
    is not answered, and what it says behind that is heard."""
    leader = cluster.leader()
    refused = leader.call(metrics)["frames_refused"]
    with counted(cluster, "frames_received", count=2, name=leader.name):
        forge(cluster, (context, [LATER_LEVEL]), (0, [KEEP_ALIVE]))
    assert leader.call(metrics)["frames_refused"] == refused


@pytest.mark.parametrize("contexts", [[2**64 - 1], [2**63, 2**50, 2**40], [65_000], range(2**30, 2**40, 2**36)])
def test_a_context_that_was_made_up_blocks_nobody_for_long(cluster: Cluster, contexts: list[int]) -> None:
    """A stranger that claims to be b must not make all requests of b look old for the rest of its boot. The fixture
    writes through every node."""
    with counted(cluster, "frames_received", count=len(contexts), name=cluster.leader().name):
        forge(cluster, *((context, [KEEP_ALIVE]) for context in contexts))


def writes(node: NodeProcess) -> bool:
    try:
        node.call(put, "spoken/in", b"x")
    except RemoteError as error:
        assert error.kind in {"NotReady", "OutcomeUnknown"}, error
        return False
    return True


@pytest.mark.parametrize("lowest", [0, 2**62])
def test_a_node_leaves_a_session_in_which_somebody_else_speaks(cluster: Cluster, lowest: int) -> None:
    """Its own commands would be told "applied earlier, but its result is no longer kept", for ever."""
    node = next(node for node in cluster.nodes.values() if node is not cluster.leader())
    session = node.call(session_of)
    payload = command(COMMAND_KEEP_ALIVE, [], session=session, sequence=2**62, lowest=lowest)
    forge(cluster, (0, [payload]))
    wait_until(lambda: node.call(session_of) not in (0, session), timeout_s=20, what=cluster.logs)
    wait_until(lambda: writes(node), timeout_s=20, what=cluster.logs)


def refusal(context: int, identity: dict[str, Any]) -> bytes:
    """A stranger's PROPOSE_RESPONSE: the batch of this context is in no log."""
    fields = {"type": PROPOSE_RESPONSE, "reject": 1, "hint": int(Status.OVERLOADED), "context": context}
    encoded, body = message_encode(fields)
    assert encoded == Status.OK
    return frame_encode(FrameType.FRAME_MESSAGE, identity, self_boot=1, sequence=context + 1, body=body)


def test_a_refusal_for_an_earlier_boot_refuses_nothing(cluster: Cluster) -> None:
    """docs/divergence.md "Forwarded proposals": contexts of batches begin anew with each boot.

    Init: b runs its second boot, and the batch of a put is under way to its leader. Act: refusals of all contexts that
    b may have used arrive, made for its first boot. Check: the put is not refused, and ends well.
    """
    leader = cluster.leader().name
    node = cluster.nodes["b"]
    assert leader != "b"
    now = told(node)
    node.call(cut_to, leader)
    call = node.begin(put, "refused/earlier", b"x")
    wait_until(lambda: node.call(metrics)["operations_in_flight"] > 0, timeout_s=20, what="the put to be under way")
    number = int(now["cluster_id"], 16)
    identity = {"cluster": (number & (2**64 - 1), number >> 64), "self": 77}
    identity |= {"peer": now["id"], "peer_boot": now["boot"] - 1}
    frames = [refusal(context, identity) for context in range(1, BATCHES + 1)]
    with counted(cluster, "frames_received", count=BATCHES, name="b"), bound(cluster, "b") as connection:
        connection.sendall(b"".join(frames))
    assert not call.done()
    node.call(cut_to)
    assert call.result(30) > 0
