"""Simulator seeds as tasks of Spark: `raftmeta pipeline sweep`.

    seeds ──► blocks ──► tasks: raftmeta.sim.live, one world at a time ──► blocks/*.parquet ──► failures, coverage

A task lives the worlds of one block and writes its rows as one file. A block whose file is there is done: a sweep that
was killed goes on where it stopped, and a longer one adds to a shorter one. Worlds run in a process beside the worker.
So a world that ends its process is a row like any other, by its own seed.

It decides which seeds are lived where. It never decides what a violation is, and mixes nothing: rows of another build,
profile or budget belong into another folder.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import raftmeta
from raftmeta.errors import ConfigError
from raftmeta.sim import Budget, Life, failing_case, live, profile_of
from raftmeta.spark.folders import opened, read_json, write_json, write_table
from raftmeta.spark.jobs import Progress, failed, told
from raftmeta.spark.session import import_pyspark, spark_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["Swept", "live_block", "sweep"]

SETTINGS_FILE = "sweep.json"
BLOCKS = "blocks"
SEED_MAX = 2**63  # tables have signed numbers of 64 bits
BLOCK_SEEDS = 50  # 50,000 events each: a few seconds of a task, which itself costs about 25 ms, and its process 1 s
DIED = "the process of this world died"

Liver = Callable[[int, str, Budget], Life]


@dataclass(frozen=True, slots=True)
class Swept:
    """The result of a sweep. seeds: in the folder, of this sweep and earlier ones. lived: by this call.

    failures: rows of failures.parquet. reached, missing: rare states, as coverage.parquet has them.
    """

    seeds: int
    lived: int
    failures: tuple[dict[str, Any], ...]
    reached: int
    missing: tuple[str, ...]
    out: Path


def sweep(
    first: int,
    end: int,
    out: str | Path,
    *,
    profile: str = "swarm",
    budget: Budget | None = None,
    block_seeds: int = BLOCK_SEEDS,
    master: str = "local[*]",
    on_progress: Progress | None = None,
    liver: Liver = live,
) -> Swept:
    """Live the worlds of the seeds [first, end) that the folder out does not have, and return the results of all.

    profile: as `raftmeta sim --profile`. budget: of each world, in events. block_seeds: seeds of one task, which are
    done together or not at all. master: of Spark; ignored when a session is active. on_progress: as that of verify.
    liver: lives one world; for tests of the sweep itself.
    Raises ConfigError: seeds or profile are wrong, out holds something else or rows of another build, profile or
    budget, or another sweep works there. RuntimeError: the job failed; the blocks that were done stay done.
    """
    budget = budget or Budget()
    _expect_seeds(first, end, block_seeds, profile)
    folder = Path(out).resolve()
    settings = {"profile": profile, "version": raftmeta.__version__, "build": build_of(), **asdict(budget)}
    with opened(folder, SETTINGS_FILE, what="sweep"):
        _expect_settings(folder, settings)
        blocks = _open_blocks(folder, first, end, block_seeds)
        tables = None if blocks else _tables_that_are_there(folder)
        if tables is None:
            import_pyspark()
            with spark_session(master, app="raftmeta pipeline sweep") as spark, told(spark, "worlds", on_progress):
                if blocks:
                    _live_blocks(spark, folder, blocks, settings, liver)
                tables = _tables(spark, folder)
        for name in ("failures", "coverage"):
            write_table(folder / f"{name}.parquet", tables[name])
        coverage = tables["coverage"].to_pylist()
        swept = Swept(
            seeds=tables["seeds"],
            lived=sum(last - begin for begin, last in blocks),
            failures=tuple(tables["failures"].to_pylist()),
            reached=sum(row["seeds"] > 0 for row in coverage),
            missing=tuple(row["mark"] for row in coverage if not row["seeds"]),
            out=folder,
        )
        summary = {"seeds": swept.seeds, "failures": len(swept.failures), "marks_missing": list(swept.missing)}
        write_json(folder / "summary.json", {**summary, "counts": tables["counts"]})
    return swept


def _tables_that_are_there(folder: Path) -> dict[str, Any] | None:
    """The tables that an earlier sweep made of the same blocks; None where there are none. Blocks only ever come."""
    import pyarrow.parquet as pq

    seeds = sum(end - first for first, end in map(_seeds_of, (folder / BLOCKS).glob("*.parquet")))
    names = ("failures", "coverage")
    if not all((folder / name).exists() for name in ("summary.json", *(f"{name}.parquet" for name in names))):
        return None
    summary = read_json(folder / "summary.json")
    if summary.get("seeds") != seeds or "counts" not in summary:
        return None
    tables: dict[str, Any] = {name: pq.read_table(folder / f"{name}.parquet") for name in names}
    return {**tables, "seeds": seeds, "counts": summary["counts"]}


def build_of() -> str:
    """A hash of this compiled code: the same seed is the same history only with the same code."""
    package = Path(raftmeta.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.so")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _expect_seeds(first: int, end: int, block_seeds: int, profile: str) -> None:
    if not 0 <= first < end <= SEED_MAX:
        raise ConfigError(f"seeds: {first}:{end} is no range within 0:2**63", field="seeds")
    if block_seeds < 1:
        raise ConfigError(f"block_seeds: must be at least 1, not {block_seeds}", field="block_seeds")
    try:
        live(first, profile, Budget(1, 1))
    except ValueError as error:
        raise ConfigError(f"profile: {error}", field="profile") from None


def _expect_settings(folder: Path, settings: dict[str, Any]) -> None:
    path = folder / SETTINGS_FILE
    if not path.exists():
        write_json(path, settings)
        return
    there = read_json(path)
    for name, value in settings.items():
        if there.get(name) != value:
            raise ConfigError(
                f"{folder}: its rows were made with {name} {there.get(name)!r}, not {value!r}; name another folder"
            )


def _open_blocks(folder: Path, first: int, end: int, block_seeds: int) -> list[tuple[int, int]]:
    """The seeds of [first, end) that no file has, in ranges of at most block_seeds."""
    blocks, at = [], first
    done = sorted(_seeds_of(path) for path in (folder / BLOCKS).glob("*.parquet"))
    for done_first, done_end in [*done, (end, end)]:
        while at < min(done_first, end):
            last = min(at + block_seeds, done_first, end)
            blocks.append((at, last))
            at = last
        at = max(at, done_end)
    return blocks


def _file_of(folder: Path, first: int, end: int) -> Path:
    return folder / BLOCKS / f"{first}-{end}.parquet"


def _seeds_of(path: Path) -> tuple[int, int]:
    first, _, end = path.stem.partition("-")
    if not (first.isdecimal() and end.isdecimal()):
        raise ConfigError(f"{path}: no file of a sweep, which are named by their seeds; remove it")
    return int(first), int(end)


# --- a task -----------------------------------------------------------------------------------------------------------
def live_block(
    seeds: Iterable[int], profile: str, budget: Budget, liver: Liver = live
) -> Iterator[tuple[Life, float, str | None]]:
    """The life of each seed, its milliseconds, and its tape as JSON if it fell; in a process beside this one.

    A world that ends its process is a violation of its own seed; the next one gets another process.
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    context = multiprocessing.get_context("spawn")
    pool: ProcessPoolExecutor | None = None
    try:
        for seed in seeds:
            pool = pool or ProcessPoolExecutor(1, mp_context=context)
            try:
                yield pool.submit(_lived, seed, profile, budget, liver).result()
            except BrokenProcessPool:
                pool.shutdown()
                pool = None
                yield Life(seed, profile, DIED, {}, 0.0, 0), 0.0, None
    finally:
        if pool is not None:
            pool.shutdown()


