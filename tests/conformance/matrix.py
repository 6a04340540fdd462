"""The table of all back ends in docs/backends.md, made of the reports that the conformance suite left on real servers.

    python -m tests.doors stores etcd consul cassandra --reports tests/conformance/reports
    python -m tests.conformance.matrix --write

A report is of one run: its server with the version, its day and its commit stand in it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from raftmeta.conformance.report import Report, matrix_of
from tests.lint.sources import ROOT

REPORTS = Path(__file__).parent / "reports"
PAGE = ROOT / "docs" / "backends.md"
BEGIN, END = "<!-- python -m tests.conformance.matrix --write -->\n", "<!-- end of the table -->\n"
ORDER = ("embedded", "raft", "http", "zookeeper", "etcd", "consul", "cassandra", "pysyncobj")
CONTRACT = "contract: "


def reports() -> dict[str, tuple[Report, dict[str, str]]]:
    """By scheme: the report, and its server, date and commit."""
    found = {}
    for name in ORDER:
        file = REPORTS / f"{name}.json"
        if file.exists():
            told = json.loads(file.read_text())
            found[name] = Report.read(file), {word: str(told[word]) for word in ("server", "date", "commit")}
    return found


def table() -> str:
    """Promises, then contracts, with a column for each back end; and a line for each server."""
    found = reports()
    columns = [report for report, _ in found.values()]
    lines = [["Promise", *(f"`{name}://`" for name in found)], ["---"] * (len(found) + 1)]
    for row in matrix_of(columns):
        first = row.pop("promise")
        shown = f"contract of {first.removeprefix(CONTRACT)}" if first.startswith(CONTRACT) else f"`{first}`"
        lines.append([shown, *row.values()])
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    servers = [
        f"| `{name}://` | {made['server']} | {told(report)} | {made['date']}, {made['commit']} |\n"
        for name, (report, made) in found.items()
    ]
    return f"{text}\n| Back end | Server | Checks | Day and commit |\n|---|---|---|---|\n{''.join(servers)}"


def told(report: Report) -> str:
    """How many checks passed, and what became of the others."""
    counts = report.counts()
    words = ("passed", "failed", "not promised", "not run")
    return ", ".join(f"{counts[word]} {word}" for word in words if counts[word])


def page_with(text: str) -> str:
    """The page with this table in the place of its own."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{before}{BEGIN}{text}{END}{rest.partition(END)[2]}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.matrix", description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write it into docs/backends.md")
    if parser.parse_args().write:
        PAGE.write_text(page_with(table()))
    else:
        print(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
