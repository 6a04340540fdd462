"""What a run leaves: one dated folder, with everything that a verdict needs and that people want to look at.

    <store>/<date-time>-<workload>-<nemesis>-<seed>/
        run.json                     parameters, versions, seed, t0, the model of each history, what failed
        history-<workload>.parquet   operations, as docs/checker.md "Files" has them; of each workload with a model
        observations.parquet         what was seen beside them: events of watches, holds, fences, members, leaders
        faults.parquet               what was done to the cluster, from when to when, and how often it was seen to act
        nodes/<name>.log             of each broker and client process
        verdict.json                 the verdict, with its reasons
        report.html, pipeline        the same for people, and the tables behind it

`seq` is one order of all events of all files (jepsen/spool.py). Times are nanoseconds since t0.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jepsen.atlas import Aim
from jepsen.clock import NS_PER_S, now_ns
from jepsen.nemeses.clocks import Runaway
from jepsen.spool import read_spool
from raftmeta.check import Event, History, Nothing, write_history

RANK = {"invoke": 0, "begin": 0, "observe": 1, "ok": 2, "fail": 2, "info": 2, "end": 2}  # of events of one moment

BELIEFS = ("held", "member_read")
DOUBT_NS = 3 * NS_PER_S  # jepsen/workloads/base.py TTL_S, and then some
OBSERVATIONS = pa.schema(
    [
        ("seq", pa.int64()),
        ("time_ns", pa.int64()),
        ("kind", pa.string()),
        ("subject", pa.string()),
        ("process", pa.int64()),
        ("node", pa.string()),
        ("revision", pa.int64()),
        ("token", pa.int64()),
        ("value", pa.string()),
    ]
)
FAULTS = pa.schema(
    [
        ("seq_begin", pa.int64()),
        ("seq_end", pa.int64()),
        ("begin_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("nemesis", pa.string()),
        ("target", pa.string()),
        ("detail", pa.string()),
        ("observed", pa.int64()),
    ]
)


@dataclass(slots=True)
class Fault:
    """One strike. target: the word and the nodes. observed: how often it was seen to act."""

    nemesis: str
    target: str
    begin_ns: int
    end_ns: int = 0
    detail: str = ""
    observed: int = 0


class FaultLog:
    """What was done to the cluster; any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.faults: list[Fault] = []

    def begin(self, nemesis: str, aim: Aim) -> Fault:
        """A strike is about to begin."""
        fault = Fault(nemesis, f"{aim.word}: {' '.join(aim.nodes)}", now_ns())
        with self._lock:
            self.faults.append(fault)
        return fault

    def end(self, fault: Fault, observed: int) -> None:
        """It has been healed."""
        fault.end_ns, fault.observed = now_ns(), observed


class RunFolder:
    """The folder of one run, made and named here. workload, nemesis, seed: for its name."""

    def __init__(self, store: Path, *, workload: str, nemesis: str, seed: int) -> None:
        begun = datetime.now(UTC)
        title = re.sub(r"[^\w,-]+", "", f"{begun:%Y%m%d-%H%M%S}-{workload}-{nemesis}")[:120]
        self.path = store / f"{title}-{seed}"
        self.path.mkdir(parents=True)
        (self.path / "nodes").mkdir()
        self.spools.mkdir()
        self.t0_ns = now_ns()
        self.t0 = begun.isoformat()

    @property
    def spools(self) -> Path:
        return self.path / "spools"

    def write_run(self, facts: dict[str, Any]) -> None:
        """run.json, whole or not at all."""
        aside = self.path / "run.json.new"
        aside.write_text(json.dumps({"t0": self.t0, **facts}, indent=2) + "\n")
        aside.replace(self.path / "run.json")

    def gather(self, models: dict[str, str], faults: list[Fault]) -> tuple[dict[str, History], list[dict[str, Any]]]:
        """Bring the spools of all processes into one order, and write the tables; histories by workload, observations.

        A workload without a model has a history too, which says when its clients asked and what became of it; no file.
        While clocks run away, and until the leases of that time have ended, what holders believe is left out: then
        only fences protect.
        The spools are removed: everything that stood in them is in the tables.
        """
        lines = [line for path in sorted(self.spools.iterdir()) for line in read_spool(path)]
        for fault in faults:
            lines += [["begin", fault.begin_ns, fault], ["end", fault.end_ns, fault]]
        lines.sort(key=lambda line: (line[1], RANK[line[0]]))
        doubtful = [(one.begin_ns, one.end_ns + DOUBT_NS) for one in faults if one.nemesis == Runaway.name]
        events: dict[str, list[Event]] = {}
        observed: list[dict[str, Any]] = []
        bounds: dict[int, dict[str, int]] = {}
        for seq, (kind, time_ns, *rest) in enumerate(lines):
            since_ns = time_ns - self.t0_ns
            if kind == "observe" and rest[0] in BELIEFS and any(begin <= time_ns <= end for begin, end in doubtful):
                continue
            if kind == "observe":
                row = dict(zip(OBSERVATIONS.names[2:], rest, strict=True))
                observed.append({"seq": seq, "time_ns": since_ns, **row})
            elif kind in ("begin", "end"):
                bounds.setdefault(id(rest[0]), {})[f"seq_{kind}"] = seq
            else:
                events.setdefault(rest[0], []).append(_event(seq, kind, since_ns, rest))
        pq.write_table(pa.Table.from_pylist(observed, OBSERVATIONS), self.path / "observations.parquet")
        rows = [{**bounds[id(fault)], **self._fault_row(fault)} for fault in faults]
        pq.write_table(pa.Table.from_pylist(rows, FAULTS), self.path / "faults.parquet")
        histories = {workload: History.of(found) for workload, found in events.items()}
        for workload in models:
            write_history(histories.setdefault(workload, History()), self.path / f"history-{workload}.parquet")
        shutil.rmtree(self.spools)
        return histories, observed

    def _fault_row(self, fault: Fault) -> dict[str, Any]:
        return {
            "begin_ns": fault.begin_ns - self.t0_ns,
            "end_ns": fault.end_ns - self.t0_ns,
            "nemesis": fault.nemesis,
            "target": fault.target,
            "detail": fault.detail,
            "observed": fault.observed,
        }


def _event(seq: int, kind: str, time_ns: int, rest: list[Any]) -> Event:
    _, process, *more = rest
    if kind == "invoke":
        operation, key, arguments = more
        return Event(
            seq,
            process,
            kind,
            operation=operation,
            key=Nothing if key is None else key,
            arguments=Nothing if arguments is None else arguments,
            time_ns=time_ns,
        )
    if kind == "ok":
        result, revision = more
        return Event(seq, process, kind, result=result, revision=revision, time_ns=time_ns)
    return Event(seq, process, kind, time_ns=time_ns)
