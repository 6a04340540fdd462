"""Encrypted logs and sealed files: no plain byte, no wrong key, each record in its place.

Format: docs/formats.md "Encryption". The other tests of this folder run on plain and on encrypted files: these survive
what those survive.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from raftmeta.native.native_handle import crc32c, hash128
from raftmeta.security.cipher_handle import KeyRingHandle, key_id
from raftmeta.storage.checkpoint import CheckpointDamaged, CheckpointKeyMissing, CheckpointStore
from raftmeta.storage.keys_in_use import keys_of_folder
from raftmeta.storage.storage_handle import key_id_of_head
from tests.faces.disk import SimulatedDisk
from tests.faces.sealed import SealedReaderHandle, SealedWriterHandle
from tests.faces.storage import FolderDisk, WalHandle, make_record
from tests.storage.conftest import KEY, OTHER_KEY, encrypted_runs, keys_of_test
from tests.storage.driver import LogDriver
from tests.storage.names import Status, WalState
from tests.storage.test_checkpoint import BASE, CHANGED, HEAD, replace_row, rows

LIMITS = {"segment_bytes": 65536, "alignment_bytes": 512}
FIRST, SECOND = "0000000000000001.log", "0000000000000002.log"
MARKER = b"what nobody may read"
RECORD_BYTES = 64


def ring(*keys: bytes, current: bytes | None = KEY) -> KeyRingHandle:
    made = KeyRingHandle(seed=3)
    for key in keys:
        made.add(key)
    made.use(0 if current is None else key_id(current))
    return made


def encrypted_log(keys: KeyRingHandle | None = None) -> LogDriver:
    disk = SimulatedDisk()
    disk.use_keys(keys_of_test() if keys is None else keys)
    log = LogDriver(disk, LIMITS)
    assert log.open() is not None and log.begin()
    return log


def close(log: LogDriver) -> SimulatedDisk:
    assert log.wal is not None
    log.wal.close()
    log.wal = None
    log.disk.reopen()
    return log.disk


def content(disk: SimulatedDisk, name: str) -> bytes:
    found = disk.durable(name)
    assert found is not None
    return bytes(found)


def overwrite(disk: SimulatedDisk, name: str, offset: int, data: bytes) -> None:
    file = disk.open(name)
    disk.write(file, offset, data)
    disk.sync(file)
    disk.close_file(file)


def records_at(image: bytes) -> list[tuple[int, int]]:
    """(offset, length of the payload) of each encrypted record."""
    found = []
    for at in range(0, len(image) - RECORD_BYTES, 8):
        crc, length = struct.unpack_from("<II", image, at)
        if image[at + 63] == 0x80 and crc == crc32c(image[at + 4 : at + RECORD_BYTES + length]):
            found.append((at, length))
    return found


# --- the log ----------------------------------------------------------------------------------------------------------
def test_no_payload_stands_in_any_file_of_the_log() -> None:
    log = encrypted_log()
    chain = 0
    for index in range(1, 40):
        record, chain = make_record(index, 1, MARKER * 10, previous_chain=chain)
        assert log.wal is not None and log.wal.append(index, [record]) == Status.OK
        assert log.wal.read(index)[1] == [record]
    disk = close(log)
    for name in disk.list_names():
        assert MARKER not in content(disk, name), name
        assert KEY not in content(disk, name), name
    assert len(list(encrypted_runs(disk, FIRST))) == 39


def test_a_log_without_keys_has_the_bytes_of_a_log_that_never_heard_of_them() -> None:
    """Keys that are offered and not used change nothing."""
    images = []
    for keys in (None, ring(KEY, current=None)):
        disk = SimulatedDisk()
        disk.use_keys(keys)
        log = LogDriver(disk, LIMITS)
        assert log.open() is not None and log.begin() and log.append([10, 700]) and log.append([30])
        close(log)
        images.append([content(disk, name) for name in disk.list_names()])
    assert images[0] == images[1]


@pytest.mark.parametrize("keys", [None, ring(OTHER_KEY, current=OTHER_KEY)], ids=["no key", "another key"])
def test_a_missing_or_wrong_key_is_told_before_anything_is_written(keys: KeyRingHandle | None) -> None:
    log = encrypted_log()
    assert log.append([10, 20])
    disk = close(log)
    before = {name: content(disk, name) for name in disk.list_names()}
    disk.use_keys(keys)
    writes = disk.counters["writes"]
    assert WalHandle(disk, **LIMITS).open().status == Status.NO_KEY
    assert disk.counters["writes"] == writes
    assert before == {name: content(disk, name) for name in disk.list_names()}


def test_another_key_begins_another_segment_and_old_ones_stay_readable() -> None:
    """To another key, to none, and back, while the log is open; then all of it is read again."""
    keys = ring(KEY, OTHER_KEY)
    log = encrypted_log(keys)
    wanted = []
    for current in (KEY, OTHER_KEY, None, KEY):
        keys.use(0 if current is None else key_id(current))
        assert log.append([50, 60]) and log.append([70])
        wanted.append(0 if current is None else key_id(current))
    names = [name for name in log.disk.list_names() if name.endswith(".log")]
    assert [key_id_of_head(content(log.disk, name)[: 64 * 1024]) for name in names] == wanted
    assert log.wal is not None
    for index in range(1, log.model.last + 1):
        assert log.wal.read(index)[1][0] == log.model.records[index - 1]
    assert log.kill() and log.crash()


def nonces(image: bytes) -> list[bytes]:
    """Of runs that have one record each: behind its payload, before the tag (docs/formats.md "Encryption")."""
    ends = [at + RECORD_BYTES + length for at, length in records_at(image)]
    return [image[end - 28 : end - 16] for end in ends]


def test_no_nonce_comes_twice_in_a_file_over_restarts() -> None:
    """init: a log whose file goes on after each of two restarts, with real random numbers. check: its nonces."""

    def fresh_ring() -> KeyRingHandle:
        made = KeyRingHandle()
        made.add(KEY)
        made.use(key_id(KEY))
        return made

    log = encrypted_log(fresh_ring())
    for _ in range(3):
        assert log.append([40]) and log.append([40]) and log.idle()
        disk = close(log)
        disk.use_keys(fresh_ring())
        log.disk = disk
        assert log.open() is not None
    found = nonces(content(log.disk, FIRST))
    assert len(found) == 6 and len(set(found)) == 6


def test_a_key_that_no_file_needs_any_more_may_go() -> None:
    keys = ring(KEY, OTHER_KEY)
    log = encrypted_log(keys)
    assert log.append([50])
    keys.use(key_id(OTHER_KEY))
    assert log.append([60]) and log.compact(1)
    disk = close(log)
    disk.use_keys(ring(OTHER_KEY, current=OTHER_KEY))
    log.disk = disk
    assert log.open() is not None


def flipped_payload(image: bytearray, at: int, _length: int) -> None:
    image[at + RECORD_BYTES] ^= 1


def flipped_header(image: bytearray, at: int, _length: int) -> None:
    """The wall time, which the checksum and the chain hash cover, and nothing else repeats."""
    image[at + 32] ^= 1


def flipped_tag(image: bytearray, at: int, length: int) -> None:
    image[at + RECORD_BYTES + length - 1] ^= 1


def flipped_nonce(image: bytearray, at: int, length: int) -> None:
    image[at + RECORD_BYTES + length - 20] ^= 1


@pytest.mark.parametrize(
    ("forge", "place"), [(flipped_payload, 1), (flipped_header, 1), (flipped_tag, 2), (flipped_nonce, 2)]
)
def test_a_forged_record_is_damaged_although_its_checksum_is_right(forge: Callable[..., None], place: int) -> None:
    """And with it the run: all are known by index and chain hash, so another member's records take their place."""
    log = encrypted_log()
    assert log.append([40, 50, 60]) and log.append([70]) and log.idle()
    disk = close(log)
    image = bytearray(content(disk, FIRST))
    at, length = records_at(bytes(image))[place]
    forge(image, at, length)
    image[at : at + 4] = struct.pack("<I", crc32c(bytes(image[at + 4 : at + RECORD_BYTES + length])))
    overwrite(disk, FIRST, 0, bytes(image))
    wal = WalHandle(disk, **LIMITS)
    opened = wal.open()
    assert (opened.status, opened.state) == (Status.OK, WalState.WAL_DAMAGED)
    assert opened.damaged == [(index, log.model.point(index)[2]) for index in (1, 2, 3)]
    assert opened.records == [log.model.records[3]]
    assert wal.read(2)[0] == Status.CORRUPT
    assert wal.append(1, list(log.model.records[:3]), repairs=True) == Status.OK
    wal.close()
    again = WalHandle(disk, **LIMITS).open()
    assert (again.state, tuple(again.records)) == (WalState.WAL_CLEAN, log.model.records)


