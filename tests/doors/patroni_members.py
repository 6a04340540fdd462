"""Three members of Patroni with PostgreSQL, which elect their leader through servers that the caller has.

Replication is synchronous, so a row that was acknowledged outlives its leader. Patroni ends its PostgreSQL when it is
ended; where it is killed, its PostgreSQL is killed by the pid in its folder. PostgreSQL refuses to run as root: then
everything runs as the user `postgres` of Debian's package.

run_members is the whole acceptance. A recorder (programs/row_recorder.py) writes at every member all the time: its rows
say who took writes when. No two members take writes at a time, and no row that it was told is lost.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.doors.acceptance.trial import Trial
from tests.doors.servers import Servers
from tests.doors.software import DEBIAN_PYTHON, PROGRAMS, patroni, postgresql
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
OUTAGE_S = 40.0  # twice the time to live of the leader's key
SCOPE = "acceptance"
PASSWORD = "secret"
USER = "postgres"


class Member:
    """A Patroni and its PostgreSQL. packages: Patroni's. store: the part of its settings about the servers."""

    def __init__(self, number: int, folder: Path, packages: Path, store: Mapping[str, Any]) -> None:
        self.name = f"p{number}"
        self.rest, self.sql = free_ports(2)
        self._folder = folder / self.name
        self._folder.mkdir()
        self.configuration = self._folder / "patroni.yml"
        self.configuration.write_text(json.dumps(self._settings(store), indent=1))  # JSON is YAML
        self._ctl = packages / "bin" / "patronictl"
        self._environment = {"PYTHONPATH": str(packages), "HOME": str(self._folder), "PYTHONDONTWRITEBYTECODE": "1"}
        self.program = self._program([DEBIAN_PYTHON, "-m", "patroni", self.configuration], log="patroni.log")
        if os.geteuid() == 0:
            shutil.chown(self._folder, USER)

    def _settings(self, store: Mapping[str, Any]) -> dict[str, Any]:
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
            **store,
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

    def has_failsafe(self) -> bool:
        """Whether failsafe mode is on, and the servers know for which members."""
        return self._get("failsafe") is not None

    def configure(self, **settings: Any) -> None:
        """Change what all members share, by Patroni's REST."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.rest}/config", data=json.dumps(settings).encode(), method="PATCH"
        )
        with urllib.request.urlopen(request, timeout=QUERY_S):
            pass

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


@dataclass(frozen=True, slots=True)
class Mark:
    """A row that a member acknowledged to the recorder. timeline: PostgreSQL's, which grows with each promotion."""

    port: int
    row: int
    timeline: int
    begun_s: float
    ended_s: float


class Recorder:
    """Writes rows at every member that takes them, from outside, and knows which were acknowledged."""

    def __init__(self, folder: Path, packages: Path, ports: Sequence[int]) -> None:
        command = [DEBIAN_PYTHON, Path(PROGRAMS, "row_recorder.py"), *map(str, ports)]
        environment = {"PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1", "PGPASSWORD": PASSWORD}
        self.program = Program(command, log=folder / "recorder.log", environment=environment)

    def marks(self) -> list[Mark]:
        """Those of whole lines: the last one may be half written."""
        text = self.program.log.read_text().rpartition("\n")[0]
        lines = [line.split()[1:] for line in text.splitlines() if line.startswith("mark ")]
        return [Mark(int(a), int(b), int(c, 16), float(d), float(e)) for a, b, c, d, e in lines]

    def wait_more(self) -> None:
        """Rows are acknowledged again."""
        count = len(self.marks())
        self.program.wait_until(lambda: len(self.marks()) > count, timeout_s=CHANGE_S, what="more rows of the recorder")


def check_one_primary(marks: Sequence[Mark]) -> None:
    """Each timeline is one member's, and no row of an older one was begun after a newer one had taken a row."""
    owners: dict[int, int] = {}
    for mark in marks:
        assert owners.setdefault(mark.timeline, mark.port) == mark.port, f"two members write in one timeline: {mark}"
    first_s = {
        timeline: min(mark.ended_s for mark in marks if mark.timeline == timeline) for timeline in sorted(owners)
    }
    for mark in marks:
        newer = {timeline: ended_s for timeline, ended_s in first_s.items() if timeline > mark.timeline}
        late = {timeline: ended_s for timeline, ended_s in newer.items() if ended_s < mark.begun_s}
        assert not late, f"{mark} was taken while {late} took rows, too"


