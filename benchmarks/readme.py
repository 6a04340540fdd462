"""The README's table, made from the results of the suites `puts` and `peers` and of nothing else."""

from __future__ import annotations

from typing import Any

from benchmarks.native import ROOT
from benchmarks.table import figure

README = ROOT / "README.md"
BEGIN, END = "<!-- benchmarks: python -m benchmarks readme -->", "<!-- end of benchmarks -->"
OUTSTANDING = (1, 64, 1024)
SUITE = "peers"


class NoResult(Exception):
    """There is nothing that may stand in the README; in words."""


def write_table(reports: dict[str, dict[str, Any]]) -> None:
    """Put the table between its two marks. Raises NoResult: nothing was written."""
    before, mark, rest = README.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise NoResult(f"{README}: the lines {BEGIN} and {END} are not both there")
    README.write_text(f"{before}{BEGIN}\n{table_of(reports)}\n{END}{after}")


def table_of(reports: dict[str, dict[str, Any]]) -> str:
    """Puts a second of raftmeta and its peers, each with its share of the limit that was measured beside it."""
    if SUITE not in reports:
        raise NoResult(f"no results of the suite {SUITE}: run ./build.sh bench")
    report = reports[SUITE]
    if report["is_noisy"]:
        raise NoResult(f"the results of {SUITE} were taken while other programs used the machine")
    rates = {row["name"]: row for row in report["rows"]}
    limits = {outstanding: rates[f"limit, asyncio, put, {outstanding}"]["value"] for outstanding in OUTSTANDING}
    names = list(dict.fromkeys(row["parameters"]["peer"] for row in report["rows"] if "parameters" in row))
    machine = report["machine"]
    lines = [
        "Durable puts of 256 bytes a second, three servers on one machine with "
        f"{machine['processors']} processors ({machine['processor']}),",
        f"{report['date']}, commit {report['commit']}, `{report['command']}`; in brackets",
        "the share of what the same machine allows an asyncio interface without any engine behind it:",
        "",
        "| | " + " | ".join(f"{outstanding} under way" for outstanding in OUTSTANDING) + " | settings |",
        "|---" * (len(OUTSTANDING) + 2) + "|",
    ]
    for name in names:
        cells = []
        for outstanding in OUTSTANDING:
            row = rates.get(f"{name}, put, {outstanding}")
            if row is None:
                cells.append("not measured")
                continue
            share = 100 * row["value"] / limits[outstanding]
            digits = 0 if share >= 10 else 1
            cells.append(f"{figure(row['value'])} ({share:.{digits}f} %), p99 {figure(row['details']['p99_ms'])} ms")
        note = next(row["note"] for row in report["rows"] if row.get("parameters", {}).get("peer") == name)
        lines.append(f"| {name} | {' | '.join(cells)} | {note} |")
    return "\n".join(lines)
