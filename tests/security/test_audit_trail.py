"""An audit trail without a node: lines, chain, files, full queues and full disks, and what verify() finds."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import resource
import shutil
import tempfile
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import raftmeta
from raftmeta.security.audit import Audit, read_key
from raftmeta.security.audit_handle import CLASSES, OPERATIONS, AuditHandle, escaped
from raftmeta.security.audit_trail import file_name, files_of, lines_of, verify
from raftmeta.security.audit_writer import AuditWriter, verdicts
from tests.faces import audit as face
from tests.processes.waiting import wait_until

KIB = 1024
READS, WRITES, DENIED, ADMINISTRATION = range(4)
GET, PUT = OPERATIONS.index("get") + 1, OPERATIONS.index("put") + 1


def writer_of(folder: Path, boot: int = 1, **settings_: Any) -> AuditWriter:
    writer = AuditWriter(Audit(folder=folder, reads=True, writes=True, **settings_))
    writer.open("a", "shop", boot)
    return writer


def key_file(folder: Path, name: str = "key") -> Path:
    path = folder / name
    path.write_bytes(os.urandom(32))
    path.chmod(0o600)
    return path


def write(folder: Path, *, runs: int = 1, lines: int = 10, **settings_: Any) -> None:
    """A trail of so many runs, each closed, with so many lines besides those about the trail."""
    for run in range(runs):
        writer = writer_of(folder, run + 1, **settings_)
        for number in range(lines):
            writer.tell("auth_bind", "ok", {"name": f"user{run}-{number}", "role": "r"})
        writer.start()
        assert writer.end(30)


def facts_of(folder: Path) -> list[dict[str, Any]]:
    found = [line for _, _, line in lines_of(folder)]
    assert None not in found
    return [line.facts for line in found if line is not None]


@contextlib.contextmanager
def on_full_disk(writer: AuditWriter) -> Iterator[None]:
    """Whatever the writer writes meets a device that is full."""
    kept = os.dup(writer._file)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, writer._file)
    try:
        yield
    finally:
        os.dup2(kept, writer._file)
        os.close(full)
        os.close(kept)


@contextlib.contextmanager
def files_at_most(size: int) -> Iterator[None]:
    """No file of this process grows beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# --- lines ------------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=480))
def test_any_name_and_key_is_one_printable_text(text: bytes) -> None:
    shown = escaped(text)
    assert shown.isascii() and shown.isprintable() and '"' not in shown and "\\" not in shown
    assert urllib.parse.unquote_to_bytes(shown) == text


