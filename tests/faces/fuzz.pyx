"""The decoders of foreign bytes as targets of a fuzzer: each takes any bytes and says whether a belief proved wrong.

A target decodes, and where the format has one spelling for each value it encodes again and compares. It runs a second
time on a copy whose checksums were made right, because a fuzzer finds no checksum by chance. The copy ends where its
memory ends, so that AddressSanitizer sees a read behind it. Targets keep nothing between two calls.

The targets whose name begins with tls_ need certificates first (tests/faces/fuzz_tls).

    run(name, data)     one call, from a test; 0: all is well
    address(name)       the native function int (const uint8_t*, size_t), for tests/fuzz/driver.cpp
"""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from raftmeta.machine.machine cimport (APPLY_FATAL, APPLY_MORE, ApplyOutcome, ApplyResult, Machine, MachineLimits,
                                       machine_apply, machine_create, machine_destroy, machine_load_chunk,
                                       machine_load_done)
from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport Hash128, crc32c, hash128
from raftmeta.ports cimport DiskPort, file_t
from raftmeta.raft.genesis cimport GenesisMessage
from raftmeta.raft.membership cimport membership_decode, membership_encode
from raftmeta.raft.record cimport RECORD_CRC_FROM, RECORD_HEAD_BYTES, record_bytes
from raftmeta.raft.types cimport ENTRY_COMMAND, FORMAT_RECORD_ALIGNMENT, Membership, Message, Record
from raftmeta.status cimport INVARIANT_BROKEN, NOT_FOUND, OK, status_t
from raftmeta.storage.sealed cimport (SealedChunk, SealedFooter, SealedHeader, SealedReader, sealed_close, sealed_next,
                                      sealed_open)
from tests.faces.fuzz_etcd cimport fuzz_etcd
from tests.faces.fuzz_kafka cimport fuzz_kafka
from tests.faces.fuzz_tls cimport fuzz_carried, fuzz_strange
from tests.faces.fuzz_zookeeper cimport fuzz_zookeeper
from raftmeta.wire.client_messages cimport (CLIENT_BODY_BYTES_MAX, CLIENT_HEADER_BYTES, CLIENT_MESSAGE_BYTES_MAX,
                                            REQUEST_COMMAND, ClientMessage, ClientRequest, client_frame_decode,
                                            client_message_decode, client_message_encode, client_request_decode,
                                            client_request_encode)
from raftmeta.wire.commands cimport Command, command_decode, command_encode, command_init, command_release
from raftmeta.wire.feed_messages cimport (FEEDERS_MAX, Feeder, Observed, feeders_decode, feeders_encode,
                                          observers_decode, observers_encode)
from raftmeta.wire.frame cimport (FRAME_BODY_BYTES_MAX, FRAME_FEEDERS, FRAME_GENESIS, FRAME_HEADER_BYTES, FRAME_HELLO,
                                  FRAME_MESSAGE, FRAME_OBSERVERS, FRAME_REFUSED, FRAME_SNAPSHOT, FRAME_STATE,
                                  FrameHeader, FrameIdentity, frame_check_identity, frame_decode)
from raftmeta.wire.genesis_messages cimport genesis_message_decode, genesis_message_encode
from raftmeta.wire.hello cimport (Hello, hello_decode, hello_encode, hello_negotiate, refused_decode, refused_encode)
from raftmeta.wire.messages cimport FORMAT_MESSAGE_VERSION, message_decode, message_encode
from raftmeta.wire.snapshot_messages cimport SnapshotMessage, snapshot_message_decode, snapshot_message_encode
from raftmeta.wire.state_messages cimport StateMark, state_mark_decode, state_mark_encode

ctypedef int (*target_t)(const uint8_t* data, size_t size) noexcept nogil

cdef enum:
    CRC_AT = 4                  # of frames, clients' frames and sealed files alike
    CRC_FROM = 8
    COMMANDS_MAX = 64           # of one call of `machine`
    PREFIX_BYTES = 2            # a little-endian length before a body or a command

