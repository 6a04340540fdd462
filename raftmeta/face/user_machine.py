"""A user machine on one node: the thread that runs its copy, and those who call its commands and reads.

    the copy's thread       fetch (blocks without the GIL) -> commands -> Copy.run, one by one -> whoever waits for it
    a caller                command into the log -> index of its entry -> its outcome, when this node's copy ran it
    a reader                a read round -> wait for the copy -> the method, on the caller's thread

It decides who waits for what, and which dump is sent. It must never hold up the node (its loop answers a
fetch and forgets it), or run a command anywhere but on the copy's thread.

When a copy has run the command at the machine's point, it makes a dump; the leader sends its own, and any node does
when the leader's does not come. A copy whose digest differs from that of the dump that was adopted has diverged: it
reports that and loads the dump. A copy that lags behind a dump loads it instead of running what is in it.
"""

from __future__ import annotations

import contextlib
import copy as copies
import heapq
import itertools
import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

from raftmeta.common.apart import ApartThread
from raftmeta.common.flags import Flag
from raftmeta.errors import (
    ConfigError,
    Fatal,
    InvalidArgument,
    MachineStopped,
    NodeClosed,
    NotExecuted,
    OutcomeTimeout,
    OutcomeUnknown,
    Overloaded,
    RaftmetaError,
    ReadyTimeout,
    Rejected,
)
from raftmeta.face.node import Node
from raftmeta.face.user_port import DIVERGED, FAILED, STOPPED, UNDUMPED, UserPort, deadline_of, seconds_left
from raftmeta.user_machines.calls import (
    COMMAND_OPTIONS,
    FORMAT_REJECTED,
    FORMAT_RESULT,
    READ_OPTIONS,
    check_options,
    check_version,
    failed_by,
    failed_outcome,
    no_method,
    packed_call,
    packed_upgrade,
    split_options,
    value_of,
)
from raftmeta.user_machines.classes import MachineClass, machine_class_of
from raftmeta.user_machines.copy import (
    Ask,
    CommandRecord,
    Copy,
    Dump,
    MachineFault,
    News,
)
from raftmeta.user_machines.values import pack, unpack

__all__ = ["LocalCopy", "PendingCall", "UserMachine", "local_copy"]

TUNE_PART_BYTES = 512 * 1024  # of a dump, in one entry
PLAIN = (type(None), bool, int, float, str, bytes)
log = logging.getLogger(__name__)


class Waiter(Protocol):
    """Somebody to be told, on the copy's thread: when a command ran, with its outcome; or that it will not."""

    def tell(self, outcome: bytes | None, error: RaftmetaError | None) -> None: ...


class ThreadWaiter:
    """A thread that sleeps until it is told."""

    def __init__(self) -> None:
        self._told = Flag()
        self._outcome: bytes | None = None
        self._error: RaftmetaError | None = None

    def tell(self, outcome: bytes | None, error: RaftmetaError | None) -> None:
        self._outcome, self._error = outcome, error
        self._told.set()

    def wait(self, deadline_ns: int) -> bool:
        """False: the time is up."""
        return self._told.wait(seconds_left(deadline_ns))

    def result(self) -> bytes | None:
        if self._error is not None:
            raise self._error
        return self._outcome


class _Asker:
    """A client of this node that waits for an outcome, or until its read may be made."""

    def __init__(self, local: LocalCopy, ask: Ask) -> None:
        self._local = local
        self._ask = ask

    def tell(self, outcome: bytes | None, error: RaftmetaError | None) -> None:
        if error is None and not self._ask.is_outcome:
            outcome = self._local.answer_read(self._ask.call)
        with contextlib.suppress(RaftmetaError):  # the node has ended, and with it whoever asked
            self._local.port.answer(self._ask.id, outcome)


