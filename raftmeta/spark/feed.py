"""Filling a lake from a running store: `raftmeta pipeline feed`.

    store ──► Source: the state once, then every change ──► Lake.append ──► files

The source here is a client's store. Its keys and changes come as columns made natively, from pages and from a watch of
the whole keyspace, also while the feed follows it. When a node dies, they come from another one. Anything else that
gives whole revisions in order may take its place (Source), as a sealed file does (raftmeta/spark/feed_file.py): the
lake itself makes sure that each revision counts once and that none is missing.

It decides where to begin, when a file is full, and that a gap is an error unless the caller allows it. It never reads
the lake.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import raftmeta
from raftmeta.errors import Compacted, ConfigError, InvalidArgument
from raftmeta.operations import Get, KeyRecord
from raftmeta.results import WatchEvent
from raftmeta.scan import ClusterScan, Scope, followers_first, node_urls
from raftmeta.scan.batches import columns_of
from raftmeta.spark.folders import written
from raftmeta.spark.lake import Base, Gap, Lake, MissingRevisions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ClientSource", "Fed", "Lag", "Source", "Whole", "feed"]

FILE_ROWS = 100_000  # changes of one file, or
FILE_BYTES = 64 << 20  # bytes of keys and values before compression
FLUSH_S = 10.0  # a lake that follows is never older than this, and that which writing takes
QUIET_S = 5.0  # without a change for so long, ask whether anybody is there
UNANSWERED_MAX = 6  # times that the store is newer than a watch that gives nothing: then it is given up
NEVER_A_KEY = b"\0"

OnProgress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a lake is behind its store. last: its newest revision. revisions: number that the store has beyond it.

    seconds: the age of the time up to which the lake knows everything, by the clocks of the store and of this machine.
    """

    last: int
    revisions: int
    seconds: float

    def prometheus(self) -> str:
        """As a text file for the node exporter of Prometheus."""
        lines: list[str] = []
        for name, what, value in (
            ("raftmeta_feed_last_revision", "Newest revision in the lake.", self.last),
            ("raftmeta_feed_lag_revisions", "Revisions that the store had beyond the lake.", self.revisions),
            (
                "raftmeta_feed_lag_seconds",
                "Age of the time up to which the lake knows everything.",
                f"{self.seconds:.3f}",
            ),
        ):
            lines += [f"# HELP {name} {what}", f"# TYPE {name} gauge"]
            lines.append(f"{name} {value}")
        return "\n".join(lines) + "\n"


OnLag = Callable[[Lag], object]
Whole = tuple[int, float, list[WatchEvent]]  # a revision, its time in seconds of 1970, all its events


class Source(Protocol):
    """Where changes come from."""

    def cluster_id(self) -> str:
        """The id of the store's cluster; a lake belongs to one."""

    def floor(self) -> int:
        """The oldest revision whose state is known; changes are known from the next one on."""

    def tip(self) -> int:
        """A revision that is not older than anything acknowledged before the call."""

    def now_ms(self) -> int:
        """Milliseconds of 1970 (UTC) now; for a source that stands still, the time as of which it knows everything."""

    def state(self, revision: int) -> Iterator[list[KeyRecord] | pa.Table]:
        """All keys as of a revision, in pages: records, or rows of lake_rows.BASE. Raises Compacted, FutureRevision."""

    def changes(self, first: int) -> Generator[Whole | pa.Table | None, None, None]:
        """Every revision from first on, whole and in order; None now and then when there is none. Raises Compacted.

        One revision, or rows of lake_rows.CHANGES. It never ends by itself: tip() tells whether anybody is there.
        """


class ClientSource:
    """The store behind a client; the client stays the caller's.

    Keys and changes come by connections of their own, followers first, as columns instead of objects. quiet_s: seconds
    without a change between two Nones.
    """

    def __init__(self, client: raftmeta.Client, *, quiet_s: float = QUIET_S) -> None:
        self._client = client
        self._quiet_s = quiet_s

    def cluster_id(self) -> str:
        return self._client.status().cluster_id

    def floor(self) -> int:
        return self._client.status().compacted

    def tip(self) -> int:
        return self._client.txn([], [Get(NEVER_A_KEY)]).revision

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def state(self, revision: int) -> Iterator[pa.Table]:
        """See Source.state; as tables of Arrow."""
        from raftmeta.spark.lake_rows import BASE, keys_in

        if revision:
            with self._scan() as scan:
                yield from map(keys_in, scan.keys(Scope(columns=tuple(BASE.names)), revision))

    def changes(self, first: int) -> Generator[pa.Table | None, None, None]:
        """See Source.changes; first existing changes as fast as they come, then new ones."""
        from raftmeta.spark.lake_rows import changes_in

        scope = Scope(columns=columns_of("changes", previous=True))
        with self._scan() as scan:
            for batch in scan.follow(scope, first - 1, self._quiet_s):
                yield None if batch is None else changes_in(batch)

    @contextlib.contextmanager
    def _scan(self) -> Iterator[ClusterScan]:
        urls, cluster = node_urls(self._client.url), self._client.cluster
        with ClusterScan(urls, cluster=cluster) as looking:
            urls = followers_first(urls, looking.statuses())
        with ClusterScan(urls, cluster=cluster) as scan:
            yield scan