def test_damage_costs_the_records_of_one_run() -> None:
    """A batch of a hundred records, one of which has a flipped bit."""
    log = encrypted_log()
    assert log.append([250] * 100) and log.idle()
    disk = close(log)
    at, _ = records_at(content(disk, FIRST))[50]
    disk.flip(FIRST, at + RECORD_BYTES + 9, 1)
    opened = WalHandle(disk, **LIMITS).open()
    lost = [index for index, _ in opened.damaged]
    assert 51 in lost and lost == list(range(lost[0], lost[-1] + 1)) and 5 < len(lost) < 20
    assert len(opened.records) == 100 - len(lost)


@pytest.mark.parametrize("size", [0, 30, 250, 5000])
def test_any_record_is_read_from_the_middle_of_its_run(size: int) -> None:
    log = encrypted_log()
    assert log.append([size] * 40) and log.append([size + 1] * 7) and log.append([size] * 3, back=5)
    for _ in range(2):
        assert log.wal is not None
        for index in range(1, log.model.last + 1):
            for bytes_max in (0, 700, 9000, 200_000):
                status, records = log.wal.read(index, bytes_max)
                assert status == Status.OK and records
                assert tuple(records) == log.model.records[index - 1 : index - 1 + len(records)]
                assert len(records) == 1 or sum(map(len, records)) <= bytes_max
            assert index - 1 + len(records) == log.model.last or size > 3000
        assert log.kill()


