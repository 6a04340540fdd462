"""The command line as a shell has it: arguments in, lines and exit codes out, on three served nodes."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import raftmeta
from raftmeta.cli.app import FILE_OF, FILES, app
from tests.processes.waiting import free_addresses, wait_until

NAMES = "abc"
LEVEL_OF_ZNODES = 4


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "raftmeta.cli", *arguments]


class ServedNodes:
    """Three nodes started with `raftmeta serve`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.peers = dict(zip(NAMES, free_addresses(3), strict=True))
        self.clients = dict(zip(NAMES, free_addresses(3), strict=True))
        self.metrics = free_addresses(1)[0]
        self.url = f"raft://{','.join(self.clients.values())}"
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.start()

    def start(self, names: str = NAMES) -> None:
        self.folder.mkdir(exist_ok=True)
        for name in names:
            self.nodes[name] = self._serve(name)

    def _serve(self, name: str) -> subprocess.Popen[bytes]:
        peers = [word for peer, address in self.peers.items() for word in ("--peer", f"{peer}={address}")]
        extra = ["--metrics", self.metrics] if name == "a" else []
        place = ["--data", str(self.folder / name), "--clients", self.clients[name]]
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(command("serve", "--name", name, *peers, *place, *extra), stderr=log)

    def run(self, *arguments: str, code: int = 0, stdin: bytes = b"") -> str:
        """Standard output of a command that ends with this exit code; of another than 0, the line that it complains."""
        ended = subprocess.run(
            command("--url", self.url, *arguments), input=stdin, capture_output=True, timeout=60, check=False
        )
        out, err = ended.stdout.decode(), ended.stderr.decode()
        assert ended.returncode == code, out + err
        return out or err

    def json(self, *arguments: str, code: int = 0) -> object:
        return json.loads(self.run("--json", *arguments, code=code))

    def kill(self, names: str = NAMES) -> None:
        for name in names:
            self.nodes[name].kill()
            self.nodes[name].wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNodes]:
    cluster = ServedNodes(tmp_path_factory.mktemp("cli"))
    try:
        wait_until(
            lambda: all(b"event" in log or b"leader" in log for log in logs(cluster)), timeout_s=40, what="the nodes"
        )
        cluster.run("--timeout", "40", "put", "ready", "1")
        yield cluster
    finally:
        cluster.kill()


def logs(cluster: ServedNodes) -> list[bytes]:
    return [(cluster.folder / f"{name}.log").read_bytes() for name in NAMES]


def test_put_get_and_del_do_what_they_say(cluster: ServedNodes) -> None:
    revision = int(cluster.run("put", "k", "v"))
    assert cluster.run("get", "k") == "v\n"
    assert cluster.json("get", "k")["mod_revision"] == revision  # type: ignore[index]
    assert cluster.run("put", "k", stdin=b"from stdin\x00").strip().isdecimal()
    assert cluster.run("get", "k") == "from stdin\x00\n"
    assert cluster.run("get", "--revision", str(revision), "k") == "v\n"
    assert cluster.run("del", "k") == "1\n"
    assert cluster.run("del", "k", code=1) == "0\n"


def test_a_refusal_is_one_line_and_exit_code_1(cluster: ServedNodes) -> None:
    cluster.run("put", "once", "1")
    assert "no key" in cluster.run("get", "never", code=1)
    told = cluster.run("put", "--create", "once", "2", code=1)
    assert told.startswith("raftmeta: ")
    assert told.count("\n") == 1
    assert "exists" in told
    cluster.run("put", "--update", "never", "2", code=1)
    assert cluster.run("get", "once") == "1\n"


