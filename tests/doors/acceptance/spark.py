"""A stand-alone Spark with two masters that elect one another through ZooKeeper; the one that leads is killed."""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tests.doors.acceptance.trial import Trial
from tests.doors.software import java, spark_jars
from tests.processes.program import Program
from tests.processes.waiting import free_ports, wait_until

START_S = 120.0
TAKEOVER_S = 120.0
ASK_S = 3.0
SCALA = "2.13"
# Spark's launcher gives these to Java 17.
OPENS = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.util.calendar"),
)
APPLICATION = """\
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master(sys.argv[1]).appName("ha").config("spark.ui.enabled", "false")
spark = spark.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
spark = spark.config("spark.executor.memory", "512m").config("spark.cores.max", "1").getOrCreate()
answers = sys.stdout
for line in sys.stdin:
    count = int(line)
    answers.write(f"{spark.sparkContext.parallelize(range(count), 2).sum()}\\n")
    answers.flush()
"""


class Daemon:
    """A master or a worker, and what its page says of it."""

    def __init__(self, folder: Path, name: str, main: str, *arguments: str, options: dict[str, str]) -> None:
        self.port, self.page = free_ports(2)
        given = {f"-D{key}={value}" for key, value in options.items()}
        opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENS]
        command = [java(), "-Xmx512m", "-XX:+UseSerialGC", *opens, *sorted(given), "-cp", f"{spark_jars()}/*", main]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.page), *arguments]
        variables = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(spark_jars().parent)}
        variables["SPARK_SCALA_VERSION"] = SCALA  # else its launcher looks for a folder of a build
        self.program = Program(command, log=folder / f"{name}.log", environment=variables, folder=folder)

    def told(self) -> dict[str, Any]:
        """The page as JSON; empty while there is none."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.page}/json/", timeout=ASK_S) as answer:
                found: dict[str, Any] = json.load(answer)
        except (OSError, ValueError):
            return {}
        return found


def run(trial: Trial) -> None:
    with trial.servers() as servers:
        options = {
            "spark.deploy.recoveryMode": "ZOOKEEPER",
            "spark.deploy.zookeeper.url": servers.connect,
            "spark.deploy.zookeeper.dir": "/spark",
            "spark.master.rest.enabled": "false",
        }
        main = "org.apache.spark.deploy.master.Master"
        masters = [Daemon(trial.folder, f"master{number}", main, options=options) for number in range(2)]
        url = f"spark://127.0.0.1:{masters[0].port},127.0.0.1:{masters[1].port}"
        work = ("--cores", "1", "--memory", "1g", "--work-dir", str(trial.folder / "work"), url)
        worker = Daemon(trial.folder, "worker", "org.apache.spark.deploy.worker.Worker", *work, options={})
        script = trial.folder / "application.py"
        script.write_text(APPLICATION)
        variables = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        application = Program(
            [sys.executable, str(script), url],
            log=trial.folder / "application.log",
            environment=variables,
            folder=trial.folder,
            talks=True,
        )
        try:
            _failover(trial, masters, worker, application)
        finally:
            for program in (application, worker.program, *(master.program for master in masters)):
                program.kill()


def _leading(masters: list[Daemon], *, workers: int) -> Daemon | None:
    """The master that leads and knows so many living workers."""
    for master in masters:
        told = master.told()
        alive = [one for one in told.get("workers", []) if one["state"] == "ALIVE"]
        if told.get("status") == "ALIVE" and len(alive) == workers:
            return master
    return None


def _failover(trial: Trial, masters: list[Daemon], worker: Daemon, application: Program) -> None:
    with trial.check("one master leads, one stands by"):
        for master in masters:
            master.program.start()
        wait_until(
            lambda: sorted(master.told().get("status", "") for master in masters) == ["ALIVE", "STANDBY"],
            timeout_s=START_S,
            what=lambda: f"two masters: {[master.told().get('status') for master in masters]}",
            pause_s=0.1,
        )
    with trial.check("an application computes"):
        worker.program.start()
        first = wait_until(
            lambda: _leading(masters, workers=1), timeout_s=START_S, what="a worker of the master", pause_s=0.1
        )
        assert first is not None
        application.start()
        assert application.ask("1000") == "499500"
    with trial.check("the other master takes over"):
        first.program.kill()
        (second,) = [master for master in masters if master is not first]
        wait_until(
            lambda: _leading([second], workers=1), timeout_s=TAKEOVER_S, what="the worker to be known", pause_s=0.1
        )
        names = [one["name"] for one in second.told()["activeapps"]]
        assert names == ["ha"], names
    with trial.check("the application goes on"):
        assert application.ask("2000") == "1999000"
    with trial.check("the killed master comes back and stands by"):
        first.program.start()
        wait_until(lambda: first.told().get("status") == "STANDBY", timeout_s=START_S, what="to stand by", pause_s=0.1)
