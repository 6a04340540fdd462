"""The replicated machine for tests and benchmarks (raftmeta/machine/machine.pxd has the rules)."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from raftmeta.machine import machine_handle

# (key, value, create_revision, mod_revision, version, lease, flags)
_Record: TypeAlias = tuple[bytes, bytes, int, int, int, int, int]
# (after, before or None): after is a tombstone for a delete
_Change: TypeAlias = tuple[_Record, _Record | None]

class Applied(NamedTuple):
    """The effect of one entry: ApplyResult, and in how many slices."""

    entry_index: int
    session: int
    sequence: int
    status: int
    revision: int
    is_duplicate: bool
    body: bytes
    changed: int
    slices: int

class UserStatus(NamedTuple):
    """A user machine; the bytes of its last dump and of the one that is coming."""

    last: int
    point: int
    tail_count: int
    tail_bytes: int
    dump_index: int
    digest: int
    dump: bytes
    staged: bytes

class ApplyFatal(Exception):
    """machine_apply gave APPLY_FATAL: the node would stop. args[0] is the status."""

class MachineHandle(machine_handle.MachineHandle):
    """One machine, applied to by the calling thread; get_shared and range_shared may be called by others."""

    def user(self, name: bytes) -> UserStatus | None:
        """A user machine; None: no command named it."""
    def user_take(self, name: bytes, after: int, bytes_max: int) -> bytes:
        """Commands above index `after`, each a UserCommand with its data."""
    def begin(
        self, payload: bytes, *, entry_type: int = 2, lease_ms: int = 0, wall_ms: int = 0, index: int | None = None
    ) -> None:
        """Make the next entry (index: applied + 1 if not given); slice() applies it."""
    def slice(self, *, slices: int = 1) -> Applied | None:
        """Call machine_apply once; None: APPLY_MORE. Raises ApplyFatal."""
    def apply(
        self, payload: bytes, *, entry_type: int = 2, lease_ms: int = 0, wall_ms: int = 0, index: int | None = None
    ) -> Applied:
        """Apply one entry to its end. Raises ApplyFatal."""
    def prepare_many(self, payloads: list[bytes]) -> None:
        """Make the next entries; apply_prepared() applies them."""
    def apply_prepared(self, *, batch: int = 256) -> list[int]:
        """Apply the prepared entries natively, publish after every batch, and return their statuses."""
    def apply_many(self, payloads: list[bytes], *, batch: int = 256) -> list[int]:
        """Prepare and apply."""
    def publish(self) -> int:
        """Show what is applied to readers of other threads; return the status."""
    def get(self, key: bytes, revision: int = 0) -> tuple[int, _Record | None]:
        """Return (status, record) at revision (0: the newest), on the applying thread."""
    def get_shared(self, key: bytes, revision: int = 0) -> tuple[int, bytes, int]:
        """Return (status, record as msgpack, revision seen) of the published state."""
    def range_shared(
        self,
        key: bytes = b"",
        end: bytes = b"",
        *,
        revision: int = 0,
        limit: int = 0,
        bytes_max: int = 0xFFFFFFFF,
        keys_only: bool = False,
        count_only: bool = False,
        delimiter: bytes = b"",
        skip: int = 0,
    ) -> tuple[int, bytes, int, bool, int]:
        """Return (status, records as msgpack, count, more, revision seen) of the published state."""
    def changes(self, count: int) -> list[_Change]:
        """Return the first count changes of the entry just applied."""
    def history(self, revision: int) -> tuple[int, list[_Change], int]:
        """Return (status, changes, wall_ms) of a revision."""
    def allow(self, name: bytes, right: int, start: bytes, end: bytes | None = None) -> bool:
        """Tell whether the user `name` has a right over [start, end), or over the key `start` if end is None."""
    def due_leases(self, lease_ms: int, most: int = 1000) -> list[tuple[int, int]]:
        """Return (lease, deadline) of those due at lease_ms."""
    def due_sessions(self, lease_ms: int, most: int = 1000) -> list[tuple[int, int]]:
        """Return (session, deadline) of those due at lease_ms."""
    def session_exists(self, session: int) -> bool:
        """Tell whether the session is open."""
    def session_result(self, session: int, sequence: int) -> tuple[int, bytes, int]:
        """Return (status, kept result, revision) of a sequence."""
    def lease(self, lease: int) -> tuple[int, int, int, int]:
        """Return (status, ttl_ms, deadline_ms, attached keys)."""
    def dump(
        self, bytes_max: int = 1 << 16, base: DumpBaseHandle | None = None, prepared_at_once: int = 1 << 16
    ) -> DumpHandle:
        """Begin a dump of the state as it is now, of what changed since base if that holds a dump; once all of it was
        taken, base holds this one. prepared_at_once: records in a slice. Raises ValueError(status) while an entry is
        under way."""
    def dump_base(self) -> DumpBaseHandle:
        """Return a base that holds no dump."""
    def dump_base_loaded(self) -> DumpBaseHandle:
        """Return a base that holds what load_done accepted."""

class DumpBaseHandle:
    """The base of a difference (DumpBase)."""

    def __init__(self, owner: MachineHandle) -> None: ...

class DumpHandle(machine_handle.DumpHandle):
    """A dump that may be a difference, and may leave its base."""
