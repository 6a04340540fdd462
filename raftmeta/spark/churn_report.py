"""The report of `churn`: one page of HTML that loads nothing, with the answers to an operator's first questions on top.

Figures come first. Plots over time follow: absent brokers and controllers as bars, partitions without all their
replicas and without a leader, moves per window. The worst partitions, outages and prefixes end it. It decides only how
things look.
"""

from __future__ import annotations

import datetime
import html
from collections import Counter
from typing import Any

import plotly.graph_objects as go

from raftmeta.spark.page import left_out, page, plot, section

__all__ = ["churn_report"]

COLOURS = ("#34568b", "#2a9d5c", "#d9822b", "#8a5aa8", "#c0392b", "#4aa3a2", "#8a8f98", "#b0892b")
AWAY = "#c0392b"
SHOWN_BARS_MAX = 200  # of brokers away and of controllers
SHOWN_PARTITIONS_MAX = 20


def churn_report(tables: dict[str, Any], figures: dict[str, Any]) -> str:
    """The page. tables: by name, as Arrow; figures: the content of summary.json."""
    unreadable = figures["unreadable"]
    parts = [
        f"<h1>Churn: {_time(figures['start_ms'])} to {_time(figures['end_ms'])}</h1>",
        _lead(figures),
        f"<p><b>{unreadable:,} values could not be read</b> and are counted nowhere else.</p>" if unreadable else "",
        _brokers(tables, figures),
        _short(tables["partitions"], figures),
        _moves(tables["churn"]),
        _worst(tables["flapping"]),
        section("Outages: brokers that left together", tables["outages"]),
        section("Controllers", tables["controllers"]),
        section("Brokers", tables["brokers"]),
        section("Partitions that flap", _flapping(tables["flapping"])),
        _sizes(tables["sizes"]),
        section("Prefixes", tables["sizes"]),
        section("Keys with leases, by windows", tables["leases"]),
        section("Values that could not be read", tables["unreadable"]),
    ]
    return page("raftmeta: churn", parts)


def _time(ms: int) -> str:
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _lead(figures: dict[str, Any]) -> str:
    return (
        f"<p>Revisions {figures['first_revision']:,} to {figures['last_revision']:,}. {figures['partitions']:,} "
        f"partitions; {figures['brokers_lost']:,} times a broker was lost, {figures['outages_together']:,} times "
        f"several together; {figures['controllers']:,} controllers. {figures['leader_moves']:,} leaders moved, "
        f"{figures['isr_shrinks']:,} ISRs shrank and {figures['isr_grows']:,} grew; "
        f"{figures['under_replicated_ms'] / 1000:,.1f} partition-seconds under-replicated, "
        f"{figures['leaderless_ms'] / 1000:,.1f} without a leader; {figures['flapping_partitions']:,} partitions flap. "
        f"{figures['keys']:,} keys, {figures['bytes']:,} bytes.</p>"
    )


# --- plots ------------------------------------------------------------------------------------------------------------
def _at(ms: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)


def _brokers(tables: dict[str, Any], figures: dict[str, Any]) -> str:
    """The absence of brokers over time, and the controllers."""
    away: list[tuple[str, float, float]] = []
    since: dict[str, float] = {}
    for row in tables["brokers"].to_pylist():
        at_ms = row["ts"].timestamp() * 1000
        if row["event"] == "down":
            since[row["broker"]] = at_ms
        elif row["broker"] in since:
            away.append((row["broker"], since.pop(row["broker"]), at_ms))
    away += [(broker, at_ms, figures["end_ms"]) for broker, at_ms in since.items()]
    led = [
        (row["controller"], row["ts"].timestamp() * 1000, row["duration_ms"])
        for row in tables["controllers"].to_pylist()
    ]
    names = sorted({row["broker"] for row in tables["brokers"].to_pylist()} | {controller for controller, *_ in led})
    if not names:
        return "<p>no key of a broker or a controller was found: is this the right layout?</p>"
    figure = go.Figure()
    for begin in (figures["start_ms"], figures["end_ms"]):
        figure.add_scatter(x=[_at(begin)] * len(names), y=[_name(name) for name in names], mode="markers",
                           marker={"size": 1, "opacity": 0}, showlegend=False, hoverinfo="skip")  # fmt: skip
    for number, (broker, begin, end) in enumerate(away[:SHOWN_BARS_MAX]):
        _bar(figure, broker, begin, end, AWAY, "away", number == 0)
    for number, (controller, begin, duration) in enumerate(led[:SHOWN_BARS_MAX]):
        _bar(figure, controller, begin, begin + duration, COLOURS[0], "controller", number == 0, width=4)
    figure.update_layout(title="Brokers that were away, and the controller", yaxis={"type": "category"})
    more = left_out(len(away), SHOWN_BARS_MAX, "absences") + left_out(len(led), SHOWN_BARS_MAX, "controllers")
    return plot(figure, "brokers", height=160 + 34 * len(names)) + more


