"""The layers of ARCHITECTURE.md, kept: a module imports downward only, and the pure parts touch no outside world.

Counted are `import`, `from ... import`, `cimport` and `from ... cimport` in .py, .pyx and .pxd files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.lint.sources import (
    ROOT,
    declared,
    external_headers,
    imports_at_load,
    imports_of,
    is_python_facing,
    module_name,
    relative,
    source_files,
)
from tests.lint.uses import methods_for_tests_alone, names_for_tests_alone

# The floors of the house, from the ground up: a part imports what stands on a lower floor, and no neighbour.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("common", "config", "errors", "interfaces", "native", "operations", "ports", "results", "status", "version"),
    ("raft",),
    ("_core", "assignors", "check", "flight", "members", "security", "user_machines", "wire"),
    ("bindings", "machine", "net", "storage"),
    ("connections", "engine", "verbs"),
    ("client", "loop"),
    ("doors", "scan", "server"),
    ("coordinator", "face", "recipes"),
    ("aio", "clients", "doctor", "explain", "faults", "prometheus", "snapshot"),
    ("node", "recovery"),
    ("backends", "sim"),
    ("dashboard", "metastore", "rest"),
    ("",),  # raftmeta/__init__.py: the public names
    ("compat", "conformance", "migrate", "testing"),
    ("spark",),
    ("cli",),
)
LAYERS = {part: floor for floor, parts in enumerate(FLOORS) for part in parts}
TOOLS = LAYERS[""] + 1  # from this floor on a part uses public names only
NO_THREADS = {
    "sim": {"aio", "client", "clients", "connections", "face", "loop", "net", "node", "recipes", "scan", "server"}
}
GROUND = 0  # its parts are words and shapes: they may name one another
PURE = {"raft", "_core", "wire", "machine"}
PURE_HEADERS = {"stdlib.h", "string.h", "sys/mman.h"}  # memory is not the outside world
PURE_EXTERNALS = {"cython", "libc.stddef", "libc.stdint", "libc.stdlib", "libc.string"}
# The Python faces of pure modules also need the words of Python itself.
FACE_EXTERNALS = {"__future__", "collections", "cpython", "dataclasses", "enum", "typing"}
PUBLIC_PARTS = {
    "",
    "aio",
    "assignors",
    "check",
    "config",
    "conformance",
    "coordinator",
    "dashboard",
    "doctor",
    "errors",
    "explain",
    "faults",
    "interfaces",
    "metastore",
    "migrate",
    "operations",
    "prometheus",
    "recipes",
    "recovery",
    "rest",
    "results",
    "scan",
    "security",
    "sim",
    "snapshot",
    "spark",
    "testing",
}
TOOL_FOLDERS = ("examples", "demo", "jepsen", "benchmarks", "release")


def part_of(module: str) -> str:
    """raftmeta.raft.types -> raft; raftmeta -> ''."""
    return [*module.split("."), ""][1]


def forbidden_imports(module: str, imported: list[str]) -> Iterator[str]:
    """Every import that goes upward, sideways, or out of a pure part."""
    part = part_of(module)
    layer = LAYERS[part]
    for name in imported:
        target = part_of(name)
        if name.split(".")[0] != "raftmeta":
            if part in PURE and not is_pure_external(module, name):
                yield f"{module} is pure and imports {name}"
        elif target not in LAYERS:
            # `from raftmeta import Node`: a name of the package itself, not a part of it.
            if layer < LAYERS[""]:
                yield f"{module} (layer {layer}) imports the public name {name}"
        elif layer >= TOOLS and target not in PUBLIC_PARTS and target != part:
            yield f"{module} is a tool and imports {name}: public names only"
        elif target in NO_THREADS.get(part, ()):
            yield f"{module} imports {name}: the simulator has neither threads nor sockets"
        elif LAYERS[target] > layer:
            yield f"{module} (layer {layer}) imports {name} (layer {LAYERS[target]}): upward"
        elif LAYERS[target] == layer != GROUND and target != part:
            yield f"{module} imports {name}: sideways within layer {layer}"


def is_pure_external(module: str, name: str) -> bool:
    if name in PURE_EXTERNALS:
        return True
    return is_python_facing(module) and name.split(".")[0] in FACE_EXTERNALS


def package_imports() -> dict[Path, list[str]]:
    return {
        path: list(imports_of(path.read_text(), is_python=path.suffix == ".py"))
        for path in source_files(".py", ".pyx", ".pxd")
    }


def test_every_part_of_the_package_has_a_layer() -> None:
    """A module or package directly below raftmeta/ stands on a floor, and nothing else does."""
    parts = {part_of(module_name(path)) for path in source_files(".py", ".pyx", ".pxd")}
    assert parts == LAYERS.keys()


def test_imports_point_downward_only() -> None:
    """No module imports a higher layer, nor a neighbour."""
    found = [
        violation
        for path, imported in package_imports().items()
        for violation in forbidden_imports(module_name(path), imported)
    ]
    assert not found, "\n".join(found)


def test_pure_layers_include_no_system_header() -> None:
    """Pure parts reach C only through headers of the package and for memory."""
    allowed = {path.name for path in source_files(".hpp")} | PURE_HEADERS
    for path in source_files(".pyx", ".pxd"):
        if part_of(module_name(path)) in PURE:
            strange = set(external_headers(path.read_text())) - allowed
            assert not strange, f"{path.relative_to(ROOT)}: cdef extern from {strange}"


def graph_of(sources: Iterable[tuple[str, str, bool]]) -> dict[str, set[str]]:
    """Which modules of the package each one needs to load: of (module, text, is_python), one entry a file."""
    needed: dict[str, set[str]] = {}
    for module, text, is_python in sources:
        needed.setdefault(module, set()).update(imports_at_load(text, is_python=is_python))
    return {module: (names & needed.keys()) - {module} for module, names in needed.items()}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Every circle that a walk over the graph closes, as the modules on it."""
    done: set[str] = set()
    way: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        if module in way:
            found.append(way[way.index(module) :])
        elif module not in done:
            way.append(module)
            for target in sorted(graph[module]):
                visit(target)
            done.add(way.pop())

    for module in sorted(graph):
        visit(module)
    return found


