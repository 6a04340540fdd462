"""Which keys the files of a folder are encrypted with; reads heads of files, and needs no key.

It decides nothing. It never locks the folder, and a file that goes meanwhile counts for nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

from raftmeta.storage.checkpoint import CheckpointError, CheckpointKeyMissing, CheckpointStore, Manifest
from raftmeta.storage.storage_handle import key_id_of_head

__all__ = ["HEAD_BYTES", "keys_of_checkpoint", "keys_of_files", "keys_of_folder"]

HEAD_BYTES = 64 * 1024  # of a segment or sealed file: storage/segment.pxd HEADER_SEARCH_BYTES
_FILE = re.compile(r"[0-9a-f]{16}\.(?:log|sealed)")


def keys_of_files(folder: Path) -> Counter[int]:
    """How many segments of the log and sealed files each key is needed for, by its id; 0: the plain ones."""
    found: Counter[int] = Counter()
    if folder.is_dir():
        for path in folder.iterdir():
            if _FILE.fullmatch(path.name):
                with suppress(OSError), path.open("rb") as file:
                    key_id = key_id_of_head(file.read(HEAD_BYTES))
                    if key_id is not None:
                        found[key_id] += 1
    return found


def keys_of_checkpoint(manifest: Manifest | None) -> Counter[int]:
    """The same of the layers of a checkpoint."""
    return Counter() if manifest is None else Counter(layer.key_id for layer in manifest.layers)


def keys_of_folder(folder: Path) -> Counter[int]:
    """The same of all that stands in the folder of a node that does not run."""
    found = keys_of_files(folder)
    with closing(CheckpointStore(folder / "checkpoint", is_read_only=True)) as store:
        try:
            found += keys_of_checkpoint(store.open())
        except CheckpointKeyMissing as error:
            found.update(error.key_ids)
        except CheckpointError:
            pass  # who opens the folder says why
    return found