def test_a_record_is_bound_to_its_segment_and_offset() -> None:
    """A sound record of the same index and hash, copied to where another life of the log has it, is not taken."""
    images = []
    for seed in (1, 2):
        keys = KeyRingHandle(seed=seed)  # another uuid
        keys.use(keys.add(KEY))
        log = encrypted_log(keys)
        assert log.append([40]) and log.append([50])
        images.append(bytearray(content(close(log), FIRST)))
    ours, theirs = images
    at, length = records_at(bytes(ours))[0]
    assert records_at(bytes(theirs))[0] == (at, length)
    ours[at : at + RECORD_BYTES + length] = theirs[at : at + RECORD_BYTES + length]
    overwrite(log.disk, FIRST, 0, bytes(ours))
    opened = WalHandle(log.disk, **LIMITS).open()
    assert opened.damaged == [(1, log.model.point(1)[2])]


def test_a_reader_that_finds_a_forged_record_shows_the_runs_before_it() -> None:
    log = encrypted_log()
    assert log.append([3000, 3000, 60])
    at, length = records_at(content(log.disk, FIRST))[2]
    forged = bytearray(content(log.disk, FIRST)[at : at + RECORD_BYTES + length])
    forged[RECORD_BYTES] ^= 1
    forged[:4] = struct.pack("<I", crc32c(bytes(forged[4:])))
    overwrite(log.disk, FIRST, at, bytes(forged))
    assert log.wal is not None
    assert log.wal.read(1) == (Status.OK, list(log.model.records[:2]))
    assert log.wal.read(3) == (Status.CORRUPT, [])


