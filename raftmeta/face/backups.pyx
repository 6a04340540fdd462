"""A backup as Python sees it: what the functions of raftmeta.snapshot are made of."""

import os
from typing import Any

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.engine.snapshots.backup cimport (Backup, BackupTarget, backup_check, backup_close, backup_load,
                                               backup_restore)
from raftmeta.engine.submission cimport AWAIT_SNAPSHOT, SUBMIT_READ
from raftmeta.face.answers cimport PURPOSE_NOTHING, PURPOSE_REVISION, deadline_after
from raftmeta.face.base cimport NodeBase
from raftmeta.machine.machine cimport MachineStatus, machine_status
from raftmeta.native.intrinsics cimport Hash128, hash64, hash128
from raftmeta.raft.membership cimport membership_decode
from raftmeta.raft.types cimport VOTER_INCOMING, VOTER_OUTGOING, Member, Membership
from raftmeta.security.cipher_handle cimport KeyRingHandle
from raftmeta.status cimport OK, status_t
from raftmeta.storage.sealed cimport SealedHeader

from raftmeta.common.text import shown


cdef class BackupFile:
    """One sealed file, loaded and checked."""

    cdef Backup backup
    cdef KeyRingHandle keys     # of an encrypted file, None: none were given
    cdef bint is_spent          # restored: the state is that of the new cluster now

    def __cinit__(self):
        memset(<void*>&self.backup, 0, sizeof(Backup))
        self.backup.disk.directory = self.backup.disk.lock = -1

    def __dealloc__(self):
        backup_close(&self.backup)

    def load(self, path: str, keys: KeyRingHandle | None = None) -> int:
        """Read and check the file at path without the GIL; return a status. keys: of an encrypted file."""
        cdef bytes folder = os.fsencode(os.path.dirname(os.path.abspath(path)))
        cdef bytes name = os.fsencode(os.path.basename(path))
        cdef const char* folder_text = folder
        cdef const char* name_text = name
        cdef status_t status
        cdef void* ring = _ring(keys)
        backup_close(&self.backup)
        self.keys = keys
        with nogil:
            status = backup_load(&self.backup, folder_text, name_text, ring)
        return status

    def facts(self) -> dict[str, Any]:
        """The file's words about itself and the numbers of its state, after load() was OK."""
        cdef MachineStatus state
        cdef const SealedHeader* header = &self.backup.loading.reader.header
        machine_status(self.backup.loading.machine, &state)
        return {
            "cluster_id": _hex(header.cluster_low, header.cluster_high),
            "index": header.point.index,
            "term": header.point.term,
            "wall_ms": header.wall_ms,
            "revision": state.revision,
            "compacted": state.compacted,
            "keys": state.keys,
            "leases": state.leases,
            "sessions": state.sessions,
            "history_bytes": state.history_bytes,
            "feature_level": state.feature_level,
            "state_hash": _hex(state.state_hash.low, state.state_hash.high),
            "file_bytes": self.backup.loading.reader.size_bytes,
            "records": self.backup.loading.reader.footer.records,
        }

    def members(self) -> list[tuple[str, str, bool]]:
        """(name, address, whether it votes) of the members when the file was made."""
        cdef Membership membership
        cdef Member* member
        cdef int i
        found = []
        status = membership_decode(self.backup.loading.reader.membership.data,
                                   <uint32_t>self.backup.loading.reader.membership.size, &membership)
        for i in range(membership.count if status == OK else 0):
            member = &membership.members[i]
            found.append((shown(member.name[:member.name_length]), shown(member.address[:member.address_length]),
                          bool(member.roles & (VOTER_INCOMING | VOTER_OUTGOING))))
        return found

    def restore(self, folder: str, name: str, peers: dict[str, str], *, cluster: str, token: str, segment_bytes: int,
                wal_bytes_max: int, reserve_bytes: int, keys: KeyRingHandle | None = None) -> int:
        """Make the folder of one member of a new cluster; return a status. The object cannot be used again.

        keys: the current one of them encrypts the folder's files; None: they are plain.
        """
        cdef BackupTarget target
        cdef bytes raw_name = name.encode()
        cdef bytes raw_cluster = cluster.encode()
        cdef bytes path = os.fsencode(folder)
        cdef const char* path_text = path
        cdef status_t status
        if self.is_spent:
            raise ValueError("a backup is restored once")
        self.is_spent = True
        memset(<void*>&target, 0, sizeof(BackupTarget))
        self._name_cluster(&target, sorted(peers), token)
        _fill_membership(&target, peers)
        target.id = _member_id(&target, raw_name)
        target.name = raw_name
        target.name_length = <uint8_t>len(raw_name)
        target.cluster_name = raw_cluster
        target.cluster_name_length = <uint8_t>len(raw_cluster)
        target.log.segment_bytes = segment_bytes
        target.log.log_bytes_max = wal_bytes_max
        target.log.reserve_bytes = reserve_bytes
        target.log.owner = target.id
        cdef void* ring = _ring(keys)
        with nogil:
            status = backup_restore(&self.backup, path_text, &target, ring)
        return status

    # The same for every member that is restored from this file with these names and this token.
    cdef int _name_cluster(self, BackupTarget* target, list names, str token) except -1:
        cdef bytes text = "\0".join([token, *names]).encode()
        cdef uint64_t content = (self.backup.loading.reader.footer.hash_low
                                 ^ self.backup.loading.reader.footer.hash_high)
        cdef Hash128 cluster = hash128(content, <const uint8_t*>text, len(text))
        target.cluster.low = cluster.low | 1        # (0, 0) would mean that there is none
        target.cluster.high = cluster.high
        return 0