@given(
    st.binary(min_size=1, max_size=480),
    st.none() | st.binary(max_size=480),
    st.binary(max_size=64),
    st.integers(0, 2**63 - 1),
    st.integers(0, 253_402_300_799_999),
)
def test_a_record_becomes_the_line_that_its_fields_say(
    key: bytes, end: bytes | None, principal: bytes, revision: int, wall_ms: int
) -> None:
    handle = AuditHandle(reads=True)
    handle.begin("a", "shop", 6, bytes(32), verdicts())
    assert face.push(handle, GET, READS, key=key, end=end, principal=principal, revision=revision, wall_ms=wall_ms)
    facts = json.loads(handle.take(1))
    time = datetime.datetime.fromtimestamp(wall_ms // 1000, datetime.UTC).replace(microsecond=wall_ms % 1000 * 1000)
    assert facts["time"] == time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert (facts["number"], facts["node"], facts["cluster"]) == (7, "a", "shop")
    assert urllib.parse.unquote_to_bytes(facts["principal"]) == principal
    assert urllib.parse.unquote_to_bytes(facts["key"]) == key
    assert (None if end is None else urllib.parse.unquote_to_bytes(facts["end"])) == end
    assert facts.get("revision", 0) == revision and facts["verdict"] == "ok" and facts["operation"] == "get"


@pytest.mark.parametrize(
    ("family", "address", "port", "shown"),
    [
        (1, b"", 0, "unix"),
        (2, bytes([10, 0, 0, 255]), 7700, "10.0.0.255:7700"),
        (3, bytes(15) + b"\1", 65535, "[0000:0000:0000:0000:0000:0000:0000:0001]:65535"),
        (0, b"", 0, ""),
    ],
)
def test_addresses_are_shown_with_their_port(family: int, address: bytes, port: int, shown: str) -> None:
    handle = AuditHandle(reads=True)
    handle.begin("a", "shop", 0, bytes(32), verdicts())
    face.push(handle, GET, READS, key=b"k", family=family, address=address, port=port)
    assert json.loads(handle.take(1))["peer"] == shown


def test_a_hash_in_the_place_of_a_key_needs_the_secret(tmp_path: Path) -> None:
    """The same key has the same hash; another secret has another; no key stands in the line."""
    hashes = set()
    for name in ("one", "other"):
        path = key_file(tmp_path, name)
        writer = writer_of(tmp_path / f"trail-{name}", keys="hash", key_file=path)
        for _ in range(2):
            face.push(writer.handle, PUT, WRITES, key=b"customers/17", end=b"customers0")
        assert writer.end(10)
        text = b"".join(file.read_bytes() for _, file in files_of(tmp_path / f"trail-{name}"))
        assert b"customers" not in text
        told = [facts for facts in facts_of(tmp_path / f"trail-{name}") if facts.get("operation") == "put"]
        assert len({(facts["key_hash"], facts["end_hash"]) for facts in told}) == 1 and "key" not in told[0]
        hashes.add(told[0]["key_hash"])
        assert verify(tmp_path / f"trail-{name}", keys=[read_key(path)]).is_whole
    assert len(hashes) == 2


def test_every_status_has_a_word() -> None:
    """Errors have their names, and a right that is missing is `denied`."""
    words = verdicts()
    assert words[0] == "ok" and words[raftmeta.common.statuses.PERMISSION_DENIED] == "denied"  # type: ignore[attr-defined]
    assert words[raftmeta.common.statuses.KEY_EXISTS] == "KeyExists"  # type: ignore[attr-defined]
    assert words[raftmeta.common.statuses.AUTHENTICATION_FAILED] == "AuthenticationFailed"  # type: ignore[attr-defined]


# --- queues -----------------------------------------------------------------------------------------------------------


def test_a_storm_of_reads_pushes_out_neither_denials_nor_administration() -> None:
    """Each kind leaves room for the next; what has none is counted, and the ring is as useful as before when taken."""
    handle = AuditHandle(reads=True, writes=True)
    handle.begin("a", "shop", 0, bytes(32), verdicts())
    for _ in range(3):
        pushed = [0, 0, 0, 0]
        before = handle.dropped
        for kind in (READS, WRITES, DENIED, ADMINISTRATION):
            while face.push(handle, PUT, kind, key=b"k" * 100):
                pushed[kind] += 1
        size = (face.RECORD_BYTES + face.ITEM_BYTES + 100 + 7) // 8 * 8
        dropped = [now - then for now, then in zip(handle.dropped, before, strict=True)]
        assert pushed[READS] > 1000 and pushed[WRITES] == 0 and dropped == [1, 1, 1, 1]
        assert abs(pushed[DENIED] * size - (face.KEPT_FOR_DENIED - face.KEPT_FOR_ADMINISTRATION)) <= 3 * size
        assert abs(pushed[ADMINISTRATION] * size - face.KEPT_FOR_ADMINISTRATION) <= 3 * size
        assert handle.take(1 << 30).count(b"\n") == sum(pushed)


@given(st.lists(st.integers(0, 480), max_size=60), st.integers(1, 64 * KIB))
@settings(max_examples=60)
def test_records_come_out_in_order_and_whole(sizes: list[int], block: int) -> None:
    """Of every length, through rings that they go around many times."""
    handle = AuditHandle(reads=True)
    handle.begin("a", "shop", 0, bytes(32), verdicts())
    sent, came = [], []
    for turn in range(12):
        for size in sizes * 8:
            key = b"%d/" % turn + b"k" * size
            if len(key) <= 480 and face.push(handle, GET, READS, key=key):
                sent.append(key)
        while lines := handle.take(block):
            came += [urllib.parse.unquote_to_bytes(json.loads(line)["key"]) for line in lines.splitlines()]
    assert came == sent


def test_refusals_have_a_rate_and_the_rest_is_counted() -> None:
    handle = AuditHandle()
    handle.begin("a", "shop", 0, bytes(32), verdicts())
    for _ in range(1000):
        face.push_refusal(handle, 70, 10**12)
    assert handle.take(1 << 30).count(b"\n") == face.REFUSALS_BURST == 1000 - handle.suppressed
    for _ in range(1000):
        face.push_refusal(handle, 70, 10**12 + 2 * 10**9)
    assert handle.take(1 << 30).count(b"\n") == 2 * face.REFUSALS_PER_S


@pytest.mark.parametrize("is_pause", [False, True])
def test_a_call_before_the_sleep_is_not_lost(is_pause: bool) -> None:
    """The writer looked, found nothing, and sleeps: who called in between is heard. Nothing else wakes it here."""
    handle = AuditHandle()
    handle.wake()
    handle.wait(3600, is_pause)
    handle.begin("a", "shop", 0, bytes(32), verdicts())
    face.push(handle, PUT, ADMINISTRATION, key=b"k")
    handle.wait(3600)
    assert handle.take(1)


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_trail_goes_on_over_runs_and_files(tmp_path: Path) -> None:
    write(tmp_path / "trail", runs=3, lines=300, file_bytes=64 * KIB)
    found = verify(tmp_path / "trail")
    assert found.is_whole and found.is_closed and not found.notes and found.files == 4
    facts = facts_of(tmp_path / "trail")
    assert [fact["number"] for fact in facts] == list(range(1, len(facts) + 1))
    causes = [fact["cause"] for fact in facts if fact.get("audit") == "begin"]
    assert causes == ["new", "rotation", "start", "rotation", "start", "rotation"]
    assert len([fact for fact in facts if fact.get("principal") == "process"]) == 900


def test_folder_and_files_are_the_users_alone(tmp_path: Path) -> None:
    write(tmp_path / "trail")
    assert (tmp_path / "trail").stat().st_mode & 0o777 == 0o700
    for path in (tmp_path / "trail").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "trail")
    for path in (tmp_path / "trail", tmp_path / "trail" / file_name(1)):
        mode = path.stat().st_mode
        path.chmod(0o777)
        with pytest.raises(raftmeta.ConfigError, match="other users may write"):
            writer_of(tmp_path / "trail")
        path.chmod(mode)
    (tmp_path / "trail" / file_name(1)).rename(tmp_path / "elsewhere")
    (tmp_path / "trail" / file_name(1)).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(raftmeta.ConfigError, match="symbolic link"):
        writer_of(tmp_path / "trail")


