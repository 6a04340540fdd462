"""Lines of an audit trail: bodies."""

from libc.stdint cimport uint8_t, uint16_t, uint64_t
from libc.string cimport memcpy, memmove, memset, strlen

from raftmeta.native.sha256 cimport hmac_sha256, sha256
from raftmeta.security.audit_queue cimport (
    AUDIT_ADD, AUDIT_ADDRESS_4, AUDIT_ADDRESS_6, AUDIT_ADDRESS_UNIX, AUDIT_AUTH_BIND, AUDIT_AUTH_CLAIM,
    AUDIT_AUTH_DISABLE, AUDIT_AUTH_ENABLE, AUDIT_AUTH_FOUND, AUDIT_AUTH_FOUND_AGAIN, AUDIT_AUTH_GRANT,
    AUDIT_AUTH_REVOKE, AUDIT_AUTH_ROLE_PUT, AUDIT_AUTH_ROLE_REMOVE, AUDIT_AUTH_SHOW, AUDIT_AUTH_TOKEN_PUT,
    AUDIT_AUTH_TOKEN_REMOVE, AUDIT_AUTH_UNBIND, AUDIT_AUTH_USER_PUT, AUDIT_AUTH_USER_REMOVE, AUDIT_AUTHENTICATE,
    AUDIT_COMMAND, AUDIT_COMPACT,
    AUDIT_COMPARE, AUDIT_CONNECTION, AUDIT_CREATE, AUDIT_DELETE, AUDIT_DELETE_RANGE, AUDIT_FENCE,
    AUDIT_FLIGHT_RECORDER, AUDIT_GET, AUDIT_GROUP_DELETE, AUDIT_GROUP_JOIN, AUDIT_GROUP_LEAVE, AUDIT_GROUP_SYNC,
    AUDIT_OFFSET_COMMIT, AUDIT_OFFSET_DELETE, AUDIT_RECORDS_APPEND, AUDIT_RECORDS_DELETE, AUDIT_TOPIC_CONFIGURE,
    AUDIT_TOPIC_CREATE, AUDIT_TOPIC_DELETE, AUDIT_TOPIC_EXTEND,
    AUDIT_LABEL_FENCE, AUDIT_LABEL_KEY, AUDIT_LABEL_LEASE, AUDIT_LABEL_MACHINE, AUDIT_LABEL_NAME,
    AUDIT_LABEL_REVISION, AUDIT_LABEL_ROLE, AUDIT_LEASE_GRANT, AUDIT_LEASE_KEEP_ALIVE, AUDIT_LEASE_LIST,
    AUDIT_LEASE_REVOKE, AUDIT_MACHINE_COMMAND, AUDIT_MACHINE_READ, AUDIT_MEMBER_ADD, AUDIT_MEMBER_CHANGE,
    AUDIT_LABEL_PROCESS, AUDIT_MEMBER_MEET, AUDIT_MEMBER_REMOVE, AUDIT_MEMBER_ROLE, AUDIT_MEMBERS, AUDIT_PORT_PEERS,
    AUDIT_PROCESS_END,
    AUDIT_PORT_ETCD, AUDIT_PORT_KAFKA, AUDIT_PORT_ZOOKEEPER, AUDIT_PRODUCERS,
    AUDIT_PROOF_CERTIFICATE, AUDIT_PROOF_PASSWORD, AUDIT_PROOF_TOKEN, AUDIT_PUT, AUDIT_RANGE, AUDIT_SESSION_CLOSE,
    AUDIT_SESSION_OPEN,
    AUDIT_SNAPSHOT, AUDIT_SNAPSHOT_PIECE, AUDIT_STATUS, AUDIT_TRANSACTION, AUDIT_TRANSFER, AUDIT_UNWATCH,
    AUDIT_UPDATE, AUDIT_WATCH, AUDIT_WATCH_ENDED, AuditAddress, AuditItem, AuditProducer, AuditRecord, audit_front,
    audit_pop)
from raftmeta.status cimport NO_MEMORY, OK