@dataclass(frozen=True, slots=True)
class Fed:
    """The result of a feed. first, last: revisions that it added, [first, last]; first > last: nothing was new."""

    lake: Lake
    first: int
    last: int
    changes: int


def feed(
    source: Source,
    out: str | Path,
    *,
    first: int | None = None,
    follow: bool = False,
    allow_gap: bool = False,
    file_rows: int = FILE_ROWS,
    file_bytes: int = FILE_BYTES,
    flush_s: float = FLUSH_S,
    on_progress: OnProgress | None = None,
    on_lag: OnLag | None = None,
) -> Fed:
    """Bring the lake in the folder out up to the newest revision of the source, and make it if there is none.

    first: revision of the first change of a new lake; None: the oldest that the store still has. follow: go on until
    the source fails or KeyboardInterrupt, which ends the feed in order, with all its changes written. allow_gap: if the
    store has compacted revisions that the lake needs next, begin anew behind them and note the gap; without it that is
    MissingRevisions. file_rows, file_bytes: when a file is full. flush_s: seconds after which a feed that follows
    writes one anyhow. on_progress: told (last revision in the lake, newest revision known). on_lag: told a Lag after
    each file, and every few seconds while nothing comes; the feed then asks the store for its newest revision.
    Raises ConfigError: out holds something else, a lake of another store, a newer state than the store's, or has
    another driver; Compacted, FutureRevision for `first`; NotExecuted when nobody answers; the lake is whole then.
    """
    with Lake.driven(Path(out).resolve()) as lake:
        asked_ms, tip = source.now_ms(), source.tip()
        if lake is None:
            lake = _begun(source, Path(out).resolve(), first, tip)
        else:
            lake = _resumed(source, lake, first, tip, allow_gap)
        begun_at, rows = lake.last, sum(one.rows for one in lake.files)
        feeding = _Feeding(source, lake, asked_ms, tip, _Limits(file_rows, file_bytes, flush_s), on_progress, on_lag)
        with contextlib.suppress(KeyboardInterrupt):
            feeding.run(follow)
        lake = feeding.lake
        return Fed(lake, begun_at + 1, lake.last, sum(one.rows for one in lake.files) - rows)


@dataclass(frozen=True, slots=True)
class _Limits:
    rows: int
    size_bytes: int
    flush_s: float


