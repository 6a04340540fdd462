# Records of the log in encrypted segments: what stands in the file in the place of a record, and back.
#
# An encrypted record is a record again. Its header, and so its length, its index, its chain hash and its checksum, is
# readable by anybody: recovery, damage and repair work without a key. Some records in a row of one batch, a *run*, are
# encrypted as one message, since each message costs as much as a hundred bytes; nonce and tag stand behind the last
# payload. If one record of a run is damaged, the others cannot be decrypted. docs/formats.md "Encryption".
#
# Decides: where a run ends; when an opened log has a record that was not written there. Never: writes or reads a file.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.chunks cimport Slice
from raftmeta.raft.types cimport Record, index_t
from raftmeta.security.cipher cimport Cipher
from raftmeta.status cimport status_t
from raftmeta.storage.wal_state cimport RunBuffer, Segment, Wal

cdef enum:
    FORMAT_RECORD_IS_ENCRYPTED = 0x8000     # of the flags of a record in a file; no record in memory has it

# Bytes from the first record of its run to this one, and of the whole run, as the headers in the file say.
cdef uint32_t run_back(const Record* record) noexcept nogil
cdef uint32_t run_bytes(const Record* record) noexcept nogil
# Decrypt the run at `offset` of segment `number`, which begins at `bytes`, into run.bytes; not again if it is the one
# that was decrypted last. CORRUPT: it is not whole, or was not written there with this key; NO_MEMORY.
cdef status_t run_decrypt(RunBuffer* run, Cipher* cipher, uint64_t number, uint64_t offset, const uint8_t* bytes,
                          uint64_t length) noexcept nogil
cdef void run_release(RunBuffer* run) noexcept nogil

# While a batch is gathered: how many bytes the records in the file are longer than `length`, which is that of record.
# *filled: bytes of the run so far, 0 at the beginning of a batch. is_last: of the batch.
cdef uint64_t encryption_added_bytes(const Record* record, uint64_t length, bint is_last,
                                     uint64_t* filled) noexcept nogil
# A uuid for a segment that is going to be encrypted.
cdef status_t encryption_draw_uuid(Wal* wal, uint64_t* low, uint64_t* high) noexcept nogil
# The records of a batch, up to index `last`, into wal.encrypted, as they will stand from `offset` of the segment on.
cdef status_t encryption_encrypt(Wal* wal, const Segment* segment, uint64_t offset, const Slice* slices,
                                 uint32_t slice_count, index_t last) noexcept nogil
# The id of the key of a segment of this log, 0: it is plain.
cdef uint64_t encryption_key_of(const Wal* wal, uint64_t number) noexcept nogil
# Do batches of segment `number` reach as far as the run of the record at `offset` says?
cdef bint encryption_holds(const Wal* wal, uint64_t number, uint64_t offset, const Record* record) noexcept nogil
# As run_decrypt, of a segment of this log; the run is wal.run.bytes then.
cdef status_t encryption_decrypt(Wal* wal, uint64_t number, uint64_t offset, const uint8_t* bytes,
                                 uint64_t length) noexcept nogil
# After the recovery: fill wal.found_slices from the images, decrypted. A record that does not decrypt is damaged from
# now on: it is known by index and chain hash, and other members have it.
cdef status_t encryption_open(Wal* wal) noexcept nogil
