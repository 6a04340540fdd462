"""The history of a broker cluster: brokers lost, leaders moved, replicas missing. Needs the extra spark and Java 17.

    python -m examples.churn /tmp/churn-example

Three brokers of examples/broker.py in one process get two topics; one broker leaves and comes back. A feed fills a lake
from their store, and tables and report.html come from the lake. A backup can stand in for a lake for a while; the
example reads sizes from one. With a cluster of yours: `raftmeta pipeline feed`, then
`raftmeta pipeline churn LAKE --out DIR`.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import raftmeta
from examples.broker import Broker
from raftmeta import snapshot
from raftmeta.spark import ClientSource, Lake, churn, feed, lake_of, sizes

IDS = (1, 2, 3)


def addresses(count: int) -> list[str]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    until_s = time.monotonic() + 60
    while not condition():
        if time.monotonic() > until_s:
            raise TimeoutError(f"{what}: not within a minute")
        time.sleep(0.05)


def in_sync(broker: Broker, id: int) -> int:
    """How many partitions have this broker in their ISR, as far as another one has followed."""
    return sum(id in state["isr"] for state, _ in list(broker.states.values()))


def live(folder: Path) -> None:
    """The life of the cluster, and then its lake."""
    peers = dict(zip(IDS, addresses(3), strict=True))
    config = raftmeta.Config(local_clients=True)
    brokers = {id: Broker(id, peers, folder / f"broker-{id}", config=config) for id in IDS}
    with contextlib.ExitStack() as stack:
        for broker in brokers.values():
            stack.callback(broker.close)
        with ThreadPoolExecutor() as pool:  # they found their cluster together
            list(pool.map(Broker.start, brokers.values()))
        wait_for(lambda: any(broker.lead for broker in brokers.values()), "a controller")
        controller = next(broker for broker in brokers.values() if broker.lead)
        leaving = next(id for id in reversed(IDS) if id != controller.id)
        controller.create_topics(["orders", "payments"])
        wait_for(lambda: in_sync(controller, leaving) == 6, "all replicas")
        brokers[leaving].close()
        wait_for(lambda: in_sync(controller, leaving) == 0, "leaders without the broker that left")
        back = Broker(leaving, peers, folder / f"broker-{leaving}", config=config)
        stack.callback(back.close)
        back.start()
        wait_for(lambda: in_sync(controller, leaving) == 6, "the broker back in every ISR")
        with raftmeta.Client(f"raft+unix://{folder / f'broker-{controller.id}'}") as client:
            feed(ClientSource(client), folder / "lake")
            snapshot.save(client, folder / "backup.sealed")


def main(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    live(folder)
    churned = churn(Lake.load(folder / "lake"), folder / "churn", window_s=1, master="local[2]")
    for name, value in churned.figures.items():
        print(f"{name:>22} {value}")
    with lake_of(folder / "backup.sealed") as held:
        for row in sizes(held, master="local[2]").to_pylist():
            print(f"{row['prefix']:>22} {row['keys']} keys, {row['value_bytes']} bytes, {row['changes']} changes")
    print(churned.out / "report.html")
    return churned.out


if __name__ == "__main__":
    main(Path(sys.argv[1]))
