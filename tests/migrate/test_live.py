"""A running ZooKeeper 3.9 is moved to a door of raftmeta: by the command line, killed on the way, and back again."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

import raftmeta
from raftmeta import NotExecuted, PermissionDenied, Refused
from raftmeta.migrate import NotMigratable
from raftmeta.migrate.live import Move, read_status
from raftmeta.migrate.live.mirror import Mirror
from raftmeta.migrate.live.requests import Kind, Multi, Right, created
from raftmeta.migrate.live.rights import is_locked, locked
from raftmeta.migrate.live.state import State
from raftmeta.migrate.live.tree import Tree
from tests.doors.servers import NodeServers, ZooKeeperServers
from tests.migrate.live_writers import USER, Writer, client_of, differences, goes_on_counting, known
from tests.migrate.zookeeper_server import classpath, logging_folder
from tests.processes.program import Program

STEP_S = 60.0
OPEN = [Right(31, "world", "anyone")]


class Ensembles:
    """A real ZooKeeper and a door; each test moves a tree of its own below a path of its own."""

    def __init__(self, zookeeper: ZooKeeperServers, doors: NodeServers, folder: Path) -> None:
        self.zookeeper, self.doors, self.folder = zookeeper, doors, folder
        self.numbers = itertools.count()

    def tree(self) -> tuple[str, str, Path]:
        """The address of a new tree on both sides, and a folder for the state."""
        root = f"/tree{next(self.numbers)}"
        with client_of(self.zookeeper.connect, is_user=False) as client:
            client.create(root)
        return self.zookeeper.connect + root, self.doors.connect + root, self.folder / root[1:]


@pytest.fixture(scope="module")
def ensembles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensembles]:
    folder = tmp_path_factory.mktemp("live")
    class_path = classpath(logging_folder(folder))
    with (
        ZooKeeperServers(folder / "zookeeper", members=1, class_path=class_path) as zookeeper,
        NodeServers(folder / "doors", members=1) as doors,
    ):
        yield Ensembles(zookeeper, doors, folder)


def move_of(tree: tuple[str, str, Path], *, is_back: bool = False) -> Move:
    old, new, folder = tree
    return Move(old, new, folder, is_back=is_back, old_auth=[USER], new_auth=[USER])


def kind_of(node: raftmeta.Node, path: str) -> list[object]:
    """In the node's process: the kind of a znode, and its time to live in milliseconds."""
    found = node.znode(path)
    assert found is not None
    return [found.znode.kind, found.znode.ttl_ms]


def follow_once(move: Move) -> None:
    """Follow until the first walk is done."""
    answers = iter([False])
    move.follow(lambda: next(answers, True))


def test_a_running_ensemble_is_moved_while_its_migrator_is_killed(ensembles: Ensembles) -> None:
    """By the command line. Two writers write until they are refused; all that was acknowledged is on the other side."""
    old, new, folder = ensembles.tree()
    folder.mkdir()
    (folder / "auth").write_text(":".join(USER))
    command = [sys.executable, "-m", "raftmeta.cli", "--json", "migrate", "zookeeper", "live", "--from", old]
    command += ["--to", new, "--state", folder / "state", "--from-auth", folder / "auth", "--to-auth", folder / "auth"]

    def step(*words: str) -> Program:
        log = folder / f"{words[0]}.log"
        log.unlink(missing_ok=True)
        return Program([*map(str, command), *words], log=log).start()

    def report(program: Program) -> dict[str, object]:
        assert program.wait(timeout_s=STEP_S) == 0, program.log_tail()
        told: dict[str, object] = json.loads(program.log.read_text().splitlines()[-1])
        return told

    writers = [Writer(old, f"/writer{number}") for number in range(2)]
    with client_of(old) as client:
        client.create("/held", b"e", ephemeral=True)
        for writer in writers:
            writer.start()
        migrator = step("follow")
        for writer in writers:
            writer.wait_written(20)
        migrator.kill()  # somewhere in the middle of a copy or of a change
        writers[0].wait_written(20)
        migrator = step("follow")
        state = folder / "state"
        migrator.wait_until(lambda: has_walked(state), timeout_s=STEP_S, what="it walked")
        with pytest.raises(NotExecuted, match="another migrator"):
            Move(old, new, state)
        migrator.end()
        assert report(step("status"))["phase"] == "following"
        moved = report(step("cut-over"))
        for writer in writers:
            writer.wait_refused()
        assert moved["differences"] == 0
        held = moved["ephemeral nodes that their owners make anew"]
        assert isinstance(held, list) and [text.split()[0] for text in held] == ["/held"]
        seconds = moved["seconds of refused writes"]
        assert isinstance(seconds, float) and seconds <= 10
        with client_of(new) as other:
            assert differences(writers, other) == []
            assert other.exists("/held") is None
            assert all(goes_on_counting(writer, other) for writer in writers)
        with pytest.raises(NoAuthError):
            client.create("/late")