# What a target returns.
cdef enum Belief:
    ALL_IS_WELL = 0
    WRONG_ENCODING = 1          # decoded, and not encoded again
    WRONG_BYTES = 2             # encoded again into other bytes
    WRONG_TOTAL = 3             # a frame longer than its stream
    WRONG_STATE = 4             # an invariant of the machine broke; fuzz_tls goes on from 5, fuzz_zookeeper from 8,
                                # fuzz_kafka from 11


# Release what was encoded, and judge it.
cdef int _compared(status_t status, Vec[uint8_t]* out, size_t skipped, const uint8_t* data, size_t size) noexcept nogil:
    cdef int wrong = ALL_IS_WELL
    if status != OK or out.size < skipped:
        wrong = WRONG_ENCODING
    elif out.size - skipped != size or (size and memcmp(out.data + skipped, data, size) != 0):
        wrong = WRONG_BYTES
    out.release()
    return wrong


cdef uint8_t* _copied(const uint8_t* data, size_t size) noexcept nogil:
    cdef uint8_t* copy = <uint8_t*>malloc(size if size else 1)
    if copy != NULL and size:
        memcpy(copy, data, size)
    return copy


# The length of the first part of `data`, which takes at most what is there.
cdef size_t _first_part(const uint8_t* data, size_t size) noexcept nogil:
    cdef size_t length
    if size < PREFIX_BYTES:
        return 0
    length = data[0] | <size_t>data[1] << 8
    return length if length <= size - PREFIX_BYTES else size - PREFIX_BYTES


# --- bodies of peers' frames ------------------------------------------------------------------------------------------
cdef int _hello(const uint8_t* data, size_t size) noexcept nogil:
    cdef Hello found
    cdef Vec[uint8_t] out
    cdef uint8_t version = 0
    if hello_decode(data, <uint32_t>size, &found) != OK:
        return ALL_IS_WELL
    hello_negotiate(&found, &found, &version)
    memset(<void*>&out, 0, sizeof(out))
    return _compared(hello_encode(&found, &out), &out, 0, data, size)


cdef int _refused(const uint8_t* data, size_t size) noexcept nogil:
    cdef status_t why = OK
    cdef const uint8_t* text = NULL
    cdef uint32_t length = 0
    cdef Vec[uint8_t] out
    if refused_decode(data, <uint32_t>size, &why, &text, &length) != OK:
        return ALL_IS_WELL
    memset(<void*>&out, 0, sizeof(out))
    return _compared(refused_encode(why, text, length, &out), &out, 0, data, size)


cdef int _genesis(const uint8_t* data, size_t size) noexcept nogil:
    cdef GenesisMessage found
    cdef Vec[uint8_t] out
    if genesis_message_decode(data, <uint32_t>size, &found) != OK:
        return ALL_IS_WELL
    memset(<void*>&out, 0, sizeof(out))
    return _compared(genesis_message_encode(&found, &out), &out, 0, data, size)


cdef int _membership(const uint8_t* data, size_t size) noexcept nogil:
    cdef Membership found
    cdef Vec[uint8_t] out
    if membership_decode(data, <uint32_t>size, &found) != OK:
        return ALL_IS_WELL
    memset(<void*>&out, 0, sizeof(out))
    return _compared(membership_encode(&found, &out), &out, 0, data, size)


cdef int _snapshot(const uint8_t* data, size_t size, uint32_t piece_bytes) noexcept nogil:
    cdef SnapshotMessage found
    cdef Vec[uint8_t] out
    if snapshot_message_decode(data, <uint32_t>size, piece_bytes, &found) != OK:
        return ALL_IS_WELL
    memset(<void*>&out, 0, sizeof(out))
    return _compared(snapshot_message_encode(&found, &out), &out, 0, data, size)


cdef int _state(const uint8_t* data, size_t size) noexcept nogil:
    cdef StateMark found
    cdef Vec[uint8_t] out
    if state_mark_decode(data, <uint32_t>size, &found) != OK:
        return ALL_IS_WELL
    memset(<void*>&out, 0, sizeof(out))
    return _compared(state_mark_encode(&found, &out), &out, 0, data, size)


