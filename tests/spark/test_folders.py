"""Output folders: whole or not at all, whoever else writes there, whatever fails meanwhile."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from raftmeta.spark.folders import exchanged, read_json, write_json, written


def test_a_folder_is_exchanged_whole_by_many_drivers(tmp_path: Path) -> None:
    """Eight drivers begin and end at once: what stays is all of one of them, and nothing beside it."""
    barrier = threading.Barrier(8)

    def drive(number: int) -> None:
        barrier.wait()  # nobody sweeps away what another has just made
        with exchanged(tmp_path / "out") as fresh:
            for name in ("a", "b"):
                write_json(fresh / name, {"driver": number})
            barrier.wait()

    threads = [threading.Thread(target=drive, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_json(tmp_path / "out" / "a") == read_json(tmp_path / "out" / "b")
    assert os.listdir(tmp_path) == ["out"]


def test_a_driver_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    with exchanged(tmp_path / "out") as fresh:
        (fresh / "a").touch()
    with pytest.raises(OSError, match="disk"), exchanged(tmp_path / "out") as fresh:
        (fresh / "b").touch()
        raise OSError("the disk is full")
    with pytest.raises(OSError, match="disk"), written(tmp_path / "out" / "a") as half:
        half.write_text("half")
        raise OSError("the disk is full")
    assert os.listdir(tmp_path) == ["out"]
    assert [(path.name, path.read_text()) for path in (tmp_path / "out").iterdir()] == [("a", "")]
