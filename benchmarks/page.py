"""One page with all tables and plots: a single HTML file without scripts, small enough to be compared by its lines."""

from __future__ import annotations

import html
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from benchmarks.table import details, figure, spread, verdicts

PAGE = "index.html"
Rows = list[dict[str, Any]]
STYLE = """
body { font: 15px/1.4 sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0 }
td, th { padding: 2px 10px; text-align: left; border-bottom: 1px solid #ddd }
td.figure { text-align: right; white-space: nowrap } .missed { color: #b00 } .noisy { background: #fdd; padding: .5em }
svg { max-width: 100%; height: auto }
"""


def write_page(reports: dict[str, dict[str, Any]], folder: Path) -> Path:
    """From the reports of one folder into the same folder; returns the path of the page."""
    parts = [f"<!doctype html><meta charset=utf-8><title>raftmeta benchmarks</title><style>{STYLE}</style>"]
    parts.append("<h1>raftmeta benchmarks</h1>")
    for report in reports.values():
        parts += section(report)
    path = folder / PAGE
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts) + "\n")
    return path


def section(report: dict[str, Any]) -> Iterable[str]:
    machine = ", ".join(f"{name} {value}" for name, value in report["machine"].items())
    yield f"<h2>{html.escape(report['title'])}</h2>"
    if report["is_noisy"]:
        yield "<p class=noisy>Other programs used the machine: these are no results.</p>"
    command = f"<code>{html.escape(report['command'])}</code>"
    yield f"<p>{report['date']}, commit {report['commit']}, {command}<br>{html.escape(machine)}</p>"
    yield from plots(report["suite"], report["rows"])
    yield "<table><tr><th>row<th>median<th>least to greatest<th>beside it<th>targets</tr>"
    for row in report["rows"]:
        reached = all(one["reached"] for one in row.get("targets", []))
        yield (
            f"<tr><td>{html.escape(row['name'])}<td class=figure>{figure(row['value'])}{row['unit']}"
            f"<td>{spread(row)}<td>{html.escape(details(row))} <i>{html.escape(row.get('note', ''))}</i>"
            f"<td{'' if reached else ' class=missed'}>{html.escape(verdicts(row))}</tr>"
        )
    yield "</table>"


# --- plots -----------------------------------------------------------------------------------------------------------


def plots(suite: str, rows: Rows) -> Iterable[str]:
    """The plots of a suite, where its rows have what they need."""
    if suite in ("puts", "peers", "reads", "scans"):
        yield against(rows, "outstanding", "operations under way", series=label_of, is_latency=True)
    if suite == "sizes":
        for parameter, words in (("value_bytes", "bytes of a value"), ("outstanding", "operations under way")):
            yield against(
                rows, parameter, words, series=lambda row: "limit" if row["name"].find("limit") >= 0 else "raftmeta"
            )
        yield against(rows, "members", "members of the cluster, all on this machine", series=lambda row: "raftmeta")
    if suite == "state":
        yield against(rows, "keys", "keys", series=lambda row: "puts")
    if suite == "watches":
        yield against(rows, "watchers", "watchers of one key", series=lambda row: row["name"].rsplit(", ", 1)[0])


def label_of(row: dict[str, Any]) -> str:
    return str(row["name"].rsplit(", ", 1)[0])


def against(rows: Rows, parameter: str, words: str, *, series: Any, is_latency: bool = False) -> str:
    """Rates, and with is_latency p50 and p99 beside them, against a parameter of the rows; both axes logarithmic."""
    lines: dict[str, Rows] = {}
    for row in rows:
        if parameter in row.get("parameters", {}):
            lines.setdefault(series(row), []).append(row)
    if not any(len(points) > 1 for points in lines.values()):
        return ""
    drawing = Figure(figsize=(11, 4.2) if is_latency else (6.5, 4.2), layout="constrained")
    axes: list[Axes] = list(drawing.subplots(1, 2 if is_latency else 1, squeeze=False)[0])
    for label, points in lines.items():
        points.sort(key=lambda row: row["parameters"][parameter])
        places = [row["parameters"][parameter] for row in points]
        (line,) = axes[0].plot(places, [row["value"] for row in points], marker="o", markersize=3, label=label)
        axes[0].fill_between(
            places,
            [row["least"] for row in points],
            [row["greatest"] for row in points],
            alpha=0.15,
            color=line.get_color(),
        )
        if is_latency:
            for percent, style in (("p50_ms", "-"), ("p99_ms", ":")):
                latencies = [row.get("details", {}).get(percent, float("nan")) for row in points]
                axes[1].plot(places, latencies, style, color=line.get_color(), marker="o", markersize=3)
    axes[0].set_ylabel(f"a second{'' if not is_latency else ', shaded: least to greatest'}")
    axes[0].legend(fontsize=7)
    if is_latency:
        axes[1].set_ylabel("milliseconds: p50, and p99 dotted")
    for one in axes:
        one.set_xscale("log")
        one.set_yscale("log")
        one.xaxis.set_major_formatter(EngFormatter(sep=""))
        one.yaxis.set_major_formatter(EngFormatter(sep=""))
        one.set_xlabel(words)
        one.grid(True, alpha=0.3)
    return svg_of(drawing)


def svg_of(drawing: Figure) -> str:
    """Inline SVG with text as text: the same figures give the same lines."""
    written = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "raftmeta"}):
        drawing.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    found = written.getvalue()
    return found[found.index("<svg") :]
