"""The suite in other people's hands: a back end by its place, the page on writing one, reports side by side."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta.conformance import CHECKS, Kit, Outcome, Report, Servers, html_of, matrix_of, outcome_of, text_of
from raftmeta.conformance.aio_kit import DrivenBackend, EventLoop
from raftmeta.interfaces import Capabilities
from tests.lint.sources import ROOT

PAGE = (ROOT / "docs" / "backends.md").read_text()
CODE = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[-1]
TCK = [sys.executable, "-m", "raftmeta.cli"]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the module of the page; this process and those that it starts import from there."""
    (tmp_path / "memory_store.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield tmp_path
    sys.modules.pop("memory_store", None)
    raftmeta.backends.unregister("memory")


def told(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*TCK, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=240)


def test_the_back_end_of_the_page_passes_what_the_page_says(page: Path) -> None:
    """By the command of the page, and with the numbers of the page."""
    (command,) = re.findall(r"^    raftmeta (tck --backend memory_store.*)$", PAGE, re.MULTILINE)
    ended = told(*command.split(), "--report", "out.json", "--report", "out.html", folder=page)
    assert ended.returncode == 0, ended.stdout
    counts = Report.read(page / "out.json").counts()
    said = re.search(r"^(\d+) checks pass, (\d+) are of promises that it does not make, and (\d+)", PAGE, re.MULTILINE)
    assert said is not None
    assert [int(number) for number in said.groups()] == [
        counts[state] for state in ("passed", "not promised", "not run")
    ]
    assert "<h2>memory</h2>" in (page / "out.html").read_text()


def test_the_asyncio_face_of_the_page_passes_too(page: Path) -> None:
    """connect_aio finds what was registered by its place."""
    raftmeta.backends.register("memory", "memory_store:PLUGIN")
    loop = EventLoop()
    try:
        with DrivenBackend("memory://aio", loop) as first, DrivenBackend("memory://aio", loop) as second:
            found = [outcome_of(check, Kit([first, second], party_url=None)) for check in CHECKS]
    finally:
        loop.close()
    assert [(one.check.name, one.why) for one in found if one.state == "failed"] == []


def test_a_process_registers_an_object(page: Path) -> None:
    """What it registers goes before what is installed, until it is taken back."""
    import memory_store  # type: ignore[import-not-found]

    raftmeta.backends.register("pysyncobj", memory_store.PLUGIN)
    try:
        with raftmeta.connect("pysyncobj://here") as backend:
            assert type(backend).__name__ == "Memory"
    finally:
        raftmeta.backends.unregister("pysyncobj")
    assert raftmeta.backends.plugin_of("pysyncobj") is not memory_store.PLUGIN
    raftmeta.backends.unregister("never registered")


@pytest.mark.parametrize("plugin", ["no place", "no.such.module:PLUGIN", "raftmeta:no_such_object"])
def test_a_back_end_that_is_not_there_is_named(plugin: str) -> None:
    try:
        with pytest.raises(raftmeta.ConfigError, match=re.escape(plugin)) as caught:
            raftmeta.backends.register("nowhere", plugin)
            raftmeta.connect("nowhere://")
    finally:
        raftmeta.backends.unregister("nowhere")
    assert caught.value.field == "plugin"


def test_processes_of_the_suite_use_the_same_back_end_and_face(page: Path) -> None:
    """The memory of another process is another memory: the check fails, and so it was the page's back end that ran."""
    raftmeta.backends.register("memory", "memory_store:PLUGIN")
    (check,) = [check for check in CHECKS if check.sentence.startswith("what was answered is there for another")]
    for is_aio in (False, True):
        with raftmeta.connect("memory://here") as backend:
            kit = Kit([backend], party_url="memory://here", is_aio=is_aio, plugin="memory_store:PLUGIN")
            party = kit.party()
            assert party.ask("put", "k", "v") > 0
            kit.end_parties()
            assert backend.storage.get("k") is None
            promising: Any = _Promising(backend, Capabilities(durable=True))
            outcome = outcome_of(
                check, Kit([promising], party_url="memory://here", is_aio=is_aio, plugin="memory_store:PLUGIN")
            )
        assert (outcome.state, "what the killed process had put" in outcome.why) == ("failed", True)


class _Promising:
    def __init__(self, backend: Any, capabilities: Capabilities) -> None:
        self._backend = backend
        self.capabilities = capabilities

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


# --- one server -------------------------------------------------------------------------------------------------------
class Lossy:
    """Stands for commands whose fault makes the store forget a key."""

    def __init__(self, space: Any) -> None:
        self._space = space

    def can(self, fault: str) -> bool:
        return True

    def one(self, fault: str) -> Any:
        self._space.keys = {}
        return Servers(kill="true", heal="true").one("kill")


def test_a_store_that_forgets_with_one_server_is_found_out(page: Path) -> None:
    """With the commands it fails; without them nothing is believed: not run, and not passed."""
    raftmeta.backends.register("memory", "memory_store:PLUGIN")
    check = next(check for check in CHECKS if check.one_server == "kill" and "nothing is lost" in check.sentence)
    with raftmeta.connect("memory://lossy") as first, raftmeta.connect("memory://lossy") as second:
        lossy: Any = Lossy(first.space)  # type: ignore[attr-defined]
        outcome = outcome_of(check, Kit([first, second], party_url=None, servers=lossy))
        assert (outcome.state, "what was answered and is gone" in outcome.why) == ("failed", True)
        assert outcome_of(check, Kit([first, second], party_url=None)).state == "not run"
        assert outcome_of(check, Kit([first, second], party_url=None, servers=Servers(kill="true"))).state == "not run"


# --- reports ----------------------------------------------------------------------------------------------------------
def report_of(name: str, state: str, **promises: Any) -> Report:
    """Every check that needs a promise has the state; all others passed."""
    outcomes = [Outcome(check, state if check.needs else "passed", "<why>") for check in CHECKS]
    return Report.of(name, Capabilities(**promises), outcomes)


def test_a_promise_is_kept_broken_or_not_shown() -> None:
    """It is kept only if all its checks passed; one that could not run is no proof."""
    for state, wanted in (("passed", "kept"), ("failed", "FAILED"), ("not run", "not shown")):
        rows = {row["promise"]: row["one"] for row in matrix_of([report_of("one", state, fencing=True)])}
        assert (rows["fencing"], rows["multi"], rows["ttl_precision_s"]) == (wanted, "-", "-")
        assert rows["contract: membership"] == "17 of 17"
    assert report_of("one", "passed", ttl_precision_s=2.0).promise("ttl_precision_s") == "kept (2 s)"


def test_a_report_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    report = report_of("one", "failed", fencing=True, ttl_precision_s=1.5)
    assert Report.from_json(report.to_json()) == report
    assert Report.from_json(report_of("two", "passed").to_json()).capabilities.ttl_precision_s == float("inf")
    for text in ("", "[]", "{}", json.dumps({**json.loads(report.to_json()), "format": 9}), '{"format": 1}'):
        with pytest.raises(raftmeta.ConfigError) as caught:
            Report.from_json(text)
        assert caught.value.field == "report"


def test_reports_stand_side_by_side(tmp_path: Path) -> None:
    """As a table, as Markdown and as a page whose text cannot become markup."""
    reports = [report_of("one", "passed", multi=True), report_of("one", "failed", multi=True)]
    assert list(matrix_of(reports)[0]) == ["promise", "one", "one 2"]
    assert "| multi | kept | FAILED |" in text_of(reports)
    page = html_of(reports)
    assert "&lt;why&gt;" in page and "<why>" not in page
    for number, report in enumerate(reports):
        (tmp_path / f"{number}.json").write_text(report.to_json())
    ended = told("tck-matrix", "0.json", "1.json", "--report", "all.html", "--report", "all.md", folder=tmp_path)
    assert (ended.returncode, "one 2" in ended.stdout) == (0, True)
    assert (tmp_path / "all.html").read_text() == page
    assert (tmp_path / "all.md").read_text() == text_of(reports)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["memory://a", "--kill", "true"], "need --heal"),
        (["memory://a", "--heal", "true"], "need --heal"),
        (["memory://a", "--report", "out.pdf"], "must end with"),
        (["memory://a", "--area", "colours", "--backend", "memory_store:PLUGIN"], "colours"),
        (["nowhere://a"], "nothing installed serves nowhere://"),
    ],
)
def test_a_wrong_option_is_told(words: list[str], why: str, page: Path) -> None:
    ended = told("tck", *words, folder=page)
    assert (ended.returncode, why in ended.stderr) == (2, True), ended.stderr
