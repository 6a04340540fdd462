"""Ways out of states that no node leaves by itself (docs/operations.md).

from raftmeta import recovery
found = recovery.unappliable("/data/a")     # an entry that no node can apply: which, and why; changes nothing
recovery.skip("/data/a", found.index)       # on each member alike, while its node is stopped

plan = recovery.plan(["/data/a", "/data/d"])    # a majority is lost for good: what the folders left can prove
recovery.apply(["/data/a", "/data/d"], "saved.sealed", {"a": "/new/a"}, {"a": "h1:7000", "b": "h2:7000", ...})
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from raftmeta import snapshot
from raftmeta.config import Address, check_path
from raftmeta.errors import ConfigError, InvalidArgument
from raftmeta.face.recovering import Plan, PlannedLease, PlannedSession, PlannedVoter, plan_of
from raftmeta.face.skipping import Unappliable, find
from raftmeta.face.skipping import skip as skip_entry
from raftmeta.security.encryption import Encryption
from raftmeta.storage.checkpoint import sync_directory
from raftmeta.storage.identity_file import IdentityDamaged, IdentityNewerFormat, read_identity

__all__ = [
    "Plan",
    "PlannedLease",
    "PlannedSession",
    "PlannedVoter",
    "Recovered",
    "Unappliable",
    "apply",
    "plan",
    "skip",
    "unappliable",
]

CONNECT_S = 2.0
REPORT_SUFFIX = ".report.json"
_READ_BYTES = 1 << 20


# --- an entry that no node can apply ----------------------------------------------------------------------------------


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


def _folder(data_dir: str | os.PathLike[str]) -> Path:
    try:
        check_path(data_dir, "data_dir")
    except ConfigError as error:
        raise InvalidArgument(str(error), field="data_dir") from None
    return Path(data_dir)


# --- a majority is lost -----------------------------------------------------------------------------------------------


def plan(
    data_dirs: Sequence[str | os.PathLike[str]], *, committed_only: bool = False, encryption: Encryption | None = None
) -> Plan:
    """Tell what a recovery of these folders keeps and what it cannot know. It only reads the folders.

    data_dirs: the folders of all members that are left, at least one; their nodes are stopped. committed_only: as for
        apply(). encryption: the keys of encrypted folders.
    It takes the memory of the state and of the logs meanwhile. Raises as snapshot.save() of folders does.
    """
    return plan_of([_folder(path) for path in data_dirs], committed_only=committed_only, encryption=encryption)


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result of apply(). saved: the file with the state. report: the file with the plan and all hashes.

    cluster_id: of the new cluster, 32 hex digits. made: names whose folders the call made; those that an earlier call
    had made are in `kept`.
    """

    plan: Plan
    saved: Path
    report: Path
    cluster_id: str
    made: tuple[str, ...]
    kept: tuple[str, ...]


def apply(
    data_dirs: Sequence[str | os.PathLike[str]],
    saved: str | os.PathLike[str],
    nodes: Mapping[str, str | os.PathLike[str]],
    peers: Mapping[str, str],
    *,
    cluster: str = "default",
    token: str = "",
    committed_only: bool = False,
    although_answered: bool = False,
    encryption: Encryption | None = None,
) -> Recovered:
    """Make a new cluster of the folders that are left, with a new id: no node of the old one can join or rejoin it.

    saved: the file for the state; bring it to the machines of the other members, for snapshot.restore().
    nodes: names and new folders of the members that live on this machine. peers: all members of the new cluster, as for
        Node(). token, cluster: as for snapshot.restore().
    committed_only: leave out the entries that are not certainly committed.
    although_answered: go on although programs answer at the addresses of a majority of the old voters. Only if they are
        other programs than the old cluster's nodes.
    The call may be made again after it was interrupted, with the same arguments: it goes on with what is there. The old
    folders stay as they are. On return `saved`, its report and the new folders are durable.
    Raises InvalidArgument: a majority of the old voters answers, or `saved` is another state's file; nothing was
    touched. Raises as snapshot.save() and snapshot.restore() do; then call it again once the cause is gone.
    """
    target = _folder(saved)
    for name in nodes:
        if name not in peers:
            raise InvalidArgument(f"nodes: {name!r} is none of the peers", field="nodes")
    found = plan(data_dirs, committed_only=committed_only, encryption=encryption)
    if not although_answered:
        _check_silent(found)
    if target.exists():
        _check_same(target, found, encryption)
    else:
        snapshot.save(
            [str(path) for path in data_dirs], target, committed_only=committed_only, encryption=encryption
        )  # fmt: skip
    made: list[str] = []
    kept: list[str] = []
    cluster_id = ""
    for name, folder in nodes.items():
        is_new, cluster_id = _restored(target, Path(folder), name, peers, cluster, token, encryption)
        (made if is_new else kept).append(name)
    report = target.with_name(target.name + REPORT_SUFFIX)
    _write_report(report, found, target, cluster_id, nodes)
    return Recovered(found, target, report, cluster_id, tuple(made), tuple(kept))