def test_two_nodes_do_not_share_a_folder(tmp_path: Path) -> None:
    writer = writer_of(tmp_path / "trail")
    with pytest.raises(raftmeta.ConfigError, match="another node writes"):
        writer_of(tmp_path / "trail")
    assert verify(tmp_path / "trail").is_running
    assert writer.end(10)
    assert not verify(tmp_path / "trail").is_running


def test_the_oldest_files_go_and_the_rest_is_whole(tmp_path: Path) -> None:
    write(tmp_path / "trail", lines=500, runs=3, file_bytes=64 * KIB, files=3)
    numbers = [number for number, _ in files_of(tmp_path / "trail")]
    assert len(numbers) == 3 and numbers[0] > 2
    assert verify(tmp_path / "trail").is_whole
    (tmp_path / "trail" / file_name(numbers[0])).unlink()
    assert [problem.file for problem in verify(tmp_path / "trail").problems] == [file_name(numbers[0])]


def test_a_file_that_goes_while_a_trail_is_read_is_none_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running node deletes its oldest file between the listing and the reading."""
    write(tmp_path / "trail", lines=500, runs=3, file_bytes=64 * KIB, files=3)
    listed = files_of(tmp_path / "trail")
    gone = (listed[0][0] - 1, tmp_path / "trail" / file_name(listed[0][0] - 1))
    monkeypatch.setattr("raftmeta.security.audit_trail.files_of", lambda _folder: [gone, *listed])
    assert verify(tmp_path / "trail").is_whole and len(list(lines_of(tmp_path / "trail"))) > 100


def test_a_full_disk_is_told_when_it_has_room_again(tmp_path: Path) -> None:
    """Records wait, then are dropped and counted; the node's other threads see no wait; then lines go on."""
    writer = writer_of(tmp_path / "trail")
    with on_full_disk(writer):
        writer.start()
        writer.tell("auth_bind", "ok", {"name": "first"})
        wait_until(lambda: writer.failure, timeout_s=20, what="the full disk to be noticed")
        assert writer.handle.is_failing and not writer.has_dropped_lately
        while face.push(writer.handle, PUT, WRITES, key=b"k" * 400):
            pass
        wait_until(lambda: writer.dropped == 1, timeout_s=20, what="the drop to be counted")
    wait_until(lambda: not writer.failure, timeout_s=20, what="the room to be noticed")
    wait_until(lambda: writer.has_dropped_lately, timeout_s=20, what="the drop to be told")
    assert writer.end(30)
    facts = facts_of(tmp_path / "trail")
    told = [fact for fact in facts if fact.get("audit") == "dropped"]
    assert [(fact["dropped"], fact["writes"]) for fact in told] == [(1, 1)]
    assert verify(tmp_path / "trail").is_whole and "first" in {fact.get("name") for fact in facts}


