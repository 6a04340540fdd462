"""A table of events in, a table of verdicts out: the checker as one step of a data pipeline.

It decides nothing; it is check() in the shape that a task of Spark or of any other engine wants.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from raftmeta.check.explain import explain
from raftmeta.check.files import from_arrow, sorted_table
from raftmeta.check.models import Model
from raftmeta.check.prepared import Limits, Prepared
from raftmeta.check.report import counterexample_text

__all__ = ["check_table", "cut_table", "verdict_schema"]


def verdict_schema() -> Any:
    """The schema of what check_table returns. Raises ImportError without pyarrow."""
    import pyarrow as pa

    return pa.schema(
        [
            ("component", pa.string()),
            ("model", pa.string()),
            ("verdict", pa.string()),
            ("limit", pa.string()),
            ("engine", pa.string()),
            ("operations", pa.int64()),
            ("steps", pa.int64()),
            ("seconds", pa.float64()),
            ("quarantined", pa.int64()),
            ("explanation", pa.string()),
        ]
    )


def check_table(
    table: Any, *, model: str | Model = "kv", initial: object = None, limits: Limits | None = None, explained: int = 1
) -> Any:
    """One row for each component in a table of events.

    table: an Arrow table or record batch with the columns of raftmeta.check.Event, all events of its components among
    them, in any order. explained: for how many violations the counterexample is made and told as text. A row's
    `quarantined` counts the events of the whole table that make no sense. Raises ValueError for columns that are
    missing, ImportError without pyarrow, MemoryError.
    """
    import pyarrow as pa

    prepared = Prepared(from_arrow(table), model, initial=initial, limits=limits)
    prepared.run()
    quarantined = len(prepared.quarantined())
    rows = []
    for number, verdict in enumerate(prepared.components()):
        explanation = None
        if verdict.verdict == "violation" and explained > 0:
            explained -= 1
            explanation = counterexample_text(explain(prepared, number))
        rows.append(
            {
                "component": ", ".join(verdict.keys),
                "model": prepared.model.name,
                "verdict": verdict.verdict,
                "limit": verdict.limit or None,
                "engine": verdict.engine,
                "operations": verdict.operations,
                "steps": verdict.steps,
                "seconds": verdict.seconds,
                "quarantined": quarantined,
                "explanation": explanation,
            }
        )
    return pa.Table.from_pylist(rows, schema=verdict_schema())


def cut_table(
    table: Any, *, model: str | Model = "kv", initial: object = None, events_min: int = 100_000
) -> Iterator[tuple[Any, object]]:
    """The events of one hot component in pieces, each with its `initial`: to be checked apart, at the same time.

    The history is linearizable if and only if all pieces are. It is cut where nothing was under way and the value is
    certain, at most once in events_min events; a component without such a moment stays in one piece, as does a table
    with more components than one. Raises what check_table raises.
    """
    table = sorted_table(table)
    handle = Prepared(from_arrow(table), model, initial=initial).handle
    begun = 0
    for row, value in handle.cuts(0) if handle.components == 1 else []:
        if row + 1 - begun >= events_min:
            yield table.slice(begun, row + 1 - begun), initial
            begun, initial = row + 1, json.loads(value)
    yield table.slice(begun), initial
