"""What ZooKeeper 3.9.5 shows of containers, nodes with a time to live, and quotas; the same of our door."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.zookeeper.nodes import EPHEMERAL, GET_DATA, OPEN_ACL, RawClient, Reply, doors, text

CREATE_CONTAINER, CREATE_TTL, MULTI_READ = 19, 21, 22
CONTAINER, TTL = 4, 5
QUOTA = b"/zookeeper/quota/held"
STATISTICS = QUOTA + b"/zookeeper_stats"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[RawClient]:
    with doors(tmp_path, zookeeper_extended_types=True) as (_, at), RawClient(at["a"]) as client:
        yield client


def owner(stat: bytes) -> int:
    """ephemeralOwner of a Stat."""
    found: int = struct.unpack(">4q3iq", stat[:52])[7]
    return found


def data(reply: Reply) -> bytes:
    """What getData answered; the Stat behind it tells the same length."""
    assert reply.error == 0, reply
    (length,) = struct.unpack(">i", reply.body[:4])
    assert struct.unpack(">i", reply.body[-16:-12]) == (length,)
    return reply.body[4 : 4 + length]


def test_only_an_ephemeral_shows_an_owner(client: RawClient) -> None:
    """Containers and nodes with a time to live show 0, when they are made and when they are read.

    DataNode.getClientEphemeralOwner of ZooKeeper 3.9; Curator's PersistentTtlNode and containers rely on it."""
    head = text(b"") + OPEN_ACL
    container = client.call(CREATE_CONTAINER, text(b"/c") + head + struct.pack(">i", CONTAINER))
    lasting = client.call(CREATE_TTL, text(b"/t") + head + struct.pack(">iq", TTL, 600_000))
    for made, path in ((container, b"/c"), (lasting, b"/t")):
        assert made.error == 0
        assert owner(made.body[4 + len(path) :]) == owner(client.exists(path).body) == 0
    assert client.create(b"/e", flags=EPHEMERAL).error == 0
    assert owner(client.exists(b"/e").body) == client.session


def test_statistics_of_a_quota_count_nodes_and_bytes(client: RawClient) -> None:
    """The node itself, all below it, and their data; as soon as they change (DataTree.updateQuotaStat)."""
    for path, value in ((b"/held", b"12"), (b"/held/a", b"345"), (b"/held/a/b", b""), (b"/heldnot", b"678")):
        assert client.create(path, value).error == 0
    assert client.create(QUOTA).error == 0
    assert client.create(QUOTA + b"/zookeeper_limits", b"count=100,bytes=-1").error == 0
    assert client.create(STATISTICS, b"count=0,bytes=0").error == 0
    assert data(client.get_data(STATISTICS)) == b"count=3,bytes=5"
    client.set_data(b"/held/a/b", b"9")
    assert data(client.get_data(STATISTICS)) == b"count=3,bytes=6"
    assert data(client.get_data(QUOTA + b"/zookeeper_limits")) == b"count=100,bytes=-1"


def test_statistics_are_told_of_the_whole_tree_and_of_no_other_node(client: RawClient) -> None:
    """A quota of "/" has its statistics right below /zookeeper/quota; elsewhere the name means nothing."""
    assert client.create(b"/zookeeper/quota/zookeeper_stats").error == 0
    assert data(client.get_data(b"/zookeeper/quota/zookeeper_stats")).startswith(b"count=5,bytes=")
    assert client.create(b"/zookeeper_stats", b"mine").error == 0
    assert data(client.get_data(b"/zookeeper_stats")) == b"mine"


def test_a_multi_read_counts_nothing(client: RawClient) -> None:
    """Each of its operations would walk over the tree: they show what was written."""
    assert client.create(b"/zookeeper/quota/zookeeper_stats", b"written").error == 0
    head, last = struct.pack(">i?i", GET_DATA, False, -1), struct.pack(">i?i", -1, True, -1)
    reply = client.call(MULTI_READ, (head + text(b"/zookeeper/quota/zookeeper_stats") + b"\0") * 2 + last)
    assert reply.error == 0
    assert reply.body.count(text(b"written")) == 2