cdef int _feeders(const uint8_t* data, size_t size) noexcept nogil:
    cdef Feeder[FEEDERS_MAX] found
    cdef uint32_t count
    cdef Vec[uint8_t] out
    if feeders_decode(data, <uint32_t>size, found, &count) != OK:
        return ALL_IS_WELL
    memset(<void*>&out, 0, sizeof(out))
    return _compared(feeders_encode(found, count, &out), &out, 0, data, size)


cdef int _observers(const uint8_t* data, size_t size) noexcept nogil:
    cdef Vec[Observed] found
    cdef Vec[uint8_t] out
    cdef int wrong = ALL_IS_WELL
    memset(<void*>&found, 0, sizeof(found))
    memset(<void*>&out, 0, sizeof(out))
    if observers_decode(data, <uint32_t>size, &found) == OK:
        wrong = _compared(observers_encode(found.data, <uint32_t>found.size, &out), &out, 0, data, size)
    found.release()
    return wrong


# A message has two versions; the bytes are those of one of them.
cdef int _message_in(const Message* message, uint8_t version, const uint8_t* body, size_t length) noexcept nogil:
    cdef Vec[uint8_t] out
    memset(<void*>&out, 0, sizeof(out))
    return _compared(message_encode(message, version, &out), &out, 0, body, length)


cdef int _message(const uint8_t* body, size_t length, const uint8_t* records, size_t records_bytes) noexcept nogil:
    cdef Message found
    cdef Slice behind
    memset(<void*>&behind, 0, sizeof(behind))
    behind.data = <uint8_t*>records
    behind.length = <uint32_t>records_bytes
    if message_decode(body, <uint32_t>length, &behind, &found) != OK:
        return ALL_IS_WELL
    if _message_in(&found, FORMAT_MESSAGE_VERSION, body, length) == ALL_IS_WELL:
        return ALL_IS_WELL
    return _message_in(&found, 1, body, length)


# Make the checksums of the records right, as far as their lengths lead from one to the next.
cdef void _mend_records(uint8_t* records, size_t size) noexcept nogil:
    cdef uint64_t whole
    cdef Record* record
    while size >= RECORD_HEAD_BYTES:
        record = <Record*>records
        whole = record_bytes(record.length)
        if whole > size:
            return
        record.crc = crc32c(0, records + RECORD_CRC_FROM, RECORD_HEAD_BYTES - RECORD_CRC_FROM + <size_t>record.length)
        records += whole
        size -= whole


cdef int peer_hello(const uint8_t* data, size_t size) noexcept nogil:
    return _hello(data, size)


cdef int peer_refused(const uint8_t* data, size_t size) noexcept nogil:
    return _refused(data, size)


cdef int peer_genesis(const uint8_t* data, size_t size) noexcept nogil:
    return _genesis(data, size)


cdef int peer_membership(const uint8_t* data, size_t size) noexcept nogil:
    return _membership(data, size)


cdef int peer_state(const uint8_t* data, size_t size) noexcept nogil:
    return _state(data, size)


# The length of the piece behind the body stands in the first two bytes.
cdef int peer_snapshot(const uint8_t* data, size_t size) noexcept nogil:
    if size < PREFIX_BYTES:
        return _snapshot(data, size, 0)
    return _snapshot(data + PREFIX_BYTES, size - PREFIX_BYTES, data[0] | <uint32_t>data[1] << 8)


# The length of the body stands in the first two bytes; the rest is records.
cdef int peer_message(const uint8_t* data, size_t size) noexcept nogil:
    cdef size_t length = _first_part(data, size)
    cdef size_t records_at = PREFIX_BYTES + length
    cdef uint8_t* copy
    cdef int wrong
    if size < PREFIX_BYTES:
        return _message(data, size, NULL, 0)
    wrong = _message(data + PREFIX_BYTES, length, data + records_at, size - records_at)
    if wrong != ALL_IS_WELL or size - records_at < RECORD_HEAD_BYTES:
        return wrong
    copy = _copied(data, size)
    if copy == NULL:
        return ALL_IS_WELL
    _mend_records(copy + records_at, size - records_at)
    wrong = _message(copy + PREFIX_BYTES, length, copy + records_at, size - records_at)
    free(copy)
    return wrong


