"""raftmeta migrate: read another system's files, load them into the cluster, compare, and bring it up to date.

A comparison is a join on Spark; with --merge it is a merge of two sorted streams in this process. --until-empty repeats
the comparison, each time with the files as they then are, until nothing differs.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import raftmeta
from raftmeta import migrate as moving
from raftmeta.cli.migrate_live import live
from raftmeta.cli.session import NO, Session, fates, pass_session, text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MERGED_BYTES_MAX = 2 << 30  # of keys and values: beyond it a join on several cores is worth the start of Spark
SHOWN = 20  # differences that are printed; all are counted
LIVE = "zookeeper live"
_path = click.argument("path", type=click.Path(path_type=Path))
Tell = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class Options:
    """The values of the options that all three commands share."""

    mode: str
    prefix: str
    side: str
    has_side: bool
    scratch: Path | None
    value_bytes_max: int
    has_delete: bool
    is_merge: bool
    is_until_empty: bool
    every_s: float
    out: Path | None
    master: str | None

    def mapping(self, kind: str, held: str = "drop") -> moving.Mapping:
        side = self.side or f"migrated/{kind}/"
        return moving.Mapping(side=side.encode(), prefix=self.prefix.encode(), has_side=self.has_side, held=held)


def _common(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every kind of source."""
    for option in (
        click.option("--dry-run", "mode", flag_value="plan", help="Read and check everything, write nothing."),
        click.option("--compare", "mode", flag_value="compare", help="Show what differs. Exit code 1: something does."),
        click.option("--merge", "is_merge", is_flag=True, help="With --compare: in this process, without Spark."),
        click.option("--until-empty", "is_until_empty", is_flag=True, help="With --compare: again until nothing does."),
        click.option(
            "--every",
            "every_s",
            type=click.FloatRange(min=0.0),
            default=10.0,
            show_default=True,
            help="Pause, seconds.",
        ),
        click.option("--out", type=click.Path(path_type=Path), help="With --compare: folder for all that differs."),
        click.option(
            "--master",
            help="With --compare: join on this Spark cluster, or local[n]. Default: no Spark, unless --out is given or "
            "there are more than 2 GiB.",
        ),
        click.option("--update", "mode", flag_value="update", help="Write what differs."),
        click.option("--delete", "has_delete", is_flag=True, help="With --update: delete what the source has not."),
        click.option("--prefix", default="", help="Put before every key."),
        click.option("--side", default="", help="Prefix of everything that is no data. [default: migrated/KIND/]"),
        click.option("--no-side", "has_side", flag_value=False, default=True, help="Write the data only."),
        click.option("--scratch", type=click.Path(path_type=Path), help="Folder for temporary files."),
        click.option("--value-bytes-max", default=1 << 20, show_default=True, help="As the cluster's Config has it."),
    ):
        command = option(command)
    return command


def _options(settings: dict[str, Any]) -> Options:
    options = Options(**settings | {"mode": settings["mode"] or "load"})
    if options.mode != "compare" and (options.is_merge or options.is_until_empty or options.out is not None):
        raise click.UsageError("--merge, --until-empty and --out belong to --compare")
    if options.is_merge and options.out is not None:
        raise click.UsageError("--out is a table that Spark writes: not with --merge")
    return options


