"""Settings are validated once, all of them, before anything is written."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from raftmeta import Client, Config, ConfigError, InvalidArgument, Node, snapshot
from raftmeta.config import _RANGES, Address, Identity
from tests.faces.storage import FolderDisk

PEERS = {"a": "127.0.0.1:7001", "b": "127.0.0.1:7002"}


def identity(**changes: Any) -> Identity:
    given: dict[str, Any] = {
        "name": "a",
        "peers": PEERS,
        "data_dir": "/nowhere",
        "listen": None,
        "advertise": None,
        "cluster": "default",
        "config": Config(),
        **changes,
    }
    return Identity.check(given.pop("name"), **given)


@pytest.mark.parametrize("name", sorted(_RANGES))
@pytest.mark.parametrize("side", [0, 1])
def test_a_setting_out_of_its_range_is_named_with_the_range(name: str, side: int) -> None:
    limit = _RANGES[name][side]
    wrong = type(limit)(limit - 1 if side == 0 else limit + 1)
    with pytest.raises(ConfigError, match=name) as caught:
        Config(**{name: wrong})
    assert caught.value.field == name
    assert f"{limit:g}" in str(caught.value)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Config)])
@pytest.mark.parametrize("wrong", [None, "1", [], 1.5j])
def test_a_setting_of_a_wrong_type_is_named(name: str, wrong: object) -> None:
    if wrong == "1" and isinstance(getattr(Config(), name), str):
        wrong = 1
    with pytest.raises(ConfigError, match=name) as caught:
        Config(**{name: wrong})
    assert caught.value.field == name


def test_not_a_number_and_booleans_are_no_numbers() -> None:
    for wrong in (math.nan, math.inf, True):
        with pytest.raises(ConfigError, match="tick_s"):
            Config(tick_s=wrong)
    with pytest.raises(ConfigError, match="insecure"):
        Config(insecure=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"tick_s": 0.1, "heartbeat_s": 0.05}, "heartbeat_s"),
        ({"heartbeat_s": 0.2, "election_timeout_s": 0.5}, "election_timeout_s"),
        ({"segment_bytes": 1 << 20, "wal_bytes_max": 3 << 20}, "wal_bytes_max"),
        ({"outstanding_max": 100, "session_window": 50}, "outstanding_max"),
        ({"reconnect_min_s": 1.0, "reconnect_max_s": 0.5}, "reconnect_max_s"),
        ({"append_bytes_max": 1 << 20, "inflight_bytes_max": 1 << 17}, "inflight_bytes_max"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config(**settings)
    assert caught.value.field == field


def test_a_config_is_frozen_and_keyword_only() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().tick_s = 1.0  # type: ignore[misc]
    with pytest.raises(TypeError):
        Config(0.01)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "host", "port"), [("127.0.0.1:1", "127.0.0.1", 1), ("[::1]:65535", "::1", 65535), ("a.b:80", "a.b", 80)]
)
def test_an_address_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    address = Address.parse(text, "listen")
    assert (address.host, address.port, str(address)) == (host, port, text)


@pytest.mark.parametrize(
    "text",
    [
        *["", "host", "host:", ":1", "host:0", "host:65536", "host:x", "host:-1", "h" * 300 + ":1", 7],
        *["http://host:80", "raft://127.0.0.1:7001", "127.0.0.1:80/", "ho\0st:80", "ho st:80", "\ud800:80"],
    ],
)
def test_other_texts_are_no_addresses(text: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Address.parse(text, "advertise")
    assert caught.value.field == "advertise"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.1", "[::]", "broker-1"])
def test_an_address_that_others_reach_needs_consent(host: str) -> None:
    """Until TLS is there, a non-loopback listen without insecure=True is a ConfigError."""
    with pytest.raises(ConfigError, match="insecure=True") as caught:
        identity(listen=f"{host}:7001")
    assert caught.value.field == "listen"
    assert identity(listen=f"{host}:7001", config=Config(insecure=True)).listen.port == 7001


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "[::1]", "localhost"])
def test_loopback_needs_none(host: str) -> None:
    assert identity(listen=f"{host}:7001").listen.is_loopback


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"name": "a\n"}, "name"),
        ({"name": 3}, "name"),
        ({"cluster": ""}, "cluster"),
        ({"peers": {}}, "peers"),
        ({"peers": {"b": "127.0.0.1:1"}}, "peers"),
        ({"peers": [("a", "127.0.0.1:1")]}, "peers"),
        ({"peers": {"a": "127.0.0.1:1", "b": "127.0.0.1:1"}}, "peers"),
        ({"peers": {"a": "127.0.0.1"}}, "peers[a]"),
        ({"peers": {f"n{i}": f"127.0.0.1:{i + 1}" for i in range(33)} | {"a": "127.0.0.1:99"}}, "peers"),
        ({"listen": "127.0.0.1"}, "listen"),
        ({"advertise": "x"}, "advertise"),
        ({"peers": None}, "peers"),
        ({"role": "voter"}, "role"),
        ({"seeds": ["b=127.0.0.1:2"]}, "seeds"),
        ({"role": "observer"}, "peers"),
        ({"role": "observer", "peers": None}, "listen"),
        ({"role": "observer", "peers": None, "listen": "127.0.0.1:1"}, "seeds"),
        ({"role": "observer", "peers": None, "listen": "127.0.0.1:1", "seeds": "b=127.0.0.1:2"}, "seeds"),
        ({"role": "observer", "peers": None, "listen": "127.0.0.1:1", "seeds": ["127.0.0.1:2"]}, "seeds"),
        ({"role": "observer", "peers": None, "listen": "127.0.0.1:1", "seeds": ["a=127.0.0.1:2"]}, "seeds"),
        ({"role": "observer", "peers": None, "listen": "127.0.0.1:1", "seeds": ["b=127.0.0.1:1"]}, "peers"),
        ({"data_dir": ""}, "data_dir"),
        ({"data_dir": 3}, "data_dir"),
        ({"data_dir": b"/x"}, "data_dir"),
        ({"data_dir": "/x/\0y"}, "data_dir"),
    ],
)
def test_who_and_where_a_node_is_must_make_sense(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        identity(**changes)
    assert caught.value.field == field


def test_an_observer_has_seeds_and_its_own_address_in_the_place_of_peers() -> None:
    made = identity(role="observer", peers=None, listen="127.0.0.1:1", seeds=["b=127.0.0.1:2", "c=127.0.0.1:3"])
    assert {name: str(address) for name, address in made.peers.items()} == {
        "a": "127.0.0.1:1",
        "b": "127.0.0.1:2",
        "c": "127.0.0.1:3",
    }
    assert made.is_observer
    assert not identity().is_observer


def test_a_node_listens_on_its_own_address_unless_told_otherwise() -> None:
    made = identity(listen="127.0.0.1:9000")
    assert (str(made.listen), str(made.advertise)) == ("127.0.0.1:9000", "127.0.0.1:7001")
    assert identity().listen == identity().advertise == Address("127.0.0.1", 7001)


def test_a_url_is_refused_as_a_url_and_not_for_its_reach() -> None:
    """It used to be told that it is reachable from other machines."""
    with pytest.raises(ConfigError, match="no URL") as caught:
        identity(listen="http://127.0.0.1:7001")
    assert caught.value.field == "listen"


def test_a_path_that_the_system_would_cut_writes_nowhere(tmp_path: Path) -> None:
    """A node over "x/" and a NUL used to write into x/."""
    (tmp_path / "x").mkdir()
    with pytest.raises(ConfigError, match="NUL"):
        Node("a", peers={"a": PEERS["a"]}, data_dir=f"{tmp_path}/x/\0y")
    backup = tmp_path / "backup"
    backup.write_bytes(b"")
    for call in (snapshot.inspect, snapshot.verify):
        with pytest.raises(InvalidArgument, match="NUL"):
            call(f"{backup}\0y")
    with pytest.raises(ConfigError, match="NUL"):
        snapshot.restore(backup, f"{tmp_path}/x/\0y", "a", {"a": PEERS["a"]})
    with pytest.raises(ValueError, match="NUL"):
        FolderDisk(f"{tmp_path}/x/\0y")
    with pytest.raises(ValueError, match="NUL"):
        FolderDisk(tmp_path / "x").open("mark\0y", create=True)
    with pytest.raises(ConfigError, match="NUL"):
        Client(f"raft+unix://{tmp_path}/x/%00y")
    assert list((tmp_path / "x").iterdir()) == []


def test_any_path_of_the_system_is_a_folder(tmp_path: Path) -> None:
    class Where:
        def __fspath__(self) -> str:
            return str(tmp_path)

    assert identity(data_dir=Where()).data_dir == tmp_path


def test_a_wrong_setting_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        Node("a", peers=PEERS, data_dir=tmp_path / "a", listen="0.0.0.0:7001")
    with pytest.raises(ConfigError):
        Node("a", peers=PEERS, data_dir=tmp_path / "a", config={"tick_s": 1})  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
