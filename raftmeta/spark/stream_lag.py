"""How far the streams of a Spark session are behind their stores.

    with stream_lag(spark, metrics="/var/lib/node_exporter/streams.prom"):
        query.awaitTermination()

Spark reports after each batch, and now and then while nothing comes, up to which offset a source was read and how far
it could be read. The offsets of `format("raftmeta")` are revisions, so the difference is the lag.

It decides how old a stream is. It asks no store, and holds up no batch: Spark reports afterwards, on its own thread.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raftmeta.spark.feed import Lag
from raftmeta.spark.folders import written
from raftmeta.spark.session import import_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["StreamLags", "lag_metrics", "stream_lag"]

OnStreamLag = Callable[[str, Lag], object]
METRICS = (
    ("raftmeta_stream_last_revision", "Newest revision that the stream has.", lambda lag: lag.last),
    ("raftmeta_stream_lag_revisions", "Revisions that the store had beyond the stream.", lambda lag: lag.revisions),
    (
        "raftmeta_stream_lag_seconds",
        "Age of the time up to which the stream has everything.",
        lambda lag: f"{lag.seconds:.3f}",
    ),
)


def lag_metrics(lags: Mapping[str, Lag]) -> str:
    """The lags of streams by their names, as a text file for the node exporter of Prometheus."""
    lines: list[str] = []
    for name, what, value in METRICS:
        lines += [f"# HELP {name} {what}", f"# TYPE {name} gauge"]
        for query in sorted(lags):
            label = query.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            lines.append(f'{name}{{query="{label}"}} {value(lags[query])}')
    return "\n".join(lines) + "\n"


@dataclass(slots=True)
class _Known:
    """Facts of one stream. at_s: up to then it has everything; its beginning, before it has everything once."""

    at_s: float
    last: int = 0
    revisions: int = 0


class StreamLags:
    """The lags of streams, from Spark's reports of their progress."""

    def __init__(self, on_lag: OnStreamLag | None = None, metrics: str | Path | None = None) -> None:
        self._on_lag = on_lag
        self._metrics = None if metrics is None else Path(metrics)
        self._known: dict[str, _Known] = {}

    def lags(self) -> dict[str, Lag]:
        """By the name of the query, or its id if it has no name."""
        now_s = time.time()
        return {
            query: Lag(known.last, known.revisions, max(0.0, now_s - known.at_s))
            for query, known in self._known.items()
        }

    def began(self, query: str, at: str) -> None:
        """Note a stream that has not read anything; it is as old as its run."""
        self._known.setdefault(query, _Known(_seconds(at)))

    def progressed(self, query: str, at: str, sources: list[tuple[str | None, str | None]]) -> None:
        """Note a batch that began then. sources: (up to where it was read, up to where it can be), as Spark has them.

        For a stream with several sources the one furthest behind counts.
        """
        ends = [(end, newest) for end, newest in ((_revision(one), _revision(two)) for one, two in sources) if end >= 0]
        if not ends:
            return
        known = self._known.setdefault(query, _Known(_seconds(at)))
        known.last, newest = max(ends, key=lambda pair: pair[1] - pair[0])
        known.revisions = max(0, newest - known.last)
        if known.revisions == 0:
            known.at_s = max(known.at_s, _seconds(at))
        self._tell(query)

    def rested(self, query: str, at: str) -> None:
        """Note that nothing has come since the last batch."""
        known = self._known.get(query)
        if known is not None and known.revisions == 0:
            known.at_s = max(known.at_s, _seconds(at))
            self._tell(query)

    def ended(self, query: str) -> None:
        self._known.pop(query, None)
        self._write()

    def _tell(self, query: str) -> None:
        if self._on_lag is not None:
            self._on_lag(query, self.lags()[query])
        self._write()

    def _write(self) -> None:
        if self._metrics is not None:
            with written(self._metrics) as half:
                half.write_text(lag_metrics(self.lags()), encoding="utf-8")


def _revision(offset: str | None) -> int:
    """The revision in an offset of format("raftmeta"); -1: the offset is another source's, or there is none."""
    try:
        told = json.loads(offset or "")
        return int(told["revision"]) if set(told) == {"cluster", "revision"} else -1
    except (ValueError, TypeError):
        return -1


def _seconds(at: str) -> float:
    return datetime.datetime.fromisoformat(at).timestamp()


@contextlib.contextmanager
def stream_lag(
    spark: SparkSession, *, on_lag: OnStreamLag | None = None, metrics: str | Path | None = None
) -> Iterator[StreamLags]:
    """Watch the streams of the session that read `format("raftmeta")`, for the length of the block.

    on_lag: told (name of the query, Lag) after each batch, and while nothing comes. metrics: a file for Prometheus.
    """
    import_pyspark()
    lags = StreamLags(on_lag, metrics)
    listener = _listener_of(lags)
    spark.streams.addListener(listener)
    try:
        yield lags
    finally:
        spark.streams.removeListener(listener)


def _listener_of(lags: StreamLags) -> Any:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        """Names of queries are told with each progress, and only ids with a rest or an end."""

        def __init__(self) -> None:
            self._names: dict[str, str] = {}

        def onQueryStarted(self, event: Any) -> None:
            self._names[str(event.id)] = event.name or str(event.id)
            lags.began(self._names[str(event.id)], event.timestamp)

        def onQueryProgress(self, event: Any) -> None:
            progress = event.progress
            name = self._names.setdefault(str(progress.id), progress.name or str(progress.id))
            lags.progressed(name, progress.timestamp, [(one.endOffset, one.latestOffset) for one in progress.sources])

        def onQueryIdle(self, event: Any) -> None:
            lags.rested(self._names.get(str(event.id), str(event.id)), event.timestamp)

        def onQueryTerminated(self, event: Any) -> None:
            lags.ended(self._names.pop(str(event.id), str(event.id)))

    return Listener()