def test_below_a_prefix_there_are_only_its_keys(cluster: ServedNodes) -> None:
    """Every command on keys has the prefix taken off and put on; a range shows direct children."""
    below = ("--below", "app/")
    for name in ("t/1", "t/2", "u"):
        cluster.run(*below, "put", name, name.upper())
    cluster.run("put", "app0", "outside")
    assert cluster.run("get", "app/u") == "U\n" and cluster.run(*below, "get", "u") == "U\n"
    assert cluster.run(*below, "range") == "t/1\tT/1\nt/2\tT/2\nu\tU\n"
    assert cluster.run(*below, "range", "--delimiter", "/") == "t/\nu\tU\n"
    assert cluster.run("range", "--prefix", "app/", "--delimiter", "/", "--keys") == "app/t/\napp/u\n"
    assert cluster.run(*below, "range", "--prefix", "t/", "--delimiter", "/", "--count") == "2\n"
    assert cluster.run(*below, "txn", "--if", "version(u) = 1", "--then", "get t/2").endswith("t/2\tT/2\n")
    assert cluster.run(*below, "del", "--prefix", "") == "3\n"
    assert cluster.run("range", "--prefix", "app") == "app0\toutside\n"


def test_doctor_tells_each_finding_and_fails_for_a_failure(cluster: ServedNodes, tmp_path: Path) -> None:
    peers = [word for peer, address in cluster.peers.items() for word in ("--peer", f"{peer}={address}")]
    place = ("--name", "d", *peers, "--peer", f"d={free_addresses(1)[0]}", "--wait", "0.2")
    told = cluster.run("doctor", *place, "--data", str(tmp_path / "d"))
    assert re.search(r"^ok +reach: a: ", told, re.MULTILINE) and re.search(r"^ok +nodes: .*a 0\.", told, re.MULTILINE)
    (tmp_path / "file").write_bytes(b"")
    found = cluster.json("doctor", *place, "--data", str(tmp_path / "file"), code=1)
    assert [one["level"] for one in found if one["check"] == "folder"] == ["failure"]  # type: ignore[attr-defined]


def test_range_shows_keys_in_order(cluster: ServedNodes) -> None:
    for key in ("r/2", "r/1", "r/3"):
        cluster.run("put", key, key.upper())
    assert cluster.run("range", "--prefix", "r/") == "r/1\tR/1\nr/2\tR/2\nr/3\tR/3\n"
    assert cluster.run("range", "--keys", "--limit", "1", "r/2", "s") == "r/2\n"
    assert cluster.run("range", "--count", "--prefix", "r/") == "3\n"
    assert cluster.run("del", "--prefix", "r/") == "3\n"


def test_txn_does_one_branch_and_tells_which(cluster: ServedNodes) -> None:
    words = ("txn", "--if", "version(t) = 0", "--then", "create t 1", "--then", "add n 5", "--else", "get t")
    assert cluster.run(*words).startswith("succeeded revision=")
    assert cluster.run(*words, code=1).splitlines()[1] == "t\t1"
    assert cluster.json(*words, code=1)["succeeded"] is False  # type: ignore[index]
    assert "none of" in cluster.run("txn", "--if", "size(t) = 0", code=2)


@pytest.fixture(scope="module")
def znodes(cluster: ServedNodes) -> ServedNodes:
    """All members know znodes: the leader says so by an entry, some time after its start."""
    with raftmeta.Client(cluster.url) as client:
        wait_until(lambda: client.status().feature_level >= LEVEL_OF_ZNODES, timeout_s=40, what="the level of znodes")
    return cluster


