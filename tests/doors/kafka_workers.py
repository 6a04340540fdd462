"""Connect's workers as a group: two share connectors, and one is killed. Their own programs, asked over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from tests.doors.acceptance.trial import Trial
from tests.doors.kafka_broker import LOGGING
from tests.doors.servers import JAVA
from tests.doors.software import CONNECT, java
from tests.processes.program import Program
from tests.processes.waiting import free_ports, wait_until

CONNECTORS = 4
START_S = 120.0
CHANGE_S = 90.0
ASK_S = 60.0
STOP_S = 60.0


def ask(port: int, path: str, body: dict[str, Any] | None = None) -> Any:
    """GET, or POST of a body; None while the worker cannot answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # the address is our own
        f"http://127.0.0.1:{port}{path}", data=data, headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=ASK_S) as answer:
            return json.load(answer)
    except (OSError, urllib.error.HTTPError):
        return None


def worker(folder: Path, address: str, port: int) -> Program:
    """One of them, which serves HTTP at the port."""
    converter = "org.apache.kafka.connect.json.JsonConverter"
    settings = {
        "bootstrap.servers": address,
        "group.id": "workers",
        "client.id": "connect",
        "listeners": f"http://127.0.0.1:{port}",
        "rest.advertised.host.name": "127.0.0.1",
        "key.converter": converter,
        "value.converter": converter,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
        "scheduled.rebalance.max.delay.ms": 2000,
        **{f"{kind}.storage.topic": f"connect-{kind}" for kind in ("config", "offset", "status")},
        **{f"{kind}.storage.replication.factor": 1 for kind in ("config", "offset", "status")},
        **{f"{kind}.storage.partitions": 1 for kind in ("offset", "status")},
        "plugin.discovery": "service_load",
        "plugin.path": "",
    }
    properties = folder / f"worker{port}.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    logging = folder / "log4j.properties"
    logging.write_text(LOGGING)
    words = [java(), "-Xmx256m", *JAVA, f"-Dlog4j.configuration=file:{logging}", "-cp", CONNECT.class_path()]
    return Program([*words, "org.apache.kafka.connect.cli.ConnectDistributed", properties], log=folder / f"{port}.log")


def places(port: int) -> Counter[str]:
    """How many running connectors and tasks each worker has, by the word of the one at this port."""
    found: Counter[str] = Counter()
    for name in ask(port, "/connectors") or ():
        status = ask(port, f"/connectors/{name}/status") or {}
        parts = [*([status["connector"]] if status else []), *status.get("tasks", ())]
        found.update(part["worker_id"] for part in parts if part["state"] == "RUNNING")
    return found


def share_connectors(trial: Trial, address: str, folder: Path) -> None:
    ports = free_ports(2)
    first, second = (worker(folder, address, port) for port in ports)
    whole = 2 * CONNECTORS  # each has one task
    source = folder / "source.txt"
    source.write_text("one\ntwo\n")
    try:
        with trial.check("connect: join"):
            first.start()
            first.wait_until(
                lambda: ask(ports[0], "/connectors") is not None, timeout_s=START_S, what="a worker serves"
            )
            for number in range(CONNECTORS):
                settings = {"connector.class": "FileStreamSource", "file": str(source), "topic": "connected"}
                wait_until(
                    lambda one=number, given=settings: ask(  # type: ignore[misc]
                        ports[0], "/connectors", {"name": f"source{one}", "config": {**given, "tasks.max": "1"}}
                    ),
                    timeout_s=CHANGE_S,
                    what=lambda: f"a connector to be made\n{first.log_tail()}",
                    pause_s=0.5,
                )
            _wait_places(ports[0], [whole], first)
        with trial.check("connect: rebalance"):
            second.start()
            _wait_places(ports[0], [whole // 2, whole // 2], second)
        with trial.check("connect: kill"):
            second.kill()
            _wait_places(ports[0], [whole], first)
        with trial.check("connect: leave"):
            second.start()
            _wait_places(ports[0], [whole // 2, whole // 2], second)
            second.end(timeout_s=STOP_S)
            _wait_places(ports[0], [whole], first)
            first.end(timeout_s=STOP_S)
    finally:
        first.kill()
        second.kill()


def _wait_places(port: int, counts: list[int], program: Program) -> None:
    wait_until(
        lambda: sorted(places(port).values()) == counts,
        timeout_s=CHANGE_S,
        what=lambda: f"the shares to be {counts}: {places(port)}\n{program.log_tail()}",
        pause_s=0.25,
    )
