"""Kafka goes on while the servers below it fail, another one every ten seconds (Trial.minutes), and brokers are killed.

A server is killed, stopped, cut off from the other servers while its clients still reach it, or cut off from everybody.
In every third round a broker is killed, too: the controller, and the next time another one.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack

from tests.doors.acceptance.kafka import BROKERS, TAKEOVER_S, Brokers, Watched, judge, watched
from tests.doors.acceptance.trial import Trial
from tests.processes.waiting import wait_until

SEED = 1
FAULT_S = 10.0
TOPICS = 2  # made and deleted in each round
BROKER_ROUNDS = 3  # in one of so many a broker is killed


def run(trial: Trial) -> None:
    with watched(trial.servers()) as over:
        brokers = Brokers(trial.folder, over.connect)
        try:
            with trial.check("brokers start"):
                for program in brokers.programs:
                    program.start()
                brokers.client.start()
                brokers.ask(f"brokers {BROKERS}")
                brokers.ask("topic steady 3 3")
            with trial.check(f"{trial.minutes:g} minutes of faults"):
                brokers.ask("faults")
                brokers.ask("steady steady")
                counts = Faults(over, brokers).run(60 * trial.minutes)
            trial.tell("faults: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
            with trial.check("no acknowledged record is lost"):
                brokers.ask(f"brokers {BROKERS}")
                brokers.ask("led 3")
                trial.tell(brokers.ask("steady-end steady"))
            with trial.check("Kafka's tool finds no fault"):
                for fault in ("--unavailable-partitions", "--under-replicated-partitions"):
                    told = brokers.tool(
                        "org.apache.kafka.tools.TopicCommand",
                        *("--bootstrap-server", brokers.bootstrap, "--describe", fault),
                    )
                    assert "Partition:" not in told, told
        finally:
            brokers.close()
        judge(trial, over)


class Faults:
    """Rounds of faults. counts: of each kind, and of what was seen of the controller."""

    def __init__(self, over: Watched, brokers: Brokers) -> None:
        self._over = over
        self._brokers = brokers
        self._choice = random.Random(SEED)
        self._counts: Counter[str] = Counter()
        self._down: int | None = None  # the broker that was killed, until it is started again
        servers = over.servers
        self._kinds: dict[str, tuple[Callable[[int], None], Callable[[int], None]]] = {
            "kill": (servers.kill, servers.restart),
            "stop": (servers.pause, servers.resume),
            "cut off from clients": (self._hold, self._pass_on),
        }
        if servers.can_be_cut_off:
            self._kinds["cut off from servers"] = (servers.cut_off, servers.heal)
            self._kinds["cut off from all"] = (self._isolate, self._join)

    def _hold(self, number: int) -> None:
        self._over.taps[number].hold()

    def _pass_on(self, number: int) -> None:
        self._over.taps[number].pass_on()

    def _isolate(self, number: int) -> None:
        self._hold(number)
        self._over.servers.cut_off(number)

    def _join(self, number: int) -> None:
        self._over.servers.heal(number)
        self._pass_on(number)

    def run(self, seconds: float) -> Counter[str]:
        deadline = time.monotonic() + seconds
        kinds: list[str] = []
        while time.monotonic() < deadline:
            if not kinds:
                kinds = self._choice.sample(sorted(self._kinds), len(self._kinds))
            self._round(self._counts["rounds"], kinds.pop())
            self._counts["rounds"] += 1
        self._start_broker()
        return self._counts

    def _round(self, number: int, kind: str) -> None:
        """A server fails, topics come and go, the server comes back."""
        begun_s = time.monotonic()
        victim = self._choice.randrange(len(self._over.servers.addresses))
        fail, mend = self._kinds[kind]
        self._counts[kind] += 1
        with ExitStack() as stack:
            self._over.unwell.add(victim)
            stack.callback(self._over.unwell.discard, victim)
            stack.callback(mend, victim)
            fail(victim)
            self._start_broker()
            if number % BROKER_ROUNDS == BROKER_ROUNDS - 1:
                self._kill_broker(is_controller=number // BROKER_ROUNDS % 2 == 0)
            self._work(number)
            while time.monotonic() < begun_s + FAULT_S:  # Kafka goes on working with a server less
                self._brokers.ask("led 1")
                self._look()
        self._look()

    def _work(self, number: int) -> None:
        ask = self._brokers.ask
        ask(f"topics round{number}- {TOPICS} 2 2")
        ask(f"produce round{number}-0 100")
        ask(f"consume round{number}-0 100")
        ask(f"delete round{number}-")

    def _look(self) -> None:
        """Note the epochs of now."""
        self._over.controller()
        for broker in range(BROKERS):
            self._over.is_gone(broker)

    def _kill_broker(self, *, is_controller: bool) -> None:
        controller = wait_until(self._controllers, timeout_s=TAKEOVER_S, what="a controller", pause_s=0.1)[0]
        others = [broker for broker in range(BROKERS) if broker != controller]
        self._down = controller if is_controller else self._choice.choice(others)
        self._counts["controller killed" if is_controller else "broker killed"] += 1
        self._brokers.programs[self._down].kill()
        self._brokers.ask(f"brokers {BROKERS - 1}")

    def _controllers(self) -> list[int]:
        found = self._over.controller()
        return [] if found is None else [found]

    def _start_broker(self) -> None:
        """A broker does not start while its last life is registered."""
        down, self._down = self._down, None
        if down is None:
            return
        wait_until(
            lambda: self._over.is_gone(down), timeout_s=TAKEOVER_S, what=f"the end of broker {down}", pause_s=0.1
        )
        self._brokers.programs[down].start()
        self._brokers.ask(f"brokers {BROKERS}")
