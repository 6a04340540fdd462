"""The mirror of a prefix: no change is missed, and a gap is told as one."""

from __future__ import annotations

import queue
import threading
from typing import Any

import pytest

import raftmeta
from raftmeta.operations import KeyRecord
from raftmeta.recipes.face import run
from raftmeta.recipes.face_blocking import BlockingFace
from raftmeta.recipes.mirror import Mirror, fold
from raftmeta.results import WatchBatch, WatchEvent, WatchReset
from tests.recipes.test_group import next_of


def put(key: bytes, revision: int, value: bytes = b"v") -> WatchEvent:
    return WatchEvent("put", KeyRecord(key, value, revision, revision, 1, 0), None, revision)


def delete(key: bytes, revision: int) -> WatchEvent:
    return WatchEvent("delete", KeyRecord(key, b"", 0, revision, 0, 0), None, revision)


class Script:
    """A store whose watches give what the test says; each entry is one watch, a list of news or an error."""

    def __init__(self, *watches: Any) -> None:
        self.watches = list(watches)
        self.opened: list[int] = []

    def range(self, *_bounds: object, **_options: object) -> raftmeta.RangeResult:
        revision = 10 * (len(self.opened) + 1)
        return raftmeta.RangeResult(1, [KeyRecord(b"p/start", b"", 1, revision, 1, 0)], revision=revision)

    def watch(self, _key: object, *, start_revision: int, callback: Any, on_end: Any, **_options: object) -> Script:
        self.opened.append(start_revision)
        news = self.watches.pop(0) if self.watches else raftmeta.NodeClosed("the script ended")
        if isinstance(news, Exception):
            raise news
        threading.Thread(target=self._tell, args=(news, callback, on_end), daemon=True).start()
        return self

    def _tell(self, news: list[Any], callback: Any, on_end: Any) -> None:
        for one in news:
            if isinstance(one, Exception):
                return on_end(one)
            callback(one)
        on_end(None)

    def close(self) -> None:
        pass


def changes_of(script: Script, count: int) -> list[tuple[int, bool, bool, set[bytes]]]:
    """(revision, coalesced, keys_changed, keys) of each change that a mirror of the script tells."""
    seen: queue.Queue[tuple[int, bool, bool, set[bytes]]] = queue.Queue()

    def on_change(mirror: Mirror) -> None:
        seen.put((mirror.revision, mirror.coalesced, mirror.keys_changed, set(mirror.records)))

    mirror = Mirror(BlockingFace(script), on_change, prefix="p/")  # type: ignore[arg-type]
    run(mirror.open())
    mirror.start()
    found = [next_of(seen) for _ in range(count)]
    run(mirror.close())
    return found


def test_a_revision_is_told_whole() -> None:
    """A large one comes in parts; the watch begins right behind what was read."""
    script = Script(
        [
            WatchBatch(11, 0.0, [put(b"p/a", 11)], False),
            WatchBatch(11, 0.0, [put(b"p/b", 11)], True),
            WatchBatch(12, 0.0, [put(b"p/a", 12)], True),
        ]
    )
    keys = {b"p/start", b"p/a", b"p/b"}
    assert changes_of(script, 2) == [(11, False, True, keys), (12, False, False, keys)]
    assert script.opened[0] == 11


def test_a_reset_is_coalesced() -> None:
    """The history behind a consumer was compacted: the whole state, and what follows is in order again."""
    script = Script(
        [
            WatchBatch(11, 0.0, [put(b"p/a", 11)], False),
            WatchReset(50, [put(b"p/x", 40).record]),
            WatchBatch(51, 0.0, [delete(b"p/x", 51)], True),
        ]
    )
    assert changes_of(script, 2) == [(50, True, True, {b"p/x"}), (51, False, True, set())]


@pytest.mark.parametrize("end", [[], [raftmeta.NoLeader("on purpose")]], ids=["ended", "failed"])
def test_a_watch_that_ends_is_opened_anew_and_that_is_coalesced(end: list[Any]) -> None:
    """After a failure too, and though opening fails once."""
    script = Script(
        [WatchBatch(11, 0.0, [put(b"p/a", 11)], True), *end],
        raftmeta.NotReady("on purpose"),
        [WatchBatch(41, 0.0, [put(b"p/b", 41)], True)],
    )
    assert changes_of(script, 3) == [
        (11, False, True, {b"p/start", b"p/a"}),
        (30, True, True, {b"p/start"}),
        (41, False, True, {b"p/start", b"p/b"}),
    ]


def test_fold_knows_whether_the_set_of_keys_changed() -> None:
    records = {b"a": put(b"a", 1).record}
    assert not fold(records, [put(b"a", 2)])
    assert fold(records, [put(b"b", 3)])
    assert fold(records, [delete(b"a", 4)])
    assert not fold(records, [delete(b"a", 5)])
    assert set(records) == {b"b"}