def test_a_line_that_is_cut_by_a_full_disk_is_finished(tmp_path: Path) -> None:
    """The system takes a part of a write up to a limit; the rest of the very line follows when there is room."""
    writer = writer_of(tmp_path / "trail")
    size = writer._bytes
    with files_at_most(size + 100):
        writer.start()
        writer.tell("auth_bind", "ok", {"name": "first"})
        wait_until(lambda: writer.failure, timeout_s=20, what="the limit to be met")
        assert (tmp_path / "trail" / file_name(1)).stat().st_size == size + 100
    wait_until(lambda: not writer.failure, timeout_s=20, what="the room to be noticed")
    assert writer.end(30)
    found = verify(tmp_path / "trail")
    assert found.is_whole and found.is_closed and not found.notes


@pytest.mark.parametrize("room", [0, 50])
def test_a_full_disk_keeps_only_a_required_trail_from_opening(tmp_path: Path, room: int) -> None:
    """The opening line is written, or finished, when there is room."""
    write(tmp_path / "trail")
    with files_at_most((tmp_path / "trail" / file_name(1)).stat().st_size + room):
        with pytest.raises(raftmeta.ConfigError, match="File too large"):
            writer_of(tmp_path / "trail", required=True)
        writer = writer_of(tmp_path / "trail")
        assert writer.failure and writer.handle.is_failing
        writer.start()
        writer.tell("auth_bind", "ok", {"name": "first"})
    wait_until(lambda: not writer.failure, timeout_s=20, what="the room to be noticed")
    assert writer.end(30)
    found = verify(tmp_path / "trail")
    assert found.is_whole and found.is_closed, found.problems


@pytest.mark.parametrize("cut", [2, 40, 200])
def test_a_torn_line_is_told_and_closed_off(tmp_path: Path, cut: int) -> None:
    """As after a kill: the end of the last line is missing. The next run goes on, and verify() knows why."""
    write(tmp_path / "trail", lines=3)
    path = tmp_path / "trail" / file_name(1)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]) + lines[-2][:-cut])
    assert not verify(tmp_path / "trail").is_whole
    assert verify(tmp_path / "trail", may_be_open=True).is_whole
    write(tmp_path / "trail")
    found = verify(tmp_path / "trail")
    assert found.is_whole and [note.line for note in found.notes][:1] == [4]
    begun = [
        fact for _, _, line in lines_of(tmp_path / "trail") if line and (fact := line.facts).get("cause") == "crash"
    ]
    assert begun[0]["torn"] == len(lines[-2]) - cut
    path.write_bytes(path.read_bytes().replace(lines[-2][:-cut], lines[-2][: -cut - 1] + b"?"))
    assert [problem.line for problem in verify(tmp_path / "trail").problems] == [4]


def test_a_line_that_lacks_only_its_newline_counts(tmp_path: Path) -> None:
    write(tmp_path / "trail", lines=3)
    path = tmp_path / "trail" / file_name(1)
    path.write_bytes(path.read_bytes()[:-1])
    assert not verify(tmp_path / "trail").is_closed and verify(tmp_path / "trail", may_be_open=True).is_whole
    write(tmp_path / "trail")
    found = verify(tmp_path / "trail")
    assert found.is_whole and found.is_closed and found.number == 5 + 12


