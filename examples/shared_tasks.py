"""Workers that share 100 tasks as Kafka Connect's do, and take over those of workers that are killed.

    python examples/shared_tasks.py /var/lib/pool 5 2

One process runs the node (here a cluster of its own; give it peers and it is one of three). The workers are processes
that import no engine. Each one writes its number beside its tasks, under the fence of its assignment. Two of them are
killed with SIGKILL; the others keep their tasks, and get those of the killed ones besides.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import socket
import sys
import time
from collections import Counter
from pathlib import Path

import raftmeta
import raftmeta.aio
from raftmeta.coordinator import Assigned, Settings

TASKS = 100
RUNNING = "running/"
SETTINGS = Settings(session_timeout_s=2.0, rebalance_timeout_s=10.0, heartbeat_interval_s=0.1)


async def work(folder: str, number: int) -> None:
    """A worker: a task runs while it is in the last assignment."""
    async with (
        raftmeta.aio.Client(f"raft+unix://{folder}") as client,
        raftmeta.workers("pool", store=client, resources={"task": TASKS}, settings=SETTINGS) as workers,
    ):
        async for event in workers:
            if isinstance(event, Assigned) and event.resources:
                told = {f"{RUNNING}{task}": str(number) for task in event.resources}
                with contextlib.suppress(raftmeta.Fenced):  # another generation has begun: its event comes next
                    await client.put_many(told, fence=event.fence)
            # A real worker starts tasks that are new, and stops those in Revoked and Lost before it goes on.


def run(folder: str, number: int) -> None:
    asyncio.run(work(folder, number))


def shares(node: raftmeta.Node) -> Counter[str]:
    """How many tasks each worker runs."""
    return Counter(record.value.decode() for record in node.range(prefix=RUNNING).records)


def wait_for(node: raftmeta.Node, numbers: set[str]) -> None:
    """All tasks run, and only these workers run them, each about as many as the others."""
    while True:
        found = shares(node)
        is_even = max(found.values(), default=0) - min(found.values(), default=0) <= 1
        if found.total() == TASKS and found.keys() == numbers and is_even:
            break
        time.sleep(0.02)
    print(" ".join(f"{number}:{count}" for number, count in sorted(found.items())), flush=True)


def main(folder: Path, count: int, kills: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = raftmeta.Config(local_clients=True)
    with raftmeta.Node("a", peers={"a": address}, data_dir=folder, config=config) as node:
        node.ready(10)
        context = multiprocessing.get_context("spawn")
        pool = {str(number): context.Process(target=run, args=(str(folder), number)) for number in range(count)}
        for process in pool.values():
            process.start()
        try:
            wait_for(node, set(pool))
            for number in sorted(pool)[:kills]:
                pool[number].kill()
            wait_for(node, set(sorted(pool)[kills:]))
        finally:
            for process in pool.values():
                process.kill()
                process.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
