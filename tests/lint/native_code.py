"""Is the generated C++ of native code free of Python? Read as text, function by function.

A function that runs on a native thread may name its own variables, other functions of the package and C. Anything else
of Python's or Cython's run-time (taking the GIL, raising, counting references, touching an object) is a violation.
The rule is written as what is allowed, so that a new Cython with new names makes the scan stricter, not blind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.lint.sources import without_strings

# Names of Python and of Cython's run-time; __pyx_... in lower case are variables, labels and functions of the module.
_RUNTIME_NAME = re.compile(
    r"\b(?:_?Py_?[A-Z]\w*|Py_\w+|PY_\w+|__Pyx_\w+|__PYX_\w+|__pyx_mstate\w*|CYTHON_[A-RT-Z]\w*)\b"
)
_EXCEPTION = re.compile(r"\b(?:try|catch|throw)\b")
_ALLOWED_NAMES = {
    "Py_ssize_t",
    "__PYX_STD_MOVE_IF_SUPPORTED",
    "CYTHON_UNUSED",
    "CYTHON_INLINE",
    "CYTHON_FALLTHROUGH",
    "CYTHON_MAYBE_UNUSED_VAR",
    "CYTHON_UNUSED_VAR",
    "CYTHON_NCP_UNUSED",
}
_COMMENT_OR_LITERAL = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'", re.DOTALL)
_PREPROCESSOR = re.compile(r"^[ \t]*#[^\n]*$", re.MULTILINE)
_DEFINITION = re.compile(r"^static [^;{}()=]*?\b(__pyx_f_\w+)\([^;{}]*\) *\{", re.MULTILINE)
_PYTHON_VISIBLE = re.compile(
    r"^static PyMethodDef __pyx_mdef_\w*|^static PyTypeObject \*?__pyx_\w+|"
    r"^static PyType_Spec \w+",
    re.MULTILINE,
)
# A signature may go on in indented lines; it ends at the first colon that ends a line.
_CDEF = re.compile(
    r"^([ \t]*)cdef\s+(?!class\b|extern\b|struct\b|enum\b)[^\n(=]*?(\w+)\s*\("
    r"((?:(?!:[ \t]*\n)(?:[^\n]|\n[ \t]))*)\bnogil[ \t]*:",
    re.MULTILINE,
)
_CLASS = re.compile(r"^cdef class (\w+)", re.MULTILINE)
# What a C++ header of native code may not do: throw, allocate by throwing, or use containers that do.
_HEADER_FORBIDDEN = re.compile(
    r"\b(?:throw|try|catch|dynamic_cast)\b|\bnew\b(?!\s*\(std::nothrow)|"
    r"\bstd::(?:vector|string|deque|list|map|set|unordered_map|unordered_set|function|make_unique|make_shared|thread)\b|"
    r"\bPy_?[A-Z]\w*"
)


def native_functions(module: str, source: str) -> dict[str, bool]:
    """The C++ names of the functions that a source of `module` declares nogil -> is it also noexcept?"""
    bare = without_strings(source)
    classes = [(match.start(), match.group(1)) for match in _CLASS.finditer(bare)]
    found = {}
    for match in _CDEF.finditer(bare):
        indent, name, rest = match.groups()
        scopes = module.split(".")
        if indent:  # a method of the class above it
            scopes.append([owner for start, owner in classes if start < match.start()][-1])
        found["__pyx_f_" + "".join(f"{len(scope)}{scope}_" for scope in scopes) + name] = "noexcept" in rest
    return found


def generated_functions(generated: str) -> Iterator[tuple[str, str]]:
    """(C++ name, body) of each cdef function in a generated file; comments, literals and #line lines are gone."""
    text = _PREPROCESSOR.sub("", _COMMENT_OR_LITERAL.sub('""', generated))
    for match in _DEFINITION.finditer(text):
        yield match.group(1), text[match.end() : _closing_brace(text, match.end())]


def python_names(body: str) -> list[str]:
    """What a native function body takes from Python or C++ exceptions; empty is right."""
    names = {name for name in _RUNTIME_NAME.findall(body) if name not in _ALLOWED_NAMES}
    return sorted(names | set(_EXCEPTION.findall(body)))


def has_python_visible_names(generated: str) -> bool:
    """True for a module with def functions or cdef classes; a hot module has none."""
    return bool(_PYTHON_VISIBLE.search(generated))


def violations(module: str, source: str, generated: str, *, is_hot: bool) -> Iterator[str]:
    """is_hot: every cdef function is native code. Otherwise those that the source declares nogil."""
    native = native_functions(module, source)
    bodies = dict(generated_functions(generated))
    for name, body in bodies.items():
        if (is_hot or name in native) and (found := python_names(body)):
            yield f"{name}: {', '.join(found)}"
    for name, is_noexcept in native.items():
        if not is_noexcept:
            yield f"{name}: nogil without noexcept"
        if name not in bodies:
            yield f"{name}: not found in the generated code"
    if is_hot and has_python_visible_names(generated):
        yield "a hot module has Python-visible names; they belong into a *_handle module"


def header_violations(header: Path) -> list[str]:
    text = _PREPROCESSOR.sub("", _COMMENT_OR_LITERAL.sub('""', header.read_text()))
    return sorted(set(_HEADER_FORBIDDEN.findall(text)))


def _closing_brace(text: str, position: int) -> int:
    depth = 1
    for match in re.compile(r"[{}]").finditer(text, position):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.start()
    raise ValueError("unbalanced braces in generated code")
