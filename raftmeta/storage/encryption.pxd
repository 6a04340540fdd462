# Records of the log in encrypted segments: what stands in the file in the place of a record, and back.
#
# An encrypted record is a record again. Its header, and so its length, its index, its chain hash and its checksum, is
# readable by anybody: recovery, damage and repair work without a key. Only its payload is another: the cipher text, the
# nonce and the tag. docs/formats.md "Encryption".
#
# Decides: when an opened log has a record that was not written there. Never: writes or reads a file.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.chunks cimport Slice
from raftmeta.raft.types cimport Record
from raftmeta.security.cipher cimport Cipher
from raftmeta.status cimport status_t
from raftmeta.storage.wal_state cimport Segment, Wal

cdef enum:
    FORMAT_RECORD_IS_ENCRYPTED = 0x8000     # of the flags of a record in a file; no record in memory has it

# Bytes in the file of a record with `length` payload bytes.
cdef uint64_t encrypted_record_bytes(uint32_t length) noexcept nogil
# Turn an encrypted record that stands at `offset` of segment `number` back into the record, in place; it is shorter
# then. CORRUPT: it was not written there, with this key; it is worth nothing then. NO_MEMORY.
cdef status_t record_decrypt(Cipher* cipher, uint64_t number, uint64_t offset, Record* record) noexcept nogil

# A uuid for a segment that is going to be encrypted.
cdef status_t encryption_draw_uuid(Wal* wal, uint64_t* low, uint64_t* high) noexcept nogil
# The records of a batch into wal.encrypted, as they will stand from `offset` of the segment on.
cdef status_t encryption_encrypt(Wal* wal, const Segment* segment, uint64_t offset, const Slice* slices,
                                 uint32_t slice_count) noexcept nogil
# The id of the key of a segment of this log, 0: it is plain.
cdef uint64_t encryption_key_of(const Wal* wal, uint64_t number) noexcept nogil
# *length bytes of sound records, read from `offset` of segment `number`, become records; *length: of them. CORRUPT: the
# first one cannot be decrypted; those behind such a one are left out.
cdef status_t encryption_decrypt(Wal* wal, uint64_t number, uint64_t offset, uint8_t* bytes,
                                 uint64_t* length) noexcept nogil
# After the recovery: fill wal.found_slices from the images, decrypted. A record that does not decrypt is damaged from
# now on: it is known by index and chain hash, and other members have it.
cdef status_t encryption_open(Wal* wal) noexcept nogil
