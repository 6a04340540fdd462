"""A sealed file out of the folder of a node that is stopped: the state of its newest checkpoint.

A node keeps its own copies as checkpoints in LMDB (docs/formats.md "Checkpoint"), and makes sealed files for others
only. Readers of files need the latter: here the checkpoint is loaded, checked, and written anew. What the node wrote
behind its checkpoint stands in its log and is not in the file.

It decides nothing about the state, and changes nothing in the folder.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from raftmeta.errors import InvalidArgument, NewerFormat, SnapshotDamaged, error_from_status
from raftmeta.machine.machine_handle import MachineHandle
from raftmeta.storage.checkpoint import (
    CheckpointDamaged,
    CheckpointError,
    CheckpointNewerFormat,
    CheckpointStore,
    Manifest,
)
from raftmeta.storage.sealed_handle import SealedWriterHandle
from raftmeta.storage.storage_handle import FolderDisk

__all__ = ["seal_checkpoint"]

_IN_USE = 76  # raftmeta/status.pxd
_LIMITS = {"value_bytes_max": 1 << 30, "session_window": 1}  # they bind commands, and none is applied here
# docs/formats.md "Records of the state": the head of a record, its kinds, and the fixed fields of a version.
_HEAD = struct.Struct("<II")
_KEY, _REVISION = 6, 7
_VERSION = struct.Struct("<QQQQIHH")
_CHUNK_BYTES = 256 * 1024  # docs/formats.md "Records of the state": a sealed file is cut there
_DUMP_BYTES = 1 << 20


def seal_checkpoint(data_dir: Path, target: Path) -> None:
    """Write the newest checkpoint in data_dir to target, a name in a folder that is there; durable on return.

    It takes the memory of the state meanwhile. Raises InvalidArgument: there is no checkpoint, or a node runs there.
    Raises SnapshotDamaged, NewerFormat, or OSError, NoSpace, DiskFailed from writing.
    """
    if not (data_dir / "checkpoint" / "data.mdb").is_file():
        raise InvalidArgument(
            f"source: {data_dir} holds no checkpoint: it is no node's folder, or all that was written stands in its "
            "log still; start the node and save from it",
            field="source",
        )
    disk = FolderDisk(data_dir)
    try:
        status, holder = disk.lock()
        if status == _IN_USE:
            raise InvalidArgument(
                f"source: a node runs in {data_dir} (process {holder}): save from it, or through a client",
                field="source",
            )
        _check(status, data_dir)
        manifest, machine = _loaded(data_dir)
    finally:
        disk.close()
    _write(manifest, machine, target)


def _check(status: int, path: Path) -> None:
    if status:
        raise error_from_status(status, detail=str(path))


def _loaded(data_dir: Path) -> tuple[Manifest, MachineHandle]:
    store = CheckpointStore(data_dir / "checkpoint")
    try:
        manifest = store.open()
        if manifest is None:
            raise CheckpointDamaged("there is no manifest")
        machine = MachineHandle(**_LIMITS)
        if any(machine.load_chunk(records) for records in store.records()) or machine.load_done():
            raise CheckpointDamaged("its records are no state")
    except CheckpointNewerFormat as error:
        raise NewerFormat(f"source: {data_dir}: {error}", field="source") from None
    except CheckpointError as error:
        raise SnapshotDamaged(
            f"source: the checkpoint in {data_dir} is damaged: {error}; start the node, which repairs it",
            field="source",
        ) from None
    finally:
        store.close()
    return manifest, machine


def _write(manifest: Manifest, machine: MachineHandle, target: Path) -> None:
    disk = FolderDisk(target.parent)
    try:
        writer = SealedWriterHandle(disk)
        point = (manifest.index, manifest.term, manifest.chain)
        cluster = (manifest.cluster_low, manifest.cluster_high)
        status = writer.begin(
            target.name,
            point=point,
            cluster=cluster,
            membership=manifest.membership,
            membership_index=manifest.membership_index,
            feature_level=manifest.feature_level,
            wall_ms=manifest.wall_ms,
        )
        _check(status, target)
        for chunk, count, key in _chunks(machine):
            _check(writer.chunk(chunk, count=count, split_key=key), target)
        _check(writer.seal(state_hash=(manifest.state_hash_low, manifest.state_hash_high)), target)
    finally:
        disk.close()


def _chunks(machine: MachineHandle) -> Iterator[tuple[bytes, int, bytes | None]]:
    """Chunks as a node cuts them: records, how many, and where a reader may begin there the first key, b"" without."""
    chunk, count = bytearray(), 0
    for records in machine.dump(_DUMP_BYTES):
        at = begin = 0
        while at < len(records):
            at += _HEAD.size + _HEAD.unpack_from(records, at)[0]
            count += 1
            if len(chunk) + at - begin >= _CHUNK_BYTES:
                chunk += records[begin:at]
                yield bytes(chunk), count, _split_key(chunk)
                chunk, count, begin = bytearray(), 0, at
        chunk += records[begin:]
    if chunk:
        yield bytes(chunk), count, _split_key(chunk)


def _split_key(chunk: bytearray) -> bytes | None:
    """A reader may begin where a key or a revision does."""
    _, kind = _HEAD.unpack_from(chunk, 0)
    if kind == _KEY:
        begin = _HEAD.size + _VERSION.size
        return bytes(chunk[begin : begin + _VERSION.unpack_from(chunk, _HEAD.size)[5]])
    return b"" if kind == _REVISION else None