def has_walked(state: Path) -> bool:
    """Whether a migrator noted a walk there."""
    return (state / "move.sqlite").exists() and bool(read_status(state).get("nodes"))


def test_nodes_of_every_kind_keep_all_that_can_be_kept(ensembles: Ensembles) -> None:
    """Data that are not there, containers, times to live, versions, rights, numbers: by what kazoo and a walk see."""
    tree = ensembles.tree()
    old, new, folder = tree
    files = ensembles.folder / "zookeeper" / "zookeeper0"
    rights = [make_digest_acl("somebody", "else", read=True, write=True), make_digest_acl("writer", "secret", all=True)]
    with client_of(old) as client, Tree(old, "source") as raw:
        raw.write([created("/null", None, OPEN, Kind.PERSISTENT), created("/box", b"c", OPEN, Kind.CONTAINER)])
        raw.write([created("/timed", b"t", OPEN, Kind.TTL, 3_600_000), created("/box/in", b"", OPEN, Kind.PERSISTENT)])
        client.create("/secret", b"s", acl=rights)
        for number in range(1, 8):
            client.set("/secret", b"%d" % number)
            client.delete(client.create("/null/n-", b"", sequence=True))
        with Move(old, new, folder, old_auth=[USER], new_auth=[USER], files=files) as move:
            assert move.verify().counts["missing"] == 6
            move.cut_over()
        with client_of(new) as other, Tree(new, "target") as target:
            null, box, timed = target.read(["/null", "/box", "/timed"])
            assert null is not None and null.data is None and null.stat.creates == 7
            assert box is not None and box.names == ["in"] and timed is not None
            # A door hides these kinds, as ZooKeeper does; the node's own programs see them.
            (node,) = ensembles.doors.nodes
            root = new.removeprefix(ensembles.doors.connect)
            assert node.call(kind_of, f"{root}/box") == ["container", 0]
            assert node.call(kind_of, f"{root}/timed") == ["ttl", 3_600_000]
            assert known(other, "/secret")[:2] == (b"7", 7)
            assert set(other.get_acls("/secret")[0]) == set(rights)


