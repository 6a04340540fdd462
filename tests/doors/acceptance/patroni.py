"""Three members of Patroni with PostgreSQL, which elect their leader through ZooKeeper, over kazoo.

Replication is synchronous, so a row that was acknowledged outlives its leader. Patroni ends its PostgreSQL when it is
ended; where it is killed, its PostgreSQL is killed by the pid in its folder. PostgreSQL refuses to run as root: then
everything runs as the user `postgres` of Debian's package.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.doors.acceptance.trial import Trial
from tests.doors.servers import Servers
from tests.doors.software import DEBIAN_PYTHON, patroni, postgresql
from tests.processes.program import Program, run_program
from tests.processes.waiting import free_ports, wait_until

MEMBERS = 3
ROWS = 10
TTL_S = 20  # Patroni's lowest; a leader that is gone is replaced after it
START_S = 180.0
CHANGE_S = 120.0
ASK_S = 3.0
QUERY_S = 20.0
LOOK_S = 0.2
FAULTS = 6  # each server is killed twice
FAULT_S = 10.0
SCOPE = "acceptance"
PASSWORD = "secret"
USER = "postgres"


class Member:
    """A Patroni and its PostgreSQL. packages: Patroni's. peers: addresses of the servers of ZooKeeper."""

    def __init__(self, number: int, folder: Path, packages: Path, peers: Sequence[str]) -> None:
        self.name = f"p{number}"
        self.rest, self.sql = free_ports(2)
        self._folder = folder / self.name
        self._folder.mkdir()
        self.configuration = self._folder / "patroni.yml"
        self.configuration.write_text(json.dumps(self._settings(peers), indent=1))  # JSON is YAML
        self._ctl = packages / "bin" / "patronictl"
        self._environment = {"PYTHONPATH": str(packages), "HOME": str(self._folder), "PYTHONDONTWRITEBYTECODE": "1"}
        self.program = self._program([DEBIAN_PYTHON, "-m", "patroni", self.configuration], log="patroni.log")
        if os.geteuid() == 0:
            shutil.chown(self._folder, USER)

    def _settings(self, peers: Sequence[str]) -> dict[str, Any]:
        shared = {
            "ttl": TTL_S,
            "loop_wait": 2,
            "retry_timeout": 5,
            "synchronous_mode": True,
            "postgresql": {"use_pg_rewind": True},
        }
        users = {"superuser": "postgres", "replication": "replicator"}
        return {
            "scope": SCOPE,
            "name": self.name,
            "restapi": {"listen": f"127.0.0.1:{self.rest}", "connect_address": f"127.0.0.1:{self.rest}"},
            "zookeeper": {"hosts": list(peers)},
            "bootstrap": {"dcs": shared, "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, "data-checksums"]},
            "postgresql": {
                "listen": f"127.0.0.1:{self.sql}",
                "connect_address": f"127.0.0.1:{self.sql}",
                "data_dir": str(self._data),
                "bin_dir": str(postgresql()),
                "authentication": {use: {"username": name, "password": PASSWORD} for use, name in users.items()},
                "pgpass": str(self._folder / "pgpass"),
                "pg_hba": [f"host {of} all 127.0.0.1/32 scram-sha-256" for of in ("all", "replication")],
                # The acceptance is that of the elections: no machine fails here, so no disk is waited for.
                "parameters": {"unix_socket_directories": "", "fsync": "off", "shared_buffers": "16MB"},
            },
        }

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _program(self, command: Sequence[str | Path], *, log: str) -> Program:
        if os.geteuid() == 0:
            user = [f"--reuid={USER}", f"--regid={USER}", "--init-groups"]
            # The kernel forgets the signal of a parent's end when the user changes.
            command = ["setpriv", *user, "--pdeathsig=KILL", *command]
        return Program(command, log=self._folder.parent / f"{self.name}.{log}", environment=self._environment)

    def is_leader(self) -> bool:
        """Whether it holds the leader's key, and its PostgreSQL takes writes."""
        return self._get("leader") is not None

    def cluster(self) -> dict[str, dict[str, Any]]:
        """What it knows of each member; empty while it does not answer."""
        return {one["name"]: one for one in json.loads(self._get("cluster") or b'{"members": []}')["members"]}

    def _get(self, path: str) -> bytes | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.rest}/{path}", timeout=ASK_S) as answer:
                found: bytes = answer.read()
        except (OSError, urllib.error.HTTPError):
            return None
        return found

    def query(self, query: str) -> str | None:
        """What PostgreSQL answers; None when it refuses or does not answer."""
        command = [postgresql() / "psql", "-h", "127.0.0.1", "-p", str(self.sql), "-U", "postgres", "-d", "postgres"]
        environment = {**os.environ, "PGPASSWORD": PASSWORD, "PGCONNECT_TIMEOUT": str(int(ASK_S))}
        try:
            ended = subprocess.run(
                [*command, "-Atc", query], env=environment, capture_output=True, text=True, timeout=QUERY_S, check=False
            )
        except subprocess.TimeoutExpired:
            return None
        return None if ended.returncode else ended.stdout.strip()

    def ctl(self, *words: str) -> None:
        """Patroni's own command line, which must succeed."""
        program = self._program([DEBIAN_PYTHON, self._ctl, "-c", self.configuration, *words], log="patronictl.log")
        run_program(program.command, log=program.log, timeout_s=CHANGE_S, environment=program.environment)

    def kill(self) -> None:
        """SIGKILL of both."""
        self.program.kill()
        self._kill_postgresql()

    def end(self) -> None:
        self.program.end()
        self._kill_postgresql()

    def _kill_postgresql(self) -> None:
        try:
            pid = int((self._data / "postmaster.pid").read_text().split()[0])
            is_ours = str(self._data).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            return
        if is_ours:
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not _runs(pid), timeout_s=CHANGE_S, what=f"PostgreSQL {pid} to be gone")


