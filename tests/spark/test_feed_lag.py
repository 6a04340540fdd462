"""How far a feed is behind its store: told after each file and while nothing comes, also in a file for Prometheus."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

from click.testing import CliRunner

import raftmeta
from raftmeta.cli.app import app
from raftmeta.spark import Lag, feed
from raftmeta.spark.feed import Whole
from tests.client.nodes import serving
from tests.spark.test_lake import Replayed, put


def test_the_lag_is_what_the_store_has_beyond_the_lake(tmp_path: Path) -> None:
    """Init: a store whose clock is told, six changes in files of two. Check: revisions and seconds fall to nothing."""

    class Told(Replayed):
        def now_ms(self) -> int:
            return 10_000

    lags: list[Lag] = []
    feed(Told([put(number, "k") for number in range(1, 7)]), tmp_path, file_rows=2, on_lag=lags.append)
    assert [(lag.last, lag.revisions) for lag in lags][:3] == [(2, 4), (4, 2), (6, 0)]
    assert [lag.seconds for lag in lags][:3] == [8.0, 6.0, 4.0], "a change of revision n is n seconds old"


def test_a_store_that_goes_on_under_load_is_asked_for_its_tip(tmp_path: Path) -> None:
    """A feed that never comes to rest still tells how far the store is ahead of it."""

    class Growing(Replayed):
        clock_ms = 0

        def now_ms(self) -> int:
            return self.clock_ms

        def changes(self, first: int) -> Generator[Whole | None, None, None]:
            for one in super().changes(first):
                self.clock_ms += 6_000
                if one is not None and one[0] < 5:
                    self.revisions = [*self.revisions, put(len(self.revisions) + 1, "k")]
                yield one

    lags: list[Lag] = []
    feed(Growing([put(number, "k") for number in range(1, 4)]), tmp_path, file_rows=1, on_lag=lags.append)
    assert lags[0].revisions == 3, "two more than at the beginning, less the one that was written"


def test_a_feed_writes_its_lag_for_prometheus(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, url), raftmeta.Client(url) as client:
        client.ready(10)
        client.put("k", "1")
        words = [
            "--url",
            url,
            "pipeline",
            "feed",
            "--out",
            str(tmp_path / "lake"),
            "--metrics",
            str(tmp_path / "lag.prom"),
        ]
        assert CliRunner().invoke(app, words).exit_code == 0
    values = dict(line.split() for line in (tmp_path / "lag.prom").read_text().splitlines() if line[0] != "#")
    assert values["raftmeta_feed_last_revision"] == "1" and values["raftmeta_feed_lag_revisions"] == "0"
    assert float(values["raftmeta_feed_lag_seconds"]) >= 0
