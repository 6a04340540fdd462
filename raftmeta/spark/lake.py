"""The lake: every change of a store as Parquet files, kept as long as you like. `raftmeta pipeline feed` fills it.

    lake.json                            the files that count, and their revisions
    changes/day=2026-11-22/<first>-<last>.parquet    changes of the revisions [first, last], in order
    changes/_delta_log/                  the same list of files of changes for engines that read Delta tables
    bases/<revision>.parquet             all keys as of a revision, from which a state is built

lake.json is replaced whole after the files that it names are there, so at every moment a lake is the work of one
driver. A file that no lake.json names does not count, and the next driver removes it. Revisions have no gaps, so
`append` notices a missing change and refuses it. It passes over changes that the lake has. So a batch may come twice,
as after a crash of the feed, and counts once.

It decides what the lake holds. It never asks a store (raftmeta/spark/feed.py does), and needs no Spark.
"""

from __future__ import annotations

import contextlib
import datetime
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from raftmeta.errors import ConfigError
from raftmeta.spark.delta_log import bring_up
from raftmeta.spark.folders import opened, read_json, write_json, write_table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Base", "ChangesFile", "Gap", "Lake", "MissingRevisions"]

FORMAT = 1
MANIFEST = "lake.json"


class MissingRevisions(ConfigError):
    """Changes that the lake needs next are gone, or it never had the changes that were asked for."""


