"""Nodes with encrypted files: nothing readable in a folder, keys that change, and the way there and back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import raftmeta
from raftmeta import EncryptionKeyMissing, prometheus, snapshot
from raftmeta.cli.app import app
from raftmeta.scan import SnapshotFile
from tests.node.nodes import QUICK, all_ready, leader_of, make_nodes, one_node, running
from tests.processes.waiting import free_ports, wait_until

KEY, OTHER = bytes(range(32)), bytes(range(100, 132))
MARKER = b"what nobody may read"
POINTS = {"snapshot_entries": 100}
KEYED = raftmeta.Encryption(key=KEY)
ID, OTHER_ID = raftmeta.Encryption.key_id(KEY), raftmeta.Encryption.key_id(OTHER)


def key_file(folder: Path, *lines: str) -> Path:
    path = folder / "key-file"
    path.touch(mode=0o600)
    path.write_text("\n".join(lines))
    return path


def fill(node: raftmeta.Node, count: int = 120, *, begin: int = 0) -> None:
    for number in range(begin, begin + count):
        node.put(b"%s/%d" % (MARKER, number), MARKER * 20)


def point_passed(nodes: dict[str, raftmeta.Node]) -> None:
    """Every node has a checkpoint of what was written before."""
    before = {name: node.metrics()["snapshots_taken"] for name, node in nodes.items()}
    fill(leader_of(nodes), 110)
    wait_until(
        lambda: all(node.metrics()["snapshots_taken"] > before[name] for name, node in nodes.items()),
        timeout_s=30,
        what="a checkpoint of every node",
    )


def files_with(folder: Path, secret: bytes) -> list[str]:
    return [path.name for path in sorted(folder.rglob("*")) if path.is_file() and secret in path.read_bytes()]


# --- nothing readable -------------------------------------------------------------------------------------------------
def test_no_key_value_or_encryption_key_stands_in_a_folder(tmp_path: Path) -> None:
    """Log, checkpoint, snapshots, backups: while the nodes run, and afterwards. The same without a key finds them."""
    for encryption in (KEYED, None):
        folder = tmp_path / ("encrypted" if encryption else "plain")
        folder.mkdir()
        with running(folder, encryption=encryption, **POINTS) as nodes:
            point_passed(nodes)
            point_passed(nodes)
            snapshot.save(nodes["b"], folder / "backup.sealed")
            assert bool(files_with(folder, MARKER)) == (encryption is None)
        found = set(files_with(folder, MARKER))
        assert not found if encryption else {"data.mdb", "backup.sealed"} <= found
        assert not files_with(folder, KEY) and not files_with(folder, KEY.hex().encode())


@pytest.mark.parametrize("encryption", [None, raftmeta.Encryption(key=OTHER)], ids=["no key", "another key"])
def test_a_node_without_the_key_does_not_start_and_touches_nothing(
    tmp_path: Path, encryption: raftmeta.Encryption | None
) -> None:
    with one_node(tmp_path, encryption=KEYED, **POINTS) as node:
        point_passed({"a": node})
        peers = {"a": str(node.identity.advertise)}

    def content() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"}

    before = content()
    without = raftmeta.Node("a", peers=peers, data_dir=tmp_path / "a", encryption=encryption)
    with pytest.raises(EncryptionKeyMissing, match=f"encrypted with key {ID}") as caught:
        without.start()
    assert caught.value.key_id == ID and caught.value.field == "encryption"
    assert content() == before
    with raftmeta.Node("a", peers=peers, data_dir=tmp_path / "a", encryption=KEYED) as node:
        node.ready(30)
        assert node.get(MARKER + b"/7") is not None


def test_what_is_no_encryption_is_refused(tmp_path: Path) -> None:
    with pytest.raises(raftmeta.ConfigError) as caught:
        raftmeta.Node("a", peers={"a": "127.0.0.1:1"}, data_dir=tmp_path / "a", encryption=KEY)  # type: ignore[arg-type]
    assert caught.value.field == "encryption" and not (tmp_path / "a").exists()


# --- keys that change -------------------------------------------------------------------------------------------------
def test_a_key_changes_while_nodes_run_and_the_old_one_is_not_needed_in_the_end(tmp_path: Path) -> None:
    """The two rounds of docs/operations.md "Change the key", with writes going on."""
    path = key_file(tmp_path, KEY.hex())
    nodes = make_nodes(tmp_path, encryption=raftmeta.Encryption(key_file=path), **POINTS)
    with all_ready(nodes):
        point_passed(nodes)
        path.write_text(f"{KEY.hex()}\n{OTHER.hex()}\n")
        assert {node.rotate_encryption_key() for node in nodes.values()} == {ID}
        path.write_text(f"{OTHER.hex()}\n{KEY.hex()}\n")
        assert {node.rotate_encryption_key() for node in nodes.values()} == {OTHER_ID}
        fill(leader_of(nodes), 5)
        assert all(ID in node.encryption_keys() and OTHER_ID in node.encryption_keys() for node in nodes.values())

        def is_changed() -> bool:
            fill(leader_of(nodes), 110)
            return all(node.encryption_keys().keys() == {OTHER_ID} for node in nodes.values())

        wait_until(is_changed, timeout_s=60, what="the old key to be needed by nobody")
        peers = {name: str(node.identity.advertise) for name, node in nodes.items()}
    config = raftmeta.Config(**QUICK)
    only = raftmeta.Encryption(key=OTHER)
    again = {
        name: raftmeta.Node(name, peers=peers, data_dir=tmp_path / name, config=config, encryption=only)
        for name in peers
    }
    with all_ready(again):
        assert again["b"].get(MARKER + b"/7") is not None


def test_keys_that_cannot_be_had_change_nothing(tmp_path: Path) -> None:
    path = key_file(tmp_path, KEY.hex())
    with one_node(tmp_path, encryption=raftmeta.Encryption(key_file=path)) as node:
        path.write_text("nonsense")
        with pytest.raises(raftmeta.ConfigError):
            node.rotate_encryption_key()
        fill(node, 3)
        assert node.encryption_keys().keys() == {ID}


def test_a_node_without_encryption_has_no_key_to_change(tmp_path: Path) -> None:
    with one_node(tmp_path) as node:
        assert node.encryption_keys().keys() == {"plain"}
        with pytest.raises(raftmeta.InvalidArgument):
            node.rotate_encryption_key()


def test_prometheus_is_told_which_keys_are_needed(tmp_path: Path) -> None:
    with one_node(tmp_path, encryption=KEYED) as node:
        for measured in (node, node.aio()):
            families = {family.name: family for family in prometheus.NodeCollector(measured).collect()}
            (sample,) = families["raftmeta_encryption_key_files"].samples
            assert sample.labels == {"node": "a", "cluster": "default", "key": ID}
            assert sample.value == sum(node.encryption_keys().values()) > 0


def test_a_callable_gives_the_keys_that_the_files_need(tmp_path: Path) -> None:
    """It is asked again at each start: for the current key, and by id for those of older files."""
    with one_node(tmp_path, encryption=KEYED) as node:
        fill(node, 3)
        peers = {"a": str(node.identity.advertise)}
    vault = {ID: KEY, OTHER_ID: OTHER}
    encryption = raftmeta.Encryption(key=lambda id: OTHER if id is None else vault.get(id))
    with raftmeta.Node("a", peers=peers, data_dir=tmp_path / "a", encryption=encryption) as node:
        node.ready(30)
        fill(node, 3)
        assert node.encryption_keys().keys() == {ID, OTHER_ID}
    del vault[ID]
    with pytest.raises(EncryptionKeyMissing, match=ID):
        raftmeta.Node("a", peers=peers, data_dir=tmp_path / "a", encryption=encryption).start()


# --- there and back ---------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def restarted(
    nodes: dict[str, raftmeta.Node], name: str, folder: Path, encryption: raftmeta.Encryption | None
) -> Iterator[None]:
    """Closed, and started again with other keys."""
    peers = {other: str(node.identity.advertise) for other, node in nodes.items()}
    nodes[name].close()
    nodes[name] = raftmeta.Node(
        name,
        peers=peers,
        data_dir=folder / name,
        config=raftmeta.Config(**{**QUICK, **POINTS}),
        encryption=encryption,
    )
    nodes[name].start()
    yield
    nodes[name].ready(30)


def test_a_plain_cluster_becomes_encrypted_and_plain_again_by_rolling_restarts(tmp_path: Path) -> None:
    """Writes go on; in the end no folder needs the key, or no folder shows a value."""
    path = key_file(tmp_path, KEY.hex())
    nodes = make_nodes(tmp_path, **POINTS)
    with contextlib.ExitStack() as stack:
        for name, node in nodes.items():
            stack.callback(lambda name=name: nodes[name].close(transfer=False))
            node.start()
        for node in nodes.values():
            node.ready(30)
        point_passed(nodes)
        for encryption, wanted in ((raftmeta.Encryption(key_file=path), {ID}), (None, {"plain"})):
            if encryption is None:  # while keys are still offered, so that what is encrypted stays readable
                path.write_text(f"plain\n{KEY.hex()}")
                for node in nodes.values():
                    assert node.rotate_encryption_key() == "plain"
            else:
                for name in nodes:
                    with restarted(nodes, name, tmp_path, encryption):
                        fill(leader_of(nodes), 5)

            def is_there(wanted: set[str] = wanted) -> bool:
                fill(leader_of(nodes), 110)
                return all(node.encryption_keys().keys() == wanted for node in nodes.values())

            wait_until(is_there, timeout_s=60, what=f"files of {wanted} only")
            for name in nodes:
                with restarted(nodes, name, tmp_path, encryption):
                    pass
            assert nodes["a"].get(MARKER + b"/7") is not None


def test_a_member_takes_an_encrypted_snapshot_once_it_has_the_key(tmp_path: Path) -> None:
    """It comes back without a folder and without the others' key: it runs on and says why; then it has the key."""
    path = key_file(tmp_path, KEY.hex())
    (tmp_path / "late").mkdir()
    late = key_file(tmp_path / "late", OTHER.hex())
    nodes = make_nodes(tmp_path, encryption=raftmeta.Encryption(key_file=path), **POINTS)
    with all_ready(nodes):
        point_passed(nodes)
        nodes["c"].close()
        for _ in range(3):
            point_passed({name: nodes[name] for name in "ab"})
        peers = {name: str(node.identity.advertise) for name, node in nodes.items()}
        (tmp_path / "c").rename(tmp_path / "gone")
        fresh = raftmeta.Node(
            "c",
            peers=peers,
            data_dir=tmp_path / "c",
            config=raftmeta.Config(**{**QUICK, **POINTS}),
            encryption=raftmeta.Encryption(key_file=late),
        )
        with fresh:
            failed = next(event for event in fresh.events(timeout_s=30) if event.name == "snapshot_failed")
            assert failed.facts["status"] == 80  # NO_KEY
            assert fresh.is_running and not list((tmp_path / "c").glob("*.sealed"))
            late.write_text(f"{OTHER.hex()}\n{KEY.hex()}\n")
            fresh.rotate_encryption_key()
            fresh.ready(60)
            assert fresh.get(MARKER + b"/7", local=True) is not None


