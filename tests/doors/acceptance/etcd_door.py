"""etcdctl 3.7.3 on a real etcd 3.7.3 and on the etcd door: both say the same, once what differs is masked.

Both begin empty, so that revisions are compared as they are.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import raftmeta
from tests.conformance.etcd_cluster import EtcdCluster
from tests.doors.acceptance.trial import Trial
from tests.doors.software import etcdctl
from tests.processes.waiting import free_addresses

READY_S = 60.0
COMMAND_S = 60.0

# A command, and its standard input.
COMMANDS: tuple[tuple[str, str], ...] = (
    ("get nothing", ""),
    ("get a --from-key -w json", ""),
    ("put k 1", ""),
    ("put k 2 --prev-kv", ""),
    ("put k 3 -w json", ""),
    ("put k --ignore-value", ""),
    ("put none --ignore-value", ""),
    ("put k v --ignore-lease", ""),
    ("put k v --lease=7", ""),
    ("put a/1 x", ""),
    ("put a/2 z", ""),
    ("put a/3 y", ""),
    ("put a/2 w", ""),
    ("get k -w json", ""),
    ("get k --print-value-only", ""),
    ("get k --rev=2 -w json", ""),
    ("get k --rev=99", ""),
    ("get a/ --prefix", ""),
    ("get a/ --prefix --limit=2 -w json", ""),
    ("get a/ --prefix --keys-only", ""),
    ("get a/ --prefix --count-only -w json", ""),
    ("get a/ --prefix --order=DESCEND", ""),
    ("get a/ --prefix --sort-by=VALUE", ""),
    ("get a/ --prefix --sort-by=MODIFY --order=DESCEND -w json", ""),
    ("get a/ --prefix --sort-by=CREATE", ""),
    ("get a/ --prefix --sort-by=VERSION --order=DESCEND", ""),
    ("get a/ --prefix --consistency=s", ""),
    ("get a/1 a/3", ""),
    ("get a/2 --from-key", ""),
    ("get a/3 a/1", ""),
    ("txn -i=false", 'create("t") = "0"\n\nput t 1\nget t\n\nget t\n\n'),
    ("txn -i=false", 'create("t") = "0"\n\nput t 1\n\nget t\ndel t\nget t\n\n'),
    ("txn -i=false -w json", 'mod("k") > "0"\nvalue("a/1") = "x"\n\nput k 9 \nget a/ --prefix\n\n\n'),
    ("txn -i=false", 'version("none") = "0"\nver("k") > "0"\n\nget k\n\n\n'),
    ("txn -i=false", "\nput twice 1\nput twice 2\n\n\n"),
    ("txn -i=false", 'value("none") = ""\n\n\nget k\n\n'),
    ("del a/1", ""),
    ("del a/1", ""),
    ("del a/ --prefix --prev-kv", ""),
    ("del a/ --prefix -w json", ""),
    ("del --from-key t", ""),
    ("compaction 4", ""),
    ("compaction 4", ""),
    ("compaction 999", ""),
    ("get k --rev=3", ""),
    ("get k --rev=4 -w json", ""),
    ("member list", ""),
    ("member list -w json", ""),
    ("endpoint status", ""),
    ("endpoint health", ""),
    ("endpoint hashkv", ""),
    ("alarm list", ""),
    ("alarm disarm", ""),
    ("defrag", ""),
    ("move-leader 77", ""),
    ("member remove 77", ""),
    ("member promote 77", ""),
    ("member update 77 --peer-urls=http://127.0.0.1:1", ""),
    ("auth status", ""),
    ("auth enable", ""),
    ("role add r", ""),
    ("role add r", ""),
    ("role grant-permission r readwrite a b", ""),
    ("role grant-permission r read k", ""),
    ("role grant-permission r write x --from-key", ""),
    ("role grant-permission r write a b", ""),
    ("role grant-permission none read k", ""),
    ("role get r", ""),
    ("role revoke-permission r k", ""),
    ("role revoke-permission r k", ""),
    ("role get r", ""),
    ("role list", ""),
    ("user add root:secret", ""),
    ("user add u:secret", ""),
    ("user add u:secret", ""),
    ("user grant-role u r", ""),
    ("user grant-role u none", ""),
    ("user get u", ""),
    ("user list", ""),
    ("user revoke-role u none", ""),
    ("role add root", ""),
    ("user grant-role root root", ""),
    ("auth enable", ""),
    ("get k", ""),
    ("--user root:secret auth status", ""),
    ("--user root:secret user list", ""),
    ("--user root:secret role get root", ""),
    ("--user root:secret put k 1", ""),
    ("--user u:secret put a1 1", ""),
    ("--user u:secret get a1", ""),
    ("--user u:secret put k 1", ""),
    ("--user u:secret user get u", ""),
    ("--user u:secret user list", ""),
    ("--user u:wrong get k", ""),
    ("--user root:secret user delete root", ""),
    ("--user root:secret user delete u", ""),
    ("--user root:secret role delete r", ""),
    ("--user root:secret auth disable", ""),
    ("auth status", ""),
    ("get k", ""),
)

# Fields of JSON that tell one cluster from another.
OWN = {"cluster_id", "member_id", "raft_term"}
MASKS = (
    (re.compile(r"https?://[\w.:]+"), "<url>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<address>"),
    (re.compile(r"\b[0-9a-f]{15,16}\b"), "<id>"),
    (re.compile(r"\b\d{15,20}\b"), "<id>"),
    (re.compile(r"took( =)? [\w.µ]+"), "took <time>"),
    (re.compile(r"\b\d+(?:\.\d+)? [kMG]?B\b"), "<size>"),
    (re.compile(r"(<address>, )\d{5,10}\b"), r"\1<hash>"),
    (re.compile(r"\b3\.\d+\.\d+\b"), "<version>"),
    (re.compile(r"\b\d+%"), "<share>"),
    (re.compile(r"AuthRevision: \d+"), "AuthRevision: <number>"),
    # Members' names, and a member's term and indexes.
    (re.compile(r"started, \w+,"), "started, <name>,"),
    (re.compile(r"(true|false), (true|false), \d+, \d+, \d+"), r"\1, \2, <term>, <index>, <index>"),
)


def _own_masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: "<own>" if name in OWN | {"ID", "name"} else _own_masked(one) for name, one in value.items()}
    return [_own_masked(one) for one in value] if isinstance(value, list) else value


def masked(line: str) -> str:
    if line.startswith("{"):
        line = json.dumps(_own_masked(json.loads(line)), sort_keys=True)
    for pattern, word in MASKS:
        line = pattern.sub(word, line)
    return line


def say(endpoint: str, words: str, told: str) -> list[str]:
    """One command, and what it said; lines of its own log are left out."""
    command = [str(etcdctl()), f"--endpoints={endpoint}", *words.split()]
    ended = subprocess.run(command, input=told, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    lines = [line for line in (ended.stdout + ended.stderr).splitlines() if not line.startswith('{"level"')]
    return [f"$ etcdctl {words}", *(masked(line) for line in lines), f"exit {ended.returncode}"]


def transcript(endpoint: str) -> list[list[str]]:
    return [say(endpoint, words, told) for words, told in COMMANDS]


class OneEtcd(EtcdCluster):
    members = (1,)


@contextmanager
def one_node(folder: Path) -> Iterator[str]:
    """The address of an etcd door."""
    peer, address = free_addresses(2)
    with raftmeta.Node("a", peers={"a": peer}, data_dir=folder, etcd_listen=address) as node:
        node.ready(timeout_s=READY_S)
        yield address


def run(trial: Trial) -> None:
    etcdctl()
    with trial.check("etcdctl on a real etcd"), OneEtcd(trial.folder / "servers") as server:
        real = transcript(server.addresses)
    with trial.check("etcdctl on the door"), one_node(trial.folder / "node") as address:
        ours = transcript(address)
    for (words, _), wanted, told in zip(COMMANDS, real, ours, strict=True):
        failure = "" if wanted == told else "\n".join(["", *wanted, "--- the door:", *told])
        trial.add(words, 0, failure)
