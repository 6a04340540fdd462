"""Tests of the log and of sealed files run twice: on plain files, and on encrypted ones."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from raftmeta.native.native_handle import crc32c
from raftmeta.security.cipher_handle import KeyRingHandle
from raftmeta.storage.storage_handle import Disk
from tests.faces.disk import use_keys_on_new_disks

KEY = bytes(range(32))
OTHER_KEY = bytes(range(32, 64))
RECORD_BYTES, ADDED_BYTES, NONCE_BYTES = 64, 28, 12  # docs/formats.md "Record", "Encryption"
IS_ENCRYPTED = 0x8000
UUID_AT = slice(16, 32)  # of a segment's header
_RECORD = struct.Struct("<IIQQQ30xH")  # checksum, length, index, term, chain; the flags at 62


def keys_of_test() -> KeyRingHandle:
    """A ring with one key, whose "random" numbers are the same in each run."""
    keys = KeyRingHandle(seed=7)
    keys.use(keys.add(KEY))
    return keys


@pytest.fixture(scope="module", params=["plain", "encrypted"])
def each_encryption(request: pytest.FixtureRequest) -> Iterator[KeyRingHandle | None]:
    """The keys of all simulated disks of the module; None: files are plain."""
    keys = keys_of_test() if request.param == "encrypted" else None
    use_keys_on_new_disks(keys)
    yield keys
    use_keys_on_new_disks(None)


def encrypted_records(disk: Disk, name: str) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(uuid of the segment, nonce, cipher text and tag) of each sound encrypted record in a segment."""
    file = disk.open(name)
    content = disk.read(file, 0, disk.size(file))
    disk.close_file(file)
    for at in range(0, len(content) - RECORD_BYTES, 8):
        crc, length, _, _, _, flags = _RECORD.unpack_from(content, at)
        end = at + RECORD_BYTES + length
        if flags != IS_ENCRYPTED or length < ADDED_BYTES or end > len(content):
            continue
        if crc == crc32c(content[at + 4 : end]):
            body = content[at + RECORD_BYTES : end]
            nonce_at = len(body) - ADDED_BYTES
            yield content[UUID_AT], body[nonce_at : nonce_at + NONCE_BYTES], body[:nonce_at] + body[-16:]
