"""A program over kazoo: one client and its recipes, step by step, so that its requests come in one order.

python -m tests.doors.kazoo_conversation ADDRESS
"""

from __future__ import annotations

import sys
import threading
from functools import partial

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError, RolledBackError

WAIT_S = 30.0
ROOT = "/kazoo"


def talk(address: str) -> None:
    """Raises AssertionError where the server is no ZooKeeper."""
    client = KazooClient(hosts=address, timeout=10.0)
    client.start(timeout=WAIT_S)
    try:
        nodes(client)
        transactions(client)
        watches(client)
        recipes(client)
        remove(client, ROOT)
    finally:
        client.stop()
        client.close()


def remove(client: KazooClient, path: str) -> None:
    """A tree, in the order of names: a server may tell children in any order."""
    for name in sorted(client.get_children(path)):
        remove(client, f"{path}/{name}")
    client.delete(path)


def nodes(client: KazooClient) -> None:
    client.ensure_path(f"{ROOT}/a/b")
    assert client.create(f"{ROOT}/a/c", b"c") == f"{ROOT}/a/c"
    assert client.create(f"{ROOT}/a/s-", b"", sequence=True) == f"{ROOT}/a/s-0000000002"
    path, stat = client.create(f"{ROOT}/a/e", b"12345", ephemeral=True, include_data=True)
    assert (path, stat.dataLength, stat.owner_session_id) == (f"{ROOT}/a/e", 5, client.client_id[0])
    assert stat.czxid == stat.mzxid == stat.pzxid
    data, stat = client.get(f"{ROOT}/a/c")
    assert (data, stat.version) == (b"c", 0)
    assert client.set(f"{ROOT}/a/c", b"d", version=0).version == 1
    assert sorted(client.get_children(f"{ROOT}/a")) == ["b", "c", "e", "s-0000000002"]
    assert client.exists(f"{ROOT}/a").numChildren == 4
    assert client.exists(f"{ROOT}/none") is None
    for error, ask in (
        (NodeExistsError, partial(client.create, f"{ROOT}/a/c")),
        (NoNodeError, partial(client.get, f"{ROOT}/none")),
        (BadVersionError, partial(client.set, f"{ROOT}/a/c", b"", version=0)),
        (NotEmptyError, partial(client.delete, f"{ROOT}/a")),
    ):
        try:
            ask()
        except error:
            continue
        raise AssertionError(f"not refused with {error.__name__}")


def transactions(client: KazooClient) -> None:
    transaction = client.transaction()
    transaction.check(f"{ROOT}/a/c", version=1)
    transaction.create(f"{ROOT}/t", b"t")
    transaction.set_data(f"{ROOT}/t", b"u")
    assert transaction.commit()[:2] == [True, f"{ROOT}/t"]
    transaction = client.transaction()
    transaction.create(f"{ROOT}/half")
    transaction.delete(f"{ROOT}/t", version=9)
    results = transaction.commit()
    assert [type(result) for result in results] == [RolledBackError, BadVersionError], results
    assert client.exists(f"{ROOT}/half") is None


def watches(client: KazooClient) -> None:
    """Each event is waited for before the next change."""
    told = threading.Event()
    client.get(f"{ROOT}/t", watch=lambda event: told.set())
    client.set(f"{ROOT}/t", b"v")
    assert told.wait(WAIT_S), "no event of a change"
    told.clear()
    client.get_children(ROOT, watch=lambda event: told.set())
    client.create(f"{ROOT}/new")
    assert told.wait(WAIT_S), "no event of a child"
    told.clear()
    client.exists(f"{ROOT}/new", watch=lambda event: told.set())
    client.delete(f"{ROOT}/new")
    assert told.wait(WAIT_S), "no event of a deletion"


def recipes(client: KazooClient) -> None:
    with client.Lock(f"{ROOT}/lock", "me"):
        assert client.Lock(f"{ROOT}/lock", "me").contenders() == ["me"]
    counter = client.Counter(f"{ROOT}/counter")
    counter += 2
    assert counter.value == 2
    queue = client.Queue(f"{ROOT}/queue")
    for item in (b"one", b"two"):
        queue.put(item)
    assert [queue.get(), queue.get(), queue.get()] == [b"one", b"two", None]


if __name__ == "__main__":
    talk(sys.argv[1])
