"""Waiting until the keys of a store are as somebody wants them: read once, then follow the watch; never poll."""

from __future__ import annotations

from collections.abc import Callable

from raftmeta.errors import LeaseExpired
from raftmeta.operations import Key
from raftmeta.recipes.deadline import Deadline
from raftmeta.recipes.face import Face
from raftmeta.recipes.held import Hold
from raftmeta.recipes.mirror import Records, fold, read_whole
from raftmeta.results import WatchReset

__all__ = ["wait_until"]

TUNE_ROUND_S_MIN = 0.01


async def wait_until(
    face: Face,
    is_ready: Callable[[Records], bool],
    *,
    key: Key = "",
    prefix: str = "",
    deadline: Deadline,
    hold: Hold | None = None,
) -> bool:
    """Wait until the records of one key, or below a prefix, are as wanted; False: the deadline passed.

    hold: what the caller waits with. Raises LeaseExpired when that is lost meanwhile.
    """
    revision, records = await read_whole(face, key=key, prefix=prefix)
    while not is_ready(records):
        round_s = _round_s(deadline, hold)
        if round_s == 0:
            return False
        watching = await face.watch(
            key or None, prefix=None if key else prefix, start_revision=revision + 1, reset=True, timeout_s=round_s
        )
        try:
            while not is_ready(records) and (news := await watching.next()) is not None:
                if isinstance(news, WatchReset):
                    records = {record.key: record for record in news.records}
                else:
                    fold(records, news.events)
                if isinstance(news, WatchReset) or news.is_whole:
                    revision = news.revision
        finally:
            await watching.close()
    return True


def _round_s(deadline: Deadline, hold: Hold | None) -> float | None:
    """How long one watch may be silent: not beyond the deadline, nor beyond what is held without further news."""
    left_s = deadline.left_s()
    if hold is None:
        return left_s
    if not hold.held():
        raise LeaseExpired(f"{hold.key} was lost while waiting")
    held_s = max(TUNE_ROUND_S_MIN, hold.remaining_s())
    return held_s if left_s is None else min(left_s, held_s)
