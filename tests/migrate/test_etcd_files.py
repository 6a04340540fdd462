"""The reader of etcd's database without an etcd: a tiny file that etcd 3.5.1 saved, and what may happen to it."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from raftmeta import InvalidArgument
from raftmeta.migrate import EtcdSource, Item, SourceDamaged
from raftmeta.migrate.bolt import BoltFile

DATA = Path(__file__).parent / "data" / "etcd.db.gz"
PAGE = 4096
STEP = 331  # bits


@pytest.fixture(scope="module")
def whole() -> bytes:
    return gzip.decompress(DATA.read_bytes())


@pytest.fixture
def file(whole: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "saved.db"
    path.write_bytes(whole)
    return path


def sealed(database: bytes) -> bytes:
    """With a checksum that fits, so that only its structure can be wrong."""
    return database + hashlib.sha256(database).digest()


def test_the_last_revision_is_read(file: Path) -> None:
    """Overwritten, deleted, with a lease, not UTF-8."""
    with EtcdSource(file) as source:
        assert list(source.items()) == [
            Item(b"a", b"again", '{"create_revision":2,"mod_revision":3,"version":2}'),
            Item(b"c\xff", bytes(10), '{"create_revision":2,"mod_revision":2,"version":1}'),
            Item(b"leased", b"x", '{"create_revision":4,"mod_revision":4,"version":1,"lease":"7"}', 7),
        ]
        assert source.position == "revision 5"
        assert [(change.revision, change.sub, change.key) for change in source.changes()] == [
            (2, 0, b"a"),
            (2, 1, b"b"),
            (2, 2, b"c\xff"),
            (3, 0, b"a"),
            (4, 0, b"leased"),
            (5, 0, b"b"),
        ]
    with EtcdSource(file, leases=False) as source:
        assert [item.key for item in source.items()] == [b"a", b"c\xff"]
        assert source.dropped == {"keys with a lease": 1}


def test_a_flipped_bit_of_a_saved_file_is_always_found(whole: bytes, file: Path) -> None:
    for position in range(0, 8 * len(whole), STEP):
        changed = bytearray(whole)
        changed[position // 8] ^= 1 << position % 8
        file.write_bytes(changed)
        with pytest.raises(SourceDamaged, match="SHA-256"):
            EtcdSource(file)


def test_a_saved_file_that_ends_anywhere_is_refused(whole: bytes, file: Path) -> None:
    for length in [*range(0, len(whole), 509), len(whole) - 1, PAGE + 32]:
        file.write_bytes(whole[:length])
        with pytest.raises(SourceDamaged):
            EtcdSource(file)


def test_a_file_without_a_checksum_is_read_on_request_only(whole: bytes, file: Path) -> None:
    file.write_bytes(whole[:-32])
    with pytest.raises(SourceDamaged, match="--skip-hash-check"):
        EtcdSource(file)
    with EtcdSource(file, allow_unhashed=True) as source:
        assert sum(1 for _ in source.items()) == 3
        assert len(source.warnings) == 1


def test_broken_structure_is_an_error_and_no_crash(whole: bytes, file: Path) -> None:
    """Pages that point anywhere, with a checksum that fits: an error that names the file, or what etcd would read."""
    database = whole[:-32]
    refused = 0
    for position in range(0, 8 * len(database), 2 * STEP):
        changed = bytearray(database)
        changed[position // 8] ^= 1 << position % 7
        file.write_bytes(sealed(changed))
        try:
            with EtcdSource(file) as source:
                assert sum(1 for _ in source.items()) <= 6
        except (SourceDamaged, InvalidArgument) as error:
            assert str(file) in str(error)
            refused += 1
    assert refused


@pytest.mark.parametrize("page", [0, 1])
def test_one_good_meta_page_is_enough(whole: bytes, file: Path, page: int) -> None:
    """bbolt writes them in turn: the newer one whose checksum is right counts; without any it is no database."""
    with BoltFile(file, size=len(whole) - 32) as both:
        newest = both.transaction
    changed = bytearray(whole[:-32])
    changed[page * PAGE + 16 : page * PAGE + 32] = bytes(16)
    file.write_bytes(sealed(changed))
    with BoltFile(file, size=len(changed)) as one:
        assert one.transaction in (newest, newest - 1)
        assert b"key" in one.buckets()
    changed[(1 - page) * PAGE + 16] ^= 1
    file.write_bytes(sealed(changed))
    with pytest.raises(SourceDamaged, match="no meta page"):
        EtcdSource(file)


def test_pages_that_lead_in_circles_end(whole: bytes, file: Path) -> None:
    """A branch page that is its own child."""
    changed = bytearray(whole[:-32])
    with BoltFile(file, size=len(changed)) as database:
        root = database._meta.root
    start = root * PAGE
    changed[start + 8 : start + 12] = b"\x01\x00\x01\x00"  # a branch of one element
    changed[start + 24 : start + 32] = root.to_bytes(8, "little")
    file.write_bytes(sealed(changed))
    with pytest.raises(SourceDamaged, match="was there before"):
        EtcdSource(file)


def test_what_is_no_database_is_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="there is no"):
        EtcdSource(tmp_path)
    empty = tmp_path / "empty.db"
    empty.touch()
    with pytest.raises(SourceDamaged):
        EtcdSource(empty, allow_unhashed=True)
    (tmp_path / "text.db").write_bytes(b"no database at all" * 1000)
    with pytest.raises(SourceDamaged, match="no bbolt database"):
        EtcdSource(tmp_path / "text.db", allow_unhashed=True)
