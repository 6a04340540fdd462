"""Parts of a report: one page of HTML that loads nothing. Tables, plots, and counts of omitted rows.

Everything that comes from data is escaped. The plots are plotly's, whose script stands in the page.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

from plotly.offline import get_plotlyjs

__all__ = ["left_out", "page", "plot", "section"]

SHOWN_ROWS_MAX = 50

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d232b; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 .ok { color: #2a9d5c; } h1 .violation { color: #c0392b; } h1 .unknown { color: #d9822b; }
table { border-collapse: collapse; font-size: 13px; margin: 0.5rem 0; display: block; overflow-x: auto; }
th, td { text-align: left; padding: 2px 10px 2px 0; border-bottom: 1px solid #e3e6ea; white-space: nowrap; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: #f5f6f8; padding: 0.7rem; overflow-x: auto; font-size: 12.5px; }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """The whole page."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}</style><script>{get_plotlyjs()}</script></head><body>{''.join(parts)}</body></html>\n"
    )


def section(title: str, table: Any) -> str:
    """A table of Arrow under its title; nothing for one without rows."""
    if not len(table):
        return ""
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in table.column_names)
    rows = "".join(
        f"<tr>{''.join(_cell(value) for value in row.values())}</tr>"
        for row in table.slice(0, SHOWN_ROWS_MAX).to_pylist()
    )
    more = left_out(len(table), SHOWN_ROWS_MAX, "rows")
    return f"<h2>{title}</h2><table><tr>{heads}</tr>{rows}</table>{more}"


def _cell(value: Any) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"
        return f"<td class=number>{text}</td>"
    return f"<td>{html.escape(str(value)[:200])}</td>"


def left_out(count: int, shown: int, what: str) -> str:
    """A line that says how many rows the page does not show."""
    return f"<p>and {count - shown:,} more {what}, in the tables beside this page</p>" if count > shown else ""


def plot(figure: Any, name: str, *, height: int = 380) -> str:
    """A figure of plotly. name: unique on the page."""
    figure.update_layout(template="plotly_white", height=height, margin={"l": 60, "r": 60, "t": 50, "b": 45})
    return str(figure.to_html(full_html=False, include_plotlyjs=False, div_id=name))
