"""The tools of a check in the conformance suite, and the collection of checks.

A check is a function with a sentence. The sentence is true of every back end, or of those that declare a capability. A
check gets a Kit: some back ends of one cluster that know nothing of each other, names that nobody used before, and
processes that may be killed or frozen. It raises CheckFailed, or returns.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from raftmeta import Capabilities
from raftmeta.interfaces import Backend

__all__ = ["CHECKS", "Check", "CheckFailed", "Kit", "Servers", "Told", "check", "equal", "eventually", "raises"]

EVENTUALLY_S = 20.0
LOOK_S = 0.005
COMMAND_S = 300.0


class CheckFailed(AssertionError):
    """The back end does not do what the sentence says."""


@dataclass(frozen=True, slots=True)
class Check:
    """needs: the check runs only with this capability. lacks: it runs only without this one.

    parties: how many independent back ends the check needs. processes: it kills or freezes some.
    servers: it crashes the servers that all back ends talk to. one_server: "kill" or "freeze", if it does so to one.
    """

    interface: str
    sentence: str
    run: Callable[[Kit], None]
    needs: str
    lacks: str
    parties: int
    processes: bool
    servers: bool
    one_server: str

    @property
    def name(self) -> str:
        return f"{self.interface}: {self.sentence}"

    def is_promised(self, capabilities: Capabilities) -> bool:
        promised = getattr(capabilities, self.needs) if self.needs else True
        has_needed = promised < float("inf") if self.needs == "ttl_precision_s" else bool(promised)
        return has_needed and not (self.lacks and getattr(capabilities, self.lacks))


CHECKS: list[Check] = []


def check(
    interface: str,
    sentence: str,
    *,
    needs: str = "",
    lacks: str = "",
    parties: int = 1,
    processes: bool = False,
    servers: bool = False,
    one_server: str = "",
) -> Callable[[Callable[[Kit], None]], Callable[[Kit], None]]:
    """Collect a function as a check."""

    def collect(run: Callable[[Kit], None]) -> Callable[[Kit], None]:
        CHECKS.append(Check(interface, sentence, run, needs, lacks, parties, processes, servers, one_server))
        return run

    return collect


# --- saying what must hold --------------------------------------------------------------------------------------------
def equal(found: Any, wanted: Any, what: str) -> None:
    if found != wanted:
        raise CheckFailed(f"{what}: {found!r}, not {wanted!r}")


@contextmanager
def raises(kind: type[BaseException], what: str) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    except Exception as error:
        raise CheckFailed(f"{what}: {error!r}, not {kind.__name__}") from error
    raise CheckFailed(f"{what}: nothing was raised, not {kind.__name__}")


def eventually(condition: Callable[[], bool], what: str, *, timeout_s: float = EVENTUALLY_S) -> None:
    end_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end_s:
            raise CheckFailed(f"{what}: not within {timeout_s:g} s")
        time.sleep(LOOK_S)


class Told:
    """A listener that keeps every change."""

    def __init__(self) -> None:
        self.changes: list[Any] = []
        self.was_called = threading.Event()

    def __call__(self, change: Any) -> None:
        self.changes.append(change)
        self.was_called.set()

    def until(self, condition: Callable[[Any], bool], what: str) -> Any:
        """The first change for which the condition holds."""
        found: list[Any] = []

        def is_found() -> bool:
            found[:] = [change for change in list(self.changes) if condition(change)][:1]
            return bool(found)

        eventually(is_found, f"{what} (told so far: {self.changes!r:.300})")
        return found[0]


# --- back ends and processes ------------------------------------------------------------------------------------------
class Party:
    """A back end in a process of its own, which may be killed, frozen and woken. See participant.py for the verbs.

    options: for its command line.
    """

    def __init__(self, url: str, options: Sequence[str] = ()) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "raftmeta.conformance.participant", *options, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self._read()  # it is connected
        except BaseException:
            self.kill()
            raise

    def ask(self, verb: str, *arguments: Any) -> Any:
        """Do the verb in the process. Raises CheckFailed with the error from there."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([verb, *arguments]) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise CheckFailed(f"the other process ended by itself with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise CheckFailed(f"in the other process: {answer['error']}")
        return answer["result"]

    def freeze(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def wake(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End the process as kill -9 does; on return it is gone. Killing it twice does nothing."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()


class Servers:
    """The servers that all back ends of a kit talk to, which commands of a shell crash, kill, freeze and start.

    stop: returns when every server is gone, as by kill -9. start: returns when they are started over the same folders
    and addresses. kill: kills one server, of so many that the others are a majority. freeze: stops one by a signal (or
    its network), so that it is silent and not gone. heal: undoes what kill or freeze did. A command that fails, or
    takes more than COMMAND_S, fails the check; "" stands for one that is not there.
    """

    def __init__(self, *, start: str = "", stop: str = "", kill: str = "", freeze: str = "", heal: str = "") -> None:
        self._start, self._stop, self._heal = start, stop, heal
        self._one = {"kill": kill, "freeze": freeze}

    @property
    def can_crash(self) -> bool:
        """Whether all of them may be crashed."""
        return bool(self._start and self._stop)

    def can(self, fault: str) -> bool:
        """Whether one server may be put through "kill" or "freeze"."""
        return bool(self._one[fault] and self._heal)

    def crash(self) -> None:
        """Stop all of them, then start them again."""
        self._run(self._stop)
        self._run(self._start)

    @contextmanager
    def one(self, fault: str) -> Iterator[None]:
        """One server is killed or frozen inside the block, and healed behind it."""
        self._run(self._one[fault])
        try:
            yield
        finally:
            self._run(self._heal)

    def _run(self, command: str) -> None:
        # Files, not pipes: a server that is started keeps what it inherits open, and nobody would see the end.
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                ["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
            try:
                code = process.wait(COMMAND_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise CheckFailed(f"{command!r} took more than {COMMAND_S:g} s") from None
            output.seek(0)
            if code != 0:
                raise CheckFailed(f"{command!r} ended with {code}: {output.read().decode(errors='replace')[-500:]}")


class Kit:
    """One back end for each URL. party_url: for processes of their own; None: such checks do not run.

    has_owners: the URL takes an option `owner`; else two processes of one URL are lives of one owner.
    servers: how to crash the servers that the back ends talk to; None: such checks do not run.
    is_aio: the processes of their own use the asyncio face, too. plugin: "module:object", where the back end is that
    serves the URLs, for those processes; "": it is installed.
    """

    def __init__(
        self,
        backends: Sequence[Backend],
        *,
        party_url: str | None,
        has_owners: bool = False,
        servers: Servers | None = None,
        is_aio: bool = False,
        plugin: str = "",
    ) -> None:
        self.servers = servers
        self._options = ["--aio"] * is_aio + (["--backend", plugin] if plugin else [])
        self.backends = list(backends)
        self.party_url = party_url
        self.has_owners = has_owners
        self._numbers = itertools.count(1)
        self._run = f"{os.getpid():x}{time.time_ns():x}"
        self._parties: list[Party] = []

    @property
    def first(self) -> Backend:
        return self.backends[0]

    @property
    def second(self) -> Backend:
        return self.backends[1]

    @property
    def second_or_first(self) -> Backend:
        """The second back end, or the first if there is only one."""
        return self.backends[-1]

    def crash_servers(self) -> None:
        """Crash all servers at once, and start them again; on return they may not answer yet."""
        assert self.servers is not None
        self.servers.crash()

    @property
    def capabilities(self) -> Capabilities:
        return self.first.capabilities

    def name(self, word: str) -> str:
        """A name that nobody used before."""
        return f"{word}-{self._run}-{next(self._numbers)}"

    def party(self, owner: str = "") -> Party:
        """A back end in a process of its own. owner: the name that it gives, for back ends that know owners."""
        assert self.party_url is not None
        mark = "&" if "?" in self.party_url else "?"
        url = f"{self.party_url}{mark}owner={owner}" if owner and self.has_owners else self.party_url
        party = Party(url, self._options)
        self._parties.append(party)
        return party

    def end_parties(self) -> None:
        for party in self._parties:
            party.kill()
        self._parties.clear()
