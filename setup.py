"""The compiled modules of raftmeta; all metadata is in pyproject.toml.

python setup.py build_ext --inplace                            what changed
python setup.py build_ext --inplace --only=raftmeta._core      one module; a comma separates more
python setup.py build_ext --inplace --without=raftmeta.sim     all but a module, or a package; a comma separates more
python setup.py build_ext --inplace --instrument=thread        for ThreadSanitizer; also `address`, `coverage`
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, ClassVar

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
PACKAGE = ROOT / "raftmeta"
TEST_FACES = ROOT / "tests" / "faces"  # what only tests see of native modules: in no wheel

# -O2: -O3 moved benchmarks/test_bench_tree.py by less than its noise (3 %) and lengthened the build by a third. The hot
#     loops call inline leaves of .pxd and .hpp, so there is little left for a linker to do across modules.
# -fno-strict-aliasing: records and tree nodes are read through headers laid over bytes.
COMPILE_ARGS = [
    "-std=c++17",
    "-O2",
    "-g1",
    "-fno-strict-aliasing",
    "-fvisibility=hidden",
    "-Wall",
    "-Wno-unused-function",
]
# Code and constants share pages: 4 kB less for each of 300 modules.
LINK_ARGS = ["-Wl,-z,noseparate-code"]
if platform.machine() == "aarch64":
    COMPILE_ARGS.append("-march=armv8-a+crc")  # crc32c by instruction; every 64-bit server core has it

# What a module links beside C++ itself. Others call these modules and need neither the libraries nor their headers.
LIBRARIES = {
    **{
        f"raftmeta.security.{name}": ["ssl", "crypto"]
        for name in ("certificates", "contexts", "door", "tickets", "tls")
    },
    **{f"raftmeta.security.{name}": ["crypto"] for name in ("cipher", "cipher_handle")},
    "raftmeta.doors.etcd.http2": ["nghttp2"],
}

# Flags of the special builds of `./build.sh check`; they come last and win over those above.
INSTRUMENTS = {
    "thread": ["-fsanitize=thread", "-O1", "-fno-omit-frame-pointer"],
    "address": ["-fsanitize=address,undefined", "-fno-sanitize=alignment,vptr", "-O1", "-fno-omit-frame-pointer"],
    "coverage": ["--coverage", "-O0"],
}

COMPILER_DIRECTIVES = {
    "language_level": 3,
    "boundscheck": True,
    "wraparound": False,
    "cdivision": True,
    "embedsignature": True,
    "warn.undeclared": False,
}


def compiled_modules() -> list[Extension]:
    """One Extension for each .pyx below raftmeta/, and for those of the tests."""
    headers = [str(header.relative_to(ROOT)) for header in sorted(PACKAGE.rglob("*.hpp"))]
    return [
        Extension(
            name,
            [str(source.relative_to(ROOT))],
            language="c++",
            include_dirs=["raftmeta/native"],
            libraries=LIBRARIES.get(name, []),
            extra_compile_args=list(COMPILE_ARGS),
            extra_link_args=list(LINK_ARGS),
            depends=headers,
        )
        for source in [*sorted(PACKAGE.rglob("*.pyx")), *sorted(TEST_FACES.glob("*.pyx"))]
        for name in [".".join(source.relative_to(ROOT).with_suffix("").parts)]
    ]


def with_modules_by_name(source: str, cimports: list[str], *others: Any) -> tuple[Any, ...]:
    """What Cython found in a file, with the modules that it takes from a package by name.

    Cython 3.2 overlooks `from package cimport module`, so a change of that module would leave the file as it was, and
    the file would go on with structs of another size.
    """
    lines = re.findall(r"^from ([\w.]+) cimport ([\w, ]+)$", Path(source).read_text(), flags=re.MULTILINE)
    by_name = [f"{package}.{name.split()[0]}" for package, names in lines for name in names.split(",")]
    return [*cimports, *by_name], *others


class BuildNative(build_ext):
    """build_ext that translates with Cython first (metadata and sdist need no C++), uses all cores, strips a wheel."""

    user_options: ClassVar = [
        *build_ext.user_options,
        ("only=", None, "build these modules only (comma-separated)"),
        ("without=", None, "build none of these modules and packages (comma-separated)"),
        ("instrument=", None, f"build for one of: {', '.join(INSTRUMENTS)}"),
    ]

    def initialize_options(self) -> None:
        super().initialize_options()
        self.only: str | None = None
        self.without: str | None = None
        self.instrument: str | None = None
        self.is_for_checkout = False

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = int(self.parallel or os.cpu_count() or 1)
        if self.editable_mode:
            # An editable install is given a temporary folder and would compile everything once more.
            self.build_lib, self.build_temp = (
                f"build/{kind}.{sysconfig.get_platform()}-{sys.implementation.cache_tag}" for kind in ("lib", "temp")
            )
        self.extensions = self._chosen_modules()
        self.is_for_checkout = bool(self.inplace or self.editable_mode)  # setuptools forgets it while it builds
        if not self.is_for_checkout:
            self.extensions = [extension for extension in self.extensions if not extension.name.startswith("tests.")]

    def build_extensions(self) -> None:
        if str(ROOT) not in sys.path:
            sys.path.insert(0, str(ROOT))  # a build backend runs this file from elsewhere
        from Cython.Build import Dependencies

        from release.translate import cythonize

        parse = Dependencies.parse_dependencies
        Dependencies.parse_dependencies = lambda source: with_modules_by_name(source, *parse(source))
        cythonize(
            self.extensions,
            at_once=self.parallel,
            compiler_directives=COMPILER_DIRECTIVES,
            include_path=["."],
            emit_linenums=self.instrument == "coverage",  # so that gcov counts lines of the .pyx
            force=bool(self.force),
        )
        for extension in self.extensions:
            extension.sources = [str(Path(source).with_suffix(".cpp")) for source in extension.sources]
            if self.instrument:
                extension.extra_compile_args += INSTRUMENTS[self.instrument]
                extension.extra_link_args += INSTRUMENTS[self.instrument]
        super().build_extensions()
        if not (self.is_for_checkout or self.instrument):
            # A wheel carries no symbols but those that are imported: they are half of its bytes. A checkout keeps them,
            # for profilers and debuggers.
            objects = [self.get_ext_fullpath(extension.name) for extension in self.extensions]
            subprocess.run(["strip", "--strip-unneeded", *objects], check=True)

    def _chosen_modules(self) -> list[Extension]:
        if self.without is not None:
            left_out = tuple(f"{name}." for name in self.without.split(","))
            return [extension for extension in self.extensions if not f"{extension.name}.".startswith(left_out)]
        if self.only is None:
            return list(self.extensions)
        wanted = set(self.only.split(","))
        if unknown := wanted - {extension.name for extension in self.extensions}:
            raise SystemExit(f"setup.py: no such compiled module: {', '.join(sorted(unknown))}")
        return [extension for extension in self.extensions if extension.name in wanted]


setup(ext_modules=compiled_modules(), cmdclass={"build_ext": BuildNative})