def test_znodes_are_made_read_set_and_removed(znodes: ServedNodes) -> None:
    assert znodes.run("znodes", "create", "/a") == "/a\n"
    assert znodes.run("znodes", "create", "/a/b", "1") == "/a/b\n"
    made = [znodes.run("znodes", "create", "--sequential", "/a/n-") for _ in range(2)]
    assert made == ["/a/n-0000000001\n", "/a/n-0000000002\n"]
    assert znodes.run("znodes", "ls", "/a") == "b\nn-0000000001\nn-0000000002\n"
    assert znodes.run("znodes", "get", "/a/b") == "1\n" and znodes.run("znodes", "get", "/a") == "\n"
    before = znodes.json("znodes", "get", "/a/b")["revision"]  # type: ignore[index]
    assert znodes.run("znodes", "set", "/a/b", "-", stdin=b"\x00\xff", code=0) == "1\n"
    assert znodes.json("znodes", "get", "/a/b")["data"] == {"base64": "AP8="}  # type: ignore[index]
    assert znodes.run("znodes", "get", "--revision", str(before), "/a/b") == "1\n"
    assert znodes.run("znodes", "get", "--local", "/zookeeper/quota") == "\n"
    assert znodes.run("znodes", "rm", "/a/b").strip().isdecimal()
    assert znodes.json("znodes", "ls", "/a")["children"] == ["n-0000000001", "n-0000000002"]  # type: ignore[index]
    assert "zookeeper" in znodes.run("znodes", "ls").splitlines()


def test_a_znode_that_is_not_there_or_is_refused_is_one_line_and_exit_code_1(znodes: ServedNodes) -> None:
    """Nothing was done, and the line says why."""
    znodes.run("znodes", "create", "/r")
    znodes.run("znodes", "create", "/r/child")
    znodes.run("znodes", "set", "/r", "new", "--if-version", "0")
    for words, why in (
        (("get", "/never"), "no znode '/never'"),
        (("ls", "/never"), "no znode '/never'"),
        (("stat", "/never"), "no znode '/never'"),
        (("create", "/r"), "NODEEXISTS"),
        (("create", "/never/below"), "NONODE"),
        (("set", "/r", "newer", "--if-version", "0"), "BADVERSION"),
        (("rm", "/r", "--if-version", "0"), "BADVERSION"),
        (("rm", "/r"), "NOTEMPTY"),
        (("create", "/r/e", "--kind", "ephemeral", "--lease", "12345"), "SESSIONEXPIRED"),
    ):
        told = znodes.run("znodes", *words, code=1)
        assert told.startswith("raftmeta: ") and told.count("\n") == 1 and why in told, told
    assert znodes.run("znodes", "get", "/r") == "new\n"
    for words in (
        ("get", "no-slash"),
        ("create", "/t", "--kind", "ttl"),
        ("create", "/t", "--ttl", "1"),
        ("create", "/e", "--kind", "ephemeral"),
        ("create", "/e", "--lease", "1"),
    ):
        assert znodes.run("znodes", *words, code=2)


def test_a_znode_shows_its_kind_its_counters_and_who_may_do_what(znodes: ServedNodes) -> None:
    """The list of rights is ZooKeeper's, and --as is who speaks; trees with other roots are others."""
    with raftmeta.Client(znodes.url) as client:
        acl = [(1, "world", "anyone"), (31, "digest", "me:hash")]
        client.znodes([raftmeta.ZnodeCreate("/rights", b"12", acl=acl)], root="other")
    other = ("znodes", "--root", "other")
    lines = dict(line.split("\t") for line in znodes.run(*other, "stat", "/rights").splitlines()[:-2])
    assert (lines["kind"], lines["version"], lines["data_length"]) == ("persistent", "0", "2")
    assert znodes.run(*other, "stat", "/rights").splitlines()[-2:] == [
        "acl\tr world:anyone",
        "acl\tcdrwa digest:me:hash",
    ]
    assert "NOAUTH" in znodes.run(*other, "set", "/rights", "x", code=1)
    assert znodes.run(*other, "--as", "digest:me:hash", "set", "/rights", "x") == "1\n"
    assert znodes.json(*other, "stat", "/rights")["stat"]["version"] == 1  # type: ignore[index]
    assert "no znode" in znodes.run("znodes", "get", "/rights", code=1)
    assert znodes.run("--below", "oth", "znodes", "--root", "er", "get", "/rights") == "x\n"


