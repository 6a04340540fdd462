"""A program of etcd's client in Go on a real etcd and on the door: the same messages, once what differs is masked."""

from __future__ import annotations

import difflib

from tests.doors.acceptance.trial import Trial
from tests.doors.etcd_servers import ETCD_KINDS
from tests.doors.software import go_client
from tests.processes.program import run_program

RUN_S = 180.0
PARTS = ("keys", "transactions", "leases", "watches", "recipes", "compaction", "maintenance")
MESSAGES_MIN = 250


def run(trial: Trial) -> None:
    program = go_client("EtcdTrace")
    said: dict[str, dict[str, list[str]]] = {}
    for kind, start in ETCD_KINDS.items():
        log = trial.folder / f"{kind}.log"
        with trial.check(f"the program on {kind}"), start(trial.folder / kind, members=1) as server:
            run_program([program, server.addresses[0]], log=log, timeout_s=RUN_S)
        said[kind] = _parts(log.read_text())
    for part in PARTS:
        wanted, told = said["etcd"][part], said["door"][part]
        differs = list(difflib.unified_diff(wanted, told, "etcd", "the door", lineterm="", n=1))
        trial.add(f"{part}: {len(told)} lines", 0, "\n".join(["", *differs]) if differs else "")
    count = sum(line.startswith((">", "<", "!")) for lines in said["door"].values() for line in lines)
    trial.add(f"{count} messages", 0, "" if count >= MESSAGES_MIN else "too few")


def _parts(text: str) -> dict[str, list[str]]:
    """Without the lines of the client's own log."""
    parts: dict[str, list[str]] = {}
    for line in text.splitlines():
        word, _, name = line.partition(" ")
        if word == "part":
            parts[name] = []
        elif parts and not line.startswith("{"):
            parts[list(parts)[-1]].append(line)
    return parts