# --- a connection of a peer -------------------------------------------------------------------------------------------
cdef int _frame_body(const FrameHeader* header, const uint8_t* body) noexcept nogil:
    cdef uint32_t length = header.body_length
    if header.type == FRAME_HELLO:
        return _hello(body, length)
    if header.type == FRAME_MESSAGE:
        return _message(body, length, body + length, header.records_length)
    if header.type == FRAME_GENESIS:
        return _genesis(body, length)
    if header.type == FRAME_REFUSED:
        return _refused(body, length)
    if header.type == FRAME_SNAPSHOT:
        return _snapshot(body, length, header.records_length)
    if header.type == FRAME_FEEDERS:
        return _feeders(body, length)
    if header.type == FRAME_OBSERVERS:
        return _observers(body, length)
    return _state(body, length) if header.type == FRAME_STATE else ALL_IS_WELL


cdef int _frames(const uint8_t* data, size_t size) noexcept nogil:
    cdef FrameIdentity identity
    cdef FrameHeader header
    cdef size_t total = 0
    cdef int wrong
    while frame_decode(data, size, FRAME_BODY_BYTES_MAX, &total) == OK:
        if total < FRAME_HEADER_BYTES or total > size:
            return WRONG_TOTAL
        memcpy(&header, data, sizeof(header))
        identity.cluster.low, identity.cluster.high = header.cluster_low, header.cluster_high
        identity.peer, identity.self, identity.peer_boot = header.source, header.target, header.source_boot
        frame_check_identity(&header, &identity)
        wrong = _frame_body(&header, data + FRAME_HEADER_BYTES)
        if wrong != ALL_IS_WELL:
            return wrong
        data += total
        size -= total
    return ALL_IS_WELL


cdef void _mend_frames(uint8_t* data, size_t size) noexcept nogil:
    cdef FrameHeader header
    cdef uint64_t total
    while size >= FRAME_HEADER_BYTES:
        memcpy(&header, data, sizeof(header))
        header.header_crc = crc32c(0, data + CRC_FROM, FRAME_HEADER_BYTES - CRC_FROM - 4)
        memcpy(data, &header, sizeof(header))
        total = <uint64_t>FRAME_HEADER_BYTES + header.body_length + header.records_length
        if total > size:
            return
        if header.type == FRAME_MESSAGE:
            _mend_records(data + FRAME_HEADER_BYTES + header.body_length, header.records_length)
        header.crc = crc32c(0, data + CRC_FROM, total - CRC_FROM)
        memcpy(data, &header, sizeof(header))
        data += total
        size -= total


cdef int peer_stream(const uint8_t* data, size_t size) noexcept nogil:
    cdef int wrong = _frames(data, size)
    cdef uint8_t* copy
    if wrong != ALL_IS_WELL or size < FRAME_HEADER_BYTES:
        return wrong
    copy = _copied(data, size)
    if copy == NULL:
        return ALL_IS_WELL
    _mend_frames(copy, size)
    wrong = _frames(copy, size)
    free(copy)
    return wrong


# --- commands ---------------------------------------------------------------------------------------------------------
cdef int command(const uint8_t* data, size_t size) noexcept nogil:
    cdef Command found
    cdef Vec[uint8_t] out
    cdef int wrong = ALL_IS_WELL
    command_init(&found)
    if command_decode(data, <uint32_t>size, &found) == OK:
        memset(<void*>&out, 0, sizeof(out))
        wrong = _compared(command_encode(&found, &out), &out, 0, data, size)
    command_release(&found)
    return wrong


# One entry with this payload behind those before it; more clock with each. False: the machine takes no more entries,
# which is right for an entry of a kind that is not known, and wrong for a broken invariant.
cdef bint _applied(Machine* machine, uint64_t index, const uint8_t* payload, uint32_t length,
                   int* wrong) noexcept nogil:
    cdef size_t whole = (sizeof(Record) + <size_t>length + FORMAT_RECORD_ALIGNMENT - 1) & ~<size_t>(
        FORMAT_RECORD_ALIGNMENT - 1)
    cdef Record* record = <Record*>malloc(whole)
    cdef ApplyResult result
    cdef ApplyOutcome outcome = APPLY_MORE
    if record == NULL:
        return False
    memset(record, 0, whole)
    record.length = length
    record.index = index
    record.term = 1
    record.wall_ms = record.lease_ms = index * 1000
    record.type = ENTRY_COMMAND
    memcpy(<uint8_t*>record + sizeof(Record), payload, length)
    while outcome == APPLY_MORE:
        outcome = machine_apply(machine, record, &result)
    free(record)
    if outcome == APPLY_FATAL and result.status == INVARIANT_BROKEN:
        wrong[0] = WRONG_STATE
    return outcome != APPLY_FATAL