def test_a_change_that_the_mirror_skips_is_found(ensembles: Ensembles, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted lie: one event is dropped. The comparison names its path, and the walk of a cut over makes it good."""
    tree = ensembles.tree()
    honest = Mirror.follow
    monkeypatch.setattr(Mirror, "follow", lambda mirror, paths: honest(mirror, [p for p in paths if p != "/lost"]))
    root = tree[1].removeprefix(ensembles.doors.connect)
    with client_of(tree[0]) as client, client_of(ensembles.doors.connect) as other, move_of(tree) as move:
        client.create("/kept", b"1")
        client.create("/lost", b"1")

        def both_changed_and_one_came() -> bool:
            if other.exists(f"{root}/kept") is None:
                return False  # the first walk is still to come
            if known(client, "/kept").data == b"1":
                client.set("/lost", b"2")
                client.set("/kept", b"2")
            return known(other, f"{root}/kept").data == b"2"

        move.follow(both_changed_and_one_came)
        assert move.verify().first == ["/lost: data, version"]
        move.cut_over()
        assert known(other, f"{root}/lost")[:2] == (b"2", 1)


@pytest.mark.parametrize("is_noted", [True, False])
def test_an_interrupted_cut_over_is_undone_or_goes_on(
    ensembles: Ensembles, monkeypatch: pytest.MonkeyPatch, is_noted: bool
) -> None:
    """The migrator ends with nodes locked, also before it could note the locks: nothing of their rights is lost."""
    tree = ensembles.tree()
    with client_of(tree[0]) as client:
        client.create("/mine", b"1", acl=[make_digest_acl("writer", "secret", all=True)])
        client.create("/open", b"1")
        before = {path: client.get_acls(path)[0] for path in ("/", "/mine", "/open")}
        for way in ("abort", "again"):
            with monkeypatch.context() as patched:
                end_in_the_middle(patched, is_noted)
                with move_of(tree) as move, pytest.raises(Ended):
                    move.cut_over()
            with pytest.raises(NoAuthError):
                client.set("/open", b"refused")
            with move_of(tree) as move, pytest.raises(Refused, match="call cut-over again, or abort"):
                follow_once(move)
            with move_of(tree) as move:
                if way == "abort":
                    assert move.abort() == 3
                    assert move.abort() == 0
                    assert {path: client.get_acls(path)[0] for path in before} == before
                    client.set("/open", b"2")
                else:
                    assert move.cut_over().nodes == 3
    with client_of(tree[1]) as other:
        assert {path: other.get_acls(path)[0] for path in before} == before
        assert known(other, "/open")[:2] == (b"2", 1)


class Ended(BaseException):
    """In the place of SIGKILL: nothing catches it."""


def end_in_the_middle(patched: pytest.MonkeyPatch, is_noted: bool) -> None:
    """End the migrator behind its locks, or behind the last of them and before it is noted."""
    save, lock = State.save, Mirror.lock

    def end(mirror: Mirror) -> None:
        if not is_noted:
            patched.setattr(State, "save", lambda state, rows, gone=(): refuse_locks(save, state, list(rows), gone))
        lock(mirror)
        raise Ended

    patched.setattr(Mirror, "lock", end)


def refuse_locks(save: Callable[..., None], state: State, rows: list, gone: object) -> None:  # type: ignore[type-arg]
    if any(row.path == "/mine" and row.locked is not None for row in rows):
        raise Ended
    save(state, rows, gone=gone)


def test_the_way_back_ends_where_it_began(ensembles: Ensembles) -> None:
    """Over to the door, writes there, and back. Meanwhile the ensemble is locked against everybody but the migrator."""
    tree = ensembles.tree()
    old, new, folder = tree
    with client_of(old) as client:
        client.create("/a", b"1")
        with move_of(tree, is_back=True) as move, pytest.raises(Refused, match="after a cut over"):
            move.cut_over()
        with move_of(tree) as move:
            move.cut_over()
    with client_of(old) as client, client_of(new) as other:
        with move_of(tree) as move, pytest.raises(Refused, match="the cut over is done"):
            move.cut_over()
        other.set("/a", b"2")
        other.create("/b", b"new", acl=[make_digest_acl("writer", "secret", all=True)])
        with move_of(tree, is_back=True) as move:
            follow_once(move)
            assert known(client, "/a")[:2] == (b"2", 1)
            with pytest.raises(NoAuthError):
                client.set("/b", b"too early")
            move.cut_over()
        assert read_status(folder)["direction"] == "back"
        assert client.get_acls("/a")[0] == OPEN_ACL_UNSAFE
        assert known(client, "/b") == (b"new", 0, (make_digest_acl("writer", "secret", all=True),))
        client.set("/a", b"3")
        with pytest.raises(NoAuthError):
            other.set("/a", b"late")


def test_writers_that_were_not_stopped_are_noticed(ensembles: Ensembles) -> None:
    """The command says that it stopped them, and they write on: the cut over fails, and the source stays open."""
    tree = ensembles.tree()
    writer = Writer(tree[0], "/writer")
    writer.start()
    try:
        writer.wait_written(5)
        with move_of(tree) as move:
            with pytest.raises(NotMigratable, match="exit code 1"):
                move.cut_over(stop_writers=["false"])
            with pytest.raises(NotMigratable, match="writes were refused for longer"):
                move.cut_over(stop_writers=["true"], refused_s_max=0.5)
            writer.wait_written(5)
            writer.stop()
            assert move.cut_over(stop_writers=["true"]).walks >= 2
    finally:
        writer.stop()
    with client_of(tree[1]) as other:
        assert differences([writer], other) == []


def test_a_cut_over_that_takes_too_long_opens_the_source_again(ensembles: Ensembles) -> None:
    """The limit counts within the lock, too; the rights are those of before."""
    tree = ensembles.tree()
    acl = [make_digest_acl("writer", "secret", all=True)]
    with client_of(tree[0]) as client:
        client.create("/mine", b"1", acl=acl)
        with move_of(tree) as move:
            with pytest.raises(NotMigratable, match="refused for longer"):
                move.cut_over(refused_s_max=0.001)
            assert client.get_acls("/")[0] == OPEN_ACL_UNSAFE
            assert client.get_acls("/mine")[0] == acl
            client.set("/mine", b"2")
            assert move.cut_over().nodes == 2


def test_a_target_with_nodes_of_its_own_is_left_alone(ensembles: Ensembles) -> None:
    """A mirror removes; so a wrong address must not be a lost tree."""
    tree = ensembles.tree()
    with client_of(ensembles.doors.connect, is_user=False) as client:
        client.create(tree[1].removeprefix(ensembles.doors.connect) + "/precious", b"", makepath=True)
    with move_of(tree) as move, pytest.raises(Refused, match="/precious"):
        follow_once(move)
    with client_of(tree[1]) as other:
        assert other.exists("/precious") is not None


def test_rights_that_may_not_be_read_are_not_guessed(ensembles: Ensembles) -> None:
    """A server hides digests from others; a mirror that copied the masks would lock everybody out."""
    tree = ensembles.tree()
    stranger = [make_digest_acl("somebody", "else", all=True), make_digest_acl("writer", "secret", read=True)]
    with client_of(tree[0]) as client:
        client.create("/strange", b"", acl=stranger)
    with (
        move_of(tree) as move,
        pytest.raises(NotMigratable, match="rights of /strange are shown without their digests"),
    ):
        follow_once(move)


def test_a_node_that_may_not_be_read_is_named(ensembles: Ensembles) -> None:
    """Nothing is left out in silence: the error says which node, and what the migrator needs."""
    tree = ensembles.tree()
    with client_of(tree[0]) as client:
        client.create("/closed", b"", acl=[make_digest_acl("somebody", "else", all=True)])
    with (
        move_of(tree) as move,
        pytest.raises(PermissionDenied, match=r"refuses /closed: .* credentials of a superuser"),
    ):
        follow_once(move)


def test_a_broken_connection_is_followed_by_a_walk(ensembles: Ensembles) -> None:
    """The door is killed while a writer writes, and the mirror goes on. `./build.sh doors migrate` kills more."""
    tree = ensembles.tree()
    writer = Writer(tree[0], "/writer")
    writer.start()
    faults = iter([ensembles.doors])

    def was_killed_before() -> bool:
        writer.wait_written(10)
        for servers in faults:
            servers.kill(0)
            servers.restart(0)
            return False
        return True

    try:
        with move_of(tree) as move:
            move.follow(was_killed_before)
            moved = move.cut_over()
            writer.wait_refused()
            assert moved.nodes > 1
    finally:
        writer.stop()
    with client_of(tree[1]) as other:
        assert differences([writer], other) == []


def test_a_lock_lets_read_and_is_recognized() -> None:
    """Rights to read stay, all others go, and nobody but the migrator comes in."""
    acl = (Right(31, "world", "anyone"), Right(14, "digest", "user:hash"), Right(1, "ip", "10.0.0.1"))
    lock = locked(acl, "password")
    assert lock[:2] == (Right(1, "world", "anyone"), Right(1, "ip", "10.0.0.1"))
    assert lock[2].perms == 31 and len(lock) == 3 and is_locked(lock) and not is_locked(acl)
    assert locked(lock, "password") == lock


def test_the_answer_of_a_refused_multi_names_its_first_error() -> None:
    """The steps before it are answered with 0, those behind it with -2."""
    steps = [created(f"/{number}", None, OPEN, Kind.PERSISTENT) for number in range(3)]
    codes = [0, -110, -2]
    raw = b"".join(b"\xff\xff\xff\xff\0" + 2 * code.to_bytes(4, "big", signed=True) for code in codes)
    assert Multi(steps).deserialize(raw, 0) == [1, -110]
