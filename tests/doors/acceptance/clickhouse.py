"""Two replicas of a ClickHouse table: Debian's ClickHouse 18.16, which brings a ZooKeeper client of its own in C++."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.doors.acceptance.trial import Trial
from tests.doors.software import clickhouse
from tests.processes.program import Program
from tests.processes.waiting import free_ports, wait_until

START_S = 60.0
ANSWER_S = 60.0
SAME_S = 60.0
INSERTS = 20
SESSION_MS = 6000
USERS = """<yandex><profiles><default><max_memory_usage>1000000000</max_memory_usage></default></profiles>
<users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile>
<quota>default</quota></default></users><quotas><default/></quotas></yandex>
"""
TABLE = (
    "create table t (day Date, k UInt64, v String) engine = ReplicatedMergeTree('/tables/t', '{replica}', day, k, 8192)"
)
ROWS = "insert into t (day, k, v) select today(), number, '{text}' from numbers({count})"
COUNT = "select count(), sum(k) from t"


class Replica:
    """One server of ClickHouse."""

    def __init__(self, name: str, folder: Path, servers: list[str]) -> None:
        program, self._client = clickhouse()
        self.folder = folder / name
        self.folder.mkdir()
        self.port, http, between = free_ports(3)
        nodes = "".join(
            f"<node><host>{host}</host><port>{port}</port></node>" for host, port in (s.split(":") for s in servers)
        )
        (self.folder / "users.xml").write_text(USERS)
        configuration = self.folder / "config.xml"
        configuration.write_text(f"""<yandex>
<logger><level>information</level><log>{self.folder}/log</log><errorlog>{self.folder}/errors</errorlog></logger>
<tcp_port>{self.port}</tcp_port><http_port>{http}</http_port><interserver_http_port>{between}</interserver_http_port>
<interserver_http_host>127.0.0.1</interserver_http_host><listen_host>127.0.0.1</listen_host>
<path>{self.folder}/data/</path><tmp_path>{self.folder}/tmp/</tmp_path><users_config>users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>16777216</mark_cache_size><macros><replica>{name}</replica></macros>
<zookeeper>{nodes}<session_timeout_ms>{SESSION_MS}</session_timeout_ms></zookeeper></yandex>
""")
        command = [program, f"--config-file={configuration}"]
        self.program = Program(command, log=self.folder / "out", folder=self.folder)

    def start(self) -> None:
        self.program.start()
        self.program.wait_until(lambda: self._answer("select 1") == "1", timeout_s=START_S, what="it answers")

    def _answer(self, query: str) -> str | None:
        """What a query found; None when it failed."""
        command = [self._client, "--host", "127.0.0.1", "--port", str(self.port), "--query", query]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S, check=False)
        self.error = ended.stderr
        return None if ended.returncode else ended.stdout.strip()

    def query(self, query: str) -> str:
        answer = self._answer(query)
        assert answer is not None, f"{query}: {self.error}"
        return answer


def run(trial: Trial) -> None:
    with trial.servers() as servers:
        one, two = both = [Replica(name, trial.folder, servers.addresses) for name in ("r1", "r2")]
        try:
            with trial.check("both start"):
                for replica in both:
                    replica.start()
                    replica.query(TABLE)
            _writes(trial, one, two)
            _a_kill(trial, one, two)
            with trial.check("the table is dropped"):
                for replica in both:
                    replica.query("drop table t")
        finally:
            for replica in both:
                replica.program.kill()


def _same(one: Replica, two: Replica) -> str:
    """What both answer, as soon as it is the same."""
    answers = {}

    def alike() -> bool:
        answers.update({replica: replica.query(COUNT) for replica in (one, two)})
        return answers[one] == answers[two]

    wait_until(alike, timeout_s=SAME_S, what=lambda: f"both to have the same rows: {list(answers.values())}")
    return answers[one]


def _writes(trial: Trial, one: Replica, two: Replica) -> None:
    with trial.check("inserts at both replicas"):
        for number in range(INSERTS):
            (one, two)[number % 2].query(ROWS.format(text="x", count=10 * (number + 1)))
        count = sum(10 * (number + 1) for number in range(INSERTS))
        assert _same(one, two).split()[0] == str(count)
    with trial.check("a block that comes twice counts once"):
        before = _same(one, two)
        two.query(ROWS.format(text="x", count=10))
        assert _same(one, two) == before
    with trial.check("a column and a merge"):
        one.query("alter table t add column w UInt8")
        one.query("optimize table t")
        wait_until(lambda: two.query("describe table t").count("\n") == 3, timeout_s=SAME_S, what="the new column")
        one.query("alter table t drop partition 190001")


def _a_kill(trial: Trial, one: Replica, two: Replica) -> None:
    with trial.check("one is killed and catches up"):
        two.program.kill()
        one.query(ROWS.format(text="y", count=777))
        two.start()
        _same(one, two)
    with trial.check("both are active"):
        told = "select total_replicas, active_replicas, queue_size from system.replicas where table = 't'"
        wait_until(lambda: one.query(told).split() == ["2", "2", "0"], timeout_s=SAME_S, what=lambda: one.query(told))
    with trial.check("znodes are seen as rows"):
        assert int(one.query("select count() from system.zookeeper where path = '/tables/t'")) > 5