class Kinds(click.Group):
    """A command for each kind of source, and `zookeeper live`, whose name has two words."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, [LIVE, *args[2:]] if args[:2] == LIVE.split() else args)


@click.group(cls=Kinds)
def migrate() -> None:
    """Move the data of another system into this cluster; see docs/migration.md."""


@migrate.command()
@_path
@click.option("--logs", type=click.Path(path_type=Path), help="Folder of the transaction logs, if it is another one.")
@click.option(
    "--ephemerals",
    "held",
    type=click.Choice(["drop", "keep", "lease"]),
    default="drop",
    show_default=True,
    help="Nodes of sessions: leave out, make plain keys, or attach to a lease for each session.",
)
@_common
@pass_session
def zookeeper(session: Session, /, path: Path, logs: Path | None, held: str, **settings: Any) -> None:
    """Load the tree of a ZooKeeper 3.9 server: PATH is its dataDir, or one snapshot.

    `migrate zookeeper live` follows a running ensemble instead.
    """
    options = _options(settings)

    def read(tell: Tell) -> moving.Source:
        return moving.ZooKeeperSource(
            path, logs=logs, scratch=options.scratch, ephemerals=held != "drop", on_progress=tell
        )

    _run(session, options, options.mapping("zookeeper", held), read)


@migrate.command()
@_path
@click.option(
    "--leases",
    "held",
    type=click.Choice(["drop", "keep", "lease"]),
    default="drop",
    show_default=True,
    help="Keys with a lease: leave out, make plain keys, or attach to a lease of the same id.",
)
@click.option("--skip-hash-check", is_flag=True, help="Also read a file that carries no checksum.")
@_common
@pass_session
def etcd(session: Session, /, path: Path, held: str, skip_hash_check: bool, **settings: Any) -> None:
    """Load the keys of an etcd 3.5 database: PATH is the file of `etcdctl snapshot save`."""
    options = _options(settings)

    def read(tell: Tell) -> moving.Source:
        return moving.EtcdSource(
            path, allow_unhashed=skip_hash_check, leases=held != "drop", scratch=options.scratch, on_progress=tell
        )

    _run(session, options, options.mapping("etcd", held), read)


@migrate.command()
@_path
@click.option("--journal", type=click.Path(path_type=Path), help="The journal of the same node.")
@_common
@pass_session
def pysyncobj(session: Session, /, path: Path, journal: Path | None, **settings: Any) -> None:
    """Load the objects of a PySyncObj dump; no code in the dump is run."""
    options = _options(settings)

    def read(tell: Tell) -> moving.Source:
        return moving.PySyncObjSource(path, journal=journal, on_progress=tell)

    _run(session, options, options.mapping("pysyncobj"), read)


@migrate.command()
@_path
@_common
@pass_session
def consul(session: Session, /, path: Path, **settings: Any) -> None:
    """Load the keys of a Consul: PATH is the output of `consul kv export`."""
    options = _options(settings)

    def read(tell: Tell) -> moving.Source:
        return moving.ConsulSource(path, on_progress=tell)

    _run(session, options, options.mapping("consul"), read)


@migrate.command()
@_path
@_common
@pass_session
def cassandra(session: Session, /, path: Path, **settings: Any) -> None:
    """Load the keys of Kafka's plug-in for Cassandra: PATH is a folder with exports of its tables by cqlsh."""
    options = _options(settings)

    def read(tell: Tell) -> moving.Source:
        return moving.CassandraSource(path, on_progress=tell)

    _run(session, options, options.mapping("cassandra"), read)


# --- what all of them do ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Job:
    """A source that was read and planned, and its target. spark: for a comparison, unless it is a merge."""

    session: Session
    source: moving.Source
    mapping: moving.Mapping
    plan: moving.Plan
    options: Options
    spark: SparkSession | None
    bar: Callable[[str], Tell]


def _run(session: Session, options: Options, mapping: moving.Mapping, read: Callable[[Tell], moving.Source]) -> None:
    with fates(), _bar(session) as bar, contextlib.ExitStack() as stack:
        spark: SparkSession | None = None
        while True:
            with contextlib.closing(read(bar("reading"))) as source:
                plan = moving.plan(source, mapping, value_bytes_max=options.value_bytes_max)
                if spark is None and _needs_spark(options, plan):
                    spark = stack.enter_context(_spark(options))
                found = _MODES[options.mode](_Job(session, source, mapping, plan, options, spark, bar))
                _show(session, found | _report(source, plan))
            if not (options.is_until_empty and found["differences"]):
                break
            _pause(options.every_s)
    if found.get("differences"):
        sys.exit(NO)


