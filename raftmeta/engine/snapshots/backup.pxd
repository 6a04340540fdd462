# A sealed file outside of any node: read whole, and made into the folder of a member of a new cluster.
#
# It decides what of the state goes into the new cluster: keys, history, revision and leases do; sessions do not. It
# must never touch the file that it reads, or believe a state before all of it was loaded.
from libc.stdint cimport uint8_t

from raftmeta.engine.snapshots.files cimport Loading
from raftmeta.ports cimport DiskPort
from raftmeta.raft.types cimport Membership, member_id_t
from raftmeta.status cimport status_t
from raftmeta.storage.disk cimport RealDisk
from raftmeta.storage.wal cimport WalLimits
from raftmeta.wire.frame cimport ClusterId

cdef struct Backup:
    RealDisk disk
    DiskPort port
    Loading loading             # its reader and, once loaded, its machine

# Whose folder it becomes.
cdef struct BackupTarget:
    ClusterId cluster
    member_id_t id
    Membership membership       # of the new cluster, which names id
    const uint8_t* name
    const uint8_t* cluster_name
    uint8_t name_length
    uint8_t cluster_name_length
    WalLimits log

# Read and check all of the file `name` in `folder`: every checksum, every record, the state hash. NOT_FOUND, CORRUPT
# (not complete either), NEWER_FORMAT, DISK_FAILED, NO_MEMORY. Close it after any status.
# keys: security/cipher KeyRing of an encrypted file, NULL: none; NO_KEY. It must outlive the Backup.
cdef status_t backup_load(Backup* backup, const char* folder, const char* name, void* keys) noexcept nogil
# Once, of a backup that is loaded, into an empty folder: the file of the state, the log that begins behind it, and last
# the identity, without which the rest counts for nothing. keys: as above, for the new files. Durable on return.
# NO_SPACE, DISK_FAILED, NO_MEMORY.
cdef status_t backup_restore(Backup* backup, const char* folder, const BackupTarget* target,
                             void* keys) noexcept nogil
# Every checksum of the file and the hash of the whole, which needs no key. As backup_load otherwise.
cdef status_t backup_check(const char* folder, const char* name) noexcept nogil
cdef void backup_close(Backup* backup) noexcept nogil
