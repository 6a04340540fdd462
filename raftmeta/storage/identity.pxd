# The identity of this folder: cluster and node name, incarnation, boot number, and how far its cluster is founded.
#
# One small file, replaced as a whole (new file, sync, rename, directory sync): there is always one that is complete.
# The boot number grows with each life, before the node says a word, so that peers can refuse what an older life said.
# docs/formats.md "Identity file".
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.ports cimport DiskPort, RandomPort
from raftmeta.raft.genesis cimport GenesisRecord
from raftmeta.raft.types cimport NAME_BYTES_MAX, member_id_t
from raftmeta.status cimport status_t

cdef enum:
    FORMAT_IDENTITY_MAGIC = 0x54444952      # "RIDT" in file order
    FORMAT_IDENTITY_VERSION = 1

cdef struct Identity:
    const DiskPort* disk
    member_id_t id              # incarnation: drawn when the folder was blank, or by identity_renew
    member_id_t former          # incarnation before identity_renew, whose log in this folder is void; 0: none
    uint64_t boot               # of this life once identity_count_boot returned; the first is 1
    uint8_t name_length
    uint8_t cluster_name_length
    uint8_t[NAME_BYTES_MAX] name
    uint8_t[NAME_BYTES_MAX] cluster_name
    GenesisRecord genesis       # state BLANK in a new folder
    bint is_new                 # the folder was blank when it was opened
    Vec[uint8_t] scratch

# BAD_FIELD in identity_open when a name is empty or too long. NULL: no memory. The names are copied.
cdef Identity* identity_create(const DiskPort* disk, const uint8_t* name, uint32_t name_length,
                               const uint8_t* cluster_name, uint32_t cluster_name_length) noexcept nogil
cdef void identity_destroy(Identity* identity) noexcept nogil
# Read the file, or draw an incarnation for a folder that has none. Writes nothing. FOREIGN_CLUSTER, FOREIGN_NODE: the
# folder belongs to another cluster or node name. BAD_FIELD, NEWER_FORMAT, CORRUPT, DISK_FAILED, NO_MEMORY.
cdef status_t identity_open(Identity* identity, const RandomPort* random) noexcept nogil
# This life begins: the next boot number, durable on return. The folder is known to be ours now, the log included.
cdef status_t identity_count_boot(Identity* identity) noexcept nogil
# Durable on return.
cdef status_t identity_set_genesis(Identity* identity, const GenesisRecord* genesis) noexcept nogil
# The log of this folder lost what it acknowledged (WAL_TAIL_LOST): another incarnation begins, of the same founded
# cluster, which must be told to take it as a learner. Durable on return; boot is 1 again, `former` names the old one,
# or stays where the log in the folder is that of `former` already (is_void).
cdef status_t identity_renew(Identity* identity, const RandomPort* random, bint is_void) noexcept nogil
