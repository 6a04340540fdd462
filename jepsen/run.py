"""One run: start brokers and clients, let the nemeses strike, heal, gather what was seen, judge.

It never decides what is struck or asked, or what counts; it is the order of things.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
import time
from pathlib import Path
from random import Random

from rich.console import Console

import raftmeta
from jepsen.atlas import Atlas
from jepsen.checker import Verdict, judge
from jepsen.db import WaitFailed
from jepsen.display import Counts, Display
from jepsen.nemeses import NEMESES
from jepsen.network import Namespaces
from jepsen.plan import Plan
from jepsen.schedule import Schedule
from jepsen.stage import Stage
from jepsen.store import FaultLog, RunFolder
from raftmeta.spark import verify

LOOK_S = 0.1
SPARK_MASTER = "local[2]"
REFUSALS = ("PermissionDenied", "AuthenticationFailed")
SETTLE_S = 60.0  # until all members have the same state, after everything has been healed


def run(plan: Plan, console: Console, *, is_reported: bool = True) -> tuple[Path, Verdict]:
    """Do what the plan says; the run's folder and the verdict.

    is_reported: the pipeline on Spark checks the same files once more, and draws the report (docs/pipeline.md).
    A cluster that could not be founded and a nemesis that raised are reasons of the verdict like any other.
    """
    return _Run(plan, console).go(is_reported=is_reported)


def report_lacks() -> str | None:
    """What this machine lacks for the report, None: nothing. Better known before a run than after it."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark (pip install 'raftmeta[spark]')"
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java") if home is None else shutil.which(Path(home, "bin", "java"))
    return None if found else "Java 17 or later (Debian: apt-get install openjdk-17-jre-headless)"


class _Run:
    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan = plan
        self._console = console
        self._folder = RunFolder(
            plan.store,
            workload=plan.workloads[0] if len(plan.workloads) == 1 else "mix",
            nemesis=(",".join(plan.nemeses) or "none") if len(plan.nemeses) <= 3 else "many",
            seed=plan.seed,
        )
        self._faults = FaultLog()
        self._counts = Counts()

    def go(self, *, is_reported: bool) -> tuple[Path, Verdict]:
        self._say(f"run {self._folder.path}")
        if (why := Namespaces.missing()) is not None:
            self._say(f"all brokers are on the loopback: {why}")
        for why in dict.fromkeys(self._plan.left_out.values()):
            names = [name for name, reason in self._plan.left_out.items() if reason == why]
            self._say(f"left out, since {why}: {', '.join(names)}")
        self._write_run([])
        with Stage(self._plan, self._folder) as stage:
            schedule = self._schedule(stage)
            try:
                stage.start()
            except WaitFailed as error:
                reasons = [f"the cluster was not founded: {error}"]
                stage.kill_all()
            else:
                reasons = self._strike(stage, schedule)
                reasons += self._settle(stage)
        verdict = self._judge(reasons)
        if is_reported:
            self._report(verdict)
        verdict.write(self._folder.path / "verdict.json")
        return self._folder.path, verdict

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)

    def _schedule(self, stage: Stage) -> Schedule:
        """All nemeses, hooked in, and when they strike."""
        seed, cluster = self._plan.seed, stage.cluster
        nemeses = [NEMESES[name](cluster, Random(f"{seed} nemesis {name}")) for name in self._plan.nemeses]
        for nemesis in nemeses:
            nemesis.prepare()
        atlas = Atlas(cluster, Random(f"{seed} atlas"), is_ruin=self._plan.is_ruin)
        times = Random(f"{seed} schedule")
        must_act = not self._plan.is_ruin and not self._plan.plant
        return Schedule(nemeses, atlas, self._faults, times, time_s=self._plan.time_s, must_act=must_act)

    def _strike(self, stage: Stage, schedule: Schedule) -> list[str]:
        """The time of harm and quiet; reasons why the run cannot be ok."""
        deadline_s = time.monotonic() + self._plan.time_s
        ended: list[str] = []
        display = Display(self._console, stage.cluster, schedule, self._counts, time_s=self._plan.time_s)
        with display, schedule:
            while time.monotonic() < deadline_s or not schedule.is_over:
                self._counts.look(stage.processes)
                display.draw()
                if ended := stage.ended(may_halt=self._plan.is_ruin):
                    break
                time.sleep(LOOK_S)
        return [*ended, *schedule.failures]

    def _settle(self, stage: Stage) -> list[str]:
        """Everything is healed: let what is under way end, and wait until all members are alike."""
        reasons: list[str] = []
        stage.stop_asking()
        if not self._plan.is_ruin:
            try:
                stage.cluster.wait_converged(timeout_s=SETTLE_S)
            except WaitFailed as error:
                reasons.append(str(error))
            else:
                reasons += stage.told_by_stranger()
        self._counts.look(stage.processes)
        stage.kill_all()
        return reasons + self._denied()

    def _denied(self) -> list[str]:
        """Users with all rights that they need were refused: no fault does that."""
        errors = self._counts.total("errors")
        return [f"{count} times {error}" for error, count in errors.items() if error.split()[-1] in REFUSALS]

    def _judge(self, reasons: list[str]) -> Verdict:
        models, faults = self._plan.models(), self._faults.faults
        histories, observed = self._folder.gather(models, faults)
        verdict = judge(
            histories,
            observed,
            models,
            faults,
            self._plan.nemeses,
            self._folder.t0_ns,
            must_serve=not self._plan.is_ruin,
        )
        verdict.reasons[:0] = reasons
        self._write_run(verdict.reasons)
        return verdict

    def _report(self, verdict: Verdict) -> None:
        """Both must find the same: the pipeline reads the files and knows nothing of this process."""
        out = self._folder.path / "pipeline"
        try:
            verdict.pipeline = verify([self._folder.path], out, master=SPARK_MASTER).verdict
        except (raftmeta.ConfigError, RuntimeError) as error:  # what was found here is worth keeping all the same
            verdict.reasons.append(f"pipeline: {error}")
            return
        (out / "report.html").rename(self._folder.path / "report.html")
        if verdict.pipeline != "ok":
            verdict.reasons.append(f"pipeline: {verdict.pipeline}; see {self._folder.path / 'report.html'}")

    def _write_run(self, reasons: list[str]) -> None:
        plan = self._plan
        self._folder.write_run(
            {
                "nodes": plan.nodes,
                "observers": plan.observers,
                "workloads": plan.workloads,
                "nemeses": plan.nemeses,
                "left_out": plan.left_out,
                "is_secure": plan.is_secure,
                "plant": plan.plant,
                "time_s": plan.time_s,
                "rate": plan.rate,
                "seed": plan.seed,
                "models": {f"history-{name}.parquet": model for name, model in plan.models().items()},
                "versions": {
                    "raftmeta": raftmeta.__version__,
                    "python": platform.python_version(),
                    "kernel": platform.release(),
                },
                "command": sys.argv,
                "fates": dict(self._counts.total("counts")),
                "errors": dict(self._counts.total("errors")),
                "failures": reasons,
            }
        )