class FairLock:
    """A lock that whoever waits gets next: without it a busy copy would keep readers waiting for a whole batch."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._lock = threading.Lock()
        self._threads: list[int] = []  # that have it, or wait for it

    def is_wanted_here(self) -> bool:
        """Whether this very thread has it, or waits for it, below a signal handler."""
        return threading.get_ident() in self._threads

    def acquire(self, *, timeout_s: float | None = None, blocking: bool = True) -> bool:
        limit = -1.0 if timeout_s is None else timeout_s
        if not blocking:
            limit = 0.0
        self._threads.append(threading.get_ident())
        has_it = False
        try:
            has_it = self._acquire(limit)
        finally:
            if not has_it:
                self._threads.remove(threading.get_ident())
        return has_it

    def _acquire(self, limit: float) -> bool:
        if not (self._gate.acquire(timeout=limit) if limit else self._gate.acquire(blocking=False)):
            return False
        try:
            return self._lock.acquire(timeout=limit) if limit else self._lock.acquire(blocking=False)
        finally:
            self._gate.release()

    def release(self) -> None:
        self._lock.release()
        self._threads.remove(threading.get_ident())

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_exc: object) -> None:
        self.release()


class LocalCopy:
    """This node's copy of one user machine; several callers, threads and event loops share it.

    Each waiter is in a list that has no lock, because a signal handler that closes the node on this thread waits for
    the copy's thread. Every step is one call of C, which nothing interrupts (_hand_out, await_outcome, await_pointer).
    """

    def __init__(self, node: Node, name: str, machine_class: MachineClass, place: int) -> None:
        self.name = name
        self.machine_class = machine_class
        self.port = UserPort(node, name, place)
        self.copy = Copy(machine_class)
        self.diverged = 0
        self.lag = 0  # commands of the last fetch that have not run yet
        self.unseen: dict[int, None] = {}  # sequences of this node's calls whose callers still wait
        self._calls_max = node.config.outstanding_max
        self._state_lock = FairLock()
        self._waiting: dict[int, list[Waiter]] = {}  # by index
        self._readers: list[tuple[int, int, Waiter]] = []  # heap of (pointer, number, reader)
        self._numbers = itertools.count()
        # Why nothing runs any more: for calls under way, and for reads.
        self._ended: RaftmetaError | None = None
        self._unreadable: RaftmetaError | None = None
        self._runs_no_more = False  # the node was closed
        self._stopped = ""  # why this copy cannot go on
        # Of dumps; the copy's thread only.
        self._dump_seen = 0
        self._must_load = False
        self._loading = bytearray()
        self._made: Dump | None = None
        self._sender: threading.Thread | None = None
        self._thread = ApartThread(self._main, f"raftmeta-machine-{name}")

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """After the node was closed: wait for the command that runs. No command runs after it.

        Below a signal handler that closes, this thread may have the object for a read: then no command runs, and the
        copy's thread waits for that read.
        """
        self._runs_no_more = True
        if not self._thread.is_this() and not self._state_lock.is_wanted_here():
            self._thread.wait(timeout_s)

    @property
    def is_stopped(self) -> bool:
        return bool(self._stopped)

    # --- the copy's thread --------------------------------------------------------------------------------------------
    def _main(self) -> None:
        try:
            self.port.await_cluster()
            self.port.join()
            while True:
                self._take(
                    self.port.fetch(0 if self._must_load else self.copy.pointer, self._dump_seen, len(self._loading))
                )
        except MachineFault as fault:
            self._stop(str(fault))
        except (NotExecuted, OutcomeUnknown, Fatal) as error:
            message = f"the node ended before its copy of {self.name!r} was that far: {error}"
            self._end(OutcomeUnknown(message), NodeClosed(message))
        except BaseException as error:
            log.exception("user machine stopped machine=%s", self.name)
            self._stop(f"{type(error).__name__}: {error}")

    def _take(self, news: News) -> None:
        for ask in news.asks:
            if ask.is_outcome:
                self.await_outcome(ask.entry_index, _Asker(self, ask))
            else:
                self.await_pointer(ask.entry_index, _Asker(self, ask))
        if news.gives_dump:
            self._take_dump(news)
            return
        if self._has_diverged(news):
            return
        self.lag = len(news.commands)
        for record in news.commands:
            self._run(record)
            self.lag -= 1
            if record.entry_index == news.point:
                self._make_dump()
        self._send_dump(news)

    def _run(self, record: CommandRecord) -> None:
        failed = self.copy.failed
        with self._state_lock:
            if self._runs_no_more:
                raise NodeClosed("the node is closed")
            outcome = self.copy.run(record)
        self._tell(record.entry_index, outcome)
        if self.copy.failed != failed:
            self.port.tell(FAILED, record.entry_index)

    def _tell(self, index: int, outcome: bytes | None) -> None:
        """Tell those who wait for the command at index, or for the copy to be that far."""
        self._hand_out(self._waiting.pop(index, []), outcome, None)
        self._tell_readers()

    def _hand_out(self, told: list[Waiter], outcome: bytes | None, error: RaftmetaError | None) -> None:
        """Tell each of these once: also one who looks whether it came too late (await_outcome) takes it out first."""
        while told:
            with contextlib.suppress(IndexError):  # it was taken meanwhile
                told.pop(0).tell(outcome, error)

    def _tell_readers(self) -> None:
        """Those whose command the copy has run; all of them when it runs nothing any more."""
        while self._readers:
            try:
                reader = heapq.heappop(self._readers)
            except IndexError:
                return  # taken meanwhile
            is_behind = self.copy.pointer < reader[0]
            if not is_behind or self._unreadable is not None:
                reader[2].tell(None, self._unreadable if is_behind else None)
                continue
            heapq.heappush(self._readers, reader)
            # 1. It is back; 2. we look again. Who runs that command 3. moves the pointer and 4. looks at the readers.
            if self.copy.pointer < reader[0] and self._unreadable is None:
                return

    def _stop(self, reason: str) -> None:
        """This copy cannot go on; the node and its other machines do."""
        log.error("user machine stopped machine=%s reason=%s", self.name, reason)
        self._stopped = reason
        message = f"this node's copy of {self.name!r} stopped: {reason}"
        self._end(
            OutcomeUnknown(f"{message}; other nodes may have run the command"), MachineStopped(message, reason=reason)
        )
        with contextlib.suppress(RaftmetaError):  # the node may have ended meanwhile
            self.port.leave()
            self.port.tell(STOPPED, self.copy.pointer)

    def _end(self, for_calls: RaftmetaError, for_reads: RaftmetaError) -> None:
        self._ended, self._unreadable = for_calls, for_reads
        while self._waiting:
            self._hand_out(self._waiting.popitem()[1], None, for_calls)
        self._tell_readers()

    # --- dumps --------------------------------------------------------------------------------------------------------
    def _make_dump(self) -> None:
        try:
            with self._state_lock:
                self._made = self.copy.dump()
        except MemoryError as error:
            raise MachineFault("MemoryError in its dump()") from error
        except Exception as error:
            log.error("user machine not dumped machine=%s error=%s: %s", self.name, type(error).__name__, error)
            self._made = None
            self.port.tell(UNDUMPED, self.copy.pointer)

    def _send_dump(self, news: News) -> None:
        """The leader sends the dump that is due; any node does when it is late."""
        made = self._made
        if made is None or made.pointer != news.point or (self._sender is not None and self._sender.is_alive()):
            return
        if news.is_late or self.port.is_leader():
            self._sender = threading.Thread(target=self._send, args=(made,), name="raftmeta-dump", daemon=True)
            self._sender.start()

    def _send(self, made: Dump) -> None:
        part_bytes = min(TUNE_PART_BYTES, self.port.value_bytes_max())
        offset = 0
        try:
            while offset < len(made.data):
                part = made.data[offset : offset + part_bytes]
                offset = self.port.send_part(made.digest, part, made.pointer, offset, len(made.data))
        except RaftmetaError as error:
            # Another dump was adopted, or there is no leader now: whoever runs the next commands tries again.
            log.debug("dump not sent machine=%s pointer=%d error=%s", self.name, made.pointer, error)

    def _has_diverged(self, news: News) -> bool:
        """Compare this copy with the dump that was adopted, if they can be compared."""
        if news.dump_index == self._dump_seen:
            return False
        self._dump_seen = news.dump_index
        made, self._made = self._made, None
        if made is None or made.pointer != news.dump_index or made.digest == news.dump_digest:
            return False
        self.diverged += 1
        self._must_load = True
        log.error("user machine diverged machine=%s index=%d", self.name, news.dump_index)
        self.port.tell(DIVERGED, news.dump_index)
        return True

    def _take_dump(self, news: News) -> None:
        if news.dump_index != self._dump_seen or news.offset != len(self._loading):
            self._loading.clear()
            self._dump_seen = news.dump_index
            if news.offset != 0:
                return  # ask again, from its beginning
        self._loading += news.part
        if len(self._loading) < news.dump_total:
            return
        data, self._loading = bytes(self._loading), bytearray()
        self._must_load = False
        self._made = None
        with self._state_lock:
            self.copy.load(data, news.dump_index)
        for index in [index for index in list(self._waiting) if index <= news.dump_index]:
            outcome = self.copy.outcomes.get(index)
            if outcome is None:
                self._tell_lost(index)
            else:
                self._tell(index, outcome)
        self._tell(0, None)

    def _tell_lost(self, index: int) -> None:
        self._hand_out(self._waiting.pop(index, []), None, _not_kept(self.name))

    # --- callers ------------------------------------------------------------------------------------------------------
    def check(self) -> None:
        """Whether calls may be made here. Raises NotExecuted or Fatal."""
        self.port.check()
        if self._stopped:
            raise MachineStopped(f"this node's copy of {self.name!r} stopped: {self._stopped}", reason=self._stopped)
        if self._thread.is_this():
            raise InvalidArgument("name: a command cannot call its own machine through the node", field="name")

    def check_room(self) -> None:
        if len(self.unseen) >= self._calls_max:
            raise Overloaded(f"{self._calls_max} calls of {self.name!r} are under way on this node")

    def await_outcome(self, index: int, waiter: Waiter) -> None:
        """Tell the waiter the outcome of the command at index: now, or when it ran."""
        if index > self.copy.pointer and self._ended is None:
            waiters = self._waiting.setdefault(index, [])
            waiters.append(waiter)
            # 1. It waits; 2. we look again. Who runs that command 3. moves the pointer and 4. takes who waits. So 2
            # sees the pointer, or 4 sees the waiter; and whoever takes it out of its list tells it.
            if index > self.copy.pointer and self._ended is None:
                return
            try:
                waiters.remove(waiter)
            except ValueError:
                return  # told
        outcome = self.copy.outcomes.get(index) if index <= self.copy.pointer else None
        waiter.tell(outcome, None if outcome is not None else self._ended or _not_kept(self.name))

    def await_pointer(self, pointer: int, waiter: Waiter) -> None:
        """Tell the waiter when the copy has run the command at pointer: now or later."""
        is_behind = self.copy.pointer < pointer
        if is_behind and self._unreadable is None:
            heapq.heappush(self._readers, (pointer, next(self._numbers), waiter))
            if self.copy.pointer >= pointer or self._unreadable is not None:  # meanwhile: as in await_outcome
                self._tell_readers()
            return
        waiter.tell(None, self._unreadable if is_behind else None)

    def read(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a read on the object; the caller holds state_lock. The caller owns the result."""
        self.check()
        result = getattr(self.copy.state, name)(*args, **kwargs)
        return result if type(result) in PLAIN else copies.deepcopy(result)

    def answer_read(self, call: bytes) -> bytes:
        """The outcome of a read that a client asks for, on the copy's thread. It may wait as long as a command."""
        try:
            name, args, kwargs = unpack(call)
            if name not in self.machine_class.reads:
                return failed_outcome("AttributeError", f"the class on the node has no read {name!r}")
            with self._state_lock:
                return pack([FORMAT_RESULT, getattr(self.copy.state, name)(*args, **kwargs)])
        except Rejected as rejection:
            return pack([FORMAT_REJECTED, str(rejection), rejection.details])
        except Exception as error:
            return failed_by(error)

    @property
    def state_lock(self) -> FairLock:
        return self._state_lock

    def lag_error(self, pointer: int) -> ReadyTimeout:
        return ReadyTimeout(
            f"this node's copy of {self.name!r} has not run command {pointer} yet; it is at {self.copy.pointer}"
        )

    def metrics(self) -> dict[str, int]:
        return {
            "pointer": self.copy.pointer,
            "version": self.copy.version,
            "lag": self.lag,
            "commands": self.copy.executed,
            "rejected": self.copy.rejected,
            "failed": self.copy.failed,
            "calls_under_way": len(self.unseen),
            "dump": self._dump_seen,
            "diverged": self.diverged,
            "is_stopped": int(self.is_stopped),
        }


