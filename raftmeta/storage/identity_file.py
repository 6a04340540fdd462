"""The identity file as tools read it: whose folder is this, whatever its name. Format: docs/formats.md "Identity file".

It changes nothing in the folder, and it asks for no name first, as the engine does (storage/identity).
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from raftmeta.native.native_handle import crc32c
from raftmeta.storage.privacy import OPEN_NO_LINK

__all__ = ["FolderIdentity", "IdentityDamaged", "IdentityNewerFormat", "read_identity"]

_FILE_NAME = "identity"
FORMAT_MAGIC = 0x54444952
FORMAT_VERSION = 1
_HEAD = struct.Struct("<IIBBBBIQQQQQ")
_CRC_BEGIN = 8


class IdentityDamaged(Exception):
    """The file is not what was written."""


class IdentityNewerFormat(Exception):
    """A newer version of raftmeta wrote the file."""


@dataclass(frozen=True, slots=True)
class FolderIdentity:
    """Whose folder it is. former: the incarnation before, whose log in the folder is void; 0: none.

    membership: of the founding, encoded; b"" for a node that joined.
    """

    name: str
    cluster: str
    incarnation: int
    former: int
    boot: int
    cluster_low: int
    cluster_high: int
    membership: bytes


def read_identity(data_dir: Path) -> FolderIdentity | None:
    """The identity of the folder; None: it has none. Raises IdentityDamaged, IdentityNewerFormat, OSError."""
    try:
        with open(os.open(data_dir / _FILE_NAME, os.O_RDONLY | OPEN_NO_LINK), "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return None
    if len(content) < _HEAD.size:
        raise IdentityDamaged(f"{len(content)} bytes are too few")
    magic, crc, version, _, cluster_length, name_length, membership_length, *ids = _HEAD.unpack_from(content)
    if magic != FORMAT_MAGIC or crc != crc32c(content[_CRC_BEGIN:]):
        raise IdentityDamaged("wrong checksum")
    if version > FORMAT_VERSION:
        raise IdentityNewerFormat(f"version {version} is newer than {FORMAT_VERSION}")
    names = content[_HEAD.size :]
    if len(names) != cluster_length + name_length + membership_length:
        raise IdentityDamaged("its lengths do not add up")
    incarnation, boot, cluster_low, cluster_high, former = ids
    return FolderIdentity(
        name=names[cluster_length : cluster_length + name_length].decode(errors="backslashreplace"),
        cluster=names[:cluster_length].decode(errors="backslashreplace"),
        incarnation=incarnation,
        former=former,
        boot=boot,
        cluster_low=cluster_low,
        cluster_high=cluster_high,
        membership=names[cluster_length + name_length :],
    )
