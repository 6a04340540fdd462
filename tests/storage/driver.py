"""A log on a simulated disk beside the dumbest model of it: a dictionary of what was acknowledged.

LogDriver does one thing at a time and knows two states: what must be there (acknowledged) and what may be there instead
(the operation under way when the power failed). `recover` opens the log again and checks that it is one of the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from raftmeta.storage.storage_handle import DiskError
from tests.faces.disk import SimulatedDisk
from tests.faces.storage import OpenedLog, WalHandle, make_record, record_fields
from tests.storage.names import Status, WalState

Point = tuple[int, int, int]


@dataclass(frozen=True)
class LogModel:
    """What a log holds; records[i] is the record of index start[0] + 1 + i."""

    begun: bool = False
    start: Point = (0, 0, 0)
    compacted: int = 0  # the log may begin anywhere up to here
    records: tuple[bytes, ...] = field(default=(), repr=False)
    hard_state: Point = (0, 0, 0)

    @property
    def last(self) -> int:
        return self.start[0] + len(self.records)

    def chain_before(self, index: int) -> int:
        if index == self.start[0] + 1:
            return self.start[2]
        return record_fields(self.records[index - self.start[0] - 2])[2]

    def point(self, index: int) -> Point:
        if index == self.start[0]:
            return self.start
        found, term, chain, _ = record_fields(self.records[index - self.start[0] - 1])
        return found, term, chain

    def written(self, first: int, records: list[bytes]) -> LogModel:
        return replace(self, records=self.records[: first - self.start[0] - 1] + tuple(records))

    def shows(self, opened: OpenedLog) -> bool:
        """Whether an opened log is exactly this one, less what compaction allows."""
        if not self.begun:
            return opened.state == WalState.WAL_BLANK
        if opened.state not in (WalState.WAL_CLEAN, WalState.WAL_TORN_TAIL) or opened.damaged:
            return False
        gone = opened.start[0] - self.start[0]
        return (
            opened.hard_state == self.hard_state
            and self.start[0] <= opened.start[0] <= max(self.compacted, self.start[0])
            and opened.start == self.point(opened.start[0])
            and (opened.first, opened.last) == (opened.start[0] + 1, self.last)
            and tuple(opened.records) == self.records[gone:]
        )


@dataclass
class LogDriver:
    """Operations on a log; each returns False when the power failed under it."""

    disk: SimulatedDisk
    limits: dict[str, int] = field(default_factory=dict)
    model: LogModel = LogModel()
    pending: LogModel | None = None
    wal: WalHandle | None = None

    def open(self) -> OpenedLog | None:
        if self.wal is not None:
            self.wal.close()
        self.wal = WalHandle(self.disk, **self.limits)
        opened = self.wal.open()
        if opened.status == Status.POWER_CUT:
            return None
        assert opened.status == Status.OK
        fates = [self.model] if self.pending is None else [self.model, self.pending]
        shown = [fate for fate in fates if fate.shows(opened)]
        assert shown, (opened.state, opened.start, opened.last, opened.hard_state, opened.damaged, fates)
        self.model, self.pending = shown[0], None
        return opened

    def attempt(self, status: int, after: LogModel) -> bool:
        """Note what an operation that returned status did or may have done."""
        assert status in (Status.OK, Status.POWER_CUT), status
        if status == Status.OK:
            self.model = after
            return True
        self.pending = after
        return False

    def begin(self, point: Point = (0, 0, 0), hard_state: Point = (1, 0, 0)) -> bool:
        after = LogModel(begun=True, start=point, compacted=point[0], hard_state=hard_state)
        return self.attempt(self.wal.begin(point, hard_state, b"membership" * 5), after)

    def append(self, sizes: list[int], *, back: int = 0, hard_state: Point | None = None) -> bool:
        """Write records with payloads of these sizes, the first of them `back` entries below the end."""
        first = max(self.model.last + 1 - back, self.model.compacted + 1)
        term = self.model.hard_state[0]
        chain = self.model.chain_before(first)
        records = []
        for position, size in enumerate(sizes):
            payload = bytes([(first + position + term) % 251]) * size
            record, chain = make_record(first + position, term, payload, previous_chain=chain)
            records.append(record)
        after = self.model.written(first, records) if records else self.model
        if hard_state is not None:
            after = replace(after, hard_state=hard_state)
        # Two slices, so that a batch is not always one piece of memory.
        slices = [b"".join(records[: len(records) // 2]), b"".join(records[len(records) // 2 :])]
        status = self.wal.append(first, [part for part in slices if part], hard_state=hard_state)
        return self.attempt(status, after)

    def compact(self, index: int) -> bool:
        index = max(self.model.compacted, min(index, self.model.last))
        return self.attempt(self.wal.compact(self.model.point(index)), replace(self.model, compacted=index))

    def prepare(self, size_bytes: int) -> bool:
        status = self.wal.prepare(size_bytes)[0]
        try:
            for name in self.disk.list_names():
                self.disk.close_file(self.disk.open(name))
        except DiskError:  # a spare file that cannot be made is no failure of the log, but the power is gone
            status = Status.POWER_CUT
        return self.attempt(status, self.model)

    def idle(self) -> bool:
        return self.attempt(self.wal.idle(), self.model)

    def kill(self) -> bool:
        """End the process and start it again: the cache survives."""
        self.disk.reopen()
        return self.open() is not None

    def crash(self) -> bool:
        """Cut the power and start again."""
        self.disk.crash()
        return self.open() is not None
