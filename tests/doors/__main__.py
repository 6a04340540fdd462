"""./build.sh doors [NAME ...]: real clients on our doors, or on a real ZooKeeper or Kafka, which proves the clients.

python -m tests.doors                       every acceptance but the long one, on three nodes of raftmeta
python -m tests.doors kazoo kafka           only these
python -m tests.doors --on zookeeper        on a real ZooKeeper 3.9
python -m tests.doors kafka_kills --minutes 10
python -m tests.doors kazoo --kill-every 5  each server in turn is killed while no client is connected to it
python -m tests.doors kafka --result kafka.json   keep the checks and their times
python -m tests.doors traces --on zookeeper --write     write the lines that are expected anew
python -m tests.doors etcd                  the back end etcd:// on real servers of etcd
python -m tests.doors etcd_door             etcdctl on the etcd door and on a real etcd: both say the same
python -m tests.doors etcd_clients          etcd's recipes in Go, etcd3gw and etcd:// on three nodes with etcd doors
python -m tests.doors etcd_kills            etcd's recipes in Go while servers are killed
python -m tests.doors etcd_kubernetes       10,000 objects by the library that kube-apiserver asks etcd by
python -m tests.doors etcd_trace            messages of etcd's client in Go, on the etcd door and on a real etcd
python -m tests.doors etcd_snapshot         a snapshot of the door in etcdutl, and in a real etcd
python -m tests.doors etcd_suites           the test suites of etcd3gw and aetcd
python -m tests.doors patroni_etcd          Patroni with PostgreSQL over its etcd3 section, on nodes with etcd doors
python -m tests.doors --on etcd             clients of etcd on a real etcd 3.7, which proves the programs
python -m tests.doors --on kafka            clients of Kafka on a real Kafka 3.9
python -m tests.doors groups --on kafka --only "java|aiokafka"      only these clients
python -m tests.doors groups --on raftmeta  the same clients on three nodes of raftmeta with a Kafka door
python -m tests.doors records --on raftmeta clients produce and read records there
python -m tests.doors topics --on raftmeta  Kafka's tools for topics there
python -m tests.doors broker --on raftmeta  the same on brokers in Python, which keep records in files of their own
python -m tests.doors group_churn           100 consumers of one group through the Kafka door, while they and nodes fail
python -m tests.doors group_table --on kafka --write        what a real Kafka answers for a group in each state
python -m tests.doors dashboard             the dashboard in a real Chromium; --write: the pictures of docs/dashboard.md

A line for each check; the exit code is 0 if all hold. A client that cannot be had is said, and is a failure.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.doors.acceptance.trial import Trial
from tests.doors.servers import KINDS
from tests.doors.software import Missing

NAMES = (
    *("traces", "zkcli", "curator", "clickhouse", "spark", "patroni", "read_only", "kafka", "kafka_sasl", "kazoo"),
    *("migrate", "assignors"),
)
LONG = ("kafka_kills",)
# Our back ends on the real servers of others. `--on` means nothing to them.
BACK_ENDS = ("etcd", "consul", "cassandra", "rest", "stores")
# Clients of etcd on nodes of raftmeta with etcd doors; etcdctl beside a real etcd.
OF_ETCD_DOOR = (
    "etcd_door",
    "etcd_clients",
    "etcd_trace",
    "etcd_snapshot",
    "etcd_kills",
    "etcd_kubernetes",
    "etcd_suites",
    "patroni_etcd",
)
OF_ETCD = ("etcd_kills", "etcd_kubernetes", "etcd_suites", "patroni_etcd")
# It needs a file that no package index has.
OF_PYSYNCOBJ = ("pysyncobj",)
# A real browser on a page of ours.
OF_BROWSER = ("dashboard",)
# Members and nodes fail for Trial.minutes.
OF_MEMBERS = ("group_churn",)
# Of Kafka's protocol: on a real Kafka, and on nodes of raftmeta with a Kafka door.
OF_KAFKA = ("kafka_messages", "groups", "topics", "group_table")
OF_KAFKA_DOOR = ("groups", "records", "topics", "broker", "group_table")
KINDS_OF_OTHERS = {"kafka": OF_KAFKA, "raftmeta": OF_KAFKA_DOOR, "etcd": OF_ETCD}
OF_NO_KIND = (*BACK_ENDS, *OF_ETCD_DOOR, *OF_PYSYNCOBJ, *OF_BROWSER, *OF_MEMBERS)
NAMES_OF_ALL = (*NAMES, *LONG, *OF_NO_KIND, *OF_KAFKA, "records", "broker")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./build.sh doors", description=__doc__.split("\n")[0])
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of {', '.join(NAMES_OF_ALL)}",
    )
    parser.add_argument(
        "--on", choices=sorted([*KINDS, *KINDS_OF_OTHERS]), default="door", help="the servers; door by default"
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="of an acceptance with faults")
    parser.add_argument(
        "--only",
        default="",
        metavar="WORDS",
        help="tests of kazoo's suite, as pytest's -k; clients of groups, as a|b; group_churn: kinds of members",
    )
    parser.add_argument(
        "--kill-every", type=float, default=0.0, metavar="S", help="kazoo: kill a server that no client uses, and so on"
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="zkcli, traces, those of Kafka: write what is expected; dashboard: pictures",
    )
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs, also when all is well")
    parser.add_argument("--reports", type=Path, metavar="FOLDER", help="keep the outcomes of conformance suites there")
    parser.add_argument("--result", type=Path, metavar="FILE", help="write checks and times there, as JSON")
    options = parser.parse_args()
    known = KINDS_OF_OTHERS.get(options.on, (*NAMES, *LONG, *OF_NO_KIND))
    if unknown := set(options.names) - {*known}:
        parser.error(f"no such acceptance on {options.on}: {', '.join(sorted(unknown))}")
    return options


def attempt(trial: Trial, options: argparse.Namespace) -> None:
    """Run one acceptance; whatever ends it early is a check that failed."""
    module = importlib.import_module(f"tests.doors.acceptance.{trial.name}")
    write = {"write": options.write}
    own = {
        "kazoo": {"only": options.only, "kill_s": options.kill_every},
        "groups": {"only": options.only, **write},
        **{name: {"only": options.only} for name in ("stores", "group_churn")},
        **dict.fromkeys(("zkcli", "traces", "assignors", "kafka_messages", "group_table", "dashboard"), write),
    }.get(trial.name, {})
    try:
        module.run(trial, **own)
    except Missing as error:
        trial.add("it can be had", 0, str(error))
    except Exception as error:
        if trial.holds or not trial.checks:
            trial.add("it runs to its end", 0, f"{type(error).__name__}: {error}")
            traceback.print_exc()


def whole_result(trials: list[Trial], options: argparse.Namespace) -> dict[str, Any]:
    """The trials, and what they were run with."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    words = [*options.names, "--on", options.on, "--minutes", f"{options.minutes:g}"]
    return {
        "command": " ".join(["./build.sh doors", *words]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "processors": os.cpu_count(),
        "trials": [trial.result() for trial in trials],
    }


def main() -> int:
    options = arguments()
    began_s = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="raftmeta-doors-"))
    trials = []
    for name in options.names or KINDS_OF_OTHERS.get(options.on, NAMES):
        place = folder / name
        place.mkdir()
        trial = Trial(name, options.on, place, minutes=options.minutes, reports=options.reports)
        attempt(trial, options)
        trials.append(trial)
        if options.result is not None:
            options.result.write_text(json.dumps(whole_result(trials, options), indent=2) + "\n")
    is_good = all(trial.holds for trial in trials)
    print("\n".join(f"{trial.name}: {trial.verdict()}" for trial in trials))
    print(f"{time.monotonic() - began_s:.0f} s on {options.on}")
    if is_good and not options.keep:
        shutil.rmtree(folder)
    else:
        print(f"logs: {folder}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