def test_no_modules_form_a_circle() -> None:
    """Each module can be read, built and loaded before those that use it: header, body and stub taken together."""
    sources = [
        (module_name(path), path.read_text(), path.suffix == ".py") for path in source_files(".py", ".pyx", ".pxd")
    ]
    found = circles(graph_of(sources))
    assert not found, "\n".join(" -> ".join([*circle, circle[0]]) for circle in found)


def test_a_planted_circle_is_found() -> None:
    """A body that needs a header above it closes a circle, one function's import or a type's does not."""
    low = ("raftmeta.low", "from raftmeta.middle cimport Shape\n", False)
    middle = ("raftmeta.middle", "import os\nfrom raftmeta import high\n", True)
    high = ("raftmeta.high", "if TYPE_CHECKING:\n    import raftmeta.middle\ndef f():\n    import raftmeta.low\n", True)
    assert circles(graph_of([low, middle, high])) == []
    assert circles(graph_of([low, middle, high, ("raftmeta.high", "from raftmeta.low cimport f", False)])) == [
        ["raftmeta.high", "raftmeta.low", "raftmeta.middle"]
    ]


def test_tools_outside_the_package_use_public_names() -> None:
    """demo/, jepsen/ and benchmarks/ are users like any other; benchmarks may also measure a module by its handle."""
    for folder in TOOL_FOLDERS:
        for path in source_files(".py", below=ROOT / folder):
            for name in imports_of(path.read_text(), is_python=True):
                if name.split(".")[0] != "raftmeta" or (folder == "benchmarks" and name.endswith("_handle")):
                    continue
                part = part_of(name)
                assert part in PUBLIC_PARTS or part not in LAYERS, f"{path.relative_to(ROOT)} imports {name}"


def public_words() -> set[str]:
    """Words of the documents, and the names that a module of the package offers."""
    documents = [*ROOT.glob("*.md"), *source_files(".md", below=ROOT / "docs")]
    words = {word for path in documents for word in re.findall(r"\w+", path.read_text())}
    for path in source_files(".py"):
        words.update(declared(path) or [])
    return words


