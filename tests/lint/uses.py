"""Which names of the package only tests use, read from the sources: nothing here imports raftmeta."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from tests.lint.sources import imports_of, without_strings

# Others call these names of classes that the package gives them.
CALLED_BY_OTHERS = {
    "asyncio": {"connection_lost", "connection_made", "data_received", "get_loop", "remove_done_callback", "throw"},
    "programs of PySyncObj": {"inc", "qsize", "rawData"},
    "http.server": {"log_message"},
    "pyspark": {
        "getDefaultReadLimit",
        "initialOffset",
        "onQueryIdle",
        "onQueryProgress",
        "onQueryStarted",
        "onQueryTerminated",
        "prepareForTriggerAvailableNow",
        "reportLatestOffset",
        "streamReader",
        "streamWriter",
    },
    "pytest": {"pytest_configure", "pytest_runtest_makereport", "raftmeta_cluster"},
}
# Damage for a disk that is a model: worlds flip bits, tests of the log also cut and lose files.
MODELS = {"sim_disk_cut_file", "sim_disk_forget", "sim_disk_zero"}

_DEFINED = re.compile(
    r"^[ \t]*(?:async )?(?:def|cp?def)\b(?! (?:class|struct|enum|extern|union|packed)\b)[^\n(=]*?\b(\w+)\(",
    re.MULTILINE,
)
_IMPORTED = re.compile(r"^[ \t]*from\s+[\w.]+\s+c?import\s+(?:\([^)]*\)|[^\n]*)", re.MULTILINE)
_PROSE = re.compile(r"\"\"\".*?\"\"\"|(?:^|[ \t])#[^\n]*", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"\w+")


def names_for_tests_alone(
    package: Mapping[str, str], tests: Mapping[str, str], public: set[str]
) -> Iterator[tuple[str, str]]:
    """(file, name) of each function that tests call and the package does not; sources by their path.

    An import is no call, and neither are the lines that declare and define a function. A string may name a method.
    """
    bare = {path: _IMPORTED.sub("", _PROSE.sub("", text)) for path, text in package.items()}
    said = Counter(word for text in bare.values() for word in _WORD.findall(text))
    defined = {path: Counter(_DEFINED.findall(text)) for path, text in bare.items()}
    definitions = sum(defined.values(), Counter[str]())
    tested = {word for text in tests.values() for word in _WORD.findall(without_strings(text))}
    allowed = public.union(*CALLED_BY_OTHERS.values(), MODELS)
    for path, names in defined.items():
        for name in names:
            is_private = name.startswith("__") or name in allowed
            if not is_private and said[name] <= definitions[name] and name in tested:
                yield path, name


def methods_for_tests_alone(handle: str, package: Mapping[str, str]) -> Iterator[str]:
    """Names of a module that shows native code to Python, which no module of the package near it says.

    Near are the modules that import it, and those that import one of them: they get its objects. Sources by module.
    """
    imported = {module: set(imports_of(text, is_python=False)) for module, text in package.items()}
    near = {module for module, names in imported.items() if handle in names}
    near |= {module for module, names in imported.items() if names & near}
    said = {word for module in near - {handle} for word in _WORD.findall(without_strings(package[module]))}
    own = without_strings(package[handle])
    for name, count in Counter(_DEFINED.findall(own)).items():
        if not name.startswith("_") and name not in said and len(re.findall(rf"\b{name}\b", own)) <= count:
            yield name