def _check_silent(found: Plan) -> None:
    """Two clusters with the same past, and both serving: this is the mistake that must not happen."""
    with ThreadPoolExecutor(max(1, len(found.voters))) as pool:
        answers = list(pool.map(_answers, (voter.address for voter in found.voters)))
    answering = [voter for voter, answer in zip(found.voters, answers, strict=True) if answer]
    if found.voters and len(answering) > len(found.voters) // 2:
        told = ", ".join(f"{voter.name} at {voter.address}" for voter in answering)
        raise InvalidArgument(
            f"source: {told}: a majority of the old voters answers. If they are its nodes, the cluster is not lost: "
            "start the others. If they are other programs, say so (although_answered=True, --although-answered)",
            field="source",
        )


def _answers(address: str) -> bool:
    try:
        place = Address.parse(address, "address")
        socket.create_connection((place.host, place.port), timeout=CONNECT_S).close()
    except (OSError, ConfigError):
        return False
    return True


def _check_same(target: Path, found: Plan, encryption: Encryption | None) -> None:
    there = snapshot.inspect(target, encryption=encryption)
    wanted = (found.cluster_id, found.salvaged.index, found.state_hash)
    if (there.cluster_id, there.index, there.state_hash) != wanted:
        raise InvalidArgument(
            f"saved: {target} is there and holds another state (entry {there.index}, state {there.state_hash}): name "
            "another file, or remove it",
            field="saved",
        )


def _restored(
    saved: Path,
    folder: Path,
    name: str,
    peers: Mapping[str, str],
    cluster: str,
    token: str,
    encryption: Encryption | None,
) -> tuple[bool, str]:
    """Make the folder of one member, or find that an earlier call made it: (whether it is new, the cluster's id)."""
    if not folder.exists() or not any(folder.iterdir()):
        snapshot.restore(saved, folder, name, peers, cluster=cluster, token=token, encryption=encryption)
        return True, _cluster_of(folder)
    with tempfile.TemporaryDirectory(prefix=".recovering-", dir=folder.absolute().parent) as working:
        again = Path(working) / "again"
        snapshot.restore(saved, again, name, peers, cluster=cluster, token=token, encryption=encryption)
        wanted = _cluster_of(again)
    if _cluster_of(folder) != wanted:
        raise ConfigError(
            f"nodes: {folder} is not empty, and no earlier call made it; nothing was touched", field="nodes"
        )
    return False, wanted


def _cluster_of(folder: Path) -> str:
    """The id of the cluster that the folder belongs to; "": it cannot be read."""
    try:
        identity = read_identity(folder)
    except (IdentityDamaged, IdentityNewerFormat, OSError):
        return ""
    return "" if identity is None else f"{identity.cluster_high:016x}{identity.cluster_low:016x}"


def _write_report(
    report: Path, found: Plan, saved: Path, cluster_id: str, nodes: Mapping[str, str | os.PathLike[str]]
) -> None:
    facts = {
        **asdict(found),
        "saved": {"path": str(saved), "bytes": saved.stat().st_size, "sha256": _sha256(saved)},
        "new_cluster_id": cluster_id,
        "new_folders": {name: str(folder) for name, folder in nodes.items()},
    }
    working = Path(f"{report}.tmp")
    with working.open("w") as file:
        json.dump(facts, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    working.replace(report)
    sync_directory(report.absolute().parent)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()