def test_an_ephemeral_znode_goes_with_the_lease_that_owns_it(znodes: ServedNodes) -> None:
    with subprocess.Popen(command("--url", znodes.url, "lease", "hold", "5"), stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        lease = holder.stdout.readline().decode().strip()
        znodes.run("znodes", "create", "/ephemeral", "--kind", "ephemeral", "--lease", lease)
        assert znodes.json("znodes", "stat", "/ephemeral")["stat"]["owner"] == int(lease)  # type: ignore[index]
        holder.send_signal(signal.SIGINT)
        holder.wait(20)
    znodes.run("znodes", "stat", "/ephemeral", code=1)


def test_watch_prints_each_change_from_a_revision_on(cluster: ServedNodes) -> None:
    revision = int(cluster.run("put", "w/1", "x"))
    cluster.run("del", "w/1")
    lines = cluster.run("watch", "--prefix", "w/", "--from-revision", str(revision), "--count", "2").splitlines()
    assert [line.split("\t")[:3] for line in lines] == [
        [str(revision), "put", "w/1"],
        [str(revision + 1), "delete", "w/1"],
    ]


def test_a_lease_that_is_held_keeps_its_key_until_it_is_interrupted(cluster: ServedNodes) -> None:
    with subprocess.Popen(command("--url", cluster.url, "lease", "hold", "5"), stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        lease = holder.stdout.readline().decode().strip()
        cluster.run("put", "--lease", lease, "leased", "1")
        holder.send_signal(signal.SIGINT)
        holder.wait(20)
    assert "no key" in cluster.run("get", "leased", code=1)


def test_status_shows_every_node_and_one_leader(cluster: ServedNodes) -> None:
    statuses = cluster.json("status")
    assert isinstance(statuses, list)
    assert {status["name"] for status in statuses} == set(NAMES)
    assert [status["role"] for status in statuses].count("leader") == 1
    assert len({status["leader"] for status in statuses}) == 1
    shown = cluster.run("status")
    assert "committed" in shown
    assert shown.count("voter") == 3
    assert shown.count(raftmeta.__version__) == 3
    one = ServedNodes.run(cluster, "--url", f"raft://{cluster.clients['a']}", "status")
    assert one.count("not asked, connected") == 2
    hashes = cluster.json("--timeout", "20", "hash")
    assert isinstance(hashes, list)
    assert len({node["state_hash"] for node in hashes}) == 1


def test_transfer_moves_the_leadership(cluster: ServedNodes) -> None:
    leader = cluster.json("status")[0]["leader"]  # type: ignore[index]
    target = next(name for name in NAMES if name != leader)
    cluster.run("transfer", target)
    wait_until(lambda: cluster.json("status")[0]["leader"] == target, timeout_s=20, what="the new leader")  # type: ignore[index]


def test_members_are_listed(cluster: ServedNodes) -> None:
    members = cluster.json("member", "list")
    assert isinstance(members, list)
    assert {member["name"]: member["role"] for member in members} == dict.fromkeys(NAMES, "voter")


def test_members_are_changed_from_a_shell(cluster: ServedNodes) -> None:
    """A standby, a voter again, and what cannot be: one line, and the exit code says whether anything happened."""
    follower = next(name for name in NAMES if name != cluster.json("status")[0]["leader"])  # type: ignore[index]
    assert cluster.json("member", "demote", follower) == {"demoted": follower}
    roles = {member["name"]: member["role"] for member in cluster.json("member", "list")}  # type: ignore[attr-defined]
    assert roles[follower] == "standby"
    assert cluster.run("member", "promote", follower) == f"promoted {follower}\n"
    assert "no member" in cluster.run("member", "promote", "x", code=1)
    assert "already" in cluster.run("member", "add", "a", "127.0.0.1:1", code=1)
    assert "address" in cluster.run("member", "add", "x", "nowhere", code=2)
    told = cluster.run("member", "replace", "a", "x", "127.0.0.1:1", "--wait", "0.3", code=3)
    assert "start it" in told
    assert told.count("\n") == 1


def test_nobody_at_the_address_is_exit_code_3(cluster: ServedNodes) -> None:
    (nobody,) = free_addresses(1)
    ended = subprocess.run(
        command("--url", f"raft://{nobody}", "--timeout", "0.5", "put", "k", "v"), capture_output=True, check=False
    )
    assert ended.returncode == 3, ended.stderr
    assert b"nothing was changed" in ended.stderr
    for look in ("status", "hash"):
        ended = subprocess.run(
            command("--url", f"raft://{nobody}", "--timeout", "0.5", look), capture_output=True, check=False
        )
        assert ended.returncode == 3, ended.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--url", "http://x", "get", "k"), "raft"),
        (("serve", "--name", "a", "--peer", "a", "--data", "/x"), "NAME=HOST:PORT"),
        (("serve", "--name", "a", "--peer", "a=0.0.0.0:7001", "--data", "/x"), "insecure"),
        (("serve", "--name", "a", "--peer", "a=127.0.0.1:7001", "--data", "/x", "--config", "/no/such"), "/no/such"),
        (("put", "--create", "--update", "k", "v"), "exclude"),
    ],
)
def test_wrong_use_is_exit_code_2_and_says_what(words: tuple[str, ...], told: str) -> None:
    ended = subprocess.run(command(*words), capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2, ended.stderr
    assert told in ended.stderr


def all_below(group: click.Group) -> Iterator[click.Command]:
    """As the program itself finds them, groups and what is in them."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None, name
        yield found
        if isinstance(found, click.Group):
            yield from all_below(found)


def test_every_command_of_every_file_is_found() -> None:
    """The table leads from a command to its file, or to a group that has it; help and completion go by it, too."""
    folder = Path(raftmeta.__file__).parent / "cli"
    modules = {path.stem: importlib.import_module(f"raftmeta.cli.{path.stem}") for path in folder.glob("[!_]*.py")}
    assert all(tuple(one.name for one in modules[name].COMMANDS) == commands for name, commands in FILES.items())
    found = set(all_below(app))
    assert [
        one.name for module in modules.values() for one in getattr(module, "COMMANDS", ()) if one not in found
    ] == []
    listed = subprocess.run(command("--help"), capture_output=True, text=True, timeout=60, check=True).stdout
    assert all(re.search(rf"^  {name} +\S", listed, re.MULTILINE) for name in (*FILE_OF, "completion")), listed


def test_a_command_imports_what_it_needs_and_no_more() -> None:
    """A shell waits for every import, with every command."""
    program = (
        "import sys; from raftmeta.cli.app import app; app(['get', '--help'], standalone_mode=False);"
        "print({'raftmeta.check', 'raftmeta.sim', 'raftmeta.migrate', 'raftmeta.spark'} & sys.modules.keys())"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.splitlines()[-1] == "set()"


def test_completion_is_printed_for_each_shell() -> None:
    for shell in ("bash", "zsh", "fish"):
        ended = subprocess.run(command("completion", shell), capture_output=True, text=True, check=True)
        assert "_RAFTMETA_COMPLETE" in ended.stdout


@pytest.mark.parametrize(
    ("shell", "words", "found"),
    [
        ("bash", {"COMP_WORDS": "raftmeta member re", "COMP_CWORD": "2"}, ["remove", "replace"]),
        ("zsh", {"COMP_WORDS": "raftmeta snapshot s", "COMP_CWORD": "2"}, ["save"]),
        ("fish", {"COMP_WORDS": "raftmeta st", "COMP_CWORD": "st"}, ["status"]),
    ],
)
def test_completion_answers_what_a_shell_asks(shell: str, words: dict[str, str], found: list[str]) -> None:
    """As the printed script asks it: by the environment, of the program itself."""
    asked = {**os.environ, **words, "_RAFTMETA_COMPLETE": f"{shell}_complete"}
    program = [sys.executable, "-c", "from raftmeta.cli import main; main()"]
    ended = subprocess.run(program, env=asked, capture_output=True, text=True, timeout=60, check=True)
    assert all(word in ended.stdout for word in found), ended.stdout


def test_the_served_node_ends_in_order_and_can_be_started_again(tmp_path: Path) -> None:
    (address,) = free_addresses(1)
    serve = command("serve", "--name", "a", "--peer", f"a={address}", "--data", str(tmp_path / "a"))
    for _ in range(2):
        with subprocess.Popen(serve, stderr=subprocess.PIPE, env={**os.environ}) as node:
            assert node.stderr is not None
            said = b""
            while b"a runs" not in said:
                line = node.stderr.readline()
                assert line, f"it ended before it ran: {said.decode()}"
                said += line
            node.send_signal(signal.SIGHUP)  # without keys there is nothing to read again
            node.send_signal(signal.SIGTERM)
            _, log = node.communicate(timeout=30)
            assert node.returncode == 0, (said + log).decode()
            assert b"a has ended" in log


def test_a_served_node_reads_its_key_file_again_on_a_signal(tmp_path: Path) -> None:
    """A new key, and then a file that is none: the node goes on with the key it had."""
    (address,) = free_addresses(1)
    keys = tmp_path / "keys"
    keys.touch(mode=0o600)
    keys.write_text("11" * 32)
    serve = command("serve", "--name", "a", "--peer", f"a={address}", "--data", str(tmp_path / "a"))
    serve += ["--encryption-key-file", str(keys)]
    with subprocess.Popen(serve, stderr=subprocess.PIPE, env={**os.environ}) as node:
        assert node.stderr is not None
        lines = iter(node.stderr.readline, b"")
        assert any(b"a runs" in line for line in lines)
        keys.write_text(f"{'22' * 32}\n{'11' * 32}\n")
        node.send_signal(signal.SIGHUP)
        wanted = f"new files use key {raftmeta.Encryption.key_id(bytes.fromhex('22' * 32))}".encode()
        assert any(wanted in line for line in lines)
        keys.write_text("nonsense")
        node.send_signal(signal.SIGHUP)
        assert any(b"the keys stay as they are" in line for line in lines)
        node.send_signal(signal.SIGTERM)
        assert any(b"a has ended" in line for line in lines)
    assert node.returncode == 0


def test_everything_is_lost_and_restored_by_hand(tmp_path: Path) -> None:
    """The operator's life: save, lose all three disks, restore, serve. All data, another cluster id, and an old disk
    that turns up again is let in by nobody."""
    backup = tmp_path / "backup.sealed"
    cluster = ServedNodes(tmp_path / "nodes")
    try:
        cluster.run("--timeout", "40", "put", "k", "v")
        assert cluster.run("snapshot", "save", str(backup)) == f"saved {backup}\n"
        cluster.run("put", "late", "not in the backup")
        assert "no/such" in cluster.run("snapshot", "save", str(tmp_path / "no/such/folder/b"), code=2)
        old = {status["cluster_id"] for status in cluster.json("status")}  # type: ignore[attr-defined]
        cluster.kill()
        (cluster.folder / "c").rename(tmp_path / "kept")
        shutil.rmtree(cluster.folder)
        cluster.folder.mkdir()
        peers = [word for peer, address in cluster.peers.items() for word in ("--peer", f"{peer}={address}")]
        for name in NAMES:
            place = ["--data", str(cluster.folder / name), "--name", name]
            cluster.run("snapshot", "restore", str(backup), *place, *peers)
        cluster.start()
        assert cluster.run("--timeout", "40", "get", "k") == "v\n"
        assert "no key" in cluster.run("get", "late", code=1)
        new = {status["cluster_id"] for status in cluster.json("status")}  # type: ignore[attr-defined]
        assert len(new) == len(old) == 1 and new != old
        cluster.kill("c")
        shutil.rmtree(cluster.folder / "c")
        (tmp_path / "kept").rename(cluster.folder / "c")
        cluster.start("c")
        log = cluster.folder / "c.log"
        wait_until(lambda: b"peer_refused" in log.read_bytes(), timeout_s=20, what="the old disk to be refused")
        cluster.run("--timeout", "20", "put", "k", "on")
    finally:
        cluster.kill()
