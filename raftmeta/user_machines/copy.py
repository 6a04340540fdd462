"""One node's copy of a user machine: the object, and what its commands answered. No thread, no node.

It decides what a command's outcome is, the same on every node, and what stays of a command that raises: nothing.
The object is then made again from its last dump, and the commands since are run again without that one. It
must never let an exception of a command out. MachineFault says that this copy cannot go on at all.

A command's outcome is known by the index of its entry. Outcomes are part of the dump, so that a command that is sent
twice gets the same answer from a copy that was loaded; they are forgotten when their session has seen them.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

from raftmeta.errors import InvalidArgument, Rejected
from raftmeta.user_machines.calls import FORMAT_CALL_DEPTH, FORMAT_REJECTED, FORMAT_RESULT, failed_by, failed_outcome
from raftmeta.user_machines.classes import Entry, MachineClass, set_current_entry
from raftmeta.user_machines.recursion_handle import call_within_depth
from raftmeta.user_machines.values import pack, unpack

__all__ = ["Ask", "CommandRecord", "Copy", "Dump", "MachineFault", "News"]

FORMAT_DUMP = 1
# Replicated state depends on them: outcomes kept at most, the oldest go first.
FORMAT_OUTCOMES_MAX = 65_536
FORMAT_OUTCOME_BYTES_MAX = 16 * 1024 * 1024


class CommandRecord(NamedTuple):
    """A command of the log, as raftmeta/machine/user_machines.pxd has it (UserCommand)."""

    entry_index: int
    session: int
    sequence: int
    lowest_unanswered: int
    wall_ms: int
    data: bytes


class Ask(NamedTuple):
    """A question of a client to the copy of its node (UserAsk in raftmeta/engine/user_fetches.pxd).

    entry_index: of the command whose outcome it waits for; of a read, the last one that it must see. call: of a read.
    """

    id: int
    is_outcome: bool
    entry_index: int
    call: bytes


class News(NamedTuple):
    """The news that a node has for its copy (UserNews in raftmeta/engine/user_fetches.pxd)."""

    gives_dump: bool
    last: int
    point: int
    is_late: bool
    dump_index: int
    dump_digest: int
    dump_total: int
    offset: int
    part: bytes
    commands: Sequence[CommandRecord]
    asks: Sequence[Ask]


class Dump(NamedTuple):
    """A copy as bytes. pointer: the last command in it. digest: of the object alone, to compare nodes by."""

    pointer: int
    digest: int
    data: bytes


class MachineFault(Exception):
    """This copy cannot go on."""


class Outcomes:
    """Answers to commands, by index, until their session has seen them or there are too many."""

    def __init__(self, kept: Sequence[Sequence[Any]] = ()) -> None:
        self._by_index: OrderedDict[int, tuple[int, int, bytes]] = OrderedDict()
        self._unseen: dict[int, list[tuple[int, int]]] = {}  # session: heap of (sequence, index)
        self._bytes = 0
        for index, session, sequence, outcome in kept:
            self._keep(index, session, sequence, outcome)

    def get(self, index: int) -> bytes | None:
        """None: not kept any more, or never."""
        found = self._by_index.get(index)
        return None if found is None else found[2]

    def keep(self, record: CommandRecord, outcome: bytes) -> None:
        """The outcome of a command; what its session has seen is forgotten."""
        if record.session == 0:
            return  # nobody can ask for it
        self._forget(record.session, record.lowest_unanswered)
        self._keep(record.entry_index, record.session, record.sequence, outcome)

    def _keep(self, index: int, session: int, sequence: int, outcome: bytes) -> None:
        self._by_index[index] = (session, sequence, outcome)
        heapq.heappush(self._unseen.setdefault(session, []), (sequence, index))
        self._bytes += len(outcome)
        while len(self._by_index) > FORMAT_OUTCOMES_MAX or self._bytes > FORMAT_OUTCOME_BYTES_MAX:
            oldest = next(iter(self._by_index))
            if oldest == index:
                break  # its caller waits for it, however long it is
            self._drop(oldest)

    def _drop(self, index: int) -> None:
        found = self._by_index.pop(index, None)
        if found is not None:
            self._bytes -= len(found[2])

    def _forget(self, session: int, below: int) -> None:
        unseen = self._unseen.get(session, [])
        while unseen and unseen[0][0] < below:
            self._drop(heapq.heappop(unseen)[1])
        if not unseen:
            self._unseen.pop(session, None)

    def dump(self) -> list[list[Any]]:
        """Everything kept, in the order of the log."""
        return [[index, *kept] for index, kept in self._by_index.items()]


# --- the copy ---------------------------------------------------------------------------------------------------------
class Copy:
    """The object of a user machine, made by running its commands in order.

    pointer: index of the last command that ran. version: of the machine, which commands raise. state: the object; who
    looks at it excludes run, dump and load.
    """

    def __init__(self, machine_class: MachineClass) -> None:
        self.machine_class = machine_class
        self.state: Any = machine_class.make()
        self.pointer = 0
        self.version = 1
        self.outcomes = Outcomes()
        self.executed = 0
        self.rejected = 0
        self.failed = 0
        # The object can be made again from its last dump (None: as it was made) and the commands since.
        self._saved: bytes | None = None
        self._since: list[CommandRecord] = []

    def run(self, record: CommandRecord) -> bytes:
        """Run the next command and return its outcome. Raises MachineFault."""
        outcome = self._outcome(record)
        self.executed += 1
        self.outcomes.keep(record, outcome)
        self.pointer = record.entry_index  # last: another thread that sees the pointer finds the outcome
        return outcome

    def dump(self) -> Dump:
        """The copy as it is now. Raises what the class's dump() raises, or InvalidArgument for its attributes."""
        state = self.machine_class.dump(self.state)
        self._saved = state
        self._since = []
        digest = hashlib.blake2b(state, digest_size=8).digest()
        data = pack([FORMAT_DUMP, self.version, state, self.outcomes.dump()])
        return Dump(self.pointer, int.from_bytes(digest, "little"), data)

    def load(self, data: bytes, pointer: int) -> None:
        """Become the copy that was dumped. Raises MachineFault."""
        format_number, version, state, outcomes = unpack(data)
        if format_number != FORMAT_DUMP:
            raise MachineFault(f"its dump has format {format_number}, this version of raftmeta knows {FORMAT_DUMP}")
        self._set_version(version)
        self.state = self._loaded(state)
        self._saved = state
        self._since = []
        self.outcomes = Outcomes(outcomes)
        self.pointer = pointer

    # --- one command --------------------------------------------------------------------------------------------------
    def _outcome(self, record: CommandRecord) -> bytes:
        try:
            name, args, kwargs = unpack(record.data)
        except (InvalidArgument, TypeError, ValueError):
            return failed_outcome("InvalidArgument", "the entry holds no call of a command")
        if name == "":
            return self._upgrade(args)
        if self.machine_class.commands.get(name, self.version + 1) > self.version:
            return failed_outcome("AttributeError", f"version {self.version} of the machine has no command {name!r}")
        try:
            outcome = self._call(self.state, record, name, args, kwargs)
        except MemoryError as error:  # of this host: other nodes may well go on
            raise MachineFault(
                f"{name}() raised MemoryError at entry {record.entry_index} (docs/replicated.md tells the ways out)"
            ) from error
        except BaseException as error:  # SystemExit, too: every node runs this command, and no command ends a process
            self.failed += 1
            self._make_again()
            return failed_by(error)
        self._since.append(record)
        return outcome

    def _call(self, state: Any, record: CommandRecord, name: str, args: list[Any], kwargs: dict[str, Any]) -> bytes:
        set_current_entry(Entry(record.entry_index, record.wall_ms / 1000))
        try:
            return pack(
                [FORMAT_RESULT, call_within_depth(getattr(state, name), tuple(args), kwargs, FORMAT_CALL_DEPTH)]
            )
        except Rejected as rejection:
            self.rejected += 1
            return pack([FORMAT_REJECTED, str(rejection), rejection.details])
        finally:
            set_current_entry(None)

    def _upgrade(self, args: list[Any]) -> bytes:
        (version,) = args
        self._set_version(max(version, self.version))
        return pack([FORMAT_RESULT, self.version])

    def _set_version(self, version: int) -> None:
        if version > self.machine_class.version:
            raise MachineFault(
                f"the machine has version {version}, the class on this node {self.machine_class.version}: update it"
            )
        self.version = version

    # --- the object made again ----------------------------------------------------------------------------------------
    def _loaded(self, state: bytes) -> Any:
        try:
            return self.machine_class.load(state)
        except Exception as error:
            raise MachineFault(f"its dump cannot be loaded: {type(error).__name__}: {error}") from error

    def _make_again(self) -> None:
        """As if the command that raised had not been. The same commands, run again, must do the same again."""
        state = self.machine_class.make() if self._saved is None else self._loaded(self._saved)
        rejected = self.rejected
        for record in self._since:
            name, args, kwargs = unpack(record.data)
            try:
                self._call(state, record, name, args, kwargs)
            except BaseException as error:
                raise MachineFault(
                    f"{name}() ran, and raised {type(error).__name__} when it was run again: it is not deterministic"
                ) from error
        self.rejected = rejected
        self.state = state
        self._save()

    def _save(self) -> None:
        """The next command that raises need not run all of these again."""
        if not self._since:
            return
        try:
            self._saved = self.machine_class.dump(self.state)
        except Exception:
            return  # the dump that is due later says so
        self._since = []
