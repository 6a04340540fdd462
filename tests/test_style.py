"""The style that a machine can judge: sizes, words that must not stay, calls that must not be made, first pages."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.lint.rules import for_each
from tests.lint.sources import PACKAGE, ROOT, relative, source_files, without_strings

FILE_LINES_MAX = 950
FUNCTION_LINES_MAX = 90  # a screen of code; the signature and the docstring are not counted
LINE_LENGTH_MAX = 120

SOURCES = [*source_files(".py", ".pyx", ".pxd", ".pyi", ".hpp"), *source_files(".py", below=ROOT / "jepsen")]
TESTS = source_files(".py", below=ROOT / "tests")
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *source_files(".md", below=ROOT / "docs")]
SCRIPTS = [ROOT / "build.sh", ROOT / ".ci" / "run"]

LEFTOVERS = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:work|home|root|Users)/\w+")
BANNED_IN_PACKAGE = {
    "pickle": re.compile(r"\b(?:pickle|marshal|shelve|dill)\b"),
    "eval or exec": re.compile(r"(?<![\w.])(?:eval|exec|compile)\s*\("),
    "a shell": re.compile(r"shell\s*=\s*True|\bos\.(?:system|popen)\b"),
    "a bare except": re.compile(r"^\s*except\s*:", re.MULTILINE),
    "print": re.compile(r"(?<![\w.])print\s*\("),
    "asyncio.wait_for, which loses cancellations": re.compile(r"\basyncio\.wait_for\b|\bfrom asyncio import\b"),
    "the environment": re.compile(r"\bos\.(?:environ|getenv)\b"),
}
# Tools for people print, and read what the person set.
MAY_PRINT = {"cli", "conformance"}
# Programs written for PySyncObj give it arguments and states that only a pickle holds.
MAY_PICKLE = {"compat"}

_FUNCTION = re.compile(
    r"^([ \t]*)(?:async\s+def|cp?def|def)\s+(?!class\b|struct\b|enum\b|extern\b|union\b|packed\b)[^\n]*\("
)

_WIDE_CAST = re.compile(r"<(?:const )?[A-Za-z_][\w.]*(?: ?\*+)?> (?=[\w(&*\"'])")
_NATIVE_DOCSTRING = re.compile(
    r"^ *cdef (?!class|struct|enum|extern|packed|union)[^\n(]*\((?:[^()]|\([^()]*\))*\)[^\n:]*:\n +r?\"", re.MULTILINE
)
_ENUM = re.compile(r"cdef enum (\w+):\n((?:    .*\n|\s*\n)+)")


def function_sizes(text: str) -> Iterator[tuple[int, int]]:
    """(line number, lines of the body without blank ones and comments) of each function in Python or Cython."""
    lines = without_strings(text).split("\n")
    for number, line in enumerate(lines):
        match = _FUNCTION.match(line)
        if match is None:
            continue
        first = number
        while first < len(lines) and not lines[first].rstrip().endswith(":"):
            first += 1  # the signature goes on
        indent = len(match.group(1))
        size = 0
        for body_line in lines[first + 1 :]:
            if body_line.strip() and len(body_line) - len(body_line.lstrip()) <= indent:
                break
            size += bool(body_line.strip().strip("\"'"))
        yield number + 1, size


@cache
def _words() -> Counter[str]:
    """How often each word stands in all sources that may use a header."""
    below = (PACKAGE, ROOT / "tests", ROOT / "benchmarks")
    files = [path for folder in below for path in source_files(".pyx", ".pxd", ".py", ".hpp", below=folder)]
    return Counter(word for path in files for word in re.findall(r"\w+", without_strings(path.read_text())))


@for_each(SOURCES, relative)
def test_a_source_can_be_held_in_mind(path: Path) -> None:
    """Files and functions keep within their limits; lines of C++ too, which ruff and cython-lint do not read."""
    text = path.read_text()
    assert text.count("\n") <= FILE_LINES_MAX
    if path.suffix == ".hpp":
        long_lines = [number for number, line in enumerate(text.split("\n"), 1) if len(line) > LINE_LENGTH_MAX]
        assert not long_lines, f"lines over {LINE_LENGTH_MAX}: {long_lines}"
    if path.suffix in (".py", ".pyx"):
        too_long = [(line, size) for line, size in function_sizes(text) if size > FUNCTION_LINES_MAX]
        assert not too_long, f"functions over {FUNCTION_LINES_MAX} lines (line, size): {too_long}"


@for_each(SOURCES, relative)
def test_a_source_opens_with_its_first_page(path: Path) -> None:
    """A module says what it is before it imports anything."""
    text = path.read_text().strip()
    if text:
        assert text.startswith(('"""', 'r"""', "#", "//")), "no docstring or comment at the top"


@for_each([*SOURCES, *TESTS, *DOCUMENTS, *SCRIPTS], relative)
def test_nothing_is_left_over(path: Path) -> None:
    """No mark of unfinished work and no path of somebody's machine."""
    text = path.read_text()
    if path == Path(__file__):
        text = text.replace(LEFTOVERS.pattern, "")
    assert not LEFTOVERS.findall(text)
    assert not MACHINE_PATHS.findall(text)


