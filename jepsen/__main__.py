"""The command: python -m jepsen run|failover|churn|leases|every-sync|list."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from jepsen.churn import churn as run_churn
from jepsen.clock import NS_PER_S
from jepsen.db import WaitFailed
from jepsen.failover import PERCENTILES, measure, percentile
from jepsen.faults import images, shim
from jepsen.faults.every_sync import Point, cut_everywhere
from jepsen.faults.images import ImageError
from jepsen.faults.promises import Promises, lies
from jepsen.faults.shim import ShimError
from jepsen.idle_leases import ELECTION_S, TOLERANCE_S, judge, watch_leases
from jepsen.keeper import KeeperFailed
from jepsen.nemeses import NEMESES
from jepsen.nemesis import Nemesis
from jepsen.network import NetworkError
from jepsen.plan import PLANTED, Plan, PlanError
from jepsen.run import report_lacks
from jepsen.run import run as run_plan
from jepsen.workloads import CHURNS, WORKLOADS
from jepsen.workloads.workers import Churn

STORE = Path("build") / "jepsen"


@click.group()
def main() -> None:
    """Real clusters under real faults; see docs/jepsen.md."""


@main.command()
@click.option("--nodes", type=click.Choice(["3", "5"]), default="3", show_default=True, help="Founding members.")
@click.option("--observers", type=int, default=0, show_default=True, help="Nodes beside them that hold no place.")
@click.option(
    "--workload", default="register", show_default=True, help="A name, several with commas, zookeeper, etcd, or all."
)
@click.option("--nemesis", default="none", show_default=True, help="A name, several with commas, all, none, or ruin.")
@click.option(
    "--time", "time_s", type=float, default=60.0, show_default=True, help="Seconds of harm and quiet, at least."
)
@click.option("--rate", type=float, default=200.0, show_default=True, help="Operations per second, of all clients.")
@click.option("--seed", type=int, default=None, help="Of every random choice; by default drawn and told.")
@click.option("--store", type=click.Path(path_type=Path), default=STORE, show_default=True, help="Where runs are kept.")
@click.option(
    "--zookeeper-reads",
    type=click.Choice(["local", "linearizable"]),
    default="local",
    show_default=True,
    help="How ZooKeeper doors serve reads.",
)
@click.option("--secure", "is_secure", is_flag=True, help="With TLS, rights and encryption at rest.")
@click.option("--plant", type=click.Choice(["", *PLANTED]), default="", help="A mistake that the run must find.")
@click.option("--report/--no-report", "is_reported", default=True, help="Check once more on Spark, and draw a report.")
def run(
    nodes: str,
    observers: int,
    workload: str,
    nemesis: str,
    time_s: float,
    rate: float,
    seed: int | None,
    store: Path,
    zookeeper_reads: str,
    is_secure: bool,
    plant: str,
    is_reported: bool,
) -> None:
    """Run one test. Exit code 0: every verdict is ok; 1: not so."""
    console = Console(highlight=False)
    if is_reported and (lacking := report_lacks()) is not None:
        raise click.UsageError(f"the report at the end needs {lacking}; or ask for none: --no-report")
    try:
        plan = Plan.check(
            nodes=int(nodes),
            observers=observers,
            workload=workload,
            nemesis=nemesis,
            time_s=time_s,
            rate=rate,
            seed=time.time_ns() % 1_000_000 if seed is None else seed,
            store=store,
            is_secure=is_secure,
            plant=plant,
            has_local_reads=zookeeper_reads == "local",
        )
    except PlanError as error:
        raise click.UsageError(str(error)) from None
    with _told_in_words():
        path, verdict = run_plan(plan, console, is_reported=is_reported)
    for reason in verdict.reasons:
        console.print(reason, markup=False, soft_wrap=True)
    console.print(f"{'ok' if verdict.is_ok else 'FAILED'}  {path}", markup=False, soft_wrap=True)
    sys.exit(0 if verdict.is_ok else 1)


@main.command()
@click.option("--kills", type=click.IntRange(1), default=50, show_default=True)
@click.option("--rate", type=float, default=400.0, show_default=True, help="Operations per second, of all clients.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--store", type=click.Path(path_type=Path), default=STORE, show_default=True)
def failover(kills: int, rate: float, seed: int, store: Path) -> None:
    """Kill the leader again and again; from SIGKILL to the next acknowledged write."""
    console = Console(highlight=False)
    plan = Plan.check(nodes=3, workload="register", nemesis="none", time_s=60, rate=rate, seed=seed, store=store)
    with _told_in_words():
        times_s = measure(plan, console, kills=kills)
    shown = "  ".join(f"p{share * 100:g} {percentile(times_s, share) * 1000:.0f} ms" for share in PERCENTILES)
    console.print(f"{kills} kills: {shown}")


@main.command()
@click.option("--members", type=click.IntRange(2, 1000), default=100, show_default=True, help="Of one worker group.")
@click.option("--time", "time_s", type=float, default=600.0, show_default=True, help="Seconds of strikes, at least.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--store", type=click.Path(path_type=Path), default=STORE, show_default=True)
@click.option("--kind", type=click.Choice(list(CHURNS)), default=Churn.name, show_default=True, help="Of the members.")
@click.option("--strike", "strikes", multiple=True, help="Only this kind, as the run names it; may be repeated.")
def churn(members: int, time_s: float, seed: int, store: Path, kind: str, strikes: tuple[str, ...]) -> None:
    """Kill and freeze members of a worker group, and nodes. Exit code 1: not complete, two owners, or for no reason."""
    console = Console(highlight=False)
    try:
        plan = Plan.check(nodes=3, workload="register", nemesis="none", time_s=time_s, rate=10, seed=seed, store=store)
    except PlanError as error:
        raise click.UsageError(str(error)) from None
    with _told_in_words():
        folder, found = run_churn(plan, console, members=members, kind=CHURNS[kind], strikes=strikes)
    for reason in found.reasons:
        console.print(reason, markup=False, soft_wrap=True)
    for name, times_s in found.times_s.items():
        console.print(f"{name}: {len(times_s)} strikes, complete after {max(times_s):.1f} s at most", markup=False)
    console.print(
        f"{'FAILED' if found.reasons else 'ok'}  {found.strikes} strikes, {found.generations} generations, "
        f"{found.spurious} of them for no reason  {folder.path}",
        markup=False,
        soft_wrap=True,
    )
    sys.exit(1 if found.reasons else 0)


@main.command()
@click.option("--ttl", "ttl_s", type=click.FloatRange(1.0, 600.0), default=6.0, show_default=True, help="Seconds.")
@click.option("--changes", "change_s", type=float, default=0.5, show_default=True, help="Seconds between them.")
def leases(ttl_s: float, change_s: float) -> None:
    """Take leases, kill their holder, and move the lead of an idle cluster until they end. Exit code 1: not in time."""
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="jepsen-leases-") as folder:
        sights, changes = watch_leases(Path(folder), ttl_s=ttl_s, change_s=change_s)
    for sight in sights:
        end = "not at all" if sight.gone_ns is None else f"after {(sight.gone_ns - sight.silent_ns) / NS_PER_S:.2f} s"
        console.print(f"{sight.key}: {ttl_s:g} s to live, ended {end}, with {changes} changes of the lead")
    wrong = judge(sights, election_s=ELECTION_S, tolerance_s=TOLERANCE_S)
    for reason in wrong:
        console.print(reason, markup=False, soft_wrap=True)
    sys.exit(1 if wrong else 0)


@main.command("every-sync")
@click.option("--every", type=click.IntRange(1), default=1, show_default=True, help="Only each so many-th sync.")
@click.option("--first", type=click.IntRange(0), default=0, show_default=True, help="The first of them.")
@click.option("--lies", "is_lying", is_flag=True, help="Plant every kind of missing sync instead; each must be found.")
def every_sync(every: int, first: int, is_lying: bool) -> None:
    """Cut the power before and after every sync of a script (jepsen/faults/every_sync.py). Exit code 1: a loss."""
    console = Console(highlight=False)
    if is_lying:
        sys.exit(_plant_lies(console))
    if (lacking := images.missing() or shim.missing()) is not None:
        raise click.ClickException(lacking)
    report = cut_everywhere(Path(tempfile.gettempdir()) / f"jepsen-syncs-{os.getpid()}", every=every, first=first)
    for done in report:
        if isinstance(done, Point):
            shown = "; ".join(done.wrong) or f"ok  {done.acknowledged} acknowledged"
            console.print(f"{done.action.name} sync {done.sync}: {shown}", markup=False)
        else:
            console.print(
                f"{done.struck} power cuts in {len(done.points)} runs of a script of {done.syncs} syncs, "
                f"{done.seconds:.0f} s: {len(done.wrong)} found something wrong"
            )
            sys.exit(1 if done.wrong else 0)


def _plant_lies(console: Console) -> int:
    """Each mistake of jepsen/faults/promises.py, and none: 0 when all were found, and nothing without one."""
    if (lacking := shim.missing()) is not None:
        raise click.ClickException(lacking)
    missed = 0
    with Promises(Path(tempfile.gettempdir()) / f"jepsen-lies-{os.getpid()}") as promises:
        for lie in (None, *lies()):
            wrong = promises.broken(lie)
            if lie is None:
                wrong += promises.broken(None, is_tail_lost=True) + promises.broken(None, is_joined=True)
            is_right = bool(wrong) == (lie is not None)
            missed += not is_right
            console.print(
                f"{'ok' if is_right else 'WRONG'}  {lie or 'no lie'}: {'; '.join(wrong)}", markup=False, soft_wrap=True
            )
    console.print(f"{missed} went wrong")
    return 1 if missed else 0


@main.command("list")
def list_() -> None:
    """Say which workloads and nemeses there are, and which cannot run here."""
    console = Console(highlight=False)
    workloads = Table("workload", "model", "what it asks")
    for name, workload in WORKLOADS.items():
        workloads.add_row(name, workload.model or "", _first_line(workload))
    nemeses = Table("nemesis", "targets", "what it does", "cannot run here because")
    for name, nemesis in NEMESES.items():
        nemeses.add_row(name, " ".join(nemesis.targets), _first_line(nemesis), _lacks(nemesis))
    console.print(workloads)
    console.print(nemeses)


@contextlib.contextmanager
def _told_in_words() -> Iterator[None]:
    """What this machine refuses ends the command with a sentence; anything else is a mistake and shows where."""
    try:
        yield
    except (WaitFailed, NetworkError, KeeperFailed, ImageError, ShimError) as error:
        raise click.ClickException(str(error)) from None


def _lacks(nemesis: type[Nemesis]) -> str:
    if nemesis.needs_observers:
        return nemesis.requires() or "only with --observers"
    return nemesis.requires() or ("only with --secure" if nemesis.needs_papers else "")


def _first_line(what: type) -> str:
    return (what.__doc__ or "").strip().splitlines()[0]


if __name__ == "__main__":
    main(prog_name="python -m jepsen")