def test_a_file_that_was_begun_and_never_written_is_gone_on_with(tmp_path: Path) -> None:
    """Killed between the creation of the next file and its first line."""
    write(tmp_path / "trail", lines=300, file_bytes=64 * KIB)
    last = files_of(tmp_path / "trail")[-1][1]
    for left in (b"", b'{"time":"20'):
        last.write_bytes(left)
        write(tmp_path / "trail", file_bytes=64 * KIB)
        assert verify(tmp_path / "trail").is_whole, verify(tmp_path / "trail").problems


def test_a_trail_that_cannot_be_read_does_not_keep_a_node_from_starting(tmp_path: Path) -> None:
    write(tmp_path / "trail")
    (tmp_path / "trail" / file_name(1)).write_bytes(b"overwritten\n" * 20)
    write(tmp_path / "trail")
    found = verify(tmp_path / "trail")
    assert found.problems[0].file == file_name(1) and found.files == 2
    assert [facts["cause"] for facts in facts_of_last(tmp_path / "trail")] == ["damaged", "close"]


def facts_of_last(folder: Path) -> list[dict[str, Any]]:
    last = files_of(folder)[-1][1]
    return [line.facts for path, _, line in lines_of(folder) if path == last and line and "audit" in line.facts]


def test_a_kept_chain_shows_a_trail_that_was_made_anew(tmp_path: Path) -> None:
    """Without a secret anybody can make a trail that fits; it does not have the chain that was kept elsewhere."""
    write(tmp_path / "trail")
    found = verify(tmp_path / "trail")
    kept = f"{found.number}:{found.chain}"
    write(tmp_path / "trail")
    assert verify(tmp_path / "trail", expected=kept).is_whole
    shutil.rmtree(tmp_path / "trail")
    write(tmp_path / "trail", runs=2)
    assert verify(tmp_path / "trail").is_whole
    assert "no line is" in verify(tmp_path / "trail", expected=kept).problems[0].reason


def test_a_trail_with_a_secret_cannot_be_made_without_it(tmp_path: Path) -> None:
    path = key_file(tmp_path)
    write(tmp_path / "trail", key_file=path)
    assert verify(tmp_path / "trail", keys=[read_key(path)]).is_whole
    assert not verify(tmp_path / "trail").is_whole
    assert not verify(tmp_path / "trail", keys=[os.urandom(32)]).is_whole


def test_another_secret_begins_another_file(tmp_path: Path) -> None:
    """Both together verify the trail; a part without a secret does not count where one is given."""
    one, other = key_file(tmp_path, "one"), key_file(tmp_path, "other")
    keys = [read_key(one), read_key(other)]
    write(tmp_path / "trail", key_file=one)
    write(tmp_path / "trail", key_file=other)
    found = verify(tmp_path / "trail", keys=keys)
    assert found.is_whole and found.files == 2 and found.number == 24
    assert "was not given" in verify(tmp_path / "trail", keys=keys[:1]).problems[0].reason
    path = tmp_path / "trail" / file_name(2)
    path.write_bytes(path.read_bytes()[:-30])
    write(tmp_path / "trail")
    found = verify(tmp_path / "trail", keys=keys)
    assert {problem.reason for problem in found.problems} == {"the file was written without a secret"}
    assert found.files == 3 and any("torn" in note.reason for note in found.notes)


# --- tampering --------------------------------------------------------------------------------------------------------


class Kept:
    """A trail of three runs in several files, made once: its files and what they held."""

    files: dict[str, bytes] | None = None
    key = b""


def fresh(folder: Path) -> tuple[list[str], bytes]:
    """A copy of the kept trail in folder; the names of its files, and its secret."""
    if Kept.files is None:
        with tempfile.TemporaryDirectory() as made:
            path = key_file(Path(made))
            write(Path(made) / "trail", runs=3, lines=170, key_file=path, file_bytes=64 * KIB)
            Kept.files = {file.name: file.read_bytes() for _, file in files_of(Path(made) / "trail")}
            Kept.key = path.read_bytes()
        assert len(Kept.files) > 2
    for name, content in Kept.files.items():
        (folder / name).write_bytes(content)
    return sorted(Kept.files), Kept.key


