"""Exports as sources: what consul 1.22.7 and cqlsh (of Cassandra 5.0.9) wrote, and files that are damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import raftmeta
from raftmeta import migrate
from raftmeta.cli.app import app
from tests.client.nodes import serving

DATA = Path(__file__).parent / "data"
CASSANDRA = DATA / "cassandra"
CONSUL = DATA / "consul.json"
KEYS_OF_CASSANDRA = {
    "topics/t": '{"partitions": 3}',
    'quote\'s "and" comma,': "a,b",
    "back\\slash": 'c:\\temp\\new \\" x',
    "lines": "one\ntwo\ttab",
    "ä ü \N{GRINNING FACE}": "ö€",
    "empty": "",
    "null": "",
    "literal\\n": "literal\\nx",
}
KEYS_OF_CONSUL = {
    "topics/t": (b"3", 0),
    "topics/": (b"", 0),
    "ä ü": ("ö€".encode(), 42),
    "bytes": (bytes(range(256)), 0),
    "empty": (b"", 2**64 - 1),
}


def test_the_export_of_cqlsh_gives_every_key_as_it_was() -> None:
    with migrate.CassandraSource(CASSANDRA) as source:
        found = {item.key.decode(): item.value.decode() for item in source.items()}
        assert found == KEYS_OF_CASSANDRA
        assert [item.key for item in source.items()] == sorted(key.encode() for key in KEYS_OF_CASSANDRA)
        assert dict(source.dropped) == {"leaders": 1, "members": 1}


def test_the_export_of_consul_gives_every_key_as_it_was() -> None:
    with migrate.ConsulSource(CONSUL) as source:
        found = {item.key.decode(): (item.value, json.loads(item.metadata)["flags"]) for item in source.items()}
        assert found == KEYS_OF_CONSUL
        assert [item.key for item in source.items()] == sorted(key.encode() for key in KEYS_OF_CONSUL)


def test_a_file_that_has_ended_too_early_is_refused_with_its_place(tmp_path: Path) -> None:
    """Every prefix, but those of whole rows: cqlsh marks no end."""
    whole, file = (CASSANDRA / "kv.csv").read_bytes(), tmp_path / "kv.csv"
    ends = {at for at in range(1, len(whole) + 1) if whole[:at].endswith(b"\n")}
    for size in range(1, len(whole)):
        file.write_bytes(whole[:size])
        if size in ends:
            assert list(migrate.CassandraSource(file).items()) is not None
            continue
        with pytest.raises(migrate.SourceDamaged) as damaged:
            migrate.CassandraSource(file)
        assert 0 <= damaged.value.offset <= size
    whole = CONSUL.read_bytes().rstrip()
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        with pytest.raises(migrate.SourceDamaged):
            migrate.ConsulSource(file)


@pytest.mark.parametrize(
    "told",
    [{}, [1], [{"key": "k"}], [{"key": "", "value": ""}], [{"key": "k", "value": "*"}], [{"key": 1, "value": ""}]]
    + [[{"key": "k", "value": "", "flags": flags}] for flags in (-1, 2**64, True, "1")],
    ids=str,
)
def test_json_that_is_no_export_of_consul_is_refused(tmp_path: Path, told: object) -> None:
    file = tmp_path / "export"
    file.write_text(json.dumps(told))
    with pytest.raises(migrate.SourceDamaged):
        migrate.ConsulSource(file)


def test_two_namespaces_of_consul_are_refused(tmp_path: Path) -> None:
    file, entry = tmp_path / "export", {"key": "k", "flags": 0, "value": ""}
    file.write_text(json.dumps([{**entry, "namespace": "a"}, {**entry, "namespace": "b"}]))
    with pytest.raises(migrate.NotMigratable, match="2 namespaces"):
        migrate.ConsulSource(file)


@pytest.mark.parametrize("text", ["", "name,value\r\na,b\r\n", "key,value\r\na\r\n", "key,value\r\n,b\r\n"], ids=repr)
def test_a_table_that_is_no_export_of_the_plug_in_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "kv.csv").write_bytes(text.encode())
    with pytest.raises(migrate.SourceDamaged):
        migrate.CassandraSource(tmp_path)


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    for source in (migrate.ConsulSource, migrate.CassandraSource):
        with pytest.raises(raftmeta.InvalidArgument):
            source(tmp_path / "nothing")


def test_the_commands_load_and_find_no_difference(tmp_path: Path) -> None:
    with serving(tmp_path) as (nodes, url):
        for kind, path in (("consul", CONSUL), ("cassandra", CASSANDRA)):
            for words in ((), ("--compare", "--merge")):
                command = ["--url", url, "migrate", kind, str(path), "--prefix", f"{kind}/", *words]
                ended = CliRunner().invoke(app, command)
                assert ended.exit_code == 0, ended.output
        assert nodes["a"].get("consul/bytes").value == bytes(range(256))
        assert nodes["a"].get("cassandra/lines").value == b"one\ntwo\ttab"
        side = nodes["a"].get("migrated/consul/item/ä ü").value
        assert json.loads(side) == {"flags": 42}