def test_files_with_plain_records_go_when_files_are_encrypted() -> None:
    """Segments that left the log, and what waits to be used again: they would be found on a stolen disk."""
    limits = {"segment_bytes": 4096, "alignment_bytes": 512, "reserve_bytes": 4096}
    disk = SimulatedDisk()
    log = LogDriver(disk, limits)
    assert log.open() is not None and log.begin()
    for _ in range(30):
        assert log.append([900])
    while not log.wal.prepare()[1]:
        pass
    assert log.compact(log.model.last - 1)
    assert [name for name in disk.list_names() if name.endswith(".retired")]
    disk.use_keys(keys_of_test())
    assert log.kill()
    assert not [name for name in disk.list_names() if name.endswith(".retired")]
    for _ in range(8):
        assert log.append([900])
    assert log.compact(log.model.last - 1)
    assert not [name for name in disk.list_names() if key_id_of_head(content(disk, name)[: 64 * 1024]) == 0]


# --- sealed files -----------------------------------------------------------------------------------------------------
NAME = "000000000000002a.sealed"


def sealed(disk: SimulatedDisk, chunks: list[bytes]) -> bytes:
    writer = SealedWriterHandle(disk)
    assert writer.begin(NAME, point=(42, 3, 5), cluster=(6, 7), membership=b"members") == Status.OK
    for chunk in chunks:
        assert writer.chunk(chunk, split_key=MARKER) == Status.OK
    assert writer.seal(state_hash=(8, 9)) == Status.OK
    return content(disk, NAME)


def opened(disk: SimulatedDisk) -> tuple[int, list[bytes]]:
    reader = SealedReaderHandle(disk)
    status = reader.open(NAME)
    shown = []
    while status == Status.OK:
        status, chunk = reader.next()
        shown += [chunk] if status == Status.OK else []
    return status, shown


def test_members_seal_the_same_bytes_under_one_key_and_show_none() -> None:
    """So any member goes on with a transfer that another one began."""
    files = []
    for seed in (1, 2):
        keys = KeyRingHandle(seed=seed)
        keys.use(keys.add(KEY))
        disk = SimulatedDisk(seed=seed)
        disk.use_keys(keys)
        files.append(sealed(disk, [MARKER * 50, b"", MARKER]))
        assert opened(disk) == (Status.NOT_FOUND, [MARKER * 50, b"", MARKER])
    assert files[0] == files[1]
    assert MARKER not in files[0]


@pytest.mark.parametrize("keys", [None, ring(OTHER_KEY, current=OTHER_KEY)], ids=["no key", "another key"])
def test_a_sealed_file_tells_that_its_key_is_missing(keys: KeyRingHandle | None) -> None:
    disk = SimulatedDisk()
    disk.use_keys(keys_of_test())
    sealed(disk, [MARKER])
    disk.use_keys(keys)
    assert opened(disk) == (Status.NO_KEY, [])


def test_a_forged_chunk_is_damage_although_all_checksums_are_right() -> None:
    """Chunks of two files of one point: exchanged, they have other contents, and their hash cannot say so."""
    disk = SimulatedDisk()
    disk.use_keys(keys_of_test())
    sealed(disk, [MARKER * 3])
    image = bytearray(content(disk, NAME))
    begin = struct.unpack_from("<I", image, 12)[0]
    length = struct.unpack_from("<I", image, begin + 12)[0]
    image[begin + 24] ^= 1
    image[begin + 4 : begin + 8] = struct.pack("<I", crc32c(bytes(image[begin + 8 : begin + 24 + length])))
    overwrite(disk, NAME, 0, bytes(image))
    assert opened(disk) == (Status.CORRUPT, [])


