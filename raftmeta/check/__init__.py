"""A checker of linearizability for any history, not only raftmeta's (docs/checker.md).

    from raftmeta.check import check, read_history

    checked = check(read_history("history.parquet"), model="kv")
    if checked.verdict == "violation":
        print(to_text(checked))

Histories come from files (JSON lines, Jepsen's EDN, Parquet), from a Recorder, or as Arrow tables. The verdict is ok,
violation or unknown; a violation comes with its shortest window.
"""

from __future__ import annotations

from raftmeta.check.checker import Checked, check
from raftmeta.check.explain import Counterexample, WindowOperation
from raftmeta.check.files import read_history, write_history
from raftmeta.check.history import Event, Fault, History, Nothing, Quarantined, Recorder, canonical
from raftmeta.check.models import Call, Model, Program
from raftmeta.check.prepared import ComponentVerdict, Limits, Prepared
from raftmeta.check.report import to_html, to_json, to_text

__all__ = [
    "Call",
    "Checked",
    "ComponentVerdict",
    "Counterexample",
    "Event",
    "Fault",
    "History",
    "Limits",
    "Model",
    "Nothing",
    "Prepared",
    "Program",
    "Quarantined",
    "Recorder",
    "WindowOperation",
    "canonical",
    "check",
    "read_history",
    "to_html",
    "to_json",
    "to_text",
    "write_history",
]
