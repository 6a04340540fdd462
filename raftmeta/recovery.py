"""A way out of an entry that no node can apply (docs/operations.md "An entry that no node can apply").

from raftmeta import recovery
found = recovery.unappliable("/data/a")     # which entry, and why; changes nothing
recovery.skip("/data/a", found.index)       # on each member alike, while its node is stopped
"""

from __future__ import annotations

from pathlib import Path

from raftmeta.config import check_path
from raftmeta.errors import ConfigError, InvalidArgument
from raftmeta.face.skipping import Unappliable, find
from raftmeta.face.skipping import skip as skip_entry
from raftmeta.security.encryption import Encryption

__all__ = ["Unappliable", "skip", "unappliable"]


def unappliable(data_dir: str | Path, *, encryption: Encryption | None = None) -> Unappliable | None:
    """The first entry in the folder of a stopped node that this version cannot apply; None: it applies all.

    The call loads the newest copy of the state and applies the whole log behind it, in the memory that this takes. It
    changes nothing. encryption: the keys of an encrypted folder.
    Raises InvalidArgument: no folder of a node, or its node runs. Raises SnapshotDamaged: an entry or the state before
    it is damaged, so nothing is known. Raises NewerFormat, StorageCorrupt, EncryptionKeyMissing.
    """
    return find(_folder(data_dir), encryption=encryption)


def skip(data_dir: str | Path, index: int, *, encryption: Encryption | None = None) -> Unappliable:
    """Let the node of this folder pass over the entry at index: for the node, it changes nothing. Durable on return.

    Call it for the folder of *every* member with the same index, while all nodes are stopped. A member that was left
    out stops at the entry again. The log stays as it is.
    index: of the first entry that this version cannot apply, as unappliable() tells; the call tries it itself.
    Raises InvalidArgument: it is not that entry, or the state in a checkpoint is beyond it; nothing was changed. Raises
    as unappliable() does.
    """
    return skip_entry(_folder(data_dir), index, encryption=encryption)


def _folder(data_dir: str | Path) -> Path:
    try:
        check_path(data_dir, "data_dir")
    except ConfigError as error:
        raise InvalidArgument(str(error), field="data_dir") from None
    return Path(data_dir)
