"""The identity file: who this folder is, replaced as a whole and never changed in place.

It decides whether a folder belongs to the node that asks. It must never judge founding (raft/genesis does);
let a word leave before the boot number that stands behind it is durable. Format: docs/formats.md "Identity file".
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport crc32c
from raftmeta.ports cimport DiskPort, RandomPort, file_t
from raftmeta.raft.genesis cimport ACCEPTED, BLANK, FOUNDED, JOINING, GenesisRecord
from raftmeta.raft.membership cimport membership_decode, membership_encode
from raftmeta.raft.types cimport NAME_BYTES_MAX
from raftmeta.status cimport (BAD_FIELD, CORRUPT, FOREIGN_CLUSTER, FOREIGN_NODE, NEWER_FORMAT, NO_MEMORY, NO_SPACE,
                              NOT_FOUND, OK, status_t)
from raftmeta.storage.identity cimport FORMAT_IDENTITY_MAGIC, FORMAT_IDENTITY_VERSION, Identity

cdef const char* FILE_NAME = "identity"
cdef const char* WORKING_NAME = "identity.tmp"

cdef enum:
    CRC_BEGIN = 8
    IDENTITY_BYTES_MAX = 16 * 1024      # the longest membership is 10,600 bytes


# Then the cluster name, the node name and, when accepted or founded here, the founding membership. A node that became
# FOUNDED by joining never knew it.
cdef packed struct IdentityHeader:
    uint32_t magic
    uint32_t crc                # crc32c over all behind it
    uint8_t version
    uint8_t genesis_state
    uint8_t cluster_name_length
    uint8_t name_length
    uint32_t membership_length
    uint64_t id
    uint64_t boot
    uint64_t cluster_low
    uint64_t cluster_high
    uint64_t former


cdef Identity* identity_create(const DiskPort* disk, const uint8_t* name, uint32_t name_length,
                               const uint8_t* cluster_name, uint32_t cluster_name_length) noexcept nogil:
    cdef Identity* identity = <Identity*>calloc(1, sizeof(Identity))
    if identity == NULL:
        return NULL
    identity.disk = disk
    # A name that does not fit stays empty, which identity_open refuses.
    if name_length <= NAME_BYTES_MAX:
        identity.name_length = <uint8_t>name_length
        memcpy(identity.name, name, name_length)
    if cluster_name_length <= NAME_BYTES_MAX:
        identity.cluster_name_length = <uint8_t>cluster_name_length
        memcpy(identity.cluster_name, cluster_name, cluster_name_length)
    return identity


cdef void identity_destroy(Identity* identity) noexcept nogil:
    if identity != NULL:
        identity.scratch.release()
        free(identity)


# --- write ------------------------------------------------------------------------------------------------------------
cdef bint _has_membership(const GenesisRecord* genesis) noexcept nogil:
    return genesis.state == ACCEPTED or (genesis.state == FOUNDED and genesis.membership.count != 0)


cdef status_t _encode(Identity* identity) noexcept nogil:
    cdef IdentityHeader header
    cdef Vec[uint8_t]* out = &identity.scratch
    cdef status_t status = OK
    memset(&header, 0, sizeof(IdentityHeader))
    header.magic = FORMAT_IDENTITY_MAGIC
    header.version = FORMAT_IDENTITY_VERSION
    header.genesis_state = identity.genesis.state
    header.cluster_name_length = identity.cluster_name_length
    header.name_length = identity.name_length
    header.id = identity.id
    header.boot = identity.boot
    header.cluster_low = identity.genesis.cluster_low
    header.cluster_high = identity.genesis.cluster_high
    header.former = identity.former
    out.clear()
    if not (out.append(<const uint8_t*>&header, sizeof(IdentityHeader))
            and out.append(identity.cluster_name, identity.cluster_name_length)
            and out.append(identity.name, identity.name_length)):
        return NO_MEMORY
    if _has_membership(&identity.genesis):
        status = membership_encode(&identity.genesis.membership, out)
    if status != OK:
        return status
    header.membership_length = <uint32_t>(out.size - sizeof(IdentityHeader) - header.cluster_name_length
                                          - header.name_length)
    memcpy(out.data, &header, sizeof(IdentityHeader))
    header.crc = crc32c(0, out.data + CRC_BEGIN, out.size - CRC_BEGIN)
    memcpy(out.data, &header, sizeof(IdentityHeader))
    return OK


# Over what an earlier attempt left, whose room is used again.
cdef status_t _write_working_file(Identity* identity) noexcept nogil:
    cdef const DiskPort* disk = identity.disk
    cdef Slice part
    cdef file_t file
    cdef status_t status = disk.open(disk.self, WORKING_NAME, True, &file)
    if status != OK:
        return status
    part.chunk = NULL
    part.data = identity.scratch.data
    part.length = <uint32_t>identity.scratch.size
    status = disk.write(disk.self, file, 0, &part, 1)
    if status == OK:
        status = disk.truncate(disk.self, file, part.length)
    if status == OK:
        status = disk.sync(disk.self, file)
    disk.close(disk.self, file)
    return status


# A new file takes the place of the old one: at every moment one of both is whole under the name. The next one is made
# right away, while there is room, and durably, so that a power cut does not take it: a node must be able to start, and
# to let keys be deleted, when its disk is full.
cdef status_t _replace(Identity* identity) noexcept nogil:
    cdef const DiskPort* disk = identity.disk
    cdef status_t status = _encode(identity)
    if status == OK:
        status = _write_working_file(identity)
    if status == OK:
        status = disk.rename(disk.self, WORKING_NAME, FILE_NAME)
    if status == OK:
        status = disk.sync_directory(disk.self)
    if status != OK:
        return status
    status = _write_working_file(identity)
    if status == OK:
        status = disk.sync_directory(disk.self)
    return OK if status == NO_SPACE else status


# --- read -------------------------------------------------------------------------------------------------------------
cdef status_t _check_names(const Identity* identity, const IdentityHeader* header, const uint8_t* names) noexcept nogil:
    if (header.cluster_name_length != identity.cluster_name_length
            or memcmp(names, identity.cluster_name, header.cluster_name_length) != 0):
        return FOREIGN_CLUSTER
    if (header.name_length != identity.name_length
            or memcmp(names + header.cluster_name_length, identity.name, header.name_length) != 0):
        return FOREIGN_NODE
    return OK


cdef status_t _decode(Identity* identity, const uint8_t* bytes, size_t length) noexcept nogil:
    cdef IdentityHeader header
    cdef const uint8_t* names = bytes + sizeof(IdentityHeader)
    cdef uint32_t names_length
    cdef status_t status
    if length < sizeof(IdentityHeader):
        return CORRUPT
    memcpy(&header, bytes, sizeof(IdentityHeader))
    if header.magic != FORMAT_IDENTITY_MAGIC or crc32c(0, bytes + CRC_BEGIN, length - CRC_BEGIN) != header.crc:
        return CORRUPT
    if header.version > FORMAT_IDENTITY_VERSION:
        return NEWER_FORMAT
    names_length = <uint32_t>header.cluster_name_length + header.name_length
    if length != sizeof(IdentityHeader) + names_length + <uint64_t>header.membership_length:
        return CORRUPT
    status = _check_names(identity, &header, names)
    if status != OK:
        return status
    identity.id = header.id
    identity.former = header.former
    identity.boot = header.boot
    identity.genesis.state = header.genesis_state
    identity.genesis.cluster_low = header.cluster_low
    identity.genesis.cluster_high = header.cluster_high
    if header.membership_length != 0 or header.genesis_state == ACCEPTED:
        status = membership_decode(names + names_length, header.membership_length, &identity.genesis.membership)
    return CORRUPT if status != OK or header.id == 0 else OK


cdef status_t _read(Identity* identity) noexcept nogil:
    cdef const DiskPort* disk = identity.disk
    cdef uint64_t size_bytes = 0
    cdef size_t got = 0
    cdef file_t file
    cdef status_t status = disk.open(disk.self, FILE_NAME, False, &file)
    if status != OK:
        return status
    status = disk.size(disk.self, file, &size_bytes)
    if status == OK and size_bytes > IDENTITY_BYTES_MAX:
        status = CORRUPT
    if status == OK and not identity.scratch.resize(size_bytes):
        status = NO_MEMORY
    if status == OK:
        status = disk.read(disk.self, file, 0, identity.scratch.data, size_bytes, &got)
    disk.close(disk.self, file)
    return status if status != OK else _decode(identity, identity.scratch.data, got)


# --- verbs ------------------------------------------------------------------------------------------------------------
cdef uint64_t _draw(const RandomPort* random) noexcept nogil:
    cdef uint64_t drawn = 0
    while drawn == 0:           # 0 means no member
        drawn = random.next(random.self)
    return drawn


cdef status_t identity_open(Identity* identity, const RandomPort* random) noexcept nogil:
    cdef status_t status
    if identity.name_length == 0 or identity.cluster_name_length == 0:
        return BAD_FIELD
    status = _read(identity)
    if status == NOT_FOUND:
        identity.is_new = True
        identity.id = _draw(random)
        identity.genesis.state = BLANK
        return OK
    return status


cdef status_t identity_count_boot(Identity* identity) noexcept nogil:
    identity.boot += 1
    return _replace(identity)


cdef status_t identity_set_genesis(Identity* identity, const GenesisRecord* genesis) noexcept nogil:
    identity.genesis = genesis[0]
    return _replace(identity)


cdef status_t identity_renew(Identity* identity, const RandomPort* random, bint is_void) noexcept nogil:
    if not is_void:
        identity.former = identity.id
    identity.id = _draw(random)
    identity.boot = 1
    # It knows its cluster, but no vote of its former self counts any more.
    identity.genesis.state = JOINING
    memset(&identity.genesis.membership, 0, sizeof(identity.genesis.membership))
    return _replace(identity)
