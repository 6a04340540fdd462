"""The setting tls: what it takes, what it refuses, and that it tells no secret; in Python, URLs and commands."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

import raftmeta
from raftmeta import aio
from tests.security.certificates import Authority
from tests.security.nodes import Place, secure_cluster


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("settings"), "a")
    with secure_cluster(place):
        yield place


def url_of(place: Place, **changes: str) -> str:
    held = place.authority.client("url")
    files = {"tls_ca": place.authority.path, "tls_cert": held.certificate, "tls_key": held.key, **changes}
    return place.url + "?" + "&".join(f"{name}={path}" for name, path in files.items() if path)


# --- the dataclass ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"certificate": None}, "tls.certificate"),
        ({"certificate": 3}, "tls.certificate"),
        ({"certificate": ""}, "tls.certificate"),
        ({"key": None}, "tls.key"),
        ({"authorities": "a\0b"}, "tls.authorities"),
        ({"revoked": 1.5}, "tls.revoked"),
        ({"key_password": 7}, "tls.key_password"),
        ({"accept_plain": "yes"}, "tls.accept_plain"),
    ],
)
def test_a_wrong_setting_is_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(raftmeta.ConfigError) as caught:
        raftmeta.Tls(**{"certificate": "c", "key": "k", "authorities": "a", **change})
    assert caught.value.field == field


def test_a_key_in_the_place_of_its_file_is_not_told() -> None:
    with pytest.raises(raftmeta.ConfigError) as caught:
        raftmeta.Tls(certificate="c", key="-----BEGIN PRIVATE KEY-----\nMIGHsecret", authorities="a")
    assert "MIGH" not in f"{caught.value!r}{caught.value}"


@pytest.mark.parametrize("name", ["certificate", "key", "authorities", "client_authorities", "revoked"])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    place = Place(tmp_path, "a")
    tls = place.tls("a", **{name: tmp_path / "missing"})
    with pytest.raises(raftmeta.ConfigError, match="No such file") as caught:
        place.node("a", tls).start()
    assert caught.value.field == f"tls.{name}"


@pytest.mark.parametrize("name", ["certificate", "key", "authorities", "client_authorities", "revoked"])
def test_a_file_of_something_else_is_named(tmp_path: Path, name: str) -> None:
    place = Place(tmp_path, "a")
    (tmp_path / "odd").write_bytes(b"this is no PEM")
    with pytest.raises(raftmeta.ConfigError) as caught:
        place.node("a", place.tls("a", **{name: tmp_path / "odd"})).start()
    assert caught.value.field == f"tls.{name}"


def test_the_certificate_of_another_node_is_named(tmp_path: Path) -> None:
    """At the start, not when the first peer refuses it."""
    place = Place(tmp_path, "ab")
    client = place.authority.client("app")
    for held, text in ((place.held["b"], "names node 'b'"), (client, "names client 'app'")):
        with pytest.raises(raftmeta.ConfigError, match=text):
            place.node("a", place.authority.tls(held)).start()


def test_clients_may_have_authorities_of_their_own(tmp_path: Path) -> None:
    """Who signs for clients signs for no node, and the reverse."""
    place = Place(tmp_path, "a")
    other = Authority(tmp_path / "clients", "authority of clients")
    tls = place.tls("a", client_authorities=other.path)
    with place.node("a", tls) as node:
        node.ready(30)
        held = other.client()
        with raftmeta.Client(place.url, tls=other.tls(held, authorities=place.authority.path)) as client:
            client.ready(10)
        with (
            raftmeta.Client(place.url, tls=place.client_tls()) as client,
            pytest.raises(raftmeta.ReadyTimeout, match="no authority of the node signed"),
        ):
            client.ready(1)


# --- clients ----------------------------------------------------------------------------------------------------------


def test_a_url_names_the_files(place: Place) -> None:
    with raftmeta.Client(url_of(place)) as client:
        client.ready(10)
        client.put("k", b"by url")
    with raftmeta.connect(url_of(place)) as store:
        found = store.get("k")
        assert found is not None and found.value == b"by url"


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_the_asyncio_faces_take_it(tmp_path: Path, loop: str) -> None:
    place = Place(tmp_path, "a")

    async def use() -> None:
        async with aio.Node(
            "a",
            peers=place.peers,
            data_dir=tmp_path / "a",
            client_listen=place.clients["a"],
            config=place.config,
            tls=place.tls("a"),
        ) as node:
            await node.ready(30)
            await node.reload_tls()
            async with aio.Client(place.url, tls=place.client_tls()) as client:
                await client.ready(10)
                await client.put("large", b"x" * 300_000)
                record = await client.get("large")
                assert record is not None and len(record.value) == 300_000

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if loop == "uvloop" else None) as runner:
        runner.run(use())


@pytest.mark.parametrize(
    "change",
    [{"tls_key": ""}, {"tls_port": "1"}, {"tls_ca": ""}, {"cluster": "x"}],
    ids=lambda change: next(iter(change)),
)
def test_a_url_that_is_not_whole_is_refused(place: Place, change: dict[str, str]) -> None:
    with pytest.raises(raftmeta.ConfigError) as caught:
        raftmeta.Client(url_of(place, **change))
    assert caught.value.field == "url"


def test_what_fits_no_client_is_refused(place: Place, tmp_path: Path) -> None:
    tls = place.client_tls()
    for url, given in (
        (url_of(place), tls),
        (place.url, place.client_tls(accept_plain=True)),
        (f"raft+unix://{tmp_path}", tls),
        (place.url, "tls"),
    ):
        with pytest.raises(raftmeta.ConfigError) as caught:
            raftmeta.Client(url, tls=given)  # type: ignore[arg-type]
        assert (caught.value.field or "").startswith("tls")


@pytest.mark.parametrize(
    ("papers", "text"),
    [
        (lambda place, other: None, "wants TLS: give this client the setting tls"),
        (lambda place, other: place.authority.tls(place.authority.client("x", "another")), "does not accept the name"),
        (lambda place, other: place.authority.tls(place.authority.node("a2")), "does not accept the name"),
        (lambda place, other: other.tls(other.client(), authorities=place.authority.path), "no authority of the node"),
        (lambda place, other: place.authority.tls(place.authority.client(), authorities=other.path), "its certificate"),
    ],
    ids=["plain", "cluster", "role", "untrusted", "untrusting"],
)
def test_a_client_is_told_why_it_is_not_let_in(place: Place, tmp_path: Path, papers: Any, text: str) -> None:
    with (
        raftmeta.Client(place.url, tls=papers(place, Authority(tmp_path, "another authority"))) as client,
        pytest.raises(raftmeta.ReadyTimeout, match=text),
    ):
        client.ready(1)


def test_a_client_takes_nobody_for_a_node(tmp_path: Path) -> None:
    """A node of another cluster with a certificate of the same authority, and a node without TLS."""
    place = Place(tmp_path, "a")
    held = place.authority.node("a", "another")
    for tls, cluster, text in (
        (place.authority.tls(held), "another", "is of cluster 'another', this client asks 'default'"),
        (None, "default", "speaks no TLS"),
    ):
        with place.node("a", tls, cluster=cluster) as node:
            node.ready(30)
            with (
                raftmeta.Client(place.url, tls=place.client_tls()) as client,
                pytest.raises(raftmeta.ReadyTimeout, match=text),
            ):
                client.ready(1)
        place.folder = tmp_path / "second"
        place.folder.mkdir(exist_ok=True)


# --- commands ---------------------------------------------------------------------------------------------------------


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "raftmeta.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


def test_the_command_line_takes_options_and_environment(place: Place) -> None:
    held = place.authority.client("shell")
    done = command(
        *("--url", place.url, "--tls-ca", str(place.authority.path), "--tls-cert", str(held.certificate)),
        *("--tls-key", str(held.key), "put", "shell", "by option"),
    )
    assert done.returncode == 0, done.stderr
    done = command(
        *("--json", "status"),
        RAFTMETA_URL=place.url,
        RAFTMETA_TLS_CA=str(place.authority.path),
        RAFTMETA_TLS_CERT=str(held.certificate),
        RAFTMETA_TLS_KEY=str(held.key),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["name"] == "a"


def test_half_of_the_options_are_refused(place: Place) -> None:
    done = command("--url", place.url, "--tls-ca", str(place.authority.path), "status")
    assert done.returncode == 2
    assert "--tls-cert, --tls-key" in done.stderr


def test_serve_runs_with_tls_and_reads_anew_by_sighup(tmp_path: Path) -> None:
    place = Place(tmp_path, "a")
    (tmp_path / "password").write_text("open sesame\n")
    locked = place.authority.issue("locked", "raftmeta://default/a/peer", password=b"open sesame")
    serving = subprocess.Popen(
        [
            *(sys.executable, "-m", "raftmeta.cli", "serve", "--name", "a", "--peer", f"a={place.peers['a']}"),
            *("--data", str(tmp_path / "a"), "--clients", place.clients["a"]),
            *("--tls-ca", str(place.authority.path), "--tls-cert", str(locked.certificate)),
            *("--tls-key", str(locked.key), "--tls-key-password-file", str(tmp_path / "password")),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert serving.stderr is not None
    lines: list[str] = []
    try:
        with raftmeta.Client(place.url, tls=place.client_tls()) as client:
            client.ready(30)
        serving.send_signal(signal.SIGHUP)
        while not any("tls_renewed" in line for line in lines):
            lines.append(serving.stderr.readline())
            assert lines[-1], lines
    finally:
        serving.send_signal(signal.SIGTERM)
        lines += serving.communicate(timeout=60)[1].splitlines()
    assert serving.returncode == 0, lines
    assert "sesame" not in "".join(lines)


# --- the end of a process ---------------------------------------------------------------------------------------------

ABANDONED = """
import ctypes, sys, threading, raftmeta
from pathlib import Path
from tests.security.nodes import Place
place = Place(Path(sys.argv[1]))
nodes = [place.node(name, place.tls(name)).start() for name in "abc"]
for node in nodes:
    node.ready(30)
for _ in range(4):
    threading.Thread(target=lambda: [nodes[0].put("k", b"v" * 5000) for _ in range(100000)], daemon=True).start()
raftmeta.Client(place.url, tls=place.client_tls()).ready(10)
nodes[1].put("k", b"v")
ctypes.CDLL(None).exit(0)  # runs the clean-up of libraries, and leaves Python and the threads as they are
"""


def test_a_process_that_closes_nothing_ends_in_peace(tmp_path: Path) -> None:
    """OpenSSL cleans up at the end of the process while the native threads still encrypt (security/tls)."""
    for number in range(5):
        done = subprocess.run(
            [sys.executable, "-c", ABANDONED, str(tmp_path / str(number))], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}"


def test_a_fork_child_leaves_the_connections_to_its_parent(place: Place) -> None:
    """It says no goodbye on them: the parent's client goes on with the same connection."""
    with raftmeta.Client(place.url, tls=place.client_tls()) as client:
        client.ready(10)
        connects = client.metrics()["connects"]
        forked = multiprocessing.get_context("fork").Process(target=lambda: None)
        forked.start()
        forked.join(30)
        assert forked.exitcode == 0
        client.put("k", b"after the fork")
        assert client.metrics()["connects"] == connects
