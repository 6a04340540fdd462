"""Kafka goes on while the servers below it are killed and stopped, one every ten seconds (Trial.minutes)."""

from __future__ import annotations

import random
import time

from tests.doors.acceptance.kafka import BROKERS, Brokers, Watched, judge, watched
from tests.doors.acceptance.trial import Trial

SEED = 1
FAULT_S = 10.0
TOPICS = 2  # made and deleted in each round


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
                brokers.ask("steady steady")
                rounds = faults(trial, over, brokers)
            trial.tell(f"{rounds} rounds")
            with trial.check("no acknowledged record is lost"):
                brokers.ask("led 3")
                trial.tell(brokers.ask("steady-end steady"))
        finally:
            brokers.close()
        judge(trial, over)


def faults(trial: Trial, over: Watched, brokers: Brokers) -> int:
    """How many rounds: a server is killed or stopped, topics come and go, the server comes back."""
    choice = random.Random(SEED)
    deadline = time.monotonic() + 60 * trial.minutes
    rounds = 0
    while time.monotonic() < deadline:
        begun_s = time.monotonic()
        victim, is_kill = choice.randrange(len(over.servers.addresses)), choice.random() < 0.5
        (over.servers.kill if is_kill else over.servers.pause)(victim)
        try:
            topics = f"topics round{rounds}- {TOPICS} 2 3"
            brokers.ask(topics)
            brokers.ask(f"produce round{rounds}-0 100")
            brokers.ask(f"consume round{rounds}-0 100")
            brokers.ask(f"delete round{rounds}-")
            while time.monotonic() < begun_s + FAULT_S:  # Kafka goes on working with a server less
                brokers.ask("led 1")
        finally:
            (over.servers.restart if is_kill else over.servers.resume)(victim)
        over.controller()
        rounds += 1
    return rounds