@dataclass(frozen=True, slots=True)
class ChangesFile:
    """Changes of the revisions [first, last], all of one day (UTC). Times are milliseconds of 1970 (UTC)."""

    file: str
    day: str
    first: int
    last: int
    first_ms: int
    last_ms: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Base:
    """All keys as of a revision: a file, or a folder of parts."""

    file: str
    revision: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Revisions [first, last] that the lake lacks: the store had compacted them before anybody fetched them."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Lake:
    """A lake as one lake.json told it.

    cluster: id of the store. last: the newest revision, of which the lake has everything. current_ms: the last time, by
    the driver's clock, when this was the store's newest; 0: never. Later times are not known yet.
    """

    folder: Path
    cluster: str
    last: int
    bases: tuple[Base, ...]
    files: tuple[ChangesFile, ...]
    gaps: tuple[Gap, ...] = ()
    current_ms: int = 0

    # --- reading ------------------------------------------------------------------------------------------------------
    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The lake in this folder. Raises ConfigError for a folder without one, or with one of a newer format."""
        root = Path(folder).resolve()
        if not (root / MANIFEST).exists():
            raise ConfigError(f"{root}: no lake: raftmeta pipeline feed makes one")
        facts = read_json(root / MANIFEST)
        if facts.get("format") != FORMAT:
            raise ConfigError(f"{root}: format {facts.get('format')!r}; this version of raftmeta reads {FORMAT}")
        try:
            return cls(
                folder=root,
                cluster=facts["cluster"],
                last=facts["last"],
                bases=tuple(Base(**one) for one in facts["bases"]),
                files=tuple(ChangesFile(**one) for one in facts["files"]),
                gaps=tuple(Gap(**one) for one in facts["gaps"]),
                current_ms=facts["current_ms"],
            )
        except (KeyError, TypeError) as error:
            raise ConfigError(f"{root / MANIFEST}: damaged: {error}") from None

    @property
    def oldest(self) -> int:
        """The oldest revision whose state the lake knows."""
        return self.bases[0].revision

    @property
    def named(self) -> set[str]:
        """Every file or folder that counts."""
        return {base.file for base in self.bases} | {one.file for one in self.files}

    def base_for(self, revision: int) -> Base:
        """The base to build the state at revision from. Raises MissingRevisions that says which bases there are."""
        if not self.oldest <= revision <= self.last:
            raise MissingRevisions(
                f"{self.folder}: has the states from revision {self.oldest} to {self.last}, not of {revision}"
            )
        for gap in self.gaps:
            if gap.first <= revision < gap.last:
                raise MissingRevisions(
                    f"{self.folder}: the revisions {gap.first} to {gap.last} were compacted before they were fetched: "
                    f"there is the state at {gap.first - 1} and from {gap.last} on, not at {revision}"
                )
        return max((base for base in self.bases if base.revision <= revision), key=lambda base: base.revision)

    def revision_at(self, at: datetime.datetime) -> int:
        """The newest revision of this time or before.

        Raises MissingRevisions for a time before the first change, after the lake's end, or in a gap.
        """
        at_ms = round(at.timestamp() * 1000)
        if not self.files:
            raise MissingRevisions(f"{self.folder}: has no change yet, and so no times; name a revision")
        if at_ms < self.files[0].first_ms:
            raise MissingRevisions(f"{self.folder}: its first change is of {_time(self.files[0].first_ms)}")
        known_ms = max(self.current_ms, self.files[-1].last_ms)
        if at_ms > known_ms:
            raise MissingRevisions(f"{self.folder}: knows what happened until {_time(known_ms)}; feed it first")
        holder = max((one for one in self.files if one.first_ms <= at_ms), key=lambda one: one.first)
        found = holder.last if holder.last_ms <= at_ms else self._revision_in(holder, at_ms)
        for gap in self.gaps:
            if gap.first == found + 1:
                raise MissingRevisions(
                    f"{self.folder}: {at.isoformat()} is in a gap: the revisions {gap.first} to {gap.last} were "
                    "compacted before they were fetched"
                )
        return found

    def _revision_in(self, holder: ChangesFile, at_ms: int) -> int:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        table = pq.read_table(self.folder / holder.file, columns=["revision", "ts"], partitioning=None)
        in_time = table.filter(pc.less_equal(table["ts"], pa.scalar(at_ms * 1000, table["ts"].type)))
        return int(pc.max(in_time["revision"]).as_py())

    def expect_changes(self, first: int, last: int) -> None:
        """Raises MissingRevisions unless the lake has the changes of every revision in [first, last]."""
        if not self.oldest < first <= last + 1 <= self.last + 1:
            raise MissingRevisions(
                f"{self.folder}: has the changes of the revisions {self.oldest + 1} to {self.last}, "
                f"not of {first} to {last}"
            )
        for gap in self.gaps:
            if gap.first <= last and first <= gap.last:
                raise MissingRevisions(
                    f"{self.folder}: the revisions {gap.first} to {gap.last} were compacted before they were fetched"
                )

    def files_of(self, first: int, last: int) -> list[str]:
        """Paths of the files with changes of the revisions [first, last]."""
        return [str(self.folder / one.file) for one in self.files if one.first <= last and one.last >= first]

    # --- writing, by the one driver -----------------------------------------------------------------------------------
    @classmethod
    @contextlib.contextmanager
    def driven(cls, folder: Path) -> Iterator[Self | None]:
        """Be the driver of this folder for the length of the block. Gives its lake, None where there is none yet."""
        with opened(folder, MANIFEST, what="feed"):
            lake = cls.load(folder) if (folder / MANIFEST).exists() else None
            if lake is not None:
                bring_up(folder, lake.cluster, lake.files)  # before a file goes that the log still names
            _remove_strays(folder, lake)
            yield lake

    def saved(self) -> Self:
        """Make this lake count from now on."""
        names = ("cluster", "last", "current_ms")
        lists: dict[str, tuple[Any, ...]] = {"bases": self.bases, "files": self.files, "gaps": self.gaps}
        facts = {name: getattr(self, name) for name in names}
        lists_of_facts = {name: [asdict(one) for one in many] for name, many in lists.items()}
        write_json(self.folder / MANIFEST, {"format": FORMAT, **facts, **lists_of_facts})
        bring_up(self.folder, self.cluster, self.files)
        return self

    def append(self, changes: pa.Table) -> Self:
        """Add changes, in order, with every revision whole, and return the lake with them.

        It passes over changes that the lake has. Raises MissingRevisions, and changes nothing, when a revision between
        is missing.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        changes = changes.filter(pc.greater(changes["revision"], self.last))
        if not len(changes):
            return self
        _expect_whole(changes, self.last)
        days = changes["ts"].cast(pa.date32())
        files = [
            self._write(str(day), changes.filter(pc.equal(days, pa.scalar(day, pa.date32()))))
            for day in pc.unique(days).to_pylist()
        ]
        return replace(self, last=files[-1].last, files=(*self.files, *files)).saved()

    def _write(self, day: str, changes: pa.Table) -> ChangesFile:
        first, last = changes["revision"][0].as_py(), changes["revision"][-1].as_py()
        file = f"changes/day={day}/{first:020}-{last:020}.parquet"
        write_table(self.folder / file, changes)
        return ChangesFile(
            file=file,
            day=day,
            first=first,
            last=last,
            first_ms=changes["ts"][0].value // 1000,
            last_ms=changes["ts"][-1].value // 1000,
            rows=len(changes),
            size_bytes=(self.folder / file).stat().st_size,
        )

    def with_merged(self, merged: Iterable[ChangesFile]) -> Self:
        """With these files in place of those whose revisions they hold."""
        merged = list(merged)
        kept = [one for one in self.files if not any(new.first <= one.first <= new.last for new in merged)]
        return replace(self, files=tuple(sorted([*kept, *merged], key=lambda one: one.first)))

    def without_changes_before(self, base: Base) -> Self:
        """The lake from this base on: gives up older whole files that hold nothing younger."""
        return replace(
            self,
            bases=(base, *(one for one in self.bases if one.revision > base.revision)),
            files=tuple(one for one in self.files if one.last > base.revision),
            gaps=tuple(one for one in self.gaps if one.last > base.revision),
        )


def _expect_whole(changes: pa.Table, last: int) -> None:
    """The store counts revisions without gaps; the changes from it must, too."""
    import pyarrow.compute as pc

    revisions = pc.unique(changes["revision"]).to_pylist()
    for expected, revision in enumerate(revisions, last + 1):
        if revision != expected:
            raise MissingRevisions(f"after revision {expected - 1} comes {revision}: what lies between is missing")


def _remove_strays(folder: Path, lake: Lake | None) -> None:
    """Remove files that do not count: those of a driver that died, and replaced ones."""
    named = set() if lake is None else {folder / file for file in lake.named}
    for path in [*folder.glob("changes/day=*/*.parquet"), *folder.glob("bases/*")]:
        if path not in named:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _time(ms: int) -> str:
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC).isoformat()
