"""A process that closes a node, or a client, at each line where its main thread may hold a lock.

    python -m tests.node.closing_lines node|client

A signal handler runs between two lines of the main thread, with every lock that the thread holds there. Chance seldom
hits the few lines that matter. So each round stops one call at one line that no round has stopped at, and closes there,
as a handler would. Lines that matter: the body of a `with` over an attribute (a lock, a condition, a mutex), every line
of the module threading that raftmeta calls, and the read of a user machine, which has the object for itself. A round
fails when close() takes longer than half of its limit, or the process hangs.
"""

from __future__ import annotations

import ast
import contextlib
import faulthandler
import functools
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import raftmeta
from tests.client.nodes import serving
from tests.node.nodes import one_node

CLOSE_TIMEOUT_S = 8.0
HANG_S = 60.0
SETTINGS: dict[str, Any] = {"close_timeout_s": CLOSE_TIMEOUT_S, "election_timeout_s": 0.04, "heartbeat_s": 0.01}
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # nothing here is about disks
PACKAGE = str(Path(raftmeta.__file__).parent)

Row = Callable[[Any], object]
Place = tuple[str, int]


@raftmeta.replicated
class Sum:
    """A machine to call."""

    def __init__(self) -> None:
        self.sum = 0

    @raftmeta.command
    def add(self, number: int) -> int:
        self.sum += number
        return self.sum

    def total(self) -> int:
        total = self.sum
        return total


def ignore(_told: object) -> None:
    """A listener."""


# --- what is under way ------------------------------------------------------------------------------------------------


def interfaces(subject: Any) -> None:
    """The four of KIP-30, and the states of the cluster."""
    subject.add_state_listener(ignore)
    subject.remove_state_listener(ignore)
    subject.group("g").add_listener(ignore)
    subject.group("g").join("m", on_lost=ignore)
    subject.group("g").leave("m")
    subject.election("e").nominate("c", on_elected=ignore)
    subject.election("e").add_listener(ignore)
    subject.listeners.add_value_change_listener("k", ignore)
    subject.listeners.remove_value_change_listener("k", ignore)
    subject.storage.put("k", b"v")
    subject.storage.fetch("k").result(timeout=30)
    subject.election("e").close()


def machines(subject: Any) -> None:
    machine = subject.replicated("sum", Sum)
    machine.add(1)
    machine.total()
    machine.total(local=True)


def client_machines(subject: Any) -> None:
    subject.replicated("sum", Sum).add(1)


def recipes(subject: Any) -> None:
    raftmeta.recipes.Lock(subject, "l").acquire().release()
    queue = raftmeta.recipes.Queue(subject, "q")
    queue.put(b"")
    queue.take().done()
    queue.close()
    subject.lease(5, on_lost=ignore).revoke()
    with subject.watch(prefix="", callback=ignore):
        subject.put("k", b"v")


ROWS: dict[str, list[Row]] = {
    "node": [interfaces, machines, recipes],
    "client": [interfaces, recipes, client_machines],
}
# Whose lines: a node's rounds stop in the recipes, which are the same for all.
FOLDERS = {
    "node": (PACKAGE,),
    "client": (f"{PACKAGE}/client/", f"{PACKAGE}/common/"),
}


# --- lines ------------------------------------------------------------------------------------------------------------


@functools.cache
def locked_lines(file: str) -> frozenset[int]:
    """Those below a `with self._lock`."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(Path(file).read_text())):
        if not isinstance(node, ast.With | ast.AsyncWith):
            continue
        if any(isinstance(item.context_expr, ast.Attribute) for item in node.items):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return frozenset(lines)


def matters(frame: FrameType, folders: tuple[str, ...]) -> bool:
    file = frame.f_code.co_filename
    if file == threading.__file__:
        return frame.f_back is not None and frame.f_back.f_code.co_filename.startswith((*folders, threading.__file__))
    if file == __file__:
        return frame.f_code is Sum.total.__code__
    return file.startswith(folders) and frame.f_lineno in locked_lines(file)


class Stopper:
    """Closes at the first line that matters and that was not tried."""

    def __init__(self, close: Callable[[], object], folders: tuple[str, ...], tried: set[Place]) -> None:
        self._close = close
        self._folders = folders
        self._tried = tried
        self.place: Place | None = None
        self.took_s = 0.0

    def trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        if not frame.f_code.co_filename.startswith((PACKAGE, threading.__file__, __file__)):
            return None
        place = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and place not in self._tried and matters(frame, self._folders):
            sys.settrace(None)
            self._tried.add(place)
            self.place = place
            began_s = time.monotonic()
            self._close()
            self.took_s = time.monotonic() - began_s
            return None
        return self.trace


# --- rounds -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def subject_of(kind: str) -> Iterator[Callable[[], contextlib.AbstractContextManager[Any]]]:
    """Makes one node or client for each round."""
    with contextlib.ExitStack() as stack:
        if kind == "client":
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            nodes, url = stack.enter_context(serving(Path(folder)))
            nodes["a"].replicated("sum", Sum)
            yield lambda: raftmeta.Client(url)
        else:
            yield new_node


@contextlib.contextmanager
def new_node() -> Iterator[raftmeta.Node]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, one_node(Path(folder), **SETTINGS) as node:
        yield node


def main(kind: str) -> int:
    with subject_of(kind) as new_subject:
        for row in ROWS[kind]:
            tried: set[Place] = set()
            while True:
                faulthandler.dump_traceback_later(HANG_S, exit=True)
                with new_subject() as subject:
                    stopper = Stopper(subject.close, FOLDERS[kind], tried)
                    sys.settrace(stopper.trace)
                    try:
                        row(subject)
                    except (raftmeta.RaftmetaError, TimeoutError):
                        pass
                    finally:
                        sys.settrace(None)
                if stopper.place is None:
                    break
                if stopper.took_s > CLOSE_TIMEOUT_S / 2:
                    print(f"close() took {stopper.took_s:.1f} s at {stopper.place}", file=sys.stderr)
                    return 1
            faulthandler.cancel_dump_traceback_later()
            print(f"{kind} {row.__name__}: {len(tried)} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