def _runs(pid: int) -> bool:
    """Whether the process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Members:
    """All of them, and how many rows were acknowledged."""

    def __init__(self, folder: Path, peers: Sequence[str]) -> None:
        packages = patroni()
        if os.geteuid() == 0:
            folder.parent.chmod(0o711)
            packages = Path(shutil.copytree(packages, folder / "packages"))
        self.all = [Member(number, folder, packages, peers) for number in range(MEMBERS)]
        self.rows = 0

    def leaders(self) -> list[Member]:
        """At most one: where two said so, one after another, both are asked again."""
        found = [member for member in self.all if member.is_leader()]
        if len(found) > 1:
            found = [member for member in found if member.is_leader()]
        assert len(found) <= 1, f"two lead: {[member.name for member in found]}"
        return found

    def leader(self, *, but: Member | None = None) -> Member:
        """The one that leads, and is not `but`."""

        def leading() -> Member | None:
            found = self.leaders()
            return found[0] if found and found[0] is not but else None

        found = wait_until(leading, timeout_s=CHANGE_S, what=self._told, pause_s=LOOK_S)
        assert found is not None
        return found

    def whole(self, *, timeout_s: float = CHANGE_S) -> dict[str, dict[str, Any]]:
        """One leads and the others follow, one of them synchronously; what the leader knows of them."""

        def is_whole() -> dict[str, dict[str, Any]] | None:
            found = self.leaders()
            known = found[0].cluster() if len(found) == 1 else {}
            roles = sorted(one["role"] for one in known.values())
            states = {one["state"] for one in known.values()}
            good = roles == ["leader", *["replica"] * (MEMBERS - 2), "sync_standby"] and states <= {
                "running",
                "streaming",
            }
            return known if good else None

        known = wait_until(is_whole, timeout_s=timeout_s, what=self._told, pause_s=LOOK_S)
        assert known is not None
        return known

    def _told(self) -> str:
        return f"the members: {[(member.name, member.is_leader(), member.cluster()) for member in self.all]}"

    def write(self) -> None:
        """Add a row at the leader; returns when it is acknowledged."""
        row = self.rows + 1
        query = f"insert into rows values ({row}) on conflict do nothing"
        wait_until(
            lambda: any(member.query(query) is not None for member in self.leaders()),
            timeout_s=CHANGE_S,
            what=lambda: f"row {row}; {self._told()}",
            pause_s=LOOK_S,
        )
        self.rows = row

    def check_rows(self, member: Member) -> None:
        """It has all that were acknowledged, as soon as it has caught up."""
        wait_until(
            lambda: member.query("select count(*), max(id) from rows") == f"{self.rows}|{self.rows}",
            timeout_s=CHANGE_S,
            what=lambda: f"{self.rows} rows at {member.name}: {member.query('select count(*), max(id) from rows')}",
            pause_s=LOOK_S,
        )


def run(trial: Trial) -> None:
    with trial.servers() as servers:
        members = Members(trial.folder, servers.addresses)
        try:
            _starts(trial, members, servers)
            _switchover(trial, members)
            _failover(trial, members)
            _faults(trial, members, servers)
            _outage(trial, members, servers)
        finally:
            for member in members.all:
                member.end()


def _starts(trial: Trial, members: Members, servers: Servers) -> None:
    with trial.check("three members start"):
        for member in members.all:
            member.program.start()
        members.whole(timeout_s=START_S)
    with trial.check("rows are on all members"):
        assert members.leader().query("create table rows (id int primary key)") is not None
        for _ in range(ROWS):
            members.write()
        for member in members.all:
            members.check_rows(member)
    with trial.check("the leader's znode is its own"):
        _check_znodes(members, servers)


def _check_znodes(members: Members, servers: Servers) -> None:
    """The leader's key is an ephemeral of the leader's own session, as each member's is."""
    from kazoo.client import KazooClient

    client = KazooClient(servers.connect)
    client.start(timeout=START_S)
    try:
        place = f"/service/{SCOPE}"
        name, stat = client.get(f"{place}/leader")
        leader = members.leader()
        assert name.decode() == leader.name, name
        assert stat.ephemeralOwner == client.get(f"{place}/members/{leader.name}")[1].ephemeralOwner != 0
        assert sorted(client.get_children(f"{place}/members")) == [member.name for member in members.all]
    finally:
        client.stop()
        client.close()


