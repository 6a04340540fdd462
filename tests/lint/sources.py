"""The source files of the checkout and what they import, read as text: nothing here imports raftmeta."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "raftmeta"

# Native is every .pyx but those of these folders and the *_handle ones, which show a native module to Python.
FACES = ("raftmeta.face.", "raftmeta.bindings.", "raftmeta.native.marks", "raftmeta.native.buggify")

_STRING = re.compile(r"[rRbBuUfF]{0,2}('''|\"\"\"|'|\")(?:\\.|(?!\1).)*?\1", re.DOTALL)
_STRING_OR_COMMENT = re.compile(_STRING.pattern + r"|#[^\n]*", re.DOTALL)
_FROM = re.compile(r"^[ \t]*from\s+([\w.]+)\s+c?import\s+(\([^)]*\)|[^\n]*)", re.MULTILINE)
_PLAIN = re.compile(r"^[ \t]*c?import\s+([\w., \t]+)$", re.MULTILINE)
_FROM_AT_LOAD = re.compile(r"^from\s+([\w.]+)\s+c?import\s+(\([^)]*\)|[^\n]*)", re.MULTILINE)
_PLAIN_AT_LOAD = re.compile(r"^c?import\s+([\w., \t]+)$", re.MULTILINE)
_EXTERN = re.compile(r"^[ \t]*cdef\s+extern\s+from\s+[\"'<]+([^\"'>]+)", re.MULTILINE)


def source_files(*suffixes: str, below: Path = PACKAGE) -> list[Path]:
    """Files with one of these suffixes, without what a build made, in order of path."""
    return sorted(path for path in below.rglob("*") if path.suffix in suffixes and path.is_file())


def module_name(path: Path) -> str:
    """raftmeta/raft/types.pxd -> raftmeta.raft.types; a package's __init__ -> the package."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def relative(path: Path) -> str:
    """The path below the checkout."""
    return path.relative_to(ROOT).as_posix()


def declared(path: Path) -> list[str] | None:
    """`__all__` as written in a module of Python; None when there is none."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets):
            return [str(name) for name in ast.literal_eval(node.value)]
    return None


def is_python_facing(module: str) -> bool:
    """True for modules that may show names to Python and touch objects, outside their nogil functions."""
    return module.endswith("_handle") or module.startswith(FACES)


def without_strings(text: str) -> str:
    """Python or Cython source with comments gone and every string literal empty, lines kept."""

    def blank(match: re.Match[str]) -> str:
        quote = match.group(1)
        return ("" if quote is None else quote * 2) + "\n" * match.group(0).count("\n")

    return _STRING_OR_COMMENT.sub(blank, text)


def imports_of(text: str, *, is_python: bool) -> Iterator[str]:
    """Every module that a source imports or cimports; `from raftmeta import x` gives raftmeta.x: x may be a module."""
    if is_python:
        yield from _python_imports(text)
        return
    bare = without_strings(text)
    for match in _FROM.finditer(bare):
        yield from _joined(match.group(1), re.split(r"[\s,()\\]+", match.group(2)))
    for match in _PLAIN.finditer(bare):
        yield from (part.split()[0] for part in match.group(1).split(",") if part.strip())


def imports_at_load(text: str, *, is_python: bool) -> Iterator[str]:
    """Every module that loading or compiling this one needs; `from a.b import c` gives a.b and a.b.c: c may be one.

    Left out are imports inside functions, and those that only a type checker makes.
    """
    if is_python:
        yield from _loaded_imports(ast.parse(text).body)
        return
    bare = without_strings(text)
    for match in _FROM_AT_LOAD.finditer(bare):
        yield match.group(1)
        yield from (f"{match.group(1)}.{name}" for name in re.findall(r"\w+", match.group(2)))
    for match in _PLAIN_AT_LOAD.finditer(bare):
        yield from (part.split()[0] for part in match.group(1).split(",") if part.strip())


def _loaded_imports(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If):
            if "TYPE_CHECKING" not in ast.unparse(node.test):
                yield from _loaded_imports(node.body)
            yield from _loaded_imports(node.orelse)
        elif isinstance(node, ast.Try):
            yield from _loaded_imports([*node.body, *(line for handler in node.handlers for line in handler.body)])


def external_headers(text: str) -> list[str]:
    """The C headers of `cdef extern from "..."`; a bare `*` (verbatim C) is left out."""
    return [name for name in _EXTERN.findall(text) if name.strip() != "*"]


def _python_imports(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"line {node.lineno}: relative import; name the package in full")
            yield from _joined(node.module or "", [alias.name for alias in node.names])


def _joined(module: str, names: list[str]) -> Iterator[str]:
    if module == "raftmeta":
        yield from (f"raftmeta.{name}" for name in names if name.isidentifier() and name != "as")
    else:
        yield module