cdef Machine* _machine() noexcept nogil:
    cdef MachineLimits limits
    memset(&limits, 0, sizeof(limits))
    limits.value_bytes_max = 1 << 20
    limits.session_window = 16
    limits.changes_per_slice = 4
    return machine_create(&limits)


# Commands, each behind its length in two bytes, applied one after the other by a machine that was empty.
cdef int machine(const uint8_t* data, size_t size) noexcept nogil:
    cdef Machine* machine = _machine()
    cdef size_t length
    cdef uint64_t index = 0
    cdef bint goes_on = True
    cdef int wrong = ALL_IS_WELL
    if machine == NULL:
        return ALL_IS_WELL
    while size > PREFIX_BYTES and index < COMMANDS_MAX and goes_on:
        length = _first_part(data, size)
        index += 1
        goes_on = _applied(machine, index, data + PREFIX_BYTES, <uint32_t>length, &wrong)
        data += PREFIX_BYTES + length
        size -= PREFIX_BYTES + length
    machine_destroy(machine)
    return wrong


# --- a connection of a client -----------------------------------------------------------------------------------------
cdef int _request(const uint8_t* body, size_t length) noexcept nogil:
    cdef ClientRequest found
    cdef Vec[uint8_t] out
    if client_request_decode(body, <uint32_t>length, &found) != OK:
        return ALL_IS_WELL
    if found.kind == REQUEST_COMMAND:
        return command(found.key.data, found.key.length)
    memset(<void*>&out, 0, sizeof(out))
    return _compared(client_request_encode(&found, &out), &out, CLIENT_HEADER_BYTES, body, length)


cdef int _answer(const uint8_t* body, size_t length) noexcept nogil:
    cdef ClientMessage found
    cdef Vec[uint8_t] out
    if client_message_decode(body, <uint32_t>length, &found) != OK:
        return ALL_IS_WELL
    memset(<void*>&out, 0, sizeof(out))
    return _compared(client_message_encode(&found, &out), &out, CLIENT_HEADER_BYTES, body, length)


cdef int _client_frames(const uint8_t* data, size_t size, bint is_server) noexcept nogil:
    cdef uint32_t most = CLIENT_BODY_BYTES_MAX if is_server else CLIENT_MESSAGE_BYTES_MAX
    cdef size_t total = 0
    cdef int wrong = ALL_IS_WELL
    while wrong == ALL_IS_WELL and client_frame_decode(data, size, most, &total) == OK:
        if total < CLIENT_HEADER_BYTES or total > size:
            return WRONG_TOTAL
        if is_server:
            wrong = _request(data + CLIENT_HEADER_BYTES, total - CLIENT_HEADER_BYTES)
        else:
            wrong = _answer(data + CLIENT_HEADER_BYTES, total - CLIENT_HEADER_BYTES)
        data += total
        size -= total
    return wrong


# docs/formats.md "Client protocol": the length of the body, then the checksum over both.
cdef void _mend_client_frames(uint8_t* data, size_t size) noexcept nogil:
    cdef uint32_t length
    cdef uint32_t crc
    while size >= CLIENT_HEADER_BYTES:
        memcpy(&length, data, 4)
        if length > size - CLIENT_HEADER_BYTES:
            return
        crc = crc32c(crc32c(0, data, 4), data + CLIENT_HEADER_BYTES, length)
        memcpy(data + CRC_AT, &crc, 4)
        data += CLIENT_HEADER_BYTES + length
        size -= CLIENT_HEADER_BYTES + length


