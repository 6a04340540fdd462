"""Tests of the log and of sealed files run twice: on plain files, and on encrypted ones."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from raftmeta.native.native_handle import crc32c
from raftmeta.security.cipher_handle import KeyRingHandle
from tests.faces.disk import use_keys_on_new_disks
from tests.faces.storage import DiskCalls

KEY = bytes(range(32))
OTHER_KEY = bytes(range(32, 64))
RECORD_BYTES, ADDED_BYTES, TAG_BYTES = 64, 28, 16  # docs/formats.md "Record", "Encryption"
IS_ENCRYPTED = 0x8000
UUID_AT = slice(16, 32)  # of a segment's header
_RECORD = struct.Struct("<II40xII6xH")  # checksum, length; at 48 bytes back and of the run; the flags at 62


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


def encrypted_runs(disk: DiskCalls, name: str) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(uuid of the segment, nonce, tag) of each run of encrypted records in a segment, by its last record."""
    file = disk.open(name)
    content = disk.read(file, 0, disk.size(file))
    disk.close_file(file)
    for at in range(0, len(content) - RECORD_BYTES, 8):
        crc, length, back, whole, flags = _RECORD.unpack_from(content, at)
        end = at + RECORD_BYTES + length
        is_last = end <= len(content) and back + (RECORD_BYTES + length + 7) // 8 * 8 == whole
        if flags == IS_ENCRYPTED and is_last and crc == crc32c(content[at + 4 : end]):
            yield content[UUID_AT], content[end - ADDED_BYTES : end - TAG_BYTES], content[end - TAG_BYTES : end]
