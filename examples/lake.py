"""A lake of all changes: who changed a key and when, and an old state. It needs the extra spark and Java 17.

    python examples/lake.py /tmp/lake-example

A node of its own gets a few topics, whose settings change. The store forgets its history (compact), the lake does not.
With a cluster of yours run `raftmeta --url raft://... pipeline feed --out LAKE`, from cron or with --follow, and
`raftmeta pipeline history|state LAKE`.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import raftmeta
from raftmeta.spark import ClientSource, changes, feed, merge, spark_session, state


def change_topics(client: raftmeta.Client) -> int:
    """Make some changes; return a revision in the middle of them."""
    middle = 0
    for hours in (24, 48, 72):
        for topic in range(3):
            client.put(f"topics/{topic}", f'{{"retention_hours":{hours}}}')
        middle = middle or client.status().revision
    client.delete("topics/1")
    return middle


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    peer, listen = (f"127.0.0.1:{one.getsockname()[1]}" for one in sockets)
    for one in sockets:
        one.close()
    with raftmeta.Node("a", peers={"a": peer}, data_dir=folder / "a", client_listen=listen) as node:
        node.ready(10)
        with raftmeta.Client(f"raft://{listen}") as client:
            middle = change_topics(client)
            fed = feed(ClientSource(client), folder / "lake")
            client.compact(fed.last)  # the store itself now knows the newest state only
    print(f"the lake has {fed.changes} changes, revisions {fed.first} to {fed.last}")
    with spark_session("local[2]") as spark:
        print("who changed topics/1:")
        changes(spark, fed.lake, key="topics/1").orderBy("revision").selectExpr(
            "revision", "ts", "op", "cast(value as string)"
        ).show()
        print(f"all topics as of revision {middle}:")
        state(spark, fed.lake, revision=middle).orderBy("key").selectExpr("key_text", "cast(value as string)").show()
        print(f"in {len(merge(spark, folder / 'lake').files)} file")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