def _name(broker: str) -> str:
    return html.escape(f"broker {broker}")


def _bar(
    figure: Any, broker: str, begin: float, end: float, colour: str, what: str, is_first: bool, width: int = 14
) -> None:
    told = f"{what} {(end - begin) / 1000:,.1f} s<extra></extra>"
    figure.add_scatter(
        x=[_at(begin), _at(end)], y=[_name(broker)] * 2, mode="lines", line={"color": colour, "width": width},
        name=what, legendgroup=what, showlegend=is_first, hovertemplate=told,
    )  # fmt: skip


def _short(partitions: Any, figures: dict[str, Any]) -> str:
    """How many partitions lacked replicas, and how many a leader, at each moment."""
    steps: dict[str, Counter[float]] = {"lack a replica": Counter(), "have no leader": Counter()}
    for row in partitions.to_pylist():
        begin = row["ts"].timestamp() * 1000
        lacks = row["replicas"] is not None and not set(row["replicas"]) <= set(row["isr"])
        for what, is_so in (("lack a replica", lacks), ("have no leader", row["leader"] < 0)):
            if is_so and row["lasted_ms"]:
                steps[what][begin] += 1
                steps[what][begin + row["lasted_ms"]] -= 1
    figure = go.Figure()
    for (what, changes), colour in zip(steps.items(), (COLOURS[2], AWAY), strict=True):
        at, level = [_at(figures["start_ms"])], [0]
        for ms in sorted(changes):
            at.append(_at(ms))
            level.append(level[-1] + changes[ms])
        figure.add_scatter(x=[*at, _at(figures["end_ms"])], y=[*level, level[-1]], name=what,
                           line={"color": colour, "shape": "hv", "width": 1.5}, fill="tozeroy")  # fmt: skip
    figure.update_layout(title="Partitions that are not whole", yaxis_title="partitions")
    return plot(figure, "partitions")


def _moves(churn: Any) -> str:
    """The events of each window, summed over brokers, and leads taken by each broker."""
    rows = churn.to_pylist()
    if not rows:
        return ""
    figure = go.Figure()
    for name, colour in (("isr_shrinks", COLOURS[2]), ("isr_grows", COLOURS[1]), ("sessions_lost", AWAY)):
        sums: Counter[Any] = Counter()
        for row in rows:
            sums[row["window"]] += row[name]
        figure.add_bar(x=list(sums), y=list(sums.values()), name=name.replace("_", " "), marker_color=colour)
    for number, broker in enumerate(sorted({row["broker"] for row in rows})):
        own = {row["window"]: row["leader_moves"] for row in rows if row["broker"] == broker and row["leader_moves"]}
        if own:
            figure.add_scatter(x=list(own), y=list(own.values()), mode="markers", name=f"leads to {_name(broker)}",
                               marker={"color": COLOURS[number % len(COLOURS)], "size": 9})  # fmt: skip
    figure.update_layout(title="Moves, by windows", barmode="stack", yaxis_title="changes")
    return plot(figure, "moves")


def _worst(flapping: Any) -> str:
    """The partitions that were longest without all their replicas."""
    rows = sorted(flapping.to_pylist(), key=lambda row: -row["under_replicated_ms"])[:SHOWN_PARTITIONS_MAX]
    rows = [row for row in rows if row["under_replicated_ms"]]
    if not rows:
        return ""
    names = [html.escape(f"{row['topic']}-{row['partition']}") for row in rows]
    figure = go.Figure()
    figure.add_bar(x=names, y=[row["under_replicated_ms"] / 1000 for row in rows], marker_color=COLOURS[2])
    figure.update_layout(title="Longest without all replicas", yaxis_title="seconds", xaxis={"type": "category"})
    return plot(figure, "worst")


def _flapping(table: Any) -> Any:
    return table.filter(table["is_flapping"]).sort_by([("flap_score", "descending")])


def _sizes(sizes: Any) -> str:
    rows = sorted(sizes.to_pylist(), key=lambda row: -(row["key_bytes"] + row["value_bytes"]))[:SHOWN_PARTITIONS_MAX]
    if not rows:
        return ""
    names = [html.escape(row["prefix"] or "(no prefix)") for row in rows]
    figure = go.Figure()
    figure.add_bar(x=names, y=[row["key_bytes"] + row["value_bytes"] for row in rows], name="bytes there",
                   marker_color=COLOURS[0])  # fmt: skip
    figure.add_bar(x=names, y=[row["changed_bytes"] for row in rows], name="bytes that a watch was sent",
                   marker_color=COLOURS[1])  # fmt: skip
    figure.update_layout(title="Bytes by prefix", yaxis={"type": "log", "title": "bytes"}, xaxis={"type": "category"})
    return plot(figure, "sizes")