cdef int _client(const uint8_t* data, size_t size, bint is_server) noexcept nogil:
    cdef int wrong = _client_frames(data, size, is_server)
    cdef uint8_t* copy
    if wrong != ALL_IS_WELL or size < CLIENT_HEADER_BYTES:
        return wrong
    copy = _copied(data, size)
    if copy == NULL:
        return ALL_IS_WELL
    _mend_client_frames(copy, size)
    wrong = _client_frames(copy, size, is_server)
    free(copy)
    return wrong


cdef int client_stream(const uint8_t* data, size_t size) noexcept nogil:
    return _client(data, size, True)


cdef int node_stream(const uint8_t* data, size_t size) noexcept nogil:
    return _client(data, size, False)


cdef int client_request(const uint8_t* data, size_t size) noexcept nogil:
    return _request(data, size)


cdef int client_message(const uint8_t* data, size_t size) noexcept nogil:
    return _answer(data, size)


# --- TLS --------------------------------------------------------------------------------------------------------------
cdef int tls_handshake(const uint8_t* data, size_t size) noexcept nogil:
    return fuzz_strange(data, size)


# The bytes of a peer, or of a client, behind a handshake: its parser gets them as they arrived.
cdef int _behind_tls(const uint8_t* data, size_t size, bint is_peer) noexcept nogil:
    cdef Vec[uint8_t] arrived
    cdef int wrong
    memset(<void*>&arrived, 0, sizeof(arrived))
    wrong = fuzz_carried(data, size, &arrived)
    if wrong == ALL_IS_WELL and arrived.size:
        wrong = peer_stream(arrived.data, arrived.size) if is_peer else client_stream(arrived.data, arrived.size)
    arrived.release()
    return wrong


cdef int tls_peer_stream(const uint8_t* data, size_t size) noexcept nogil:
    return _behind_tls(data, size, True)


cdef int tls_client_stream(const uint8_t* data, size_t size) noexcept nogil:
    return _behind_tls(data, size, False)


# --- sealed files -----------------------------------------------------------------------------------------------------
cdef struct Memory:
    const uint8_t* data
    size_t size


cdef status_t _open(void* self, const char* name, bint create, file_t* file) noexcept nogil:
    file[0] = 1
    return OK


cdef void _close(void* self, file_t file) noexcept nogil:
    pass


cdef status_t _size(void* self, file_t file, uint64_t* size_bytes) noexcept nogil:
    size_bytes[0] = (<Memory*>self).size
    return OK


cdef status_t _read(void* self, file_t file, uint64_t offset, uint8_t* into, size_t length,
                    size_t* got) noexcept nogil:
    cdef Memory* memory = <Memory*>self
    got[0] = 0
    if offset < memory.size:
        got[0] = memory.size - offset if length > memory.size - offset else length
    if got[0]:
        memcpy(into, memory.data + offset, got[0])
    return OK


# As engine/snapshots/files load_step: each chunk into a machine, then the whole is judged.
cdef int _load(SealedReader* reader) noexcept nogil:
    cdef Machine* machine = _machine()
    cdef const uint8_t* records = NULL
    cdef uint32_t length = 0
    cdef status_t status = OK
    if machine == NULL:
        return ALL_IS_WELL
    while status == OK:
        status = sealed_next(reader, &records, &length)
        if status == OK:
            status = machine_load_chunk(machine, records, length)
        elif status == NOT_FOUND:
            machine_load_done(machine)
    machine_destroy(machine)
    return WRONG_STATE if status == INVARIANT_BROKEN else ALL_IS_WELL


cdef int _sealed_file(const uint8_t* data, size_t size) noexcept nogil:
    cdef Memory memory
    cdef DiskPort disk
    cdef SealedReader reader
    cdef int wrong
    memory.data = data
    memory.size = size
    memset(&disk, 0, sizeof(disk))
    disk.self = &memory
    disk.open = _open
    disk.close = _close
    disk.size = _size
    disk.read = _read
    if sealed_open(&reader, &disk, "1") != OK:
        return ALL_IS_WELL
    _membership(reader.membership.data, reader.membership.size)
    wrong = _load(&reader)
    sealed_close(&reader)
    return wrong