def test_the_package_calls_what_it_defines() -> None:
    """A function that only tests call stands in tests/faces: public names, and those that other libraries call, may."""
    package = {relative(path): path.read_text() for path in source_files(".py", ".pyx", ".pxd")}
    tests = {relative(path): path.read_text() for path in source_files(".py", ".pyx", below=ROOT / "tests")}
    assert not list(names_for_tests_alone(package, tests, public_words()))


def test_the_package_calls_each_method_of_a_handle() -> None:
    """Their names are short words, which other classes also use: so the callers are looked for nearby."""
    sources = {module_name(path): path.read_text() for path in source_files(".py", ".pyx")}
    handles = [module for module in sources if module.endswith("_handle")]
    assert not {handle: names for handle in handles if (names := list(methods_for_tests_alone(handle, sources)))}


def test_a_planted_name_for_tests_is_found() -> None:
    """The two checks bite, and a caller makes them quiet."""
    low = {"low.pxd": "cdef int probe(int a)", "low.pyx": "cdef int probe(int a):\n    return a\n"}
    tests = {"test_low.py": "probe(3)"}
    assert [name for _, name in names_for_tests_alone(low, tests, set())] == ["probe", "probe"]
    assert not list(names_for_tests_alone(low, tests, {"probe"}))
    caller = {"high.pyx": "from low cimport probe\ndef f():\n    return probe(2)\n"}
    assert not list(names_for_tests_alone({**low, **caller}, tests, set()))
    assert list(names_for_tests_alone({**low, "high.pyx": "from low cimport probe\n# probe\n"}, tests, set()))

    handle = {"p.low_handle": "cdef class Handle:\n    def open(self):\n        pass\n"}
    assert list(methods_for_tests_alone("p.low_handle", handle)) == ["open"]
    stranger = {"p.other": "path.open()\n"}
    assert list(methods_for_tests_alone("p.low_handle", {**handle, **stranger})) == ["open"]
    user = {"p.user": "from p.low_handle import Handle\n"}
    far = {"p.far": "from p.user import made\nmade().open()\n"}
    assert not list(methods_for_tests_alone("p.low_handle", {**handle, **user, **far}))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("raftmeta.raft.types", "from raftmeta._core cimport Ready"),
        ("raftmeta._core", "cimport raftmeta.wire.frame"),
        ("raftmeta.wire.frame", "from raftmeta.machine.tree cimport (Entry,\n    Tree)"),
        ("raftmeta.storage.wal", "from raftmeta.net.link cimport Link"),
        ("raftmeta.raft.log", "import time"),
        ("raftmeta.raft.log_handle", "import threading"),
        ("raftmeta.machine.machine", "from posix.time cimport clock_gettime"),
        ("raftmeta.face.node", "from raftmeta.sim cimport world"),
        ("raftmeta.face.node", "from raftmeta import Node"),
        ("raftmeta.sim.world.world", "from raftmeta.backends.embedded import connect"),
        ("raftmeta.spark.source", "from raftmeta.wire.frame_handle import decode"),
        ("raftmeta.spark.source", "from raftmeta.cli.app import main"),
        ("raftmeta.migrate.loader", "from raftmeta.testing import Cluster"),
        ("raftmeta.native.chunks", "def f():\n    from raftmeta.ports cimport x\n    import raftmeta.raft.types as t"),
    ],
)
def test_a_planted_violation_is_found(module: str, source: str) -> None:
    """The check bites: each of these sources breaks one rule."""
    assert len(list(forbidden_imports(module, list(imports_of(source, is_python=False))))) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("raftmeta.machine.machine", "from raftmeta.wire.commands cimport Command"),
        ("raftmeta._core", "from raftmeta.raft.state cimport Core\nfrom libc.stdint cimport uint64_t"),
        ("raftmeta.raft.log", "# import time\nTEXT = 'import os'"),
        (
            "raftmeta.raft.log_handle",
            "from collections.abc import Iterable, Iterator\nfrom cpython.bytes cimport PyBytes_AS_STRING",
        ),
        ("raftmeta.sim.world.world", "from raftmeta.machine.machine cimport Machine"),
        ("raftmeta.cli.main", "from raftmeta import Node, aio"),
    ],
)
def test_an_allowed_import_is_not_reported(module: str, source: str) -> None:
    """What the table allows passes, and words in comments and strings are no imports."""
    assert list(forbidden_imports(module, list(imports_of(source, is_python=False)))) == []
