"""Cython for many modules of one checkout. Each header is read once.

Cython reads all headers below a module anew for each module, which takes three quarters of its time here. This file
reads the headers of all modules in one process. A child of that process (`fork`) then translates each module: it finds
every header as it was read, and takes those that its module reaches, in the order in which Cython would have read them.
So the C++ is the same, byte for byte; tests/test_translate.py compares it.

Cython keeps four things of a header that later ones change: the trees of inline functions, the marks of what is used,
the order of C++ includes, and the definitions. The first three are put back for each module. Definitions change only
while a module is translated, and that happens in a child.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import functools
import gc
import os
import sys
import traceback
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from Cython.Build import Dependencies
from Cython.Compiler import Errors, Main
from Cython.Compiler.Code import IncludeCode

KNOWN = ("3.3.",)  # the releases of Cython whose `Context` this file knows; others translate as they do by themselves


def cythonize(extensions: list[Any], at_once: int, **arguments: Any) -> None:
    """As Cython's own: translate what changed, so many modules at once. SystemExit if one has an error."""
    if not version("cython").startswith(KNOWN):
        Dependencies.cythonize(extensions, nthreads=at_once, **arguments)
        return
    tasks: list[tuple[Any, ...]] = []  # arguments of `cythonize_one`, which begin with the source
    translate_one = Dependencies.cythonize_one
    Dependencies.cythonize_one = lambda *task: tasks.append(task)
    try:
        Dependencies.cythonize(extensions, nthreads=0, **arguments)
    finally:
        Dependencies.cythonize_one = translate_one
    if tasks:
        _translate(tasks, at_once)


class HeadersOnce(Main.Context):
    """A `Context` that reads headers first, and then serves one module with those that the module reaches."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.is_reading = True
        self.needs: dict[Any, list[Any]] = {}  # scope of a header -> scopes of those that it reads itself
        self.used: dict[Any, list[Any]] = {}  # and what its own inline functions use
        self.trees: dict[Any, tuple[str, Any]] = {}  # and its inline functions
        self.readers: list[Any] = []  # headers that are being read, the innermost last
        self.taken: set[Any] = set()  # by the module of this child
        self.ordered: set[Any] = set()  # C++ includes that have their place in this child

    def read(self, headers: list[str]) -> None:
        """Read these headers, by dotted names, and all below them. SystemExit if one has an error."""
        Errors.init_thread()
        Errors.reset()
        Errors.open_listing_file(None, True)
        self.options.configure_language_defaults("pyx")
        for header in headers:
            self.find_module(header, need_pxd=1)
        if Errors.get_errors_count():
            sys.exit("Cython found errors in headers")
        self.trees = {tree[1]: (name, tree) for name, tree in self.pxds.items()}
        self.pxds = {}
        self.is_reading = False

    def find_module(self, *arguments: Any, **named: Any) -> Any:
        scope = super().find_module(*arguments, **named)
        if not self.is_reading:
            self._take(scope)
        elif self.readers and scope not in self.needs[self.readers[-1]]:
            self.needs[self.readers[-1]].append(scope)
        return scope

    def process_pxd(self, source_desc: Any, scope: Any, module_name: str) -> Any:
        if not self.is_reading or source_desc.in_utility_code:
            return super().process_pxd(source_desc, scope, module_name)
        self.needs[scope] = []
        self.readers.append(scope)
        result = super().process_pxd(source_desc, scope, module_name)
        self.readers.pop()
        self.used[scope] = [entry for entry in _entries(scope) if entry.used]
        for entry in self.used[scope]:
            entry.used = 0
        return result

    def _take(self, scope: Any) -> None:
        if scope in self.taken or scope not in self.needs:
            return
        self.taken.add(scope)
        for needed in self.needs[scope]:
            self._take(needed)
        if scope in self.trees:
            name, tree = self.trees[scope]
            self.pxds[name] = tree
        for entry in self.used[scope]:
            entry.used = 1
        for include in sorted(scope.c_includes.values(), key=IncludeCode.sortkey):
            if include not in self.ordered:
                self.ordered.add(include)
                include.order = IncludeCode.counter
                IncludeCode.counter += 1


def _entries(scope: Any) -> Iterator[Any]:
    """All names that the inline functions of a header can use."""
    for entry in scope.entries.values():
        yield entry
        if entry.type is not None and (entry.type.is_struct_or_union or entry.type.is_cpp_class) and entry.type.scope:
            yield from entry.type.scope.entries.values()
        if entry.as_module is not None:
            yield from entry.as_module.entries.values()


def _translate(tasks: list[tuple[Any, ...]], at_once: int) -> None:
    depends = Dependencies.create_dependency_tree()
    below = {path for task in tasks for path in depends.all_dependencies(task[0]) if path.endswith(".pxd")}
    names = sorted(Path(os.path.relpath(path)).with_suffix("").parts for path in below)
    context = HeadersOnce.from_options(tasks[0][4])
    # Headers of Cython's own have paths that are no names; those of the checkout read them.
    context.read([".".join(name) for name in names if all(part.isidentifier() for part in name)])
    compile_single = Main.compile_single
    Main.compile_single = functools.partial(compile_single, context=context)
    sys.stdout.flush()
    gc.collect()
    gc.freeze()  # a collection in a child would write to every page that it shares with this process
    running: dict[int, str] = {}
    failed: list[str] = []
    for task in sorted(tasks, key=lambda task: -os.path.getsize(task[0])):  # no long one alone at the end
        if len(running) >= at_once:
            _await_one(running, failed)
        child = os.fork()
        if child == 0:
            _translate_one(task)
        running[child] = task[0]
    while running:
        _await_one(running, failed)
    Main.compile_single = compile_single
    gc.unfreeze()
    if failed:
        sys.exit(f"Cython found errors in {', '.join(sorted(failed))}")


def _await_one(running: dict[int, str], failed: list[str]) -> None:
    child, status = os.wait()
    source = running.pop(child)
    if status:
        failed.append(source)


def _translate_one(task: tuple[Any, ...]) -> None:
    """The life of a child; it does not return."""
    status = 1
    try:
        gc.disable()
        Dependencies.cythonize_one(*task)
        status = 0
    except Errors.CompileError:
        pass  # Cython has said where
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