# Header, the chunks that lie one behind the other, and the footer with the hash of their checksums.
cdef void _mend_sealed_file(uint8_t* data, size_t size) noexcept nogil:
    cdef SealedHeader* header = <SealedHeader*>data
    cdef SealedFooter* footer
    cdef SealedChunk* chunk
    cdef Vec[uint32_t] crcs
    cdef Hash128 whole
    cdef uint64_t at
    cdef uint64_t end
    memset(<void*>&crcs, 0, sizeof(crcs))
    if size < sizeof(SealedHeader) + sizeof(SealedFooter) or header.header_bytes > size - sizeof(SealedFooter):
        return
    if header.header_bytes < sizeof(SealedHeader):
        return
    header.crc = crc32c(0, data + CRC_FROM, header.header_bytes - CRC_FROM)
    crcs.push(header.crc)
    end = size - sizeof(SealedFooter)
    footer = <SealedFooter*>(data + end)
    at = header.header_bytes
    while crcs.size <= footer.chunks and end - at >= sizeof(SealedChunk):
        chunk = <SealedChunk*>(data + at)
        if chunk.length > end - at - sizeof(SealedChunk):
            break
        chunk.crc = crc32c(0, data + at + CRC_FROM, sizeof(SealedChunk) - CRC_FROM + chunk.length)
        if not crcs.push(chunk.crc):
            break
        at += sizeof(SealedChunk) + chunk.length
    whole = hash128(0, crcs.data, crcs.size * sizeof(uint32_t))
    footer.hash_low, footer.hash_high = whole.low, whole.high
    if footer.splits_offset <= end:
        footer.crc = crc32c(crc32c(0, data + footer.splits_offset, end - footer.splits_offset),
                            <const uint8_t*>footer + CRC_FROM, sizeof(SealedFooter) - CRC_FROM)
    crcs.release()


cdef int sealed(const uint8_t* data, size_t size) noexcept nogil:
    cdef int wrong = _sealed_file(data, size)
    cdef uint8_t* copy
    if wrong != ALL_IS_WELL:
        return wrong
    copy = _copied(data, size)
    if copy == NULL:
        return ALL_IS_WELL
    _mend_sealed_file(copy, size)
    wrong = _sealed_file(copy, size)
    free(copy)
    return wrong


cdef int zookeeper_stream(const uint8_t* data, size_t size) noexcept nogil:
    return fuzz_zookeeper(data, size)


cdef int kafka_stream(const uint8_t* data, size_t size) noexcept nogil:
    return fuzz_kafka(data, size)


cdef int etcd_calls(const uint8_t* data, size_t size) noexcept nogil:
    return fuzz_etcd(data, size)


# --- for Python -------------------------------------------------------------------------------------------------------
cdef struct Target:
    const char* name
    target_t function

cdef Target[21] _targets = [
    Target("peer_stream", peer_stream),
    Target("peer_hello", peer_hello),
    Target("peer_refused", peer_refused),
    Target("peer_message", peer_message),
    Target("peer_genesis", peer_genesis),
    Target("peer_membership", peer_membership),
    Target("peer_snapshot", peer_snapshot),
    Target("peer_state", peer_state),
    Target("client_stream", client_stream),
    Target("client_request", client_request),
    Target("node_stream", node_stream),
    Target("client_message", client_message),
    Target("command", command),
    Target("machine", machine),
    Target("sealed", sealed),
    Target("tls_handshake", tls_handshake),
    Target("tls_peer_stream", tls_peer_stream),
    Target("tls_client_stream", tls_client_stream),
    Target("zookeeper_stream", zookeeper_stream),
    Target("kafka_stream", kafka_stream),
    Target("etcd_calls", etcd_calls),
]

TARGETS = tuple([_targets[i].name.decode() for i in range(21)])


cdef target_t _target(str name) except NULL:
    if name not in TARGETS:
        raise ValueError(f"no target {name}")
    return _targets[TARGETS.index(name)].function


def run(str name not None, const uint8_t[::1] data not None):
    return _target(name)(&data[0] if data.shape[0] else NULL, data.shape[0])


def address(str name not None):
    return <uintptr_t>_target(name)
