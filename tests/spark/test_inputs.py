"""What is no run, and what is missing on the machine: told at once, in a sentence, with what to do."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.errors import AnalysisException

from raftmeta import ConfigError
from raftmeta.check import History, read_history, write_history
from raftmeta.cli.app import app
from raftmeta.spark import find_runs, jobs, verify
from raftmeta.spark.session import _keeping_words
from tests.check.store import sequential
from tests.lint.sources import ROOT
from tests.spark import runs

pytestmark = pytest.mark.timeout(600)  # a JVM and its workers start: on a busy machine that takes minutes


def no_json(run: Path) -> None:
    (run / "run.json").write_text("{")


def no_models(run: Path) -> None:
    (run / "run.json").write_text("{}")


def unknown_model(run: Path) -> None:
    runs.write_run(run, {"register": "nonsense"})


def no_history(run: Path) -> None:
    (run / "history-register.parquet").unlink()


def cut_history(run: Path) -> None:
    path = run / "history-register.parquet"
    path.write_bytes(path.read_bytes()[:-20])


def other_table(run: Path) -> None:
    pq.write_table(pa.table({"seq": [1], "process": [1]}), run / "history-register.parquet")


def other_faults(run: Path) -> None:
    pq.write_table(pa.table({"seq_begin": [1]}), run / "faults.parquet")


def no_run(run: Path) -> None:
    (run / "run.json").unlink()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (no_json, "run.json: not readable as JSON"),
        (no_models, 'run.json: without "models"'),
        (unknown_model, "no model 'nonsense'; there are: register"),
        (no_history, "history-register.parquet: no such history, though run.json names it"),
        (cut_history, "history-register.parquet: no Parquet file, or a broken one"),
        (other_table, "history-register.parquet: no history: without the columns kind, operation"),
        (other_faults, "faults.parquet: needs the columns seq_end int64"),
        (no_run, "no run: neither a folder with run.json nor a .parquet history"),
    ],
)
def test_a_folder_that_is_no_run_is_named(tmp_path: Path, spoil: Callable[[Path], None], message: str) -> None:
    """Before Spark is started; the error names the file and what is wrong with it."""
    run = runs.clean(tmp_path / "run")
    spoil(run)
    with pytest.raises(ConfigError) as raised:
        find_runs([run])
    assert message in str(raised.value)
    assert str(tmp_path) in str(raised.value)


def test_a_run_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}/nothing: no such run"):
        find_runs([tmp_path / "nothing"])


def test_two_runs_of_one_name_are_refused(tmp_path: Path) -> None:
    """Their rows could not be told apart."""
    with pytest.raises(ConfigError, match="two runs are named 'run'"):
        find_runs([runs.clean(tmp_path / "a" / "run"), runs.clean(tmp_path / "b" / "run")])


def test_a_run_of_nothing_is_refused(tmp_path: Path) -> None:
    """Nothing to verify must not look like everything verified."""
    with pytest.raises(ConfigError, match="nothing to verify"):
        find_runs([runs.write_run(tmp_path / "run", {})])


def test_a_folder_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="holds something that no verify wrote"):
        verify([runs.clean(tmp_path / "run")], out)
    assert (out / "thesis.txt").read_text() == "years of work"


# --- buckets ----------------------------------------------------------------------------------------------------------
def test_a_history_in_buckets_is_the_same_history(tmp_path: Path) -> None:
    """Row groups of whole components; read as a whole, the same events in the same order."""
    path = runs.clean_in_buckets(tmp_path / "run") / "history-register.parquet"
    assert list(read_history(path)) == runs.register_events()
    ((history,),) = [run.histories for run in find_runs([tmp_path / "run"])]
    assert len(history.buckets) > 3
    assert sum(history.buckets) == history.rows == len(runs.register_events())
    keys: list[set[str]] = []
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups - 1):  # the last one: what is in no component
            keys.append(set(file.read_row_group(group, ["key"]).column("key").to_pylist()) - {None})
    assert sum(map(len, keys)) == len(set.union(*keys)) == runs.KEYS


def test_buckets_for_another_model_are_not_trusted(tmp_path: Path) -> None:
    """Another model may join other keys."""
    path = tmp_path / "history.parquet"
    write_history(sequential(("write", 1, None), ("read", None, 1)), path, bucketed_for="register")
    as_register, as_kv = (find_runs([path], model=model)[0].histories[0] for model in ("register", "kv"))
    assert (as_register.buckets, as_kv.buckets) == ((4,), ())


def test_only_what_makes_sense_is_put_into_buckets(tmp_path: Path) -> None:
    """An event without sense must be seen beside all others, so the file stays in one piece."""
    path = tmp_path / "history.parquet"
    history = History.of([*sequential(("write", 1, None)), *sequential(("read", None, 1))])
    write_history(history, path, bucketed_for="register")
    assert find_runs([path], model="register")[0].histories[0].buckets == ()


def test_only_parquet_is_written_in_buckets(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only Parquet"):
        write_history(sequential(("write", 1, None)), tmp_path / "history.jsonl", bucketed_for="kv")


# --- the command ------------------------------------------------------------------------------------------------------
def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def test_the_command_checks_a_history_by_its_name(spark: Any, tmp_path: Path) -> None:
    """A file that stands alone, with the model of the option; exit code 0 and the verdict as JSON."""
    path = tmp_path / "history.parquet"
    write_history(sequential(("write", 1, None), ("read", None, 1)), path)
    result = run("--json", "pipeline", "verify", path, "--model", "register", "--out", tmp_path / "out")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert (told["verdict"], told["histories"][0]["components_ok"], told["rows"]["verdicts"]) == ("ok", 1, 1)


@pytest.mark.parametrize(("options", "verdict", "code"), [((), "unknown", 2), (("--allow-empty",), "ok", 0)])
def test_an_empty_history_passes_only_when_it_is_allowed(
    spark: Any, tmp_path: Path, options: tuple[str, ...], verdict: str, code: int
) -> None:
    """A run that recorded nothing verified nothing."""
    path = tmp_path / "history.parquet"
    write_history(History.of([]), path)
    result = run("--json", "pipeline", "verify", path, "--out", tmp_path / "out", *options)
    assert (result.exit_code, json.loads(result.stdout)["verdict"]) == (code, verdict)


def test_progress_ends_with_a_spark_that_tells_none() -> None:
    """What is wrong is told by the job itself; the thread that asks how far it is ends without a word."""
    asked = threading.Event()

    class Broken:
        """A session of which every part is this, up to the question."""

        @property
        def sparkContext(self) -> Broken:
            return self

        def statusTracker(self) -> Broken:
            return self

        def getActiveStageIds(self) -> list[int]:
            asked.set()
            raise RuntimeError("Out of space in CodeCache for adapters")

    with jobs.told(Broken(), "histories", lambda *_: None):  # type: ignore[arg-type]
        assert asked.wait(30)


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    """One line on standard error and exit code 2, which is that of `unknown`."""
    result = run("pipeline", "verify", tmp_path / "nothing", "--out", tmp_path / "out")
    assert (result.exit_code, result.stderr) == (2, f"raftmeta pipeline verify: {tmp_path}/nothing: no such run\n")


# --- what is missing --------------------------------------------------------------------------------------------------
def program(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, timeout=60)


def test_the_package_is_light(tmp_path: Path) -> None:
    """Importing it, or the command line, loads neither pyspark nor pyarrow."""
    ended = program(
        "import sys, raftmeta.spark, raftmeta.cli.pipeline; print({'pyspark', 'pyarrow'} & sys.modules.keys())"
    )
    assert (ended.stdout, ended.stderr) == ("set()\n", "")


@pytest.mark.parametrize("missing", ["pyspark", "pandas", "pyarrow"])
def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError, match=rf"needs {missing}: pip install 'raftmeta\[spark\]'"):
        verify([tmp_path], tmp_path / "out")


def test_a_missing_java_is_told(tmp_path: Path) -> None:
    """Which version is needed and how to get it, and what Spark's own script said."""
    ended = program(
        "from raftmeta.spark import spark_session\n"
        "from raftmeta import ConfigError\n"
        "try: spark_session('local[1]').__enter__()\n"
        "except ConfigError as error: print(error)",
        JAVA_HOME=str(tmp_path),
    )
    assert "Spark needs Java 17 or later: apt-get install openjdk-17-jre-headless" in ended.stdout
    assert "bin/java: No such file or directory" in ended.stdout


