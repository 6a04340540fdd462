"""`raftmeta migrate` as a shell has it: lines, exit codes, and one line for every error."""

from __future__ import annotations

import gzip
import json
import pickle
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import raftmeta
from raftmeta.cli.app import app
from tests.client.nodes import serving

DATA = Path(__file__).parent / "data"
ZOOKEEPER = str(DATA / "zookeeper")
Run = Callable[..., str]
# The command, and the most memory that it had; what the system tells a parent begins with the parent's own.
PROGRAM = """
import atexit, pathlib, runpy
status = pathlib.Path("/proc/self/status")
atexit.register(lambda: print(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))))
runpy.run_module("raftmeta.cli", run_name="__main__")
"""
LOOKED_AT, LOADED = 300, 100  # values of a mebibyte
MEMORY_KIB_MAX = 160 << 10  # with values of any size


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("node")) as (_, url):
        yield url


@pytest.fixture
def run(url: str) -> Run:
    def run(*arguments: str, code: int = 0) -> str:
        ended = CliRunner().invoke(app, ["--url", url, *arguments])
        assert ended.exit_code == code, ended.output
        return ended.output

    return run


def test_zookeeper_is_planned_loaded_compared_and_updated(run: Run, url: str) -> None:
    """The way of an operator: look, load, compare, write what changed, compare again."""
    told = run("migrate", "zookeeper", ZOOKEEPER, "--dry-run")
    assert "last zxid: 0xd" in told and "dropped: 1 ephemeral nodes" in told and "written: 0" in told
    assert json.loads(run("--json", "migrate", "zookeeper", ZOOKEEPER))["written"] == 6
    assert "differences: 0" in run("migrate", "zookeeper", ZOOKEEPER, "--compare", "--merge")
    with raftmeta.Client(url) as client:
        client.put("/a", "changed")
        client.put("/more", "extra")
    told = run("migrate", "zookeeper", ZOOKEEPER, "--compare", "--merge", code=1)
    assert "differs  /a\n" in told and "extra    /more\n" in told and "differences: 2" in told
    assert "written: 1" in run("migrate", "zookeeper", ZOOKEEPER, "--update")
    assert "written: 1" in run("migrate", "zookeeper", ZOOKEEPER, "--update", "--delete")
    assert "differences: 0" in run("migrate", "zookeeper", ZOOKEEPER, "--compare", "--merge")


def test_etcd_and_pysyncobj_are_loaded(run: Run, tmp_path: Path) -> None:
    database = tmp_path / "saved.db"
    database.write_bytes(gzip.decompress((DATA / "etcd.db.gz").read_bytes()))
    assert "written: 3" in run("migrate", "etcd", str(database), "--prefix", "etcd/", "--leases", "keep")
    dump = tmp_path / "dump.bin"
    entry = (b"\x00", 2, 1)
    with gzip.open(dump, "wb") as file:
        pickle.dump(([{}, {"_ReplDict__data": {"k": "v"}}], entry, entry, set()), file, 2)
    assert "written: 1" in run("migrate", "pysyncobj", str(dump), "--prefix", "py/", "--no-side")
    assert run("get", "py/k") == "v\n"
    assert run("get", "etcd/a") == "again\n"


def test_errors_are_one_line_and_tell_what_kind_they_are(run: Run, tmp_path: Path) -> None:
    """2 wrong use, 5 damage, 1 refused."""
    damaged = tmp_path / "snapshot.1"
    damaged.write_bytes(b"ZKSN")
    for arguments, code, words in (
        (("zookeeper", str(tmp_path / "nothing")), 2, "there is no"),
        (("zookeeper", str(damaged)), 5, "snapshot.1, byte 0: "),
        (("etcd", str(DATA / "etcd.db.gz")), 5, "--skip-hash-check"),
        (("zookeeper", ZOOKEEPER, "--ephemerals", "keep", "--side", "other/"), 1, "keys already"),
    ):
        told = run("migrate", *arguments, code=code)
        assert told.startswith("raftmeta: ") and told.count("\n") == 1, told
        assert words in told


def write_large_snapshot(folder: Path, count: int) -> None:
    """A ZooKeeper snapshot with so many nodes of a mebibyte each, no two alike."""
    folder.mkdir()
    seal = 1

    with (folder / "snapshot.1").open("wb") as file:

        def write(part: bytes) -> None:
            nonlocal seal
            file.write(part)
            seal = zlib.adler32(part, seal)

        write(struct.pack(">4siqii", b"ZKSN", 2, 0, 0, 0))
        for number in range(-1, count):
            path = b"/%04d" % number if number >= 0 else b""
            data = b"%04d" % number * (1 << 18) if number >= 0 else b""
            write(struct.pack(">i", len(path)) + path + struct.pack(">i", len(data)) + data)
            write(struct.pack(">qqqqqiiiqq", -1, 1, 1, 0, 0, 0, 0, 0, 0, 1))
        write(struct.pack(">i", 1) + b"/")
        file.write(struct.pack(">qi", seal, 1) + b"/")


def test_large_values_take_no_more_memory_than_small_ones(tmp_path: Path) -> None:
    """However many of them there are: looked at, loaded, compared, and written again after somebody changed them."""
    for count in (LOOKED_AT, LOADED):
        write_large_snapshot(tmp_path / str(count), count)
    with serving(tmp_path, reserve_bytes=0) as (_, url):

        def peak_kib(count: int, *way: str) -> int:
            command = [sys.executable, "-c", PROGRAM, "--url", url, "migrate", "zookeeper", str(tmp_path / str(count))]
            ended = subprocess.run([*command, *way], capture_output=True, text=True, check=False)
            assert ended.returncode == 0, ended.stderr
            return int(ended.stdout.split()[-2])

        peaks = [peak_kib(LOOKED_AT, "--dry-run"), peak_kib(LOADED), peak_kib(LOADED, "--compare", "--merge")]
        with raftmeta.Client(url) as client:
            for number in range(LOADED):
                client.put(f"/more/{number:04}", bytes(1 << 20), timeout_s=60)
        peaks.append(peak_kib(LOADED, "--update", "--delete"))
        assert max(peaks) < MEMORY_KIB_MAX, peaks
