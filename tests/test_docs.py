"""The documents are true: the example runs, what they name exists, what the sources cite can be opened."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lint.rules import for_each
from tests.lint.sources import PACKAGE, ROOT, source_files
from tests.processes.waiting import free_ports

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *source_files(".md", below=ROOT / "docs")]
SOURCE_FILES = [*source_files(".py", ".pyx", ".pxd", ".pyi", ".hpp"), *source_files(".py", below=ROOT / "jepsen")]
SOURCE_TEXT = {path: path.read_text() for path in SOURCE_FILES}
SOURCE_WORDS = {word for text in SOURCE_TEXT.values() for word in re.findall(r"[A-Za-z_]\w+", text)}

TEST_FILES = source_files(".py", below=ROOT / "tests")
TEST_NAMES = {name for path in TEST_FILES for name in re.findall(r"def (test_\w+)", path.read_text())} | {
    path.stem for path in TEST_FILES
}

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
PATH = re.compile(r"^[\w.*-]+(?:/[\w.*-]*)+$|^\w+\.(?:py|pyx|pxd|pyi|md|sh|txt|toml)$")
# An identifier that can only be meant as a name of the code: with an underscore inside, in capitals, or CamelCase.
NAME = re.compile(r"^(?:[a-z]\w*_\w+|[A-Z][a-z]+(?:[A-Z][a-z]+)+|[A-Z]{2,}_[A-Z_]+)$")


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def examples(path: Path) -> list[str]:
    return [text for language, text in FENCE.findall(path.read_text()) if language == "python"]


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    """As printed, but for the ports: three nodes found a cluster, one write is seen everywhere, all close."""
    (program,) = examples(ROOT / "README.md")
    for port in free_ports(3):
        program = re.sub(r"127\.0\.0\.1:710\d\"", f'127.0.0.1:{port}"', program, count=1)
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env={"PATH": "", "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_the_example_is_short() -> None:
    """Fifteen lines of code besides imports, blank lines and the list of peers."""
    (program,) = examples(ROOT / "README.md")
    lines = [line for line in program.split("\n") if line.strip() and not line.startswith(("import", "peers"))]
    assert len(lines) <= 15


@for_each(DOCUMENTS, relative)
def test_links_lead_to_files(document: Path) -> None:
    """A link without a scheme names a file, seen from the document."""
    for target in LINK.findall(FENCE.sub("", document.read_text())):
        if "://" not in target:
            assert (document.parent / target).exists(), target


@for_each(DOCUMENTS, relative)
def test_what_a_document_names_exists(document: Path) -> None:
    """Paths in code marks are there, names in code marks stand in the sources or are those of tests."""
    missing = []
    for code in CODE.findall(FENCE.sub("", document.read_text())):
        if PATH.match(code):
            if not is_path(code):
                missing.append(code)
        elif document.parent.name != "decisions":  # those compare with other programs, by their names
            missing += [
                word
                for word in re.findall(r"[A-Za-z_]\w+", code)
                if NAME.match(word) and word not in SOURCE_WORDS | TEST_NAMES
            ]
    assert not missing


def is_path(text: str) -> bool:
    """A file or folder of the checkout or the package, with its suffix or as a module; or made by the benchmarks."""
    if f"{text}/".startswith("build/benchmarks/"):
        return True
    return any(
        (base / text).exists() or any((base / text).parent.glob(f"{Path(text).name}.p*"))
        for base in (ROOT, PACKAGE, ROOT / "docs")
    )


@for_each(source_files(".md", below=ROOT / "docs"), relative)
def test_the_tests_that_a_document_names_are_there(document: Path) -> None:
    """What is said to be tested is tested: each name is that of a function, a class or a file of tests."""
    assert set(re.findall(r"(?<![\w/])test_\w+", FENCE.sub("", document.read_text()))) <= TEST_NAMES


@pytest.mark.parametrize("heading", ["Messages", "Connections and frames beside the core"])
def test_each_row_of_what_is_vouched_for_names_its_test(heading: str) -> None:
    """docs/invariants.md: a test, or a transcript of tests/core/testdata, in the last column of each row."""
    text = (ROOT / "docs" / "invariants.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 14
    for row in rows:
        assert re.search(r"`(test_\w+|tests/core/testdata/\w+\.txt)`", row[-1]), row[0]


def test_the_architecture_names_every_part() -> None:
    """Each package below raftmeta/ stands in the table of layers."""
    table = (ROOT / "ARCHITECTURE.md").read_text()
    for package in sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py")):
        assert re.search(rf"`(?:raftmeta/)?{package}`", table), package


def test_every_folder_of_tests_has_a_row() -> None:
    """And every row of tests/README.md is a folder."""
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "tests/README.md").read_text(), re.MULTILINE)
    assert rows and len(rows) == len(set(rows))
    assert set(rows) == {path.parent.name for path in (ROOT / "tests").glob("*/__init__.py")}


def test_what_the_architecture_places_is_there() -> None:
    """`file:function`: the file has a function, a method or a class of that name."""
    placed = re.findall(r"`([\w/]+\.\w+):(\w+)`", (ROOT / "ARCHITECTURE.md").read_text())
    assert len(placed) > 20
    for file, name in placed:
        assert re.search(rf"^ *(?:cdef|def|class|async def)\b[^\n(]*\b{name}\(", (PACKAGE / file).read_text(), re.M), (
            f"{file} has no {name}"
        )


def test_the_architecture_names_every_thread() -> None:
    """The names that the package gives to threads, but those of tools."""
    table = (ROOT / "ARCHITECTURE.md").read_text()
    tools = {"backends", "compat", "conformance", "migrate", "sim", "spark", "testing"}
    for path in source_files(".py", ".pyx", ".hpp"):
        if path.relative_to(PACKAGE).parts[0] in tools:
            continue
        text = path.read_text()
        named = re.findall(r"(?:name=|thread_start\([^\n]*?)f?b?\"(raftmeta-[a-z-]+)", text)
        named += [f"raftmeta-{name}" for name in re.findall(r"SharedThreads\(\"([a-z-]+)\"", text)]
        for name in named:
            if name != "raftmeta-":
                assert f"`{name}`" in table or f"`{name.rstrip('-')}-`" in table, f"{path.name}: {name}"


@for_each([*SOURCE_TEXT, *DOCUMENTS, *sorted((ROOT / "tests" / "core" / "testdata").glob("*.txt"))], relative)
def test_a_cited_document_can_be_opened(citing: Path) -> None:
    """A document that is named is in this repository, and has the words that are quoted with its name."""
    text = re.sub(r"\n[# ]*", " ", citing.read_text())  # a citation goes on in the next line of a comment
    for name, section in re.findall(r"(DESIGN|ARCHITECTURE|[\w./-]+\.md)\b(?: \"([^\"]+)\")?", text):
        name += "" if name.endswith(".md") else ".md"
        found = [path for path in (ROOT / name, ROOT / "docs" / name, citing.parent / name) if path.exists()]
        assert found, f"{name} is not here"
        if section:
            assert section in re.sub(r"\s+", " ", found[0].read_text()), f"{name} has no {section!r}"


def test_tests_and_tools_cite_only_what_can_be_opened() -> None:
    """A rule is cited from a paper or from a document of this repository; other numbers tell nobody anything."""
    elsewhere = re.compile(r"\b(?:DESIGN\b|STYLE \d|features \d|reliability [A-Z]\d)")
    for folder in ("tests", "demo", "jepsen", "benchmarks", "examples"):
        for path in source_files(".py", ".pyx", ".pyi", below=ROOT / folder):
            if path != Path(__file__):
                assert not elsewhere.findall(path.read_text()), relative(path)


def test_each_term_is_explained_once() -> None:
    """docs/terms.md is a dictionary: a bold word at the beginning of a row stands there only once."""
    rows = re.findall(r"^\| \*\*([^*]+)\*\*", (ROOT / "docs" / "terms.md").read_text(), re.MULTILINE)
    words = [word for row in rows for word in row.split(", ")]
    assert len(words) == len(set(words))
    assert len(words) > 50


def test_the_documented_verbs_are_those_of_the_script() -> None:
    """Every `./build.sh verb` of a document is a case of build.sh."""
    script = (ROOT / "build.sh").read_text()
    for document in DOCUMENTS:
        for verb in re.findall(r"\./build\.sh (\w+)", document.read_text()):
            assert re.search(rf"^{verb}\)$", script, re.MULTILINE), f"{relative(document)}: {verb}"
