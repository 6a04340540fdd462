"""What a watch covers when it is asked for without a key: an error that says how to ask for every key."""

from __future__ import annotations

from pathlib import Path

import pytest

import raftmeta
from tests.client.nodes import serving


def test_a_watch_without_a_key_says_how_to_watch_every_key(tmp_path: Path) -> None:
    with (
        serving(tmp_path) as (_, url),
        raftmeta.Client(url) as client,
        pytest.raises(raftmeta.InvalidArgument, match='prefix="" is every key'),
    ):
        client.watch(start_revision=1)