def _lived(seed: int, profile: str, budget: Budget, liver: Liver) -> tuple[Life, float, str | None]:
    import json

    begun_s = time.monotonic()
    life = liver(seed, profile, budget)
    millis = 1000 * (time.monotonic() - begun_s)
    tape = None
    if life.violation is not None and life.counts:
        case = failing_case(seed, profile_of(seed, profile), budget.events, budget.settle_events)
        tape = None if case is None else json.dumps(asdict(case))
    return life, millis, tape


def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("seed", pa.int64(), nullable=False),
            pa.field("profile", pa.string(), nullable=False),
            pa.field("verdict", pa.string(), nullable=False),  # ok, violation, died
            pa.field("invariant", pa.string()),
            pa.field("failure", pa.string()),
            pa.field("events", pa.int64(), nullable=False),
            pa.field("simulated_s", pa.float64(), nullable=False),
            pa.field("millis", pa.float64(), nullable=False),
            pa.field("trace_hash", pa.string(), nullable=False),
            pa.field("marks", pa.list_(pa.string()), nullable=False),
            pa.field("counts", pa.map_(pa.string(), pa.int64()), nullable=False),
            pa.field("replay", pa.string(), nullable=False),
            pa.field("tape", pa.string()),
        ]
    )


def _row(life: Life, millis: float, tape: str | None, budget: Budget) -> dict[str, Any]:
    violation = life.violation
    return {
        "seed": life.seed,
        "profile": life.profile,
        "verdict": "ok" if violation is None else "died" if violation == DIED else "violation",
        "invariant": None if violation is None else violation.split(": node")[0],
        "failure": violation,
        "events": life.counts.get("events", 0),
        "simulated_s": life.simulated_s,
        "millis": millis,
        "trace_hash": f"{life.trace_hash:016x}",
        "marks": sorted(life.marks),
        "counts": list(life.counts.items()),
        "replay": f"{life.replay} --events {budget.events} --settle {budget.settle_events}",
        "tape": tape,
    }


