"""The compiled modules of raftmeta; all metadata is in pyproject.toml.

    python setup.py build_ext --inplace                          everything that changed
    python setup.py build_ext --inplace --only=raftmeta._core    one module (comma-separated for more)
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
PACKAGE = ROOT / "raftmeta"

# -fno-strict-aliasing: records and tree nodes are read through headers laid over bytes.
COMPILE_ARGS = ["-std=c++17", "-O2", "-g1", "-fno-strict-aliasing", "-fvisibility=hidden", "-Wall", "-Wno-unused-function"]
COMPILER_DIRECTIVES = {
    "language_level": 3,
    "boundscheck": True,
    "wraparound": False,
    "cdivision": True,
    "embedsignature": True,
    "warn.undeclared": False,
}


def taken_option(prefix: str) -> str | None:
    """Take `--prefix=value` out of the command line (distutils would refuse it) and return the value."""
    for argument in sys.argv[1:]:
        if argument.startswith(prefix):
            sys.argv.remove(argument)
            return argument[len(prefix) :]
    return None


def extensions(only: set[str] | None) -> list[Extension]:
    found = []
    for source in sorted(PACKAGE.rglob("*.pyx")):
        module = ".".join(source.relative_to(ROOT).with_suffix("").parts)
        if only is not None and module not in only:
            continue
        found.append(
            Extension(
                module,
                [str(source.relative_to(ROOT))],
                language="c++",
                include_dirs=["raftmeta/native"],
                extra_compile_args=COMPILE_ARGS,
                depends=[str(header.relative_to(ROOT)) for header in sorted((PACKAGE / "native").glob("*.hpp"))],
            )
        )
    if only is not None and len(found) != len(only):
        missing = only - {extension.name for extension in found}
        raise SystemExit(f"setup.py: no such compiled module: {', '.join(sorted(missing))}")
    return found


class ParallelBuild(build_ext):
    """build_ext with one compiler process per core; each C++ file takes seconds."""

    def finalize_options(self) -> None:
        super().finalize_options()
        if self.parallel is None:
            self.parallel = os.cpu_count() or 1


only_option = taken_option("--only=")
setup(
    ext_modules=cythonize(
        extensions(set(only_option.split(",")) if only_option else None),
        compiler_directives=COMPILER_DIRECTIVES,
        nthreads=os.cpu_count() or 1,
        include_path=["."],
    ),
    cmdclass={"build_ext": ParallelBuild},
)
