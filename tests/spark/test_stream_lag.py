"""How far a stream is behind its store: out of what Spark tells of its progress, and in a file for Prometheus."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import raftmeta
from raftmeta.spark import Lag, stream_lag
from raftmeta.spark.stream_lag import StreamLags, lag_metrics
from tests.client.nodes import serving


def offset(revision: int) -> str:
    return json.dumps({"cluster": "c", "revision": revision})


def at(seconds_ago: float) -> str:
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds_ago)
    return then.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_a_stream_is_as_old_as_the_time_up_to_which_it_has_everything() -> None:
    told: list[tuple[str, Lag]] = []
    lags = StreamLags(lambda query, lag: told.append((query, lag)))
    lags.began("q", at(100))
    lags.progressed("q", at(90), [(offset(5), offset(12))])
    assert (told[-1][0], told[-1][1].last, told[-1][1].revisions) == ("q", 5, 7)
    assert 99 < told[-1][1].seconds < 120, "it never had everything, so it is as old as it runs"
    lags.progressed("q", at(50), [(offset(12), offset(12))])
    assert told[-1][1].revisions == 0 and 49 < told[-1][1].seconds < 70
    lags.rested("q", at(20))
    assert 19 < told[-1][1].seconds < 40
    lags.progressed("q", at(10), [(offset(13), offset(14))])
    assert 19 < told[-1][1].seconds < 40
    lags.ended("q")
    assert lags.lags() == {}


def test_other_sources_do_not_count_and_the_slowest_does() -> None:
    lags = StreamLags()
    lags.progressed("rate", at(1), [("17", "18"), (None, None), ('{"topic":{"0":4}}', "{")])
    assert lags.lags() == {}
    lags.progressed("two", at(1), [(offset(9), offset(9)), (offset(3), offset(8)), ("1", "1")])
    assert (lags.lags()["two"].last, lags.lags()["two"].revisions) == (3, 5)


def test_metrics_have_the_name_of_the_query() -> None:
    text = lag_metrics({'a"b': Lag(7, 2, 1.5), "c": Lag(1, 0, 0.0)})
    assert 'raftmeta_stream_lag_revisions{query="a\\"b"} 2\n' in text
    assert 'raftmeta_stream_lag_seconds{query="c"} 0.000\n' in text
    assert text.count("# TYPE") == 3


def test_the_streams_of_a_session_tell_their_lag(spark: Any, tmp_path: Path) -> None:
    with serving(tmp_path) as (_, url), raftmeta.Client(url) as client:
        client.ready(10)
        for number in range(7):
            client.put("k", str(number))
        told: list[tuple[str, Lag]] = []
        metrics = tmp_path / "lag.prom"
        with stream_lag(spark, on_lag=lambda query, lag: told.append((query, lag)), metrics=metrics):
            stream = (
                spark.readStream.format("raftmeta").options(table="changes", url=url, revisions_per_batch="3").load()
            )
            writing = stream.writeStream.format("noop").queryName("changes").trigger(availableNow=True)
            query = writing.option("checkpointLocation", str(tmp_path / "check")).start()
            assert query.awaitTermination(60)
            query.processAllAvailable()
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        assert [(lag.last, lag.revisions) for _, lag in told] == [(3, 4), (6, 1), (7, 0)]
        assert {name for name, _ in told} == {"changes"}
    assert "raftmeta_stream_lag_revisions" in metrics.read_text()