def _live_blocks(
    spark: SparkSession, folder: Path, blocks: list[tuple[int, int]], settings: dict[str, Any], liver: Liver
) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    budget = Budget(settings["events"], settings["settle_events"])
    profile, build, context = settings["profile"], settings["build"], spark.sparkContext

    def live_one(block: tuple[int, int]) -> None:
        import pyarrow as pa

        if build_of() != build:
            raise ConfigError("this executor has another build of raftmeta than the driver: install the same one there")
        rows = [_row(*one, budget) for one in live_block(range(*block), profile, budget, liver)]
        write_table(_file_of(folder, *block), pa.Table.from_pylist(rows, schema=_schema()))

    try:
        context.parallelize(blocks, len(blocks)).foreach(live_one)
    except (PySparkException, Py4JError) as error:
        raise failed(error) from None


# --- the tables -------------------------------------------------------------------------------------------------------
def _tables(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """failures, coverage as Arrow; seeds: how many there are; counts: of everything that happened in them."""
    from pyspark.sql import functions as f

    from raftmeta.sim.campaign import MARKS

    lives = spark.read.parquet(str(folder / BLOCKS)).persist()
    try:
        failures = lives.where("verdict <> 'ok'").drop("marks", "counts", "millis").orderBy("seed")
        reached = lives.select("seed", f.explode("marks").alias("mark"))
        reached = reached.groupBy("mark").agg(f.count("*").alias("seeds"), f.min("seed").alias("first_seed"))
        known = spark.createDataFrame([(mark,) for mark in MARKS], "mark string")
        coverage = known.join(reached, "mark", "full").fillna(0, ["seeds"]).orderBy("seeds", "mark")
        happened = lives.select(f.explode("counts").alias("name", "value")).groupBy("name").agg(f.sum("value"))
        return {
            "failures": failures.toArrow(),
            "coverage": coverage.toArrow(),
            "seeds": lives.count(),
            "counts": dict(sorted(map(tuple, happened.collect()))),
        }
    finally:
        lives.unpersist()