def _not_kept(name: str) -> OutcomeUnknown:
    return OutcomeUnknown(f"the command of {name!r} was applied; what it answered is no longer kept")


def local_copy(node: Node, name: str, cls: type) -> LocalCopy:
    """The copy of the machine on this node, made at the first call. Raises ConfigError, InvalidArgument, NodeClosed."""
    machine_class = machine_class_of(cls)
    found = node.user_machines.get(name)
    if found is None:
        found = LocalCopy(node, name, machine_class, len(node.user_machines))
        found.port.check()
        node.user_machines[name] = found
        found.start()
    if found.machine_class is not machine_class:
        raise ConfigError(f"cls: {name!r} is a {found.machine_class.cls.__qualname__} on this node", field="cls")
    return found


# --- the blocking face ------------------------------------------------------------------------------------------------
class PendingCall:
    """A command whose caller ran out of time; it goes on, and is applied at most once."""

    def __init__(self, local: LocalCopy, sequence: int, index: int, pending: Any = None) -> None:
        self._local = local
        self._sequence = sequence
        self._index = index
        self._pending = pending  # of the command in the log, while its index is not known

    def result(self, timeout_s: float | None = 5.0) -> Any:
        """Return the command's answer. Raises Rejected, CommandFailed, OutcomeUnknown (OutcomeTimeout: ask again)."""
        deadline_ns = deadline_of(timeout_s)
        if self._pending is not None:
            try:
                self._index = self._pending.result(timeout_s)
            except OutcomeTimeout as error:
                error.ticket = self
                raise
            self._pending = None
        waiter = ThreadWaiter()
        self._local.await_outcome(self._index, waiter)
        if not waiter.wait(deadline_ns):
            raise OutcomeTimeout(
                f"the command is in the log; this node's copy of {self._local.name!r} has not run it yet", ticket=self
            )
        try:
            outcome = waiter.result()
        finally:
            self.forget()
        assert outcome is not None
        return value_of(outcome)

    def forget(self) -> None:
        """Its caller has seen the answer, or will never ask."""
        self._local.unseen.pop(self._sequence, None)

    def __del__(self) -> None:
        self.forget()