# --- tasks ------------------------------------------------------------------------------------------------------------
def test_a_crash_of_a_worker_says_where(spark: Any) -> None:
    """A native fault ends the task with the Python stack of the place, not with silence."""

    def crash(batches: Any) -> Any:
        import faulthandler

        for batch in batches:
            faulthandler._sigsegv()
            yield batch

    with pytest.raises(Exception, match="Segmentation fault") as raised:
        spark.range(0, 1, 1, 1).mapInArrow(crash, "id bigint").toArrow()
    assert "in crash" in str(raised.value)


def test_a_job_that_fails_is_told_in_a_line(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked_history: Path
) -> None:
    """What a task raised, without the stacks of two languages; that executors lack raftmeta is told as what it is."""

    def broken(message: str) -> Callable[..., Any]:
        def check(limits: Any) -> Any:
            def fail(batches: Any) -> Any:
                raise ImportError(message)
                yield

            return fail

        return check

    for message, error, told in (
        ("No module named 'raftmeta'", ConfigError, "the executors have no raftmeta"),
        ("no such thing", RuntimeError, "the job failed: .*no such thing"),
    ):
        monkeypatch.setattr("raftmeta.spark.gathering.check_buckets", broken(message))
        with pytest.raises(error, match=told) as raised:
            verify([checked_history], tmp_path / "out")
        assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_an_error_keeps_its_words_when_the_session_is_gone(spark: Any) -> None:
    """Spark asks the JVM for them when they are shown: too late behind the end of a session."""
    with pytest.raises(AnalysisException) as raised, _keeping_words():
        spark.sql("select nothing_like_that")
    (note,) = raised.value.__notes__
    assert "nothing_like_that" in note
    assert "\tat " not in note


@pytest.fixture
def checked_history(tmp_path: Path) -> Path:
    path = tmp_path / "history.parquet"
    write_history(sequential(("write", 1, None)), path)
    return path


def test_the_session_keeps_to_this_machine(spark: Any) -> None:
    """Loopback, UTC, no page, the Python of this process."""
    conf = spark.sparkContext.getConf()
    assert {conf.get("spark.driver.host"), conf.get("spark.driver.bindAddress")} == {"127.0.0.1"}
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.pythonExec == sys.executable
