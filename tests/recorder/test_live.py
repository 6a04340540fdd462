"""`raftmeta explain` asks nodes that run, and says what is missing of those that do not answer."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import raftmeta
from raftmeta import aio
from raftmeta import explain as explaining
from raftmeta.cli.app import app
from raftmeta.errors import InvalidArgument
from raftmeta.explain import Explained, words
from raftmeta.explain.rings import Ring, parse_ring, read_ring
from raftmeta.flight.image import ASKED_RECORDS, Image
from tests.client.nodes import ServingCluster, serving
from tests.faces.flight import FlightFace
from tests.processes.waiting import free_addresses, wait_until

LOG = 1
LARGE_BYTES = 2 * 1024 * 1024
CAPACITY = LARGE_BYTES // 4 // 64


def parsed(content: bytes) -> Ring:
    return parse_ring(content, source="memory", is_running=True)


def image_of(ring: FlightFace) -> bytes:
    image = Image()
    while image.wanted is not None:
        part, first = image.wanted
        image.take(ring.copied(part, first, ASKED_RECORDS))
    return image.content


# --- the image of a ring ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, ASKED_RECORDS, CAPACITY, 2 * CAPACITY + 5])
def test_memory_tells_what_the_file_has(tmp_path: Path, count: int) -> None:
    """Empty parts, parts of several answers, parts that were written over."""
    ring = FlightFace(str(tmp_path), LARGE_BYTES, b"a")
    ring.begin_life(3, 77)
    ring.write_many(LOG, words.WAITED, count)
    told = parsed(image_of(ring))
    assert ring.stop()
    file = read_ring(tmp_path / "flight.ring")
    assert (told.node, told.records, told.torn) == (file.node, file.records, 0)
    assert told.alive is not None
    assert told.alive.life == 1


def test_what_is_copied_while_it_is_written_is_whole_or_left_out(tmp_path: Path) -> None:
    ring = FlightFace(str(tmp_path), 64 * 1024, b"a")
    writer = threading.Thread(target=ring.write_many, args=(LOG, words.WAITED, 300_000))
    writer.start()
    while writer.is_alive():
        numbers = [(record.number, record.a) for record in parsed(image_of(ring)).records]
        assert all(number == a + 1 for number, a in numbers)
    writer.join()
    found = parsed(image_of(ring))
    assert found.torn == 0
    assert found.records[-1].a == 300_000 - 1


@pytest.mark.parametrize(
    "answer",
    [
        [b"a", 1, 0, 1, 1, 1],
        [b"a", 1, 2**40, 1, 1, 1],
        [b"a", 1, 64, 1, 1, 1, b"x"],
    ],
)
def test_an_answer_that_is_none_is_refused(answer: list[bytes | int]) -> None:
    with pytest.raises(InvalidArgument, match="no part of a flight recorder"):
        Image().take(answer)


# --- nodes that run ---------------------------------------------------------------------------------------------------


def test_a_node_and_its_clients_tell_the_same(tmp_path: Path) -> None:
    async def asked(url: str) -> bytes:
        async with aio.Client(url) as client:
            return await client.flight_recorder()

    with serving(tmp_path) as (nodes, url), raftmeta.Client(url) as client:
        own, told = parsed(nodes["a"].flight_recorder()), parsed(client.flight_recorder())
        awaited = parsed(asyncio.run(asked(url)))
        assert words.BECAME_LEADER in {record.kind for record in own.records}
        assert {ring.node for ring in (own, told, awaited)} == {"a"}
        assert set(own.records) <= set(told.records) <= set(awaited.records)
        (explained,) = [explaining.explain([nodes["a"].flight_recorder()])]
        assert explained.rings[0].is_running


def test_an_asyncio_node_tells_its_own(tmp_path: Path) -> None:
    async def own() -> bytes:
        async with aio.Node("a", peers={"a": free_addresses(1)[0]}, data_dir=tmp_path / "a") as node:
            return node.flight_recorder()

    assert parsed(asyncio.run(own())).node == "a"


def test_without_a_recorder_there_is_nothing_to_tell(tmp_path: Path) -> None:
    with serving(tmp_path, flight_recorder_bytes=0) as (nodes, url), raftmeta.Client(url) as client:
        assert nodes["a"].flight_recorder() == b""
        assert client.flight_recorder() == b""
        result = CliRunner().invoke(app, ["explain", url])
        assert result.exit_code == 2
        assert "folders: give one for each node" in result.output


# --- a dead one among them --------------------------------------------------------------------------------------------


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["--timeout", "3", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_two_that_run_and_the_folder_of_a_dead_one(tmp_path: Path) -> None:
    """Without the folder the cause is not known, and the doubt is told; with it the cause is named."""
    with ServingCluster(tmp_path) as cluster:
        dead = cluster.leader()
        dead.kill()
        new = cluster.leader(other_than=dead.name)

        def told(missing: list[str], *sources: str) -> dict[str, Any]:
            """Once both others answer in time: the machine may be busy."""
            out: dict[str, Any] = {}

            def is_complete() -> bool:
                out.update(json.loads(run("--json", "explain", *sources)))
                return out["missing"] == missing

            wait_until(is_complete, timeout_s=60, what=lambda: f"answers of both: {out['silent']}")
            return out

        def change(out: dict[str, Any]) -> dict[str, Any]:
            text = f"{dead.name} -> {new.name}"
            return next(one for one in reversed(out["incidents"]) if one["text"].startswith(text))

        alone = told([dead.name], cluster.url)
        assert {one["name"] for one in alone["nodes"]} == set(cluster.nodes) - {dead.name}
        assert all(one["is_running"] for one in alone["nodes"])
        assert [one["address"] for one in alone["silent"]] == [cluster.clients[dead.name]]
        assert change(alone)["confidence"] in ("likely", "unknown")
        doubt = f"{dead.name}'s records are missing: it may have been killed, paused, cut off or stopped"
        assert doubt in change(alone)["uncertain"]

        whole = told([], cluster.url, str(dead.folder))
        assert change(whole)["cause"] == f"{dead.name}'s process was killed or crashed"
        assert change(whole)["uncertain"] == []

        copies = [str(node.folder) for node in cluster.nodes.values() if node is not dead]
        text = run("explain", *copies)
        assert f"no records of {dead.name}" in text
        assert f"uncertain: {doubt}" in text
        page = tmp_path / "page.html"
        run("explain", "--html", str(page), *copies)
        assert f"no records of {dead.name}" in page.read_text()


def test_the_folder_of_a_node_that_answers_is_left_out(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, url):

        async def look() -> Explained:
            async with aio.Client(url) as client:
                asked = await explaining.ask({"there": client})
            return explaining.explain([tmp_path / "a"], asked=asked)

        (ring,) = asyncio.run(look()).rings
        assert (ring.source, ring.is_running) == ("there", True)
        wait_until(lambda: read_ring(tmp_path / "a").records, timeout_s=30, what="its file")


def test_a_source_that_does_not_exist_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["explain", str(tmp_path / "nowhere")])
    assert result.exit_code == 2
    assert "nowhere" in result.output
