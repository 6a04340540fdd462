"""Keys as a broker keeps the states of its partitions: key, value and numbers of a row have 165 bytes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import raftmeta
from raftmeta.operations import Put

STATE = '{{"controller_epoch":{},"leader":{},"version":1,"leader_epoch":{},"isr":[1,2,3]}}'
WRITERS = 64  # transactions under way while a store is filled


def partition_states(first: int, count: int) -> list[Put]:
    return [
        Put(f"/brokers/topics/topic-{i // 30:06}/partitions/{i % 30}/state", STATE.format(i % 7, i % 50, i % 90))
        for i in range(first, first + count)
    ]


def fill_partitions(store: raftmeta.Node | raftmeta.Client, count: int, each: int) -> None:
    """So many keys, `each` of them in a revision."""
    with ThreadPoolExecutor(WRITERS) as writers:
        for _ in writers.map(
            lambda first: store.txn([], partition_states(first, each), timeout_s=60.0), range(0, count, each)
        ):
            pass
