"""A process that closes nodes and clients at random moments, from random threads and from a signal handler.

    python -m tests.node.closing node|alone|leader|client SEED ROUNDS

node: a cluster of one. alone: a member of three that never had a quorum. leader: one of three that leads and has nobody
to hand over to. client: clients of one node. In each round random calls are under way on the main thread, which the
signal handler interrupts, and on others. A round fails when a close() takes longer than its limit, a call ends with
anything but an error of raftmeta, or the process hangs or dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import itertools
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import raftmeta
from raftmeta.testing import Cluster
from tests.client.nodes import serving
from tests.node.nodes import make_nodes

CLOSE_TIMEOUT_S = 4.0
SLACK_S = 4.0  # of a busy machine
HANG_S = 60.0
SETTINGS: dict[str, Any] = {"close_timeout_s": CLOSE_TIMEOUT_S}

Rows = list[Callable[[Any, random.Random], object]]


@raftmeta.replicated
class Sum:
    """A machine to call."""

    def __init__(self) -> None:
        self.sum = 0

    @raftmeta.command
    def add(self, number: int) -> int:
        self.sum += number
        return self.sum

    def dump(self) -> Any:
        return self.sum

    def load(self, dump: Any) -> None:
        self.sum = dump


class Stop(BaseException):
    """What a signal handler raises to end the main thread, as sys.exit does."""


class Litter:
    """In a cycle: its collection runs Python code wherever an object is made, and lets other threads run."""

    def __init__(self) -> None:
        self.cycle = self

    def __del__(self) -> None:
        time.sleep(0)


# --- what is under way ------------------------------------------------------------------------------------------------


def litter(subject: Any, rng: random.Random) -> None:
    for _ in range(rng.randrange(20)):
        Litter()


def pairs(rng: random.Random) -> Iterator[Any]:
    """Encoding it runs Python code."""
    for number in range(rng.randrange(1, 5)):
        Litter()
        yield raftmeta.operations.Put(f"t{number}", b"v")


def follow(subject: Any, rng: random.Random) -> None:
    with subject.watch(prefix="", timeout_s=0.02) as watch:
        for _ in itertools.islice(watch, 50):
            Litter()


def hold(subject: Any, rng: random.Random) -> None:
    with subject.lease(5, timeout_s=1) as lease:
        lease.wait_lost(0.01)


def lead(subject: Any, rng: random.Random) -> None:
    for term in subject.election(f"e{rng.randrange(3)}").terms(f"c{rng.random()}"):
        if term.wait_lost(rng.random() / 20):
            break
        break


def on_loop(subject: Any, rng: random.Random) -> None:
    async def work() -> None:
        face = subject.aio() if isinstance(subject, raftmeta.Node) else raftmeta.aio.Client(subject.url)
        calls = [face.put("k", b"v"), face.get("k"), face.group("aio").join(f"m{rng.random()}")]
        if rng.random() < 0.5:
            calls += [face.close(), face.close()]
        await asyncio.gather(*[asyncio.wait_for(call, 1) for call in calls], return_exceptions=True)
        await face.close()

    asyncio.run(work())


def common(subject: Any, rng: random.Random) -> Rows:
    timeout_s = rng.choice([0.0, 0.05, 1.0, 5.0])
    return [
        litter,
        follow,
        hold,
        lead,
        on_loop,
        lambda s, r: s.put("k", b"v", timeout_s=timeout_s),
        lambda s, r: s.put_many([(f"k{i}", b"v") for i in range(100)], timeout_s=timeout_s),
        lambda s, r: s.txn(then=pairs(r), timeout_s=timeout_s),
        lambda s, r: s.get("k", timeout_s=timeout_s),
        lambda s, r: s.range(prefix="", timeout_s=timeout_s),
        lambda s, r: s.members(timeout_s=timeout_s),
        lambda s, r: s.ready(timeout_s),
        lambda s, r: s.status(),
        lambda s, r: s.metrics(),
        lambda s, r: s.group("g").join(f"m{r.random()}", on_lost=lambda _: None),
        lambda s, r: s.group("g").add_listener(lambda _: None),
        lambda s, r: s.election("e").nominate(f"c{r.random()}"),
        lambda s, r: s.election("e").add_listener(lambda _: None),
        lambda s, r: s.storage.fetch("k").result(timeout=30),
        lambda s, r: s.listeners.add_value_change_listener("k", lambda _: None),
        lambda s, r: raftmeta.recipes.Lock(s, "l").acquire(timeout_s=0.05).release(),
        lambda s, r: s.replicated("sum", Sum).add(1, timeout_s=timeout_s),
    ]


def of_node(subject: Any, rng: random.Random) -> Rows:
    return [
        *common(subject, rng),
        lambda s, r: s.get("k", local=True),
        lambda s, r: s.range(prefix="", local=True),
        lambda s, r: s.watch(prefix="", callback=lambda _: time.sleep(0)),
        lambda s, r: s.transfer(timeout_s=0.1),
        lambda s, r: list(itertools.islice(s.events(timeout_s=0.01), 100)),
        lambda s, r: s.owner,
    ]


# --- a round ----------------------------------------------------------------------------------------------------------


class Round:
    """One node or client, those who use it and those who close it."""

    def __init__(self, subject: Any, rng: random.Random, rows: Callable[[Any, random.Random], Rows]) -> None:
        self.subject = subject
        self.rng = rng
        self.rows = rows
        self.over = threading.Event()
        self.failures: list[str] = []

    def close(self) -> None:
        began_s = time.monotonic()
        self.subject.close()
        took_s = time.monotonic() - began_s
        if took_s > CLOSE_TIMEOUT_S + SLACK_S:
            self.failures.append(f"close() took {took_s:.1f} s")

    def call(self, seed: float) -> None:
        rng = random.Random(seed)
        while not self.over.is_set():
            try:
                rng.choice(self.rows(self.subject, rng))(self.subject, rng)
            except (raftmeta.NodeClosed, raftmeta.Fatal):
                threading.Event().wait(0.001)
            except raftmeta.RaftmetaError:
                pass
            except Exception as error:
                self.failures.append(f"{type(error).__name__}: {error}")
                raise

    def close_later(self, pause_s: float) -> None:
        self.over.wait(pause_s)
        self.close()

    def run(self, begin: Callable[[], object]) -> None:
        """begin: starts the node, on the main thread; it may be closed meanwhile."""
        rng = self.rng
        by_signal = rng.random() < 0.7
        closers = [threading.Thread(target=self.close_later, args=(rng.random() / 5,)) for _ in range(rng.randrange(3))]
        callers = [threading.Thread(target=self.call, args=(rng.random(),)) for _ in range(rng.randrange(3))]
        raises = rng.random() < 0.5

        def on_signal(*_: object) -> None:
            self.close()
            self.over.set()
            if raises:
                raise Stop

        signal.signal(signal.SIGALRM, on_signal)
        is_early = rng.random() < 0.3
        try:
            if is_early and by_signal:
                signal.setitimer(signal.ITIMER_REAL, 0.0001 + rng.random() / 10)
            for closer in closers if is_early else ():
                closer.start()
            with contextlib.suppress(raftmeta.RaftmetaError):
                begin()
            if not is_early and by_signal:
                signal.setitimer(signal.ITIMER_REAL, 0.0001 + rng.random() / 5)
            for thread in callers if is_early else callers + closers:
                thread.start()
            if by_signal:
                self.call(rng.random())
        except Stop:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.close()
        self.over.set()
        for thread in [*closers, *callers]:
            if thread.ident is not None:
                thread.join()


def rounds(kind: str, seed: int, count: int) -> Iterator[tuple[Round, Callable[[], object]]]:
    if kind == "client":
        with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as (_, url):
            for number in range(count):
                yield Round(raftmeta.Client(url), random.Random(f"{seed} {number}"), common), lambda: None
        return
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        if kind == "leader":
            with Cluster(3) as cluster:
                node = cluster.leader()
                for follower in cluster.followers():
                    cluster.kill(follower)
                yield Round(node, rng, of_node), lambda: None
            continue
        with tempfile.TemporaryDirectory() as folder:
            node = make_nodes(Path(folder), names="a" if kind == "node" else "abc", **SETTINGS)["a"]
            yield Round(node, rng, of_node), node.start


def main(kind: str, seed: int, count: int) -> int:
    sys.setswitchinterval(1e-4)
    gc.set_threshold(50)
    for number, (round, begin) in enumerate(rounds(kind, seed, count)):
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        round.run(begin)
        faulthandler.cancel_dump_traceback_later()
        if round.failures:
            print(f"round {number} of seed {seed}: {round.failures}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