cdef enum:
    DIGITS_MAX = 20
    MS_PER_DAY = 86_400_000
    HEX_BYTES_MAX = 64

cdef const char* HEX = b"0123456789abcdef"
cdef const char* UPPER_HEX = b"0123456789ABCDEF"
ctypedef const char* Word

cdef Word[7] RIGHTS                     # machine/rights_state Right, by bit
RIGHTS[0] = b"read"
RIGHTS[1] = b"write"
RIGHTS[2] = b"watch"
RIGHTS[3] = b"lease"
RIGHTS[4] = b"member"
RIGHTS[5] = b"snapshot"
RIGHTS[6] = b"admin"

cdef Word[AUDIT_OPERATIONS] NAMES
NAMES[0] = b""
NAMES[<int>AUDIT_GET] = b"get"
NAMES[<int>AUDIT_RANGE] = b"range"
NAMES[<int>AUDIT_WATCH] = b"watch"
NAMES[<int>AUDIT_UNWATCH] = b"unwatch"
NAMES[<int>AUDIT_WATCH_ENDED] = b"watch_ended"
NAMES[<int>AUDIT_LEASE_LIST] = b"lease_list"
NAMES[<int>AUDIT_STATUS] = b"status"
NAMES[<int>AUDIT_MEMBERS] = b"members"
NAMES[<int>AUDIT_MACHINE_READ] = b"machine_read"
NAMES[<int>AUDIT_PUT] = b"put"
NAMES[<int>AUDIT_CREATE] = b"create"
NAMES[<int>AUDIT_UPDATE] = b"update"
NAMES[<int>AUDIT_DELETE] = b"delete"
NAMES[<int>AUDIT_DELETE_RANGE] = b"delete_range"
NAMES[<int>AUDIT_ADD] = b"add"
NAMES[<int>AUDIT_TRANSACTION] = b"transaction"
NAMES[<int>AUDIT_COMPARE] = b"compare"
NAMES[<int>AUDIT_FENCE] = b"fence"
NAMES[<int>AUDIT_LEASE_GRANT] = b"lease_grant"
NAMES[<int>AUDIT_LEASE_REVOKE] = b"lease_revoke"
NAMES[<int>AUDIT_LEASE_KEEP_ALIVE] = b"lease_keep_alive"
NAMES[<int>AUDIT_SESSION_OPEN] = b"session_open"
NAMES[<int>AUDIT_SESSION_CLOSE] = b"session_close"
NAMES[<int>AUDIT_MACHINE_COMMAND] = b"machine_command"
NAMES[<int>AUDIT_GROUP_JOIN] = b"group_join"
NAMES[<int>AUDIT_GROUP_SYNC] = b"group_sync"
NAMES[<int>AUDIT_GROUP_LEAVE] = b"group_leave"
NAMES[<int>AUDIT_GROUP_DELETE] = b"group_delete"
NAMES[<int>AUDIT_TOPIC_CREATE] = b"topic_create"
NAMES[<int>AUDIT_TOPIC_DELETE] = b"topic_delete"
NAMES[<int>AUDIT_TOPIC_EXTEND] = b"topic_extend"
NAMES[<int>AUDIT_TOPIC_CONFIGURE] = b"topic_configure"
NAMES[<int>AUDIT_OFFSET_COMMIT] = b"offset_commit"
NAMES[<int>AUDIT_OFFSET_DELETE] = b"offset_delete"
NAMES[<int>AUDIT_RECORDS_APPEND] = b"records_append"
NAMES[<int>AUDIT_RECORDS_DELETE] = b"records_delete"
NAMES[<int>AUDIT_COMMAND] = b"command"
NAMES[<int>AUDIT_COMPACT] = b"compact"
NAMES[<int>AUDIT_PROCESS_END] = b"process_end"
NAMES[<int>AUDIT_FLIGHT_RECORDER] = b"flight_recorder"
NAMES[<int>AUDIT_AUTH_ENABLE] = b"auth_enable"
NAMES[<int>AUDIT_AUTH_DISABLE] = b"auth_disable"
NAMES[<int>AUDIT_AUTH_USER_PUT] = b"auth_user_put"
NAMES[<int>AUDIT_AUTH_USER_REMOVE] = b"auth_user_remove"
NAMES[<int>AUDIT_AUTH_ROLE_PUT] = b"auth_role_put"
NAMES[<int>AUDIT_AUTH_ROLE_REMOVE] = b"auth_role_remove"
NAMES[<int>AUDIT_AUTH_GRANT] = b"auth_grant"
NAMES[<int>AUDIT_AUTH_REVOKE] = b"auth_revoke"
NAMES[<int>AUDIT_AUTH_BIND] = b"auth_bind"
NAMES[<int>AUDIT_AUTH_UNBIND] = b"auth_unbind"
NAMES[<int>AUDIT_AUTH_FOUND] = b"auth_found"
NAMES[<int>AUDIT_AUTH_FOUND_AGAIN] = b"auth_found_again"
NAMES[<int>AUDIT_AUTH_CLAIM] = b"auth_claim"
NAMES[<int>AUDIT_AUTH_TOKEN_PUT] = b"auth_token_put"
NAMES[<int>AUDIT_AUTH_TOKEN_REMOVE] = b"auth_token_remove"
NAMES[<int>AUDIT_AUTH_SHOW] = b"auth_show"
NAMES[<int>AUDIT_MEMBER_CHANGE] = b"member_change"
NAMES[<int>AUDIT_MEMBER_ADD] = b"member_add"
NAMES[<int>AUDIT_MEMBER_REMOVE] = b"member_remove"
NAMES[<int>AUDIT_MEMBER_ROLE] = b"member_role"
NAMES[<int>AUDIT_MEMBER_MEET] = b"member_meet"
NAMES[<int>AUDIT_TRANSFER] = b"transfer"
NAMES[<int>AUDIT_SNAPSHOT] = b"snapshot"
NAMES[<int>AUDIT_SNAPSHOT_PIECE] = b"snapshot_piece"
NAMES[<int>AUDIT_AUTHENTICATE] = b"authenticate"
NAMES[<int>AUDIT_CONNECTION] = b"connection"