class UserMachine:
    """A user machine as callers of a blocking node see it: the methods of its class, and a few of its own.

    Commands and reads take the options timeout_s (5 seconds), commands also fence, reads also local.
    """

    def __init__(self, local: LocalCopy) -> None:
        self._local = local

    def __getattr__(self, name: str) -> Callable[..., Any]:
        machine_class = self._local.machine_class
        if name in machine_class.commands:
            method: Callable[..., Any] = _Command(self._local, name)
        elif name in machine_class.reads:
            method = _Read(self._local, name)
        else:
            raise no_method(machine_class, name)
        self.__dict__[name] = method
        return method

    def upgrade(self, version: int | None = None, *, timeout_s: float | None = 5.0) -> int:
        """Raise the version of the machine, by default to that of this node's class; return what it is then.

        Call it when every node runs a class that has the version: the copy of a node with an older one stops.
        """
        wanted = self._local.machine_class.version if version is None else version
        check_version(self._local.machine_class, wanted)
        upgraded: int = call(self._local, packed_upgrade(wanted), None, timeout_s)
        return upgraded

    def metrics(self) -> dict[str, int]:
        """Counters of this node's copy; `lag`: commands that it has fetched and not run."""
        return self._local.metrics()

    def __repr__(self) -> str:
        return f"<UserMachine {self._local.name!r} of {self._local.machine_class.cls.__qualname__}>"