class _Feeding:
    """One feed under way. lake: with all files so far. tip: the newest revision known, as of asked_ms."""

    def __init__(
        self,
        source: Source,
        lake: Lake,
        asked_ms: int,
        tip: int,
        limits: _Limits,
        on_progress: OnProgress | None,
        on_lag: OnLag | None,
    ) -> None:
        self.lake = lake
        self._source = source
        self._asked_ms, self._tip = asked_ms, tip
        self._limits = limits
        self._on_progress = on_progress
        self._on_lag = on_lag
        self._seen_ms = self._seen = 0  # the newest revision, asked for the lag alone: a feed ends where it was to end
        self._unanswered = 0  # how often the store was newer, and gave nothing
        self._empty()

    def run(self, follow: bool) -> None:
        """Feed until the tip, or for good; the lake then has all that came, however the feed ends."""
        changes = self._source.changes(self.lake.last + 1)
        try:
            while follow or max(self.lake.last, self._last_pending) < self._tip:
                whole = next(changes)
                if whole is None:
                    self._flush()
                    self._ask()
                else:
                    self._add(whole, follow)
        finally:
            changes.close()
            self._flush(asks=False)  # whoever is asked may be the one that failed
            self._note_current()

    def _add(self, changes: Whole | pa.Table, follow: bool) -> None:
        if isinstance(changes, tuple):
            self._last_pending = changes[0]
            self._hold(changes, len(changes[2]), sum(len(event.key) + len(event.value) for event in changes[2]))
        else:
            self._add_table(changes)
        if follow and time.monotonic() - self._since_s >= self._limits.flush_s:
            self._flush()

    def _add_table(self, table: pa.Table) -> None:
        """Add rows; cut them behind the revision that fills a file."""
        while len(table):
            revisions = table["revision"].to_numpy()
            fills = min(len(table), max(1, self._limits.rows - self._rows))
            end = int(revisions.searchsorted(revisions[fills - 1], side="right"))
            part, table = table[:end], table[end:]
            self._last_pending = int(revisions[end - 1])
            self._hold(part, end, part["key"].nbytes + part["value"].nbytes)

    def _hold(self, changes: Whole | pa.Table, rows: int, size_bytes: int) -> None:
        self._pending.append(changes)
        self._rows += rows
        self._bytes += size_bytes
        if self._rows >= self._limits.rows or self._bytes >= self._limits.size_bytes:
            self._flush()

    def _flush(self, *, asks: bool = True) -> None:
        if self._pending:
            from raftmeta.spark.lake_rows import table_of

            self.lake = self.lake.append(table_of(self._pending))
            self._unanswered = 0
        self._empty()
        if self._on_progress is not None:
            self._on_progress(self.lake.last, max(self._tip, self.lake.last))
        if self._on_lag is not None:
            if (
                asks and self._source.now_ms() - max(self._asked_ms, self._seen_ms) > QUIET_S * 1000
            ):  # under load nothing else asks
                self._seen_ms, self._seen = self._source.now_ms(), self._source.tip()
            self._tell_lag()

    def _empty(self) -> None:
        self._pending: list[Whole | pa.Table] = []
        self._last_pending = 0
        self._rows = self._bytes = 0
        self._since_s = time.monotonic()

    def _ask(self) -> None:
        """Nothing came for a while: ask whether anybody is there, and whether there is really nothing."""
        self._note_current()
        self._asked_ms, self._tip = self._source.now_ms(), self._source.tip()
        self._note_current()
        self._tell_lag()
        self._unanswered += self.lake.last < self._tip
        if self._unanswered == UNANSWERED_MAX:
            raise MissingRevisions(f"the store has revision {self._tip}, but gives nothing after {self.lake.last}")

    def _tell_lag(self) -> None:
        if self._on_lag is not None:
            known_ms = max(self.lake.current_ms, self.lake.files[-1].last_ms if self.lake.files else 0)
            age_s = max(0, self._source.now_ms() - known_ms) / 1000
            self._on_lag(Lag(self.lake.last, max(0, self._tip - self.lake.last, self._seen - self.lake.last), age_s))

    def _note_current(self) -> None:
        """The lake has everything that the store had when it was asked: note the time as current."""
        if self.lake.last >= self._tip and self._asked_ms > self.lake.current_ms:
            self.lake = replace(self.lake, current_ms=self._asked_ms).saved()


# --- where to begin ---------------------------------------------------------------------------------------------------
def _begun(source: Source, folder: Path, first: int | None, tip: int) -> Lake:
    """A new lake, with the state from which its changes go on."""
    if first is not None and not 1 <= first <= tip + 1:
        raise InvalidArgument(
            f"first: the store is at revision {tip}, so the first change is in 1 to {tip + 1}, not {first}"
        )
    base = _based(source, folder, None if first is None else first - 1)
    return Lake(folder, source.cluster_id(), base.revision, (base,), ()).saved()


def _based(source: Source, folder: Path, revision: int | None) -> Base:
    """A base at this revision, None: the oldest there is, which may be compacted while it is read."""
    while True:
        at = source.floor() if revision is None else revision
        try:
            return _write_base(source, folder, at)
        except Compacted:
            if revision is not None:
                raise ConfigError(
                    f"first: the store has compacted revision {revision + 1}; its oldest is {source.floor() + 1}"
                ) from None


def _write_base(source: Source, folder: Path, revision: int) -> Base:
    import pyarrow.parquet as pq

    from raftmeta.spark.lake_rows import BASE, records_of

    base = Base(f"bases/{revision:020}.parquet", revision)
    with written(folder / base.file) as half, pq.ParquetWriter(half, BASE, compression="zstd") as writer:
        for page in source.state(revision):
            writer.write_table(records_of(page) if isinstance(page, list) else page)
    return base


def _resumed(source: Source, lake: Lake, first: int | None, tip: int, allow_gap: bool) -> Lake:
    """The existing lake, ready to go on."""
    there, folder = source.cluster_id(), lake.folder
    if lake.cluster != there:
        raise ConfigError(f"{folder}: is the lake of cluster {lake.cluster}, not of {there}; name another folder")
    if lake.last > tip:
        raise ConfigError(
            f"{folder}: has revision {lake.last}, the store only {tip}: it is older, as after a restore; "
            "name another folder"
        )
    if first is not None and first != lake.last + 1:
        raise ConfigError(f"{folder}: goes on at revision {lake.last + 1}; `first` is for a new lake")
    if source.floor() <= lake.last:
        return lake
    if not allow_gap:
        raise MissingRevisions(
            f"{folder}: ends at revision {lake.last}, and the store has compacted up to {source.floor()}; "
            "go on behind the gap with allow_gap (--allow-gap), and feed more often than the store compacts"
        )
    base = _based(source, folder, None)
    gap = Gap(lake.last + 1, base.revision)
    return replace(lake, last=base.revision, bases=(*lake.bases, base), gaps=(*lake.gaps, gap)).saved()