def decoded_members(encoded: bytes) -> list[tuple[int, str, str, bool, bool]]:
    """(incarnation, name, address, whether it votes, whether it voted before the change under way) of each member.

    encoded: a membership as logs and copies of the state carry it. Without a change under way no member voted before.
    """
    cdef Membership membership
    cdef Member* member
    cdef const uint8_t* text = encoded
    cdef status_t status = membership_decode(text, <uint32_t>len(encoded), &membership)
    cdef int i
    found = []
    for i in range(membership.count if status == OK else 0):
        member = &membership.members[i]
        found.append((member.id, shown(member.name[:member.name_length]), shown(member.address[:member.address_length]),
                      bool(member.roles & VOTER_INCOMING), bool(member.roles & VOTER_OUTGOING)))
    return found


cdef void* _ring(KeyRingHandle keys):
    return keys.ring if keys is not None else NULL


def check_file(path: str) -> int:
    """Every checksum of the file at path, which need no key; return a status."""
    cdef bytes folder = os.fsencode(os.path.dirname(os.path.abspath(path)))
    cdef bytes name = os.fsencode(os.path.basename(path))
    cdef const char* folder_text = folder
    cdef const char* name_text = name
    cdef status_t status
    with nogil:
        status = backup_check(folder_text, name_text)
    return status


def sealed_path(node: NodeBase, timeout_s: float | None) -> str:
    """Wait until the node has a sealed file with everything acknowledged anywhere before this call; its path."""
    with node._telling("snapshot"):
        return _sealed_path(node, timeout_s)


cdef str _sealed_path(NodeBase saved, object timeout_s):
    cdef uint64_t deadline_ns = deadline_after(timeout_s)
    saved.finish(saved.submit_wish(SUBMIT_READ, 0, PURPOSE_NOTHING, NULL), PURPOSE_NOTHING, deadline_ns)
    revision = saved.finish(saved.submit_wish(AWAIT_SNAPSHOT, 0, PURPOSE_REVISION, NULL), PURPOSE_REVISION,
                            deadline_ns)
    return os.path.join(saved.identity.data_dir, f"{int(revision):016x}.sealed")


cdef uint64_t _member_id(const BackupTarget* target, bytes name):
    return hash64(target.cluster.low ^ target.cluster.high, <const uint8_t*>name, len(name)) | 1


cdef int _fill_membership(BackupTarget* target, dict peers) except -1:
    cdef Member* member
    cdef bytes raw_name, raw_address
    for name in sorted(peers):
        raw_name = name.encode()
        raw_address = peers[name].encode()
        member = &target.membership.members[target.membership.count]
        member.id = _member_id(target, raw_name)
        member.roles = VOTER_INCOMING
        member.name_length = <uint8_t>len(raw_name)
        member.address_length = <uint8_t>len(raw_address)
        memcpy(member.name, <const uint8_t*>raw_name, len(raw_name))
        memcpy(member.address, <const uint8_t*>raw_address, len(raw_address))
        target.membership.count += 1
    return 0


cdef str _hex(uint64_t low, uint64_t high):
    return f"{high:016x}{low:016x}"