@for_each(source_files(".py", ".pyx"), relative)
def test_the_package_makes_no_banned_call(path: Path) -> None:
    """No code from data, no shell, no hidden configuration, no output that the host did not ask for."""
    bare = without_strings(path.read_text())
    part = path.relative_to(PACKAGE).parts[0]
    allowed = {"print", "the environment"} if part in MAY_PRINT else {"pickle"} if part in MAY_PICKLE else set()
    found = [what for what, pattern in BANNED_IN_PACKAGE.items() if what not in allowed and pattern.search(bare)]
    assert not found


@for_each(
    [
        *source_files(".pyx", ".pxd"),
        *source_files(".pyx", ".pxd", below=ROOT / "tests"),
        *source_files(".pyx", ".pxd", below=ROOT / "benchmarks"),
    ],
    relative,
)
def test_cython_is_written_in_one_dialect(path: Path) -> None:
    """<type>value without a space; prose about a native function above it; a docstring as the first page of a .pyx."""
    text = path.read_text()
    bare = without_strings(text)
    assert not _WIDE_CAST.findall(bare), "a space behind a cast"
    assert not _NATIVE_DOCSTRING.findall(bare), "a docstring in a native function: a comment above it tells the same"
    if path.suffix == ".pyx" and text.strip():
        without_directives = re.sub(r"\A(?:# (?:distutils|cython):.*\n)+", "", text)
        assert without_directives.startswith(('"""', 'r"""')), "a .pyx opens with a docstring"


@for_each(source_files(".pxd"), relative)
def test_the_members_of_an_enum_are_told_apart(path: Path) -> None:
    """Two lines of work that each took the next free number would merge without a conflict, and mean each other."""
    for enum, body in _ENUM.findall(path.read_text()):
        values = re.findall(r"^    \w+ = (\w+)", body, re.MULTILINE)
        assert len(values) == len(set(values)), f"{enum} gives one number to two names"


@for_each(source_files(".pxd"), relative)
def test_nothing_in_a_header_is_dead(path: Path) -> None:
    """Another file calls each function of a header; some file names each struct, and a member of each enum."""
    bare = without_strings(path.read_text())
    functions = re.findall(
        r"^cdef (?!extern|struct|enum|union|packed|class)[^\n(=]*?\b(\w+)\((?!\*)", bare, re.MULTILINE
    )
    structs = re.findall(r"^cdef (?:packed )?(?:struct|union) (\w+)", bare, re.MULTILINE)
    enums = re.findall(r"^cdef enum ?\w*:\n((?:    .*\n|\s*\n)+)", bare, re.MULTILINE)
    everywhere = _words()
    body = path.with_suffix(".pyx")
    own = Counter(re.findall(r"\w+", without_strings(body.read_text()))) if body.exists() else Counter[str]()
    assert not [name for name in functions if everywhere[name] - own[name] < 2]
    assert not [name for name in structs if everywhere[name] < 2]
    for members in (re.findall(r"^    (\w+)", enum, re.MULTILINE) for enum in enums):
        assert any(everywhere[name] > 1 for name in members), members


@for_each(TESTS, relative)
def test_a_test_can_fail_and_does_not_sleep(path: Path) -> None:
    """No skipped test, no `assert True`, no sleep: to wait for a condition there is tests/processes/waiting.py."""
    bare = without_strings(path.read_text())
    assert not re.search(r"pytest\.(?:mark\.)?(?:skip|skipif|xfail|importorskip)\b", bare), "skipped"
    assert not re.search(r"^\s*assert True\s*$", bare, re.MULTILINE), "cannot fail"
    if path.relative_to(ROOT).as_posix() != "tests/processes/waiting.py":
        slept = [call for call in re.findall(r"\bsleep\(([^)]*)\)", bare) if call.strip() != "0"]
        assert not slept, "sleeps"


@for_each([path for path in TESTS if path.name.startswith("test_")], relative)
def test_a_test_has_a_sentence_for_a_name(path: Path) -> None:
    """Tests are named test_subject_verb_...: at least three words."""
    short = [
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and node.name.count("_") < 3
    ]
    assert not short


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("def f():\n    return 1\n", [1]),
        (
            "class A:\n    def f(\n        b\n    ):\n        '''Doc\n        more.'''\n        # y\n        b",
            [1],
        ),
        (
            "cdef int f(int a) noexcept nogil:\n    cdef int b\n\n    b = a\n    return b\ncdef int g():\n    pass\n",
            [3, 1],
        ),
    ],
)
def test_the_size_of_a_function_is_counted_right(text: str, sizes: list[int]) -> None:
    """The measure itself, on sources small enough to count by hand."""
    assert [size for _, size in function_sizes(text)] == sizes
