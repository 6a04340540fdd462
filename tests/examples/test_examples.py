"""The examples run as they are printed: as scripts, in processes of their own."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka

from examples.broker import Broker
from tests.doors.broker_nodes import PythonBrokers
from tests.processes.waiting import free_addresses, wait_until

ROOT = Path(__file__).resolve().parents[2]
IDS = ("1", "2", "3")


@contextmanager
def scripts(
    name: str, arguments: Callable[[str], list[str]], *, ids: Sequence[str] = IDS
) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """One process for each id; whatever is left of them at the end is killed."""
    started = {
        id: subprocess.Popen([sys.executable, str(ROOT / "examples" / name), *arguments(id)], cwd=ROOT) for id in ids
    }
    try:
        yield started
    finally:
        for process in started.values():
            process.kill()
            process.wait()


def asked(address: str, line: str) -> str:
    """The answer of an asyncio broker, "" while nobody listens."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(line.encode() + b"\n")
            return connection.makefile().readline().strip()
    except ConnectionError:
        return ""


def test_asyncio_brokers_serve_topics_and_replace_a_killed_controller(tmp_path: Path) -> None:
    """What the elected controller creates every broker tells; after kill -9 another one is the controller."""
    peers = [f"{id}={address}" for id, address in zip(IDS, free_addresses(3), strict=True)]
    serving = dict(zip(IDS, free_addresses(3), strict=True))
    with scripts("broker_asyncio.py", lambda id: [id, str(tmp_path / id), serving[id], *peers]) as brokers:

        def controllers(among: list[str]) -> set[str]:
            return {asked(serving[id], "CONTROLLER") for id in among}

        def is_known() -> bool:
            told = controllers([*IDS])
            return len(told) == 1 and "" not in told

        wait_until(is_known, timeout_s=40, what="one controller")
        (controller,) = controllers([*IDS])
        other = next(id for id in IDS if id != controller)
        assert asked(serving[other], "CREATE t").startswith(f"ERROR ask the controller, broker {controller}")
        assert asked(serving[controller], "CREATE t").startswith("OK")
        wait_until(lambda: {asked(serving[id], "TOPICS") for id in IDS} == {"t"}, timeout_s=20, what="the topic")
        brokers[controller].kill()
        left = [id for id in IDS if id != controller]
        wait_until(lambda: controllers(left) <= set(left), timeout_s=40, what="another controller")
        wait_until(
            lambda: any(asked(serving[id], "CREATE u").startswith("OK") for id in left), timeout_s=20, what="CREATE"
        )


def test_brokers_as_scripts_join_and_their_partitions_move_when_they_leave(tmp_path: Path) -> None:
    """Two scripts, and the third broker here: a topic on all three; one that is interrupted leads nothing any more."""
    addresses = dict(zip(IDS, free_addresses(3), strict=True))
    peers = [f"{id}={address}" for id, address in addresses.items()]
    own = Broker(3, {int(id): address for id, address in addresses.items()}, tmp_path / "3")
    with scripts("broker.py", lambda id: [id, str(tmp_path / id), *peers], ids=IDS[:2]) as brokers:
        own.start()
        try:
            wait_until(lambda: own.brokers.membership_list() == set(IDS), timeout_s=40, what="three members")
            topic = {"version": 1, "partitions": {"0": [1, 2, 3]}}
            state = {"controller_epoch": 0, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1, 2, 3]}
            own.node.put("/brokers/topics/t", json.dumps(topic))
            own.node.put("/brokers/topics/t/partitions/0/state", json.dumps(state))
            brokers["1"].send_signal(signal.SIGINT)
            assert brokers["1"].wait(20) == 0
            key = "/brokers/topics/t/partitions/0/state"
            wait_until(lambda: own.states.get(key, ({},))[0].get("isr") == [2, 3], timeout_s=40, what="a smaller ISR")
            moved = own.states[key][0]
            assert (moved["leader"], moved["leader_epoch"]) == (2, 1)
            assert moved["controller_epoch"] > 0
        finally:
            own.close()