# --- the checkpoint ---------------------------------------------------------------------------------------------------
def test_a_checkpoint_is_encrypted_and_told_apart(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoint", keys=ring(KEY))
    store.write(HEAD, [(MARKER * 1000, 3)], is_base=True)
    store.write(HEAD, [(MARKER, 1)], is_base=False)
    assert list(store.records()) == [MARKER * 1000, MARKER]
    store.close()
    assert MARKER not in (tmp_path / "checkpoint" / "data.mdb").read_bytes()
    assert keys_of_folder(tmp_path) == {key_id(KEY): 1}  # whoever has no key cannot count the layers
    for keys in (None, ring(OTHER_KEY, current=OTHER_KEY)):
        without = CheckpointStore(tmp_path / "checkpoint", keys=keys)
        before = (tmp_path / "checkpoint" / "data.mdb").read_bytes()
        with pytest.raises(CheckpointKeyMissing) as caught:
            without.open()
        without.close()
        assert caught.value.key_ids == {key_id(KEY)}
        assert (tmp_path / "checkpoint" / "data.mdb").read_bytes() == before


def test_the_next_checkpoint_needs_no_older_key(tmp_path: Path) -> None:
    """From plain to a key, to another one, and back to plain: each time a whole one is due."""
    for current in (None, KEY, OTHER_KEY, None):
        keys = ring(KEY, OTHER_KEY, current=current)
        store = CheckpointStore(tmp_path / "checkpoint", keys=keys)
        store.open()
        assert store.is_base_due()
        store.write(HEAD, BASE, is_base=True)
        assert not store.is_base_due()
        manifest = store.write(HEAD, CHANGED, is_base=False)
        assert {layer.key_id for layer in manifest.layers} == {keys.current}
        store.close()
        again = CheckpointStore(
            tmp_path / "checkpoint", keys=None if current is None else ring(current, current=current)
        )
        assert again.open() == manifest
        assert list(again.records()) == [records for records, _ in (*BASE, *CHANGED)]
        again.close()


def test_a_chunk_of_a_checkpoint_is_bound_to_its_place(tmp_path: Path) -> None:
    """A chunk in the place of another one, with all checksums and hashes made right."""
    store = CheckpointStore(tmp_path / "checkpoint", keys=ring(KEY))
    manifest = store.write(HEAD, [(b"first", 1), (b"second", 1)], is_base=True)
    chunks = {key: row for key, row in rows(store).items() if key != b"m"}
    (first, taken), (second, _) = sorted(chunks.items())
    checksums = [crc32c(taken[8:], seed=crc32c(key)) for key in (first, second)]
    low, high = hash128(struct.pack("<II", *checksums))
    layer = replace(manifest.layers[0], hash_low=low, hash_high=high)
    replace_row(store, second, struct.pack("<II", checksums[1], 1) + taken[8:])
    replace_row(store, b"m", replace(manifest, layers=(layer,)).pack())
    again = CheckpointStore(store.path, keys=ring(KEY))
    again.open()
    shown = again.records()
    assert next(shown) == b"first"
    with pytest.raises(CheckpointDamaged, match="not what was encrypted there"):
        next(shown)
    again.close()


def test_a_folder_tells_its_keys(tmp_path: Path) -> None:
    disk = FolderDisk(tmp_path)
    keys = ring(KEY, OTHER_KEY)
    disk.use_keys(keys)
    wal = WalHandle(disk, **LIMITS)
    assert wal.open().status == Status.OK and wal.begin() == Status.OK
    keys.use(key_id(OTHER_KEY))
    assert wal.append(1, [make_record(1, 1, MARKER)[0]]) == Status.OK
    keys.use(0)
    writer = SealedWriterHandle(disk)
    assert writer.begin(NAME, point=(1, 1, 1)) == Status.OK and writer.seal() == Status.OK
    assert keys_of_folder(tmp_path) == {key_id(KEY): 1, key_id(OTHER_KEY): 1, 0: 1}
    wal.close()
    disk.close()
