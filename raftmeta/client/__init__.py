"""The client library: the verbs of a node from a process that runs none.

    with raftmeta.Client("raft://10.0.0.1:7100,10.0.0.2:7100") as client:
        client.put("topics/t", b"3")

How it is made: `channel` keeps one connection, one session and what is under way; `aio` carries over it what the verbs
ask (raftmeta/verbs), `sync` runs that on a thread of its own; `watch` and `lease` live on a channel. It never imports
the engine.
"""

from raftmeta.client.sync import Client

__all__ = ["Client"]