class Members:
    """All of them, and how many rows were acknowledged."""

    def __init__(self, folder: Path, store: Mapping[str, Any]) -> None:
        packages = patroni()
        if os.geteuid() == 0:
            folder.parent.chmod(0o711)
            packages = Path(shutil.copytree(packages, folder / "packages"))
        self.all = [Member(number, folder, packages, store) for number in range(MEMBERS)]
        self.recorder = Recorder(folder, packages, [member.sql for member in self.all])
        self.rows = 0

    def end(self) -> None:
        self.recorder.program.kill()
        for member in self.all:
            member.end()

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

    def check_marks(self) -> None:
        """The recorder saw one primary at a time, and every member has its rows. The recorder ends."""
        self.recorder.wait_more()
        self.recorder.program.end()
        marks = self.recorder.marks()
        check_one_primary(marks)
        wanted = {mark.row for mark in marks}

        def lost() -> dict[str, int]:
            told = {member.name: member.query("select id from marks") or "" for member in self.all}
            return {name: len(left) for name, rows in told.items() if (left := wanted - set(map(int, rows.split())))}

        wait_until(lambda: not lost(), timeout_s=CHANGE_S, what=lambda: f"all marks: {lost()} are missing", pause_s=1)

    def check_rows(self, member: Member) -> None:
        """It has all that were acknowledged, as soon as it has caught up."""
        wait_until(
            lambda: member.query("select count(*), max(id) from rows") == f"{self.rows}|{self.rows}",
            timeout_s=CHANGE_S,
            what=lambda: f"{self.rows} rows at {member.name}: {member.query('select count(*), max(id) from rows')}",
            pause_s=LOOK_S,
        )


# --- the acceptance ---------------------------------------------------------------------------------------------------
def run_members(
    trial: Trial, servers: Servers, store: Mapping[str, Any], check_keys: Callable[[Members], None]
) -> None:
    """check_keys: that the servers have what Patroni keeps there."""
    members = Members(trial.folder, store)
    try:
        _starts(trial, members)
        with trial.check("the leader's key is its own"):
            check_keys(members)
        _switchover(trial, members)
        _failover(trial, members)
        _faults(trial, members, servers)
        _outage(trial, members, servers)
        _failsafe(trial, members, servers)
        with trial.check("one primary at a time, no row lost"):
            members.check_marks()
        marks = members.recorder.marks()
        trial.tell(f"{len(marks)} rows of the recorder in {len({mark.timeline for mark in marks})} timelines")
    finally:
        members.end()


def _starts(trial: Trial, members: Members) -> None:
    with trial.check("three members start"):
        for member in members.all:
            member.program.start()
        members.whole(timeout_s=START_S)
    with trial.check("rows are on all members"):
        leader = members.leader()
        assert leader.query("create table rows (id int primary key)") is not None
        assert leader.query("create table marks (id bigint primary key)") is not None
        for _ in range(ROWS):
            members.write()
        for member in members.all:
            members.check_rows(member)
        members.recorder.program.start()
        members.recorder.wait_more()


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
    first = members.leader()
    with trial.check("without servers nobody leads"):
        servers.kill_all()
        wait_until(lambda: not members.leaders(), timeout_s=CHANGE_S, what="the leader to step down", pause_s=LOOK_S)
        recovery = "select pg_is_in_recovery()"
        wait_until(lambda: first.query(recovery) == "t", timeout_s=CHANGE_S, what="it takes no writes", pause_s=LOOK_S)
        assert first.query("insert into rows values (0)") is None
    with trial.check("with servers somebody leads again"):
        _start_all(servers)
        members.leader()
        members.write()
        members.whole()
        for member in members.all:
            members.check_rows(member)


def _start_all(servers: Servers) -> None:
    everyone = range(len(servers.addresses))
    for number in everyone:
        servers.begin_restart(number)
    servers.wait_serving(everyone)


def _failsafe(trial: Trial, members: Members, servers: Servers) -> None:
    """The leader asks the other members instead of the servers, and stays."""
    leader = members.leader()
    timeline = members.whole()[leader.name]["timeline"]
    with trial.check("in failsafe mode it leads without servers"):
        leader.configure(failsafe_mode=True)
        wait_until(leader.has_failsafe, timeout_s=CHANGE_S, what="the mode in the servers", pause_s=LOOK_S)
        servers.kill_all()
        until_s = time.monotonic() + OUTAGE_S
        while time.monotonic() < until_s:
            assert leader.query("select pg_is_in_recovery()") == "f"
            members.write()
            assert leader.query(f"select pg_sleep({LOOK_S})") is not None
    with trial.check("and goes on with servers"):
        _start_all(servers)
        assert members.whole()[leader.name]["timeline"] == timeline
        assert members.leader() is leader
        members.write()
        for member in members.all:
            members.check_rows(member)
