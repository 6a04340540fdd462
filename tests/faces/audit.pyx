"""Records of an audit trail, pushed by hand as a native thread of a node does."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from raftmeta.security.audit_handle cimport AuditHandle
from raftmeta.security.audit_queue cimport (AUDIT_BY_CLIENTS, AUDIT_BY_LOOP, AUDIT_PORT_PEERS, AUDIT_RECORD_BYTES_MAX,
                                            TUNE_KEPT_FOR_ADMINISTRATION, TUNE_KEPT_FOR_DENIED, TUNE_QUEUE_BYTES,
                                            TUNE_REFUSALS_BURST, TUNE_REFUSALS_PER_S, AuditAddress, AuditClass,
                                            AuditItem, AuditProducer, AuditRecord, audit_push, audit_push_refusal)

QUEUE_BYTES = TUNE_QUEUE_BYTES
KEPT_FOR_DENIED = TUNE_KEPT_FOR_DENIED
KEPT_FOR_ADMINISTRATION = TUNE_KEPT_FOR_ADMINISTRATION
REFUSALS_BURST = TUNE_REFUSALS_BURST
REFUSALS_PER_S = TUNE_REFUSALS_PER_S
RECORD_BYTES = sizeof(AuditRecord)
ITEM_BYTES = sizeof(AuditItem)


def push(AuditHandle handle not None, uint8_t operation, int kind, *, bytes principal=b"", bytes key=b"",
         bytes end=None, int status=0, uint64_t revision=0, uint64_t index=0, uint64_t wall_ms=0, uint8_t family=0,
         bytes address=b"", uint16_t port=0, bint by_loop=False):
    cdef uint8_t* record = <uint8_t*>calloc(1, AUDIT_RECORD_BYTES_MAX)
    cdef AuditRecord* head = <AuditRecord*>record
    cdef AuditItem item
    cdef size_t at = sizeof(AuditRecord)
    cdef bytes second = b"" if end is None else end
    assert record != NULL
    try:
        head.operation = operation
        head.status = status
        head.revision = revision
        head.index = index
        head.wall_ms = wall_ms
        head.principal_length = <uint8_t>len(principal)
        head.address.family = family
        head.address.port = port
        memcpy(head.address.bytes, <const uint8_t*>address, len(address))
        head.item_count = head.item_total = 1
        memcpy(record + at, <const uint8_t*>principal, len(principal))
        at += len(principal)
        item = AuditItem(number=0, first_length=<uint16_t>len(key), second_length=<uint16_t>len(second), operation=0,
                         label=0, rights=0, has_second=end is not None)
        memcpy(record + at, &item, sizeof(item))
        at += sizeof(item)
        memcpy(record + at, <const uint8_t*>key, len(key))
        at += len(key)
        memcpy(record + at, <const uint8_t*>second, len(second))
        at += len(second)
        head.size = <uint32_t>((at + 7) & ~<size_t>7)
        return bool(audit_push(handle.trail, <AuditProducer>(AUDIT_BY_LOOP if by_loop else AUDIT_BY_CLIENTS), head,
                               <AuditClass>kind, False))
    finally:
        free(record)


def push_refusal(AuditHandle handle not None, int status, uint64_t now_ns):
    cdef AuditAddress address
    memset(&address, 0, sizeof(address))
    audit_push_refusal(handle.trail, AUDIT_BY_LOOP, AUDIT_PORT_PEERS, &address, status, now_ns)