@given(st.data())
@settings(max_examples=150)
def test_whatever_is_done_to_a_line_shows_and_where(data: st.DataObject) -> None:
    """A line is removed, changed in one byte, swapped with another, doubled, or the file is cut behind it."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        names, key = fresh(folder)
        name = data.draw(st.sampled_from(names))
        lines = (folder / name).read_bytes().splitlines(keepends=True)
        at = data.draw(st.integers(0, len(lines) - 1))
        act = data.draw(st.sampled_from(["remove", "change", "swap", "double", "cut", "cut inside", "move"]))
        first = at
        if act == "remove":
            del lines[at]
        elif act == "change":
            place = data.draw(st.integers(0, len(lines[at]) - 1))
            byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != lines[at][place]))
            lines[at] = lines[at][:place] + bytes([byte]) + lines[at][place + 1 :]
        elif act in ("swap", "move"):
            other = data.draw(st.integers(0, len(lines) - 1).filter(lambda other: other != at))
            if act == "swap":
                lines[at], lines[other] = lines[other], lines[at]
            else:
                lines.insert(other, lines.pop(at))
            first = min(at, other)
        elif act == "double":
            lines.insert(at, lines[at])
            first = at + 1
        elif act == "cut":
            del lines[at:]
        else:
            lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at]) - 1))]
            del lines[at + 1 :]
        (folder / name).write_bytes(b"".join(lines))
        problems = verify(folder, keys=[key]).problems
        assert problems, act
        # A change at the end of a file may show by its last line that is left, or by the first of the next file.
        following = [*names, ""][names.index(name) + 1]
        places = {(name, line) for line in range(first, first + 3)} | {(following, 0), (following, 1), (name, 0)}
        assert (problems[0].file, problems[0].line) in places, (act, at, problems)


@given(st.data())
@settings(max_examples=40)
def test_whatever_is_done_to_a_file_shows_and_where(data: st.DataObject) -> None:
    """A file is removed, emptied, or has the name of another."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        names, key = fresh(folder)
        name = data.draw(st.sampled_from(names))
        act = data.draw(st.sampled_from(["remove", "empty", "swap"]))
        other = data.draw(st.sampled_from(names).filter(lambda other: other != name))
        if act == "remove":
            (folder / name).unlink()
        elif act == "empty":
            (folder / name).write_bytes(b"")
        else:
            (folder / name).rename(folder / "kept")
            (folder / other).rename(folder / name)
            (folder / "kept").rename(folder / other)
        found = verify(folder, keys=[key])
        assert found.problems, act
        near = {name, other} if act == "swap" else {name, [*names, names[-1]][names.index(name) + 1]}
        assert found.problems[0].file in near | {names[max(0, names.index(name) - 1)]}, (act, name, found.problems)


def test_a_folder_without_a_trail_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(raftmeta.ConfigError, match="no audit trail"):
        verify(tmp_path)
    with pytest.raises(raftmeta.ConfigError):
        verify(tmp_path / "nowhere")


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("folder", ""),
        ("folder", 7),
        ("reads", 1),
        ("file_bytes", 10),
        ("files", 1),
        ("files", True),
        ("keys", "hashed"),
        ("keys", "hash"),
        ("key_file", "nul\0"),
        ("required", "yes"),
    ],
)
def test_wrong_settings_are_named(field: str, value: object) -> None:
    with pytest.raises(raftmeta.ConfigError) as wrong:
        raftmeta.Audit(**{"folder": "x", field: value})  # type: ignore[arg-type]
    assert wrong.value.field == f"audit.{field}"


def test_a_key_file_is_long_enough_and_private(tmp_path: Path) -> None:
    path = key_file(tmp_path)
    path.chmod(0o644)
    with pytest.raises(raftmeta.ConfigError, match="chmod 600"):
        read_key(path)
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(raftmeta.ConfigError, match="32 to") as wrong:
        read_key(path)
    assert "short" not in str(wrong.value)
    with pytest.raises(raftmeta.ConfigError, match="No such file"):
        read_key(tmp_path / "none")


def test_the_classes_are_those_of_the_settings() -> None:
    assert CLASSES == ("reads", "writes", "denied", "administration")