def call(local: LocalCopy, data: bytes, fence: Any, timeout_s: float | None) -> Any:
    """Put a command into the log and wait until this node's copy ran it."""
    deadline_ns = deadline_of(timeout_s)
    local.check()
    local.check_room()
    try:
        sequence, index = local.port.call(data, fence, local.unseen, deadline_ns)
    except OutcomeTimeout as error:
        sequence, pending = error.ticket
        error.ticket = PendingCall(local, sequence, 0, pending)
        raise
    return PendingCall(local, sequence, index).result(seconds_left(deadline_ns))


class _Command:
    """A command of a machine, bound to its node."""

    def __init__(self, local: LocalCopy, name: str) -> None:
        self._local = local
        self.__name__ = name
        self.__doc__ = getattr(local.machine_class.cls, name).__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        options = split_options(kwargs)
        check_options(self.__name__, options, COMMAND_OPTIONS)
        data = packed_call(self.__name__, args, kwargs)
        return call(self._local, data, options.get("fence"), options.get("timeout_s", 5.0))


class _Read:
    """A read of a machine, bound to its node."""

    def __init__(self, local: LocalCopy, name: str) -> None:
        self._local = local
        self.__name__ = name
        self.__doc__ = getattr(local.machine_class.cls, name).__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        options = split_options(kwargs)
        check_options(self.__name__, options, READ_OPTIONS)
        deadline_ns = deadline_of(options.get("timeout_s", 5.0))
        local = self._local
        local.check()
        if not options.get("local", False):
            self._catch_up(deadline_ns)
        if not local.state_lock.acquire(timeout_s=seconds_left(deadline_ns)):
            raise local.lag_error(local.copy.pointer + 1)
        try:
            return local.read(self.__name__, args, kwargs)
        finally:
            local.state_lock.release()

    def _catch_up(self, deadline_ns: int) -> None:
        """Linearizable: this node's copy has run every command that was answered anywhere before the read began."""
        pointer = self._local.port.read_round(deadline_ns)
        waiter = ThreadWaiter()
        self._local.await_pointer(pointer, waiter)
        if not waiter.wait(deadline_ns):
            raise self._local.lag_error(pointer)
        waiter.result()