def _switchover(trial: Trial, members: Members) -> None:
    with trial.check("a switchover"):
        first = members.leader()
        (candidate,) = (name for name, one in members.whole().items() if one["role"] == "sync_standby")
        first.ctl("switchover", SCOPE, "--leader", first.name, "--candidate", candidate, "--force")
        assert members.leader(but=first).name == candidate
        members.write()
        members.whole()


def _failover(trial: Trial, members: Members) -> None:
    victim = members.leader()
    with trial.check("a killed leader is replaced"):
        victim.kill()
        second = members.leader(but=victim)
        members.check_rows(second)
        members.write()
    with trial.check("the killed one comes back and follows"):
        victim.program.start()
        members.whole()
        members.check_rows(victim)
        assert members.leader() is second


def _faults(trial: Trial, members: Members, servers: Servers) -> None:
    """A server is killed every ten seconds: nobody notices."""
    leader = members.leader()
    timeline = members.whole()[leader.name]["timeline"]
    before = members.rows
    with trial.check(f"{FAULTS} kills of servers"):
        for number in range(FAULTS):
            victim = number % len(servers.addresses)
            until_s = time.monotonic() + FAULT_S
            servers.kill(victim)
            while time.monotonic() < until_s:
                members.write()
                assert leader.query(f"select pg_sleep({LOOK_S})") is not None
            servers.restart(victim)
        assert members.leader() is leader
        assert members.whole()[leader.name]["timeline"] == timeline
        for member in members.all:
            members.check_rows(member)
    trial.tell(f"{members.rows - before} rows while servers were killed")


def _outage(trial: Trial, members: Members, servers: Servers) -> None:
    everyone = range(len(servers.addresses))
    first = members.leader()
    with trial.check("without servers nobody leads"):
        for number in everyone:
            servers.kill(number)
        wait_until(lambda: not members.leaders(), timeout_s=CHANGE_S, what="the leader to step down", pause_s=LOOK_S)
        recovery = "select pg_is_in_recovery()"
        wait_until(lambda: first.query(recovery) == "t", timeout_s=CHANGE_S, what="it takes no writes", pause_s=LOOK_S)
        assert first.query("insert into rows values (0)") is None
    with trial.check("with servers somebody leads again"):
        for number in everyone:
            servers.begin_restart(number)
        servers.wait_serving(everyone)
        members.leader()
        members.write()
        members.whole()
        for member in members.all:
            members.check_rows(member)
