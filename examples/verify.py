"""Was the history of clients linearizable while a leader was killed? It needs the extra spark and Java 17.

    python examples/verify.py /tmp/verify-example

Clients write and read registers of a cluster of three nodes in this process, while its leader is killed. The example
records their history as a run (docs/pipeline.md "A run") and checks it on Spark, and a copy with one falsified read.
With runs of yours use `raftmeta pipeline verify RUNS... --out DIR`.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from dataclasses import replace
from pathlib import Path

import raftmeta
from raftmeta.check import History, Recorder, write_history
from raftmeta.errors import NotExecuted, OutcomeUnknown
from raftmeta.spark import Verified, verify
from raftmeta.testing import Cluster

KEYS, PROCESSES, EACH = 5, 4, 60


def use(node: raftmeta.Node, recorder: Recorder, process: int) -> None:
    """One client: one operation at a time, recorded before the client asks and after it has the answer."""
    rng = random.Random(process)
    for number in range(EACH):
        key = f"register-{rng.randrange(KEYS)}"
        is_write = rng.random() < 0.5
        value = 1000 * process + number
        recorder.invoke(process, "write" if is_write else "read", key, value if is_write else None)
        try:
            if is_write:
                recorder.ok(process, revision=node.put(key, str(value), timeout_s=20.0).revision)
            else:
                record = node.get(key, timeout_s=20.0)
                recorder.ok(process, None if record is None else int(record.value))
        except NotExecuted:
            recorder.fail(process)
        except OutcomeUnknown:
            recorder.info(process)
            return  # this process never knows; another one would go on


def record(cluster: Cluster) -> History:
    """The history of the clients of two nodes, while the third node, which led, was killed."""
    recorder = Recorder()
    leader = cluster.leader()
    others = [node for node in cluster.running() if node.name != leader.name]
    clients = [
        threading.Thread(target=use, args=(others[process % 2], recorder, process)) for process in range(PROCESSES)
    ]
    for client in clients:
        client.start()
    cluster.kill(leader)
    for client in clients:
        client.join()
    return recorder.history()


def falsified(history: History) -> History:
    """The same history with one read of a value that nobody wrote."""
    events = list(history)
    for position in reversed(range(len(events))):
        if events[position].kind == "ok" and isinstance(events[position].result, int):
            events[position] = replace(events[position], result=-1)
            break
    return History.of(events)


def save(folder: Path, history: History) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_history(history, folder / "history.parquet")
    (folder / "run.json").write_text(json.dumps({"models": {"history.parquet": "register"}}))
    return folder


def main(folder: Path) -> Verified:
    """Run it; return the findings for the run and for the falsified one."""
    with Cluster(3) as cluster:
        history = record(cluster)
    runs = [save(folder / "runs" / "seen", history), save(folder / "runs" / "falsified", falsified(history))]
    verified = verify(runs, folder / "verified", master="local[2]")
    for row in verified.histories:
        print(f"{row['run']:>10} {row['verdict']}: {row['ok']} answers, {row['info']} of unknown outcome")
    print(f"{verified.counts['anomalies']} anomaly explained in {verified.out / 'report.html'}")
    return verified


if __name__ == "__main__":
    main(Path(sys.argv[1]))