def _needs_spark(options: Options, plan: moving.Plan) -> bool:
    """Whether the comparison is a join on Spark: Spark or its table was asked for, or one process would take long."""
    if options.mode != "compare" or options.is_merge:
        return False
    is_large = plan.key_bytes + plan.value_bytes > MERGED_BYTES_MAX
    return options.master is not None or options.out is not None or is_large


@contextlib.contextmanager
def _spark(options: Options) -> Iterator[SparkSession]:
    from raftmeta.spark import spark_session

    with spark_session(options.master or "local[*]", app="raftmeta migrate --compare") as spark:
        yield spark


_pause = time.sleep


def _only_plan(job: _Job) -> dict[str, Any]:
    return {"written": 0}


def _load(job: _Job) -> dict[str, Any]:
    tell = job.bar("loading")
    with job.session.client() as client:
        progress = moving.load(
            client, job.source, job.mapping, job.plan, on_progress=lambda items: tell(items, job.plan.items)
        )
    return {"written": progress.items, "batches": progress.batches}


def _compare(job: _Job) -> dict[str, Any]:
    with job.session.client() as client:
        counts, first = _merged(job, client) if job.spark is None else _joined(job, client, job.spark)
    if not job.session.is_json:
        for difference in first:
            click.echo(f"{difference.what:8} {text_of(difference.key)}")
    return {"differences": counts.total(), **counts}


def _merged(job: _Job, client: raftmeta.Client) -> tuple[Counter[str], list[moving.Difference]]:
    counts: Counter[str] = Counter()
    first: list[moving.Difference] = []
    for difference in moving.compare(client, job.source, job.mapping):
        counts[difference.what] += 1
        if len(first) < SHOWN:
            first.append(difference)
    return counts, first


def _joined(job: _Job, client: raftmeta.Client, spark: SparkSession) -> tuple[Counter[str], list[moving.Difference]]:
    from raftmeta.spark import compare

    bar, options = job.bar("comparing"), job.options

    def tell(_: str, done: int, size: int) -> None:
        bar(done, size)

    found = compare(
        spark,
        client,
        job.source,
        job.mapping,
        shown=SHOWN,
        out=options.out,
        scratch=options.scratch,
        on_progress=tell,
    )
    return found.counts, found.first


def _update(job: _Job) -> dict[str, Any]:
    tell = job.bar("updating")
    with job.session.client() as client:
        counts = moving.update(
            client,
            job.source,
            job.mapping,
            job.plan,
            delete=job.options.has_delete,
            on_progress=lambda written: tell(written, 0),
        )
    left = 0 if job.options.has_delete else counts["extra"]
    return {"written": counts.total() - left, **counts}


_MODES = {"plan": _only_plan, "load": _load, "compare": _compare, "update": _update}


def _report(source: moving.Source, plan: moving.Plan) -> dict[str, Any]:
    return {
        "kind": source.kind,
        "position": source.position,
        **source.facts(),
        "items": plan.items,
        "keys to write": plan.records,
        "bytes of keys": plan.key_bytes,
        "bytes of values": plan.value_bytes,
        "items of sessions or leases": plan.holders,
        "dropped": dict(plan.dropped),
        "warnings": list(source.warnings),
    }


def _show(session: Session, report: dict[str, Any]) -> None:
    lines = []
    for name, value in report.items():
        if isinstance(value, dict):
            lines += [f"{name}: {count} {what}" for what, count in value.items()]
        elif isinstance(value, list):
            lines += [f"{name}: {text}" for text in value]
        else:
            lines.append(f"{name}: {value}")
    session.show(report, "\n".join(lines))


@contextlib.contextmanager
def _bar(session: Session) -> Iterator[Callable[[str], Tell]]:
    """A bar on standard error, if a person looks at it: each phase has its own line."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=session.is_json or not sys.stderr.isatty(),
        transient=True,
    ) as bar:

        def phase(name: str) -> Tell:
            task = bar.add_task(name, total=None)
            return lambda done, size: bar.update(task, completed=done, total=size or None)

        yield phase


migrate.add_command(live)
COMMANDS = (migrate,)
