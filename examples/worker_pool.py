"""A pool of worker processes that share one node of this machine: raft+unix://, a socket in the node's folder.

    python examples/worker_pool.py /var/lib/pool 4 20

One process runs the node (here a cluster of its own; give it peers and it is one of three). The workers are plain
processes that import no engine. They take jobs from a queue, each job once, in order, and write the result in the same
transaction that removes the job. Kill a worker with kill -9, and another worker does its job.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
from pathlib import Path

import raftmeta
from raftmeta.operations import Put
from raftmeta.recipes import Queue

QUEUE = "squares"
RESULTS = "results/"
TTL_S = 2.0  # a worker that is silent for so long has its job taken by another one


def work(folder: str) -> None:
    """Run one worker until an empty job ends it."""
    with raftmeta.Client(f"raft+unix://{folder}") as client:
        queue = Queue(client, QUEUE, ttl_s=TTL_S)
        while True:
            job = queue.take()
            if not job.data:
                job.done()
                return
            number = int(job.data)
            # The result and the end of the job are one step: a worker that was too slow is refused with both.
            job.done([Put(f"{RESULTS}{number:04}", f"{number * number} by {os.getpid()}")])


def main(folder: Path, workers: int, jobs: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = raftmeta.Config(local_clients=True)
    with raftmeta.Node("a", peers={"a": address}, data_dir=folder, config=config) as node:
        node.ready(10)
        context = multiprocessing.get_context("spawn")
        pool = [context.Process(target=work, args=(str(folder),)) for _ in range(workers)]
        for process in pool:
            process.start()
        queue = Queue(node, QUEUE, ttl_s=TTL_S)
        for number in range(jobs):
            queue.put(str(number))
        for _ in pool:
            queue.put("")
        for process in pool:
            process.join()
        for record in node.range(prefix=RESULTS).records:
            print(record.key.decode(), record.value.decode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
