"""Native code never takes the GIL, never raises, never touches an object: read in the C++ that Cython generated.

An exception inside `noexcept nogil` code would take the GIL, print, and go on with a wrong value; a host that holds the
GIL would stop the node. So the scan looks at the generated functions, not at what the source seems to say.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from Cython.Compiler.Main import CompilationOptions, compile_single

from tests.lint.native_code import generated_functions, header_violations, violations
from tests.lint.rules import for_each
from tests.lint.sources import ROOT, is_python_facing, module_name, source_files

SOURCES = source_files(".pyx")


@for_each(SOURCES, module_name)
def test_native_code_is_free_of_python(source: Path) -> None:
    """No generated native function names the GIL, an exception or a Python object."""
    generated = source.with_suffix(".cpp")
    assert generated.exists(), f"{generated.relative_to(ROOT)} is missing: run ./build.sh build"
    assert generated.stat().st_mtime >= source.stat().st_mtime, (
        f"{generated.relative_to(ROOT)} is older than its source"
    )
    module = module_name(source)
    found = list(violations(module, source.read_text(), generated.read_text(), is_hot=not is_python_facing(module)))
    assert not found, "\n".join(found)


@for_each(source_files(".hpp"), lambda path: path.name)
def test_native_headers_neither_throw_nor_know_python(header: Path) -> None:
    """C++ headers allocate by malloc and report by value."""
    assert not header_violations(header)


PLANTED_PREAMBLE = """
from libcpp.vector cimport vector
cdef extern from *:
    "static int thrower(int x) { return x; }"
    int thrower(int x) except + nogil
cdef struct Box:
    int value
"""

PLANTED = {
    "takes the GIL": """
cdef int planted(Box* box) noexcept nogil:
    with gil:
        box.value = len([1])
    return 0
""",
    "runs with the GIL": """
cdef int planted() noexcept with gil:
    return 1
""",
    "catches a C++ exception": """
cdef int planted(Box* box, vector[int]* numbers) noexcept nogil:
    numbers.push_back(3)
    return thrower(2)
""",
    "swallows an error return": """
cdef int raising(Box* box) except -1 nogil:
    return box.value
cdef int planted(Box* box,
                 int more) noexcept nogil:
    return raising(box) + more
""",
    "asserts": """
cdef int planted(Box* box) noexcept nogil:
    assert box.value == 1
    return 0
""",
    "divides with a check": """
cimport cython
@cython.cdivision(False)
cdef int planted(int a, int b) noexcept nogil:
    return a // b
""",
    "reads a checked view": """
cdef int planted(int[:] view) noexcept nogil:
    return view[3]
""",
    "holds an object": """
cdef int planted(object box) noexcept:
    return 1 if box else 2
""",
    "is visible from Python": """
def planted():
    return 1
""",
}

METHOD = """
cdef class Holder:
    cdef Box box
    cdef int planted(self, int more) noexcept nogil:
        assert more
        return self.box.value
"""

CLEAN = """
cdef inline int leaf(const Box* box) noexcept nogil:
    return box.value
cdef int clean(Box* box, int* numbers,
               int count) noexcept nogil:
    cdef int i
    for i in range(count):
        box.value += numbers[i] // 3    # with gil: PyErr_SetString in a comment means nothing
    return leaf(box)
"""


def compiled(folder: Path, text: str) -> str:
    """The C++ of a module `planted` with this source, by the directives of setup.py that matter here."""
    source = folder / "planted.pyx"
    source.write_text(text)
    options = CompilationOptions(cplus=True, compiler_directives={"language_level": 3, "cdivision": True})
    result = compile_single(str(source), options=options, full_module_name="planted")
    assert result.num_errors == 0
    return Path(result.c_file).read_text()


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault: str, tmp_path: Path) -> None:
    """The scan bites: each planted function is reported when its module counts as hot."""
    text = PLANTED_PREAMBLE + PLANTED[fault]
    assert list(violations("planted", text, compiled(tmp_path, text), is_hot=True))


def test_a_planted_fault_is_found_in_a_handle_too(tmp_path: Path) -> None:
    """In a Python-facing module the functions declared nogil are scanned, the others are not."""
    text = (
        PLANTED_PREAMBLE + PLANTED["swallows an error return"] + PLANTED["is visible from Python"].replace("ted", "t")
    )
    found = list(violations("planted", text, compiled(tmp_path, text), is_hot=False))
    assert [line.split(":")[0] for line in found] == ["__pyx_f_7planted_planted", "__pyx_f_7planted_raising"]


def test_a_native_method_is_scanned(tmp_path: Path) -> None:
    """A method of a cdef class that is declared nogil counts as native code in a Python-facing module."""
    text = PLANTED_PREAMBLE + METHOD
    (found,) = violations("planted", text, compiled(tmp_path, text), is_hot=False)
    assert found.startswith("__pyx_f_7planted_6Holder_planted: ")


def test_clean_code_is_not_reported(tmp_path: Path) -> None:
    """Arithmetic, pointers, loops and calls of native functions pass; words in comments are no code."""
    text = PLANTED_PREAMBLE + CLEAN
    generated = compiled(tmp_path, text)
    assert {"__pyx_f_7planted_leaf", "__pyx_f_7planted_clean"} <= dict(generated_functions(generated)).keys()
    assert list(violations("planted", text, generated, is_hot=True)) == []