cdef const char* audit_operation_name(int operation) noexcept nogil:
    return NAMES[operation] if 0 <= operation < AUDIT_OPERATIONS else NAMES[0]


cdef void audit_lines_release(AuditLines* lines) noexcept nogil:
    lines.origin.release()
    memset(lines.chain_key, 0, AUDIT_HASH_BYTES)
    memset(lines.keys_key, 0, AUDIT_HASH_BYTES)


# --- texts ------------------------------------------------------------------------------------------------------------
# Where a line is made: lack of memory is noticed at its end.
cdef struct Page:
    Vec[uint8_t]* out
    bint has_failed


cdef void _bytes(Page* page, const void* bytes, size_t length) noexcept nogil:
    if not page.out.append(<const uint8_t*>bytes, length):
        page.has_failed = True


cdef void _word(Page* page, const char* word) noexcept nogil:
    _bytes(page, word, strlen(word))


cdef bint audit_text(const uint8_t* bytes, size_t length, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t i
    cdef size_t at = out.size
    cdef uint8_t byte
    if not out.resize(at + 3 * length):
        return False
    for i in range(length):
        byte = bytes[i]
        if 0x20 <= byte < 0x7F and byte != 0x22 and byte != 0x25 and byte != 0x5C:      # " % \
            out.data[at] = byte
            at += 1
        else:
            out.data[at] = 0x25
            out.data[at + 1] = <uint8_t>UPPER_HEX[byte >> 4]
            out.data[at + 2] = <uint8_t>UPPER_HEX[byte & 15]
            at += 3
    return out.resize(at)


# ,"name":"text"
cdef void _field(Page* page, const char* name, const uint8_t* bytes, size_t length) noexcept nogil:
    _word(page, b',"')
    _word(page, name)
    _word(page, b'":"')
    if not audit_text(bytes, length, page.out):
        page.has_failed = True
    _word(page, b'"')


cdef void _digits(Page* page, uint64_t number, int width) noexcept nogil:
    cdef uint8_t[DIGITS_MAX] digits
    cdef int at = DIGITS_MAX
    while number != 0 or width > 0 or at == DIGITS_MAX:
        at -= 1
        digits[at] = <uint8_t>(0x30 + number % 10)
        number //= 10
        width -= 1
    _bytes(page, &digits[at], DIGITS_MAX - at)


cdef void _number(Page* page, const char* name, uint64_t number) noexcept nogil:
    _word(page, b',"')
    _word(page, name)
    _word(page, b'":')
    _digits(page, number, 0)


# As text: readers of JSON may take numbers for floats, and an incarnation has 64 bits.
cdef void _quoted(Page* page, const char* name, uint64_t number) noexcept nogil:
    _word(page, b',"')
    _word(page, name)
    _word(page, b'":"')
    _digits(page, number, 0)
    _word(page, b'"')


# At most HEX_BYTES_MAX // 2 bytes.
cdef void _hex(Page* page, const uint8_t* bytes, size_t length) noexcept nogil:
    cdef uint8_t[HEX_BYTES_MAX] digits
    cdef size_t i
    for i in range(length):
        digits[2 * i] = <uint8_t>HEX[bytes[i] >> 4]
        digits[2 * i + 1] = <uint8_t>HEX[bytes[i] & 15]
    _bytes(page, digits, 2 * length)


# Days since 1970 as a date of the Gregorian calendar (Howard Hinnant, chrono-compatible date algorithms).
cdef void _date(Page* page, uint64_t days) noexcept nogil:
    cdef uint64_t shifted = days + 719_468
    cdef uint64_t era = shifted // 146_097
    cdef uint64_t day_of_era = shifted % 146_097
    cdef uint64_t year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    cdef uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    cdef uint64_t month_from_march = (5 * day_of_year + 2) // 153
    cdef uint64_t day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    cdef uint64_t month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    _digits(page, year_of_era + era * 400 + (1 if month <= 2 else 0), 4)
    _word(page, b"-")
    _digits(page, month, 2)
    _word(page, b"-")
    _digits(page, day, 2)


cdef void _time(Page* page, uint64_t wall_ms) noexcept nogil:
    cdef uint64_t ms = wall_ms % MS_PER_DAY
    _date(page, wall_ms // MS_PER_DAY)
    _word(page, b"T")
    _digits(page, ms // 3_600_000, 2)
    _word(page, b":")
    _digits(page, ms // 60_000 % 60, 2)
    _word(page, b":")
    _digits(page, ms // 1000 % 60, 2)
    _word(page, b".")
    _digits(page, ms % 1000, 3)
    _word(page, b"Z")


cdef void _address(Page* page, const AuditAddress* address) noexcept nogil:
    cdef int i
    if address.family == AUDIT_ADDRESS_UNIX:
        _word(page, b"unix")
        return
    if address.family == AUDIT_ADDRESS_4:
        for i in range(4):
            if i:
                _word(page, b".")
            _digits(page, address.bytes[i], 0)
    elif address.family == AUDIT_ADDRESS_6:
        _word(page, b"[")
        for i in range(8):
            if i:
                _word(page, b":")
            _hex(page, &address.bytes[2 * i], 2)
        _word(page, b"]")
    else:
        return
    _word(page, b":")
    _digits(page, address.port, 0)


# --- a line -----------------------------------------------------------------------------------------------------------
cdef void _begin(AuditLines* lines, Page* page, uint64_t wall_ms) noexcept nogil:
    _word(page, b'{"time":"')
    _time(page, wall_ms)
    _word(page, b'"')
    _number(page, b"number", lines.number + 1)
    _word(page, b",")
    _bytes(page, lines.origin.data, lines.origin.size)


# The chain before stands in front of the line while the hash is made, so both are one text.
cdef status_t _end(AuditLines* lines, Page* page, size_t start) noexcept nogil:
    cdef uint8_t[AUDIT_HASH_BYTES] chain
    cdef const uint8_t* text = page.out.data + start
    cdef size_t length = page.out.size - start
    if page.has_failed:
        page.out.resize(start)
        return NO_MEMORY
    if lines.has_chain_key:
        hmac_sha256(lines.chain_key, AUDIT_HASH_BYTES, text, length, chain)
    else:
        sha256(text, length, chain)
    _word(page, b',"chain":"')
    _hex(page, chain, AUDIT_HASH_BYTES)
    _word(page, b'"}\n')
    if page.has_failed:
        page.out.resize(start)
        return NO_MEMORY
    memcpy(lines.chain, chain, AUDIT_HASH_BYTES)
    lines.number += 1
    return OK


# The line without the chain before.
cdef void _take_out_chain(Vec[uint8_t]* out, size_t start) noexcept nogil:
    memmove(out.data + start, out.data + start + AUDIT_HASH_BYTES, out.size - start - AUDIT_HASH_BYTES)
    out.resize(out.size - AUDIT_HASH_BYTES)


cdef void _key(const AuditLines* lines, Page* page, const char* name, const uint8_t* bytes,
               size_t length) noexcept nogil:
    cdef uint8_t[AUDIT_HASH_BYTES] hashed
    if not lines.hashes_keys:
        _field(page, name, bytes, length)
        return
    hmac_sha256(lines.keys_key, AUDIT_HASH_BYTES, bytes, length, hashed)
    _word(page, b',"')
    _word(page, name)
    _word(page, b'_hash":"')
    _hex(page, hashed, FORMAT_KEY_HASH_BYTES)
    _word(page, b'"')


cdef void _rights(Page* page, uint8_t rights) noexcept nogil:
    cdef bint is_first = True
    cdef int bit
    _word(page, b',"rights":"')
    for bit in range(7):
        if rights >> bit & 1:
            if not is_first:
                _word(page, b",")
            is_first = False
            _word(page, RIGHTS[bit])
    _word(page, b'"')


cdef void _item(const AuditLines* lines, Page* page, const AuditItem* item, const uint8_t* texts) noexcept nogil:
    cdef const uint8_t* second = texts + item.first_length
    cdef uint64_t boot = 0
    if item.rights:
        _rights(page, item.rights)
    if item.label == AUDIT_LABEL_KEY:
        _key(lines, page, b"key", texts, item.first_length)
        if item.has_second:
            _key(lines, page, b"end", second, item.second_length)
    elif item.label == AUDIT_LABEL_FENCE:
        _key(lines, page, b"fence", texts, item.first_length)
    elif item.label == AUDIT_LABEL_NAME:
        _field(page, b"name", texts, item.first_length)
        if item.has_second:
            _field(page, b"address", second, item.second_length)
    elif item.label == AUDIT_LABEL_ROLE:
        _field(page, b"role", texts, item.first_length)
    elif item.label == AUDIT_LABEL_MACHINE:
        _field(page, b"machine", texts, item.first_length)
    elif item.label == AUDIT_LABEL_LEASE:
        _number(page, b"lease", item.number)
    elif item.label == AUDIT_LABEL_REVISION:
        _number(page, b"to", item.number)
    elif item.label == AUDIT_LABEL_PROCESS:
        memcpy(&boot, texts, min(<size_t>item.first_length, sizeof(uint64_t)))
        _quoted(page, b"member", item.number)
        _quoted(page, b"boot", boot)


cdef void _items(const AuditLines* lines, Page* page, const AuditRecord* record, const uint8_t* at) noexcept nogil:
    cdef AuditItem item
    cdef uint16_t i
    if record.is_listed:
        _word(page, b',"operations":[')
    for i in range(record.item_count):
        memcpy(&item, at, sizeof(AuditItem))
        at += sizeof(AuditItem)
        if record.is_listed:
            _word(page, b'{"operation":"' if i == 0 else b',{"operation":"')
            _word(page, audit_operation_name(item.operation))
            _word(page, b'"')
        _item(lines, page, &item, at)
        if record.is_listed:
            _word(page, b"}")
        at += item.first_length + item.second_length
    if record.is_listed:
        _word(page, b"]")
    if record.item_total > record.item_count:
        _number(page, b"more", record.item_total - record.item_count)


cdef void _who(Page* page, const AuditRecord* record, const uint8_t* texts) noexcept nogil:
    _field(page, b"principal", texts, record.principal_length)
    if record.proof == AUDIT_PROOF_PASSWORD:
        _word(page, b',"proof":"password"')
    elif record.proof == AUDIT_PROOF_TOKEN:
        _word(page, b',"proof":"token"')
    elif record.proof == AUDIT_PROOF_CERTIFICATE:
        _word(page, b',"proof":"certificate"')
    else:
        _word(page, b',"proof":"none"')
    if record.certificate_length:
        _field(page, b"certificate", texts + record.principal_length, record.certificate_length)
    _word(page, b',"peer":"')
    _address(page, &record.address)
    _word(page, b'"')


cdef void _verdict(const AuditLines* lines, Page* page, const AuditRecord* record) noexcept nogil:
    cdef const char* word = NAMES[0]
    if 0 <= record.status < AUDIT_STATUSES:
        word = <const char*>lines.verdicts[record.status]
    if record.revision:
        _number(page, b"revision", record.revision)
    if record.index:
        _number(page, b"index", record.index)
    _word(page, b',"verdict":"')
    if word[0] != 0:
        _word(page, word)
    else:
        _word(page, b"status ")
        _digits(page, <uint64_t>record.status, 0)
    _word(page, b'"')


cdef status_t _line(AuditLines* lines, const AuditRecord* record, Vec[uint8_t]* out) noexcept nogil:
    cdef const uint8_t* texts = <const uint8_t*>record + sizeof(AuditRecord)
    cdef size_t start = out.size
    cdef Page page
    cdef status_t status
    page.out = out
    page.has_failed = False
    _bytes(&page, lines.chain, AUDIT_HASH_BYTES)
    _begin(lines, &page, record.wall_ms)
    _who(&page, record, texts)
    _word(&page, b',"operation":"')
    _word(&page, audit_operation_name(record.operation))
    _word(&page, b'"')
    if record.operation == AUDIT_CONNECTION:
        _word(&page, b',"port":"peers"' if record.port == AUDIT_PORT_PEERS else b',"port":"zookeeper"'
              if record.port == AUDIT_PORT_ZOOKEEPER else b',"port":"kafka"'
              if record.port == AUDIT_PORT_KAFKA else b',"port":"etcd"'
              if record.port == AUDIT_PORT_ETCD else b',"port":"clients"')
    _items(lines, &page, record, texts + record.principal_length + record.certificate_length)
    _verdict(lines, &page, record)
    status = _end(lines, &page, start)
    if status == OK:
        _take_out_chain(out, start)
    return status


cdef status_t audit_lines_take(AuditLines* lines, AuditTrail* trail, size_t bytes_max,
                               Vec[uint8_t]* out) noexcept nogil:
    cdef const AuditRecord* record
    cdef status_t status = OK
    cdef int who = 0
    while who < AUDIT_PRODUCERS and status == OK and out.size < bytes_max:
        record = audit_front(trail, <AuditProducer>who)
        if record == NULL:
            who += 1
            continue
        status = _line(lines, record, out)
        if status == OK:
            audit_pop(trail, <AuditProducer>who, record)
    return status


cdef status_t audit_lines_add(AuditLines* lines, uint64_t wall_ms, const uint8_t* fields, size_t length,
                              Vec[uint8_t]* out) noexcept nogil:
    cdef size_t start = out.size
    cdef Page page
    cdef status_t status
    page.out = out
    page.has_failed = False
    _bytes(&page, lines.chain, AUDIT_HASH_BYTES)
    _begin(lines, &page, wall_ms)
    _word(&page, b",")
    _bytes(&page, fields, length)
    status = _end(lines, &page, start)
    if status == OK:
        _take_out_chain(out, start)
    return status
