"""Keys of the greatest length: pages that begin behind one, and watches of one, on every face."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import raftmeta
from tests.client.nodes import serving

KEYS = [b"k" * 479 + letter for letter in (b"a", b"b", b"c")]
VALUE = bytes(600_000)  # two of them fill what one look at the state gives


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with serving(tmp_path_factory.mktemp("n")) as (nodes, url), raftmeta.Client(url) as client:
        for key in KEYS:
            nodes["a"].put(key, VALUE)
        yield {"node": nodes["a"], "client": client, "url": url}


@pytest.mark.parametrize("face", ["node", "client"])
def test_a_range_goes_on_behind_the_longest_key(faces: dict[str, Any], face: str) -> None:
    """By itself, where its answer comes in parts; and by its caller, page by page as the docstring says."""
    store = faces[face]
    assert [record.key for record in store.range(prefix="k").records] == KEYS
    found, start = [], b"k"
    while (page := store.range(start, limit=1)).records:
        found.append(page.records[-1].key)
        start = page.records[-1].key + b"\0"
    assert found == KEYS
    assert store.range(KEYS[0], KEYS[0] + b"\0").count == 1
    with pytest.raises(raftmeta.InvalidArgument, match="480"):
        store.range(KEYS[0] + b"\1")
    with pytest.raises(raftmeta.InvalidArgument, match="480"):
        store.range(KEYS[0] + b"\0\0")


@pytest.mark.parametrize("face", ["node", "client"])
def test_the_longest_key_is_watched(faces: dict[str, Any], face: str) -> None:
    store = faces[face]
    with store.watch(KEYS[2], timeout_s=10) as one, store.watch(KEYS[2], KEYS[2] + b"\0", timeout_s=10) as range_of_one:
        revision = store.put(KEYS[2], VALUE).revision
        assert next(iter(one)).revision == next(iter(range_of_one)).revision == revision


def test_the_asyncio_faces_do_the_same(faces: dict[str, Any]) -> None:
    async def use() -> list[list[bytes]]:
        node = faces["node"].aio()
        async with raftmeta.aio.Client(faces["url"]) as client:
            return [[record.key for record in (await one.range(prefix="k")).records] for one in (node, client)]

    assert asyncio.run(use()) == [KEYS, KEYS]


def test_a_removal_takes_no_longer_bound(faces: dict[str, Any]) -> None:
    """What enters the log has keys' limits: its bounds are at most 480 bytes."""
    for store in (faces["node"], faces["client"]):
        with pytest.raises(raftmeta.InvalidArgument, match="480"):
            store.delete_range(KEYS[0], KEYS[0] + b"\0")