# --- backups ----------------------------------------------------------------------------------------------------------
def test_a_backup_of_an_encrypted_node_is_encrypted_checked_and_restored(tmp_path: Path) -> None:
    """Saved from a node and through a client, which has no key; read and restored by whoever has it."""
    port = free_ports(1)[0]
    with one_node(tmp_path, encryption=KEYED, local_clients=True, **POINTS) as node:
        fill(node)
        files = [tmp_path / "node.sealed", tmp_path / "client.sealed"]
        snapshot.save(node, files[0])
        with raftmeta.Client(f"raft+unix://{tmp_path / 'a'}") as client:
            snapshot.save(client, files[1])
    for file in files:
        assert MARKER not in file.read_bytes()
        snapshot.verify(file, checksums_only=True)
        with pytest.raises(EncryptionKeyMissing, match=ID):
            snapshot.verify(file)
        with pytest.raises(EncryptionKeyMissing, match=ID):
            snapshot.inspect(file, encryption=raftmeta.Encryption(key=OTHER))
        snapshot.verify(file, encryption=KEYED)
        facts = snapshot.inspect(file, encryption=KEYED)
        assert (facts.keys, facts.key_id) == (120, ID)
    damaged = bytearray(files[0].read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "damaged.sealed").write_bytes(damaged)
    with pytest.raises(raftmeta.SnapshotDamaged):
        snapshot.verify(tmp_path / "damaged.sealed", checksums_only=True)
    peers = {"a": f"127.0.0.1:{port}"}
    for encryption, wanted in ((KEYED, {ID}), (raftmeta.Encryption(key=lambda id: KEY if id else None), {"plain"})):
        target = tmp_path / f"restored-{len(wanted)}-{wanted == {ID}}"
        snapshot.restore(files[1], target, "a", peers, encryption=encryption)
        with raftmeta.Node("a", peers=peers, data_dir=target, encryption=encryption) as again:
            again.ready(30)
            assert again.encryption_keys().keys() == wanted
            assert again.get(MARKER + b"/7") is not None