def test_workers_in_processes_of_their_own_do_each_job_once(tmp_path: Path) -> None:
    """As printed on its first page; every job has its result, and more than one process worked or could have."""
    command = [sys.executable, str(ROOT / "examples/worker_pool.py"), str(tmp_path / "a"), "3", "20"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr
    results = [line.split() for line in ended.stdout.splitlines()]
    assert [(key, int(square)) for key, square, *_ in results] == [
        (f"results/{number:04}", number * number) for number in range(20)
    ]


def test_tasks_of_killed_workers_go_to_the_others(tmp_path: Path) -> None:
    """As printed on its first page: 100 tasks on five workers, then on the three that are left."""
    command = [sys.executable, str(ROOT / "examples/shared_tasks.py"), str(tmp_path / "a"), "5", "2"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr
    before, after = (dict(share.split(":") for share in line.split()) for line in ended.stdout.splitlines())
    assert before == dict.fromkeys("01234", "20")
    assert sorted(after.values()) == ["33", "33", "34"] and set(after) == set("234")


def test_a_registry_that_is_frozen_while_it_leads_is_fenced(tmp_path: Path) -> None:
    """As printed on its first page: leaders change by a freeze, a wake-up and a kill, and each number is given once."""
    command = [sys.executable, str(ROOT / "examples/schema_leader.py"), str(tmp_path / "a"), "3"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr
    lines = [line for line in ended.stdout.splitlines() if "refused" not in line]
    assert lines == [*(f"host-{number} leads" for number in (0, 1, 0, 1)), "each number once: True"]


def test_partitions_of_killed_and_frozen_brokers_go_on_without_a_gap(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples/sharded_broker.py"), str(tmp_path / "a"), "3", "12"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "broker-0 broker-1 broker-2",
        "broker-1 broker-2",
        "broker-2",
        "broker-1 broker-2",
        "no offset is missing: True",
    ]


def test_topics_have_the_shapes_that_kafka_keeps(tmp_path: Path) -> None:
    (address,) = free_addresses(1)
    broker = Broker(1, {1: address}, tmp_path / "1")
    broker.start()
    try:
        wait_until(lambda: broker.lead is not None, timeout_s=20, what="its lead")
        broker.create_topics(["t"], partitions=2)
        wait_until(lambda: len(broker.states) == 2, timeout_s=20, what="the metadata")
        record = broker.node.get("/brokers/topics/t")
        assert record is not None
        assert json.loads(record.value) == {"version": 1, "partitions": {"0": [1], "1": [1]}}
        assert broker.lead is not None
        state, _ = broker.states["/brokers/topics/t/partitions/0/state"]
        wanted = {"controller_epoch": broker.lead.epoch, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1]}
        assert state == wanted
    finally:
        broker.close()


def test_a_broker_in_python_keeps_its_records_over_a_kill(tmp_path: Path) -> None:
    """A real client produces, the broker is killed, its file gets half a batch at its end, and it starts again."""
    numbers = [b"%d" % number for number in range(40)]
    with PythonBrokers(tmp_path, names="a") as brokers:
        settings = {"bootstrap.servers": brokers.address, "enable.idempotence": True, "batch.num.messages": 5}
        for half in (numbers[:20], numbers[20:]):
            producer = confluent_kafka.Producer(settings)
            for number in half:
                producer.produce("t", number)
            assert producer.flush(30) == 0
            brokers.programs["a"].kill()
            (file,) = (tmp_path / "a" / "logs").rglob("0.log")
            with file.open("ab") as log:
                log.write(file.read_bytes()[:70])
            brokers.start("a")
            brokers.await_serving("a")
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": brokers.address, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["t"])
        found: list[bytes] = []

        def has_all() -> bool:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append(message.value())
            return len(found) >= len(numbers)

        wait_until(has_all, timeout_s=60, what="all records")
        consumer.close()
        assert found == numbers
