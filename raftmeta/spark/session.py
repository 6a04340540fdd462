"""The one place that starts Spark, with the settings that every pipeline needs, and no others.

    with spark_session("local[2]") as spark:
        spark.range(3).show()

When Spark runs here it listens on 127.0.0.1 only (its default is the address of the interface), opens no page, keeps
UTC, and writes its log into a file instead of over the terminal; an exception tells what went wrong. Workers run the
Python that runs this program. An existing session is used as it is, and left open.

It decides settings. It never decides what is computed, and downloads nothing: no setting names a package.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, cast

from raftmeta.errors import ConfigError
from raftmeta.spark.scratch import scratch_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["import_pyspark", "spark_session"]

EXTRA = "pip install 'raftmeta[spark]'"
JAVA = "Spark needs Java 17 or later: apt-get install openjdk-17-jre-headless, or set JAVA_HOME to one"
REASON_MAX = 600  # characters of Spark's own words that an error shows
STOP_TIMEOUT_S = 10.0

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # A native crash in a worker shows where it was, instead of "exited unexpectedly".
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.maxResultSize": "4g",
}
LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",  # in local mode the driver is the executor too; the default of 1 GiB is little
    "spark.sql.shuffle.partitions": "8",  # 200 by default; a task costs about 25 ms
}


def import_pyspark() -> Any:
    """The module pyspark. Raises ConfigError that names the extra, if the module or its needs are missing."""
    try:
        import pandas  # type: ignore[import-untyped]  # noqa: F401  # mapInArrow asks for it
        import pyarrow  # noqa: F401
        import pyspark
    except ImportError as error:
        raise ConfigError(f"raftmeta.spark needs {error.name}: {EXTRA}") from None
    return pyspark


@contextlib.contextmanager
def spark_session(
    master: str = "local[*]", *, app: str = "raftmeta", settings: dict[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session of Spark for the length of the block.

    master: the URL of a cluster, or local[n] for n threads of this machine. settings: more of Spark's, which win over
    those of this file. If a session is active already, you get that session with its settings, and it is not stopped.
    Raises ConfigError when pyspark or Java is missing, or when the master is not there.
    """
    import_pyspark()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    with scratch_folder("spark") as folder, (folder / "spark.log").open("w+b") as log:
        # Spark writes its own files into this folder too. They go with it, also when this process is killed.
        ours = {"spark.local.dir": str(folder)} if master.startswith("local") else {}
        session, gateway = _start(master, app, {**ours, **(settings or {})}, log)
        try:
            register(session)
            with _keeping_words():
                yield session
        finally:
            session.stop()
            _end(gateway)


@contextlib.contextmanager
def _keeping_words() -> Iterator[None]:
    """Keep the text of a JVM's error in a note: the error asks the JVM for its text when shown, and it is gone then."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    try:
        yield
    except (CapturedException, Py4JJavaError) as error:
        error.add_note(str(error).partition("\n\tat ")[0])
        raise


def _start(master: str, app: str, settings: dict[str, str], log: IO[bytes]) -> tuple[SparkSession, Any]:
    """A session in a JVM of its own, whose output goes into the log."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    is_local = master.startswith("local")
    conf = SparkConf().setMaster(master).setAppName(app)
    for name, value in {**SETTINGS, **(LOCAL_SETTINGS if is_local else {}), **settings}.items():
        conf.set(name, value)
    try:
        gateway = cast(Any, launch_gateway)(conf, popen_kwargs={"stdout": log, "stderr": log})
    except PySparkRuntimeError:
        raise ConfigError(f"Spark did not start with master {master!r}: {_reason(log)}. {JAVA}") from None
    try:
        context = SparkContext(conf=conf, gateway=gateway)
    except Exception as error:  # whatever the JVM threw: its class is known to py4j alone
        _end(gateway)
        reason = " ".join(str(error).partition("\n\tat ")[0].split())[:REASON_MAX]
        raise ConfigError(f"Spark did not start with master {master!r}: {reason}") from None
    if is_local:
        context.pythonExec = sys.executable  # else whatever `python3` the PATH names
    return SparkSession(context), gateway


def register(session: SparkSession) -> None:
    """Make format("raftmeta") known to a session that spark_session() did not start."""
    from raftmeta.spark.source import RaftmetaSource

    session.dataSource.register(RaftmetaSource)


def _end(gateway: Any) -> None:
    """End the JVM, which lives while somebody holds its input; the next session gets another one."""
    from pyspark import SparkContext

    gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None


def _reason(log: IO[bytes]) -> str:
    """The output of Spark's scripts and the JVM before they gave up, without stack and warnings."""
    log.seek(0)
    lines = log.read().decode(errors="replace").splitlines()
    told = [line.strip() for line in lines if not line.startswith("\t") and "WARN" not in line and "Using " not in line]
    return " ".join(told)[:REASON_MAX] or "it said nothing"