def test_what_is_left_in_encrypted_folders_is_saved(tmp_path: Path) -> None:
    """By the command, with a key file; without it the folders are refused. The file that it makes is encrypted."""
    path = key_file(tmp_path, OTHER.hex(), KEY.hex())
    with running(tmp_path, encryption=KEYED, **POINTS) as nodes:
        point_passed(nodes)
        fill(leader_of(nodes), 7, begin=500)
    folders = [argument for name in "ab" for argument in ("--data", str(tmp_path / name))]
    target = tmp_path / "saved.sealed"
    refused = CliRunner().invoke(app, ["snapshot", "save", str(target), *folders])
    assert refused.exit_code != 0 and ID in refused.output and not target.exists()
    keys = ["--encryption-key-file", str(path)]
    saved = CliRunner().invoke(app, ["snapshot", "save", str(target), *folders, *keys])
    assert saved.exit_code == 0, saved.output
    assert MARKER not in target.read_bytes()
    assert snapshot.inspect(target, encryption=raftmeta.Encryption(key=OTHER)).key_id == OTHER_ID
    assert CliRunner().invoke(app, ["snapshot", "verify", str(target), "--checksums-only"]).exit_code == 0
    assert CliRunner().invoke(app, ["snapshot", "verify", str(target), *keys]).exit_code == 0
    told = CliRunner().invoke(app, ["--json", "snapshot", "inspect", str(target), *keys])
    assert OTHER_ID in told.output
    peers, encryption = {"a": f"127.0.0.1:{free_ports(1)[0]}"}, raftmeta.Encryption(key_file=path)
    snapshot.restore(target, tmp_path / "new", "a", peers, encryption=encryption)
    with raftmeta.Node("a", peers=peers, data_dir=tmp_path / "new", encryption=encryption) as node:
        node.ready(30)
        assert node.get(MARKER + b"/506") is not None


def test_a_scan_of_an_encrypted_file_is_refused(tmp_path: Path) -> None:
    with one_node(tmp_path, encryption=KEYED) as node:
        fill(node, 3)
        snapshot.save(node, tmp_path / "backup.sealed")
    with pytest.raises(raftmeta.InvalidArgument, match="encrypted"):
        SnapshotFile(tmp_path / "backup.sealed")
