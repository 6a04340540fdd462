"""The report of `verify`: one page of HTML that loads nothing, with an operator's first questions answered on top.

Verdict, histories, anomalies with their counterexamples, then time: answers per second with the faults as bands,
latency, faults with the longest time without an answer, changes of elected leaders. The plots are plotly's, whose
script stands in the page. Everything that comes from a run is escaped.

It decides how things look. It never decides a verdict, and leaves nothing out without telling how much.
"""

from __future__ import annotations

import html
from typing import Any

import plotly.graph_objects as go

from raftmeta.spark.page import left_out, page, plot, section

__all__ = ["report"]

SHOWN_RUNS_MAX = 20  # with plots; the tables have all
SHOWN_ANOMALIES_MAX = 50
SHOWN_REASONS_MAX = 50
COLOURS = {"ok": "#2a9d5c", "fail": "#8a8f98", "info": "#d9822b"}
FAULT_COLOUR = "#c0392b"


def report(tables: dict[str, Any], summary: dict[str, Any]) -> str:
    """The page. tables: by name, as Arrow; summary: the content of summary.json."""
    verdict = summary["verdict"]
    runs = sorted({run["run"] for run in summary["runs"]})
    parts = [
        f"<h1>Verdict on what was recorded: <span class={verdict}>{verdict}</span></h1>",
        _failures(summary["runs"]),
        f"<p>{len(runs)} runs, {_sum(tables['histories'], 'events'):,} events in {len(tables['histories'])} histories, "
        f"{len(tables['verdicts']):,} components; {len(tables['anomalies'])} anomalies, "
        f"{len(tables['quarantine'])} events in quarantine.</p>",
        section("Histories", tables["histories"]),
        _anomalies(tables["anomalies"]),
        section("Quarantine", tables["quarantine"]),
        section("Components that are not ok", _not_ok(tables["verdicts"])),
        "<h2>Answers</h2>",
        *(_answers(tables, run, number) for number, run in enumerate(runs[:SHOWN_RUNS_MAX])),
        left_out(len(runs), SHOWN_RUNS_MAX, "runs"),
        _first_answers(tables["availability"]),
        section("Faults", _in_seconds(tables["availability"])),
        section("Changes of elected leaders", _in_seconds(tables["elections"])),
        section("Latency, by windows of 10 s", _in_seconds(tables["latency"])),
    ]
    return page("raftmeta: verification", parts)


def _failures(runs: list[dict[str, Any]]) -> str:
    """The faults of a run by its own word, for instance that a nemesis which was asked for never struck."""
    told = [
        f"<li>{html.escape(run['run'])}: {html.escape(str(reason))}</li>"
        for run in runs
        for reason in run["facts"].get("failures") or ()
    ]
    if not told:
        return ""
    more = left_out(len(told), SHOWN_REASONS_MAX, "reasons")
    return f"<h2>Runs that failed by their own word</h2><ul>{''.join(told[:SHOWN_REASONS_MAX])}</ul>{more}"


# --- tables -----------------------------------------------------------------------------------------------------------
def _anomalies(table: Any) -> str:
    told = [
        f"<h3>{html.escape(row['kind'])}: {html.escape(row['subject'])}</h3>"
        f"<p>run {html.escape(row['run'])}, {html.escape(row['history'])}, "
        f"seq {row['first_seq']} to {row['last_seq']}</p>"
        f"<pre>{html.escape(row['explanation'])}</pre>"
        for row in table.slice(0, SHOWN_ANOMALIES_MAX).to_pylist()
    ]
    return f"<h2>Anomalies</h2>{''.join(told)}{left_out(len(table), SHOWN_ANOMALIES_MAX, 'anomalies')}" if told else ""


def _not_ok(verdicts: Any) -> Any:
    import pyarrow.compute as pc

    return verdicts.filter(pc.not_equal(verdicts["verdict"], "ok"))


def _in_seconds(table: Any) -> Any:
    """Moments of a run in seconds, for people."""
    import pyarrow.compute as pc

    for place, name in enumerate(table.column_names):
        if name.endswith("_ns"):
            table = table.set_column(
                place, f"{name[:-3]}_s", pc.divide(pc.cast(table[name], "double", safe=False), 1e9)
            )
    return table


def _sum(table: Any, column: str) -> int:
    import pyarrow.compute as pc

    return pc.sum(table[column]).as_py() or 0


# --- plots ------------------------------------------------------------------------------------------------------------
def _of_run(table: Any, run: str) -> list[dict[str, Any]]:
    import pyarrow.compute as pc

    found: list[dict[str, Any]] = table.filter(pc.equal(table["run"], run)).to_pylist()
    return found


def _answers(tables: dict[str, Any], run: str, number: int) -> str:
    """Answers per second and the 99th percentile of successes, with the faults as bands."""
    seconds = _of_run(tables["throughput"], run)
    if not seconds:
        return f"<h3>{html.escape(run)}</h3><p>no times were recorded</p>"
    figure = go.Figure()
    times = [row["second"] for row in seconds]
    for outcome, colour in COLOURS.items():
        values = [row[outcome] for row in seconds]
        figure.add_scatter(x=times, y=values, name=outcome, line={"color": colour, "width": 1.5, "shape": "hv"})
    slowest: dict[float, float] = {}
    for row in _of_run(tables["latency"], run):
        if row["outcome"] == "ok":
            window = row["window_ns"] / 1e9
            slowest[window] = max(slowest.get(window, 0.0), row["p99_ms"])
    figure.add_scatter(
        x=list(slowest), y=list(slowest.values()), name="p99 ms", yaxis="y2", line={"color": "#34568b", "dash": "dot"}
    )
    for row in _of_run(tables["availability"], run):
        figure.add_vrect(
            x0=row["begin_ns"] / 1e9,
            x1=row["end_ns"] / 1e9,
            fillcolor=FAULT_COLOUR,
            opacity=0.12,
            line_width=0,
            annotation_text=html.escape(row["nemesis"]),
            annotation_font_size=9,
        )
    figure.update_layout(
        title=html.escape(run),
        xaxis_title="seconds of the run",
        yaxis_title="answers per second",
        yaxis2={"title": "p99, ms", "overlaying": "y", "side": "right", "type": "log"},
    )
    return plot(figure, f"answers-{number}")


def _first_answers(availability: Any) -> str:
    """The time from the beginning of a fault until an operation that was asked for after it succeeded."""
    by_nemesis: dict[str, list[float]] = {}
    for row in availability.to_pylist():
        if row["first_ok_ms"] is not None:
            by_nemesis.setdefault(row["nemesis"], []).append(row["first_ok_ms"])
    if not by_nemesis:
        return ""
    figure = go.Figure()
    for nemesis, values in sorted(by_nemesis.items()):
        figure.add_box(y=values, name=html.escape(nemesis), boxpoints="all", marker_color=FAULT_COLOUR)
    figure.update_layout(
        title="From the beginning of a fault to the first success that was asked for after it",
        yaxis={"title": "ms", "type": "log"},
        showlegend=False,
    )
    return plot(figure, "first-answers")
