"""The clients' thread tells the audit trail each request: bodies.

A note is a record (security/audit_queue) without its end: it stands in ClientServer.audit_note while the request is
looked at, and behind the ClientPending while its ticket is under way.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta.machine.rights_state cimport GrantHead
from raftmeta.native.atomics cimport load_shared
from raftmeta.native.threads cimport wall_now_ms
from raftmeta.net.stream cimport stream_is_secured
from raftmeta.raft.membership cimport membership_decode
from raftmeta.raft.types cimport Member, Membership
from raftmeta.security.audit_queue cimport (
    AUDIT_ADD, AUDIT_ADMINISTRATION, AUDIT_AUTH_BIND, AUDIT_AUTH_ENABLE, AUDIT_AUTH_GRANT, AUDIT_AUTH_REVOKE,
    AUDIT_AUTH_SHOW, AUDIT_AUTH_UNBIND, AUDIT_AUTHENTICATE, AUDIT_BY_CLIENTS, AUDIT_COMMAND, AUDIT_COMPACT,
    AUDIT_COMPARE, AUDIT_CREATE, AUDIT_DELETE, AUDIT_DELETE_RANGE, AUDIT_DENIED, AUDIT_FENCE, AUDIT_FILLER,
    AUDIT_FLIGHT_RECORDER, AUDIT_GET, AUDIT_GROUP_JOIN,
    AUDIT_ITEM_BYTES_MAX, AUDIT_ITEMS_MAX, AUDIT_LABEL_FENCE, AUDIT_LABEL_KEY, AUDIT_LABEL_LEASE,
    AUDIT_LABEL_MACHINE, AUDIT_LABEL_NAME, AUDIT_LABEL_PROCESS, AUDIT_LABEL_REVISION, AUDIT_LABEL_ROLE,
    AUDIT_LEASE_GRANT,
    AUDIT_LEASE_KEEP_ALIVE, AUDIT_LEASE_LIST, AUDIT_LEASE_REVOKE, AUDIT_MACHINE_COMMAND, AUDIT_MACHINE_READ,
    AUDIT_MEMBER_ADD, AUDIT_MEMBER_CHANGE, AUDIT_MEMBER_MEET, AUDIT_MEMBER_REMOVE, AUDIT_MEMBER_ROLE, AUDIT_MEMBERS,
    AUDIT_PORT_CLIENTS, AUDIT_PORT_LOCAL, AUDIT_PROCESS_END, AUDIT_PROOF_CERTIFICATE, AUDIT_PROOF_PASSWORD,
    AUDIT_PROOF_TOKEN, AUDIT_PUT, AUDIT_RANGE,
    AUDIT_READS, AUDIT_SESSION_CLOSE, AUDIT_SESSION_OPEN, AUDIT_SNAPSHOT, AUDIT_SNAPSHOT_PIECE, AUDIT_STATUS,
    AUDIT_TRANSACTION, AUDIT_TRANSFER, AUDIT_UNWATCH, AUDIT_UPDATE, AUDIT_WATCH, AUDIT_WATCH_ENDED, AUDIT_WRITES,
    AuditClass, AuditItem, AuditLabel, AuditRecord, audit_admits,
    audit_promise, audit_push, audit_push_refusal, audit_release, audit_wants)
from raftmeta.status cimport AUTHENTICATION_FAILED, NO_SPACE, OK, PERMISSION_DENIED, WITHDRAWN
from raftmeta.wire.client_messages cimport (
    AUTHENTICATE_PROVES, REQUEST_AUTHENTICATE, REQUEST_CHANGE, REQUEST_COMMAND, REQUEST_FLIGHT, REQUEST_GET,
    REQUEST_GROUPS,
    REQUEST_KIND_MAX, REQUEST_LEASES, REQUEST_MACHINE_READ, REQUEST_MEET, REQUEST_MEMBERS, REQUEST_PIECE, REQUEST_RANGE,
    REQUEST_RIGHTS, REQUEST_SNAPSHOT, REQUEST_STATUS, REQUEST_TRANSFER, REQUEST_UNWATCH, REQUEST_WATCH)
from raftmeta.wire.commands cimport (
    COMMAND_COMPACT, COMMAND_GROUPS, COMMAND_KEYS, COMMAND_LEASE_GRANT, COMMAND_LEASE_KEEP_ALIVE,
    COMMAND_LEASE_REVOKE, COMMAND_PROCESS_END, COMMAND_RIGHTS, COMMAND_SESSION_CLOSE, COMMAND_SESSION_OPEN,
    COMMAND_USER, COMMAND_ZNODES,
    OP_ADD, OP_CREATE, OP_DELETE, OP_DELETE_RANGE, OP_GET, OP_PUT, OP_RANGE, OP_TXN, OP_UPDATE,
    Bytes, Command, Compare, Op)
from raftmeta.wire.groups cimport GROUP_JOIN, groups_verb
from raftmeta.wire.znodes cimport ZNODE_CHECK, ZNODE_CREATE, ZNODE_DELETE, ZnodeOp

cdef enum:
    RIGHTS_VERBS = 15
    ROUND = 8
    COMMAND_KIND_MAX = 24
    OP_KIND_MAX = 16

cdef uint64_t BY_CERTIFICATE = (<uint64_t>1 << 63) - 1      # server/state Principal

cdef uint8_t[REQUEST_KIND_MAX + 1] OPERATIONS       # of requests; AUDIT_FILLER: nobody wants to know
OPERATIONS[<int>REQUEST_COMMAND] = AUDIT_COMMAND
OPERATIONS[<int>REQUEST_GET] = AUDIT_GET
OPERATIONS[<int>REQUEST_RANGE] = AUDIT_RANGE
OPERATIONS[<int>REQUEST_GROUPS] = AUDIT_RANGE
OPERATIONS[<int>REQUEST_WATCH] = AUDIT_WATCH
OPERATIONS[<int>REQUEST_UNWATCH] = AUDIT_UNWATCH
OPERATIONS[<int>REQUEST_STATUS] = AUDIT_STATUS
OPERATIONS[<int>REQUEST_TRANSFER] = AUDIT_TRANSFER
OPERATIONS[<int>REQUEST_MEMBERS] = AUDIT_MEMBERS
OPERATIONS[<int>REQUEST_CHANGE] = AUDIT_MEMBER_CHANGE
OPERATIONS[<int>REQUEST_MEET] = AUDIT_MEMBER_MEET
OPERATIONS[<int>REQUEST_SNAPSHOT] = AUDIT_SNAPSHOT
OPERATIONS[<int>REQUEST_PIECE] = AUDIT_SNAPSHOT_PIECE
OPERATIONS[<int>REQUEST_MACHINE_READ] = AUDIT_MACHINE_READ
OPERATIONS[<int>REQUEST_LEASES] = AUDIT_LEASE_LIST
OPERATIONS[<int>REQUEST_RIGHTS] = AUDIT_AUTH_SHOW
OPERATIONS[<int>REQUEST_AUTHENTICATE] = AUDIT_AUTHENTICATE
OPERATIONS[<int>REQUEST_FLIGHT] = AUDIT_FLIGHT_RECORDER

cdef uint8_t[COMMAND_KIND_MAX] COMMANDS
COMMANDS[<int>COMMAND_LEASE_GRANT] = AUDIT_LEASE_GRANT
COMMANDS[<int>COMMAND_LEASE_REVOKE] = AUDIT_LEASE_REVOKE
COMMANDS[<int>COMMAND_LEASE_KEEP_ALIVE] = AUDIT_LEASE_KEEP_ALIVE
COMMANDS[<int>COMMAND_SESSION_OPEN] = AUDIT_SESSION_OPEN
COMMANDS[<int>COMMAND_SESSION_CLOSE] = AUDIT_SESSION_CLOSE
COMMANDS[<int>COMMAND_COMPACT] = AUDIT_COMPACT
COMMANDS[<int>COMMAND_USER] = AUDIT_MACHINE_COMMAND
COMMANDS[<int>COMMAND_PROCESS_END] = AUDIT_PROCESS_END

cdef uint8_t[OP_KIND_MAX] OPS
OPS[<int>OP_PUT] = AUDIT_PUT
OPS[<int>OP_CREATE] = AUDIT_CREATE
OPS[<int>OP_UPDATE] = AUDIT_UPDATE
OPS[<int>OP_DELETE] = AUDIT_DELETE
OPS[<int>OP_DELETE_RANGE] = AUDIT_DELETE_RANGE
OPS[<int>OP_GET] = AUDIT_GET
OPS[<int>OP_RANGE] = AUDIT_RANGE
OPS[<int>OP_ADD] = AUDIT_ADD


# --- the note ---------------------------------------------------------------------------------------------------------
# There is none. A request that was answered without a line leaves its promise until then.
cdef void _forget(ClientServer* server) noexcept nogil:
    server.has_note = False
    if server.audit_promised:
        audit_release(server.base.audit, AUDIT_BY_CLIENTS, server.audit_promised)
        server.audit_promised = 0


cdef AuditRecord* _head(ClientServer* server) noexcept nogil:
    return <AuditRecord*>server.audit_note.data


cdef AuditClass _kind_of(uint8_t operation) noexcept nogil:
    if operation >= AUDIT_COMPACT:
        return AUDIT_ADMINISTRATION
    return AUDIT_WRITES if operation >= AUDIT_PUT else AUDIT_READS


# Who asks, as far as the connection proved it.
cdef bint _append_who(ClientServer* server, const ClientConnection* connection, AuditRecord* head) noexcept nogil:
    cdef const uint8_t* certificate = NULL
    head.address = connection.base.audit_address
    head.port = AUDIT_PORT_LOCAL if connection.base.is_local else AUDIT_PORT_CLIENTS
    if stream_is_secured(&connection.base.stream):
        certificate = connection.base.stream.tls.identity.name
        head.certificate_length = connection.base.stream.tls.identity.name_length
    if connection.principal.name_length != 0:
        head.principal_length = connection.principal.name_length
        head.proof = (AUDIT_PROOF_CERTIFICATE if connection.principal.rights_revision == BY_CERTIFICATE
                      else AUDIT_PROOF_TOKEN if connection.principal.token != 0 else AUDIT_PROOF_PASSWORD)
        return (server.audit_note.append(<uint8_t*>head, sizeof(AuditRecord))
                and server.audit_note.append(connection.principal.name, head.principal_length)
                and server.audit_note.append(certificate, head.certificate_length))
    head.principal_length = head.certificate_length
    head.proof = AUDIT_PROOF_CERTIFICATE if certificate != NULL else head.proof
    return (server.audit_note.append(<uint8_t*>head, sizeof(AuditRecord))
            and server.audit_note.append(certificate, head.principal_length)
            and server.audit_note.append(certificate, head.certificate_length))


# False: no room for more of them in one line, or no memory.
cdef bint _append_item(ClientServer* server, uint8_t operation, AuditLabel label, uint64_t number,
                       const Bytes* first, const Bytes* second, uint8_t rights) noexcept nogil:
    cdef AuditItem item
    cdef size_t length = sizeof(AuditItem)
    memset(&item, 0, sizeof(item))
    item.operation = operation
    item.label = label
    item.number = number
    item.rights = rights
    item.has_second = second != NULL
    item.first_length = <uint16_t>first.length if first != NULL else 0
    item.second_length = <uint16_t>second.length if second != NULL else 0
    length += item.first_length + item.second_length
    _head(server).item_total += 1
    if (_head(server).item_count >= AUDIT_ITEMS_MAX
            or server.audit_note.size - sizeof(AuditRecord) + length > AUDIT_ITEM_BYTES_MAX):
        return False
    if not server.audit_note.reserve(server.audit_note.size + length):
        return False
    server.audit_note.append(<const uint8_t*>&item, sizeof(item))
    if item.first_length:
        server.audit_note.append(first.data, item.first_length)
    if item.second_length:
        server.audit_note.append(second.data, item.second_length)
    _head(server).item_count += 1
    return True


cdef Bytes _window(const uint8_t* data, size_t length) noexcept nogil:
    cdef Bytes window
    window.data = data
    window.length = <uint32_t>length
    return window


# --- a request --------------------------------------------------------------------------------------------------------
cdef bint _open(ClientServer* server, const ClientConnection* connection, uint8_t operation,
                uint64_t id) noexcept nogil:
    cdef AuditRecord head
    memset(&head, 0, sizeof(head))
    head.operation = operation
    head.kind = _kind_of(operation)
    server.audit_note.clear()
    server.has_note = _append_who(server, connection, &head)
    server.audit_id = id
    return server.has_note


cdef void audit_begin(ClientServer* server, ClientConnection* connection, const ClientRequest* request) noexcept nogil:
    cdef uint8_t operation = OPERATIONS[request.kind] if request.kind <= REQUEST_KIND_MAX else <uint8_t>AUDIT_FILLER
    cdef Bytes name
    _forget(server)
    if server.base.audit == NULL or operation == AUDIT_FILLER or not _open(server, connection, operation, request.id):
        return
    if request.kind in (REQUEST_RANGE, REQUEST_GROUPS, REQUEST_WATCH):
        _append_item(server, 0, AUDIT_LABEL_KEY, 0, &request.key, &request.end, 0)
    elif request.kind == REQUEST_GET:
        _append_item(server, 0, AUDIT_LABEL_KEY, 0, &request.key, NULL, 0)
    elif request.kind == REQUEST_MACHINE_READ:
        _append_item(server, 0, AUDIT_LABEL_MACHINE, 0, &request.key, NULL, 0)
    elif request.kind == REQUEST_MEET:
        _append_item(server, 0, AUDIT_LABEL_NAME, 0, &request.key, &request.end, 0)
    elif request.kind == REQUEST_TRANSFER:
        _append_item(server, 0, AUDIT_LABEL_NAME, 0, &request.key, NULL, 0)
    elif request.kind == REQUEST_CHANGE:
        _note_change(server, request)
    elif request.kind == REQUEST_PIECE:
        _head(server).is_quiet = True
    elif request.kind == REQUEST_AUTHENTICATE:
        name = request.key
        if request.flags & AUTHENTICATE_PROVES and connection.exchange != NULL:
            name = _window(connection.exchange.asked.name, connection.exchange.asked.name_length)
        elif request.flags & AUTHENTICATE_PROVES:
            name = _window(NULL, 0)
        else:
            _head(server).is_quiet = True       # the first of two steps
        name.length = min(name.length, <uint32_t>sizeof(connection.principal.name))
        _append_item(server, 0, AUDIT_LABEL_NAME, 0, &name, NULL, 0)


# --- a change of members ----------------------------------------------------------------------------------------------
cdef const Member* _member_named(const Membership* membership, const Member* wanted) noexcept nogil:
    cdef int i
    for i in range(membership.count):
        if (membership.members[i].name_length == wanted.name_length
                and memcmp(membership.members[i].name, wanted.name, wanted.name_length) == 0):
            return &membership.members[i]
    return NULL


# The names that it adds, removes, or gives another role or address, seen from the membership of now.
cdef void _note_change(ClientServer* server, const ClientRequest* request) noexcept nogil:
    cdef Membership asked
    cdef const Member* member
    cdef const Member* other
    cdef Bytes name, address
    cdef int i
    _head(server).is_listed = True
    if membership_decode(request.key.data, request.key.length, &asked) != OK:
        return
    while not server.loop.membership.read(&server.membership):
        pass
    for i in range(asked.count):
        member = &asked.members[i]
        other = _member_named(&server.membership, member)
        name = _window(member.name, member.name_length)
        address = _window(member.address, member.address_length)
        if other == NULL:
            _append_item(server, AUDIT_MEMBER_ADD, AUDIT_LABEL_NAME, 0, &name, &address, 0)
        elif other.roles != member.roles or other.id != member.id:
            _append_item(server, AUDIT_MEMBER_ROLE, AUDIT_LABEL_NAME, 0, &name, &address, 0)
    for i in range(server.membership.count):
        member = &server.membership.members[i]
        name = _window(member.name, member.name_length)
        if _member_named(&asked, member) == NULL:
            _append_item(server, AUDIT_MEMBER_REMOVE, AUDIT_LABEL_NAME, 0, &name, NULL, 0)


# --- a command --------------------------------------------------------------------------------------------------------
cdef void _note_op(ClientServer* server, const Op* op) noexcept nogil:
    cdef bint is_range = op.kind == OP_RANGE or op.kind == OP_DELETE_RANGE
    _append_item(server, OPS[op.kind] if op.kind < OP_KIND_MAX else <uint8_t>AUDIT_FILLER, AUDIT_LABEL_KEY, 0, &op.key,
                 &op.end if is_range else <const Bytes*>NULL, 0)


# One operation is told by itself; compares, or several operations, in a list.
cdef void _note_keys(ClientServer* server, const Command* command) noexcept nogil:
    cdef bint is_plain = command.ops.size == 1 and command.compares.size == 0 and command.ops.data[0].kind != OP_TXN
    cdef const Compare* compare
    cdef AuditRecord* head = _head(server)
    cdef size_t i
    if is_plain:
        head.operation = OPS[command.ops.data[0].kind] if command.ops.data[0].kind < OP_KIND_MAX else head.operation
    else:
        head.operation = AUDIT_TRANSACTION
        head.is_listed = True
    head.kind = AUDIT_WRITES
    for i in range(command.compares.size):
        compare = &command.compares.data[i]
        _append_item(server, AUDIT_COMPARE, AUDIT_LABEL_KEY, 0, &compare.key,
                     &compare.end if compare.end.length else <const Bytes*>NULL, 0)
    for i in range(command.ops.size):
        if command.ops.data[i].kind != OP_TXN:
            _note_op(server, &command.ops.data[i])


cdef inline uint8_t _operation_of(const ZnodeOp* op) noexcept nogil:
    if op.kind == ZNODE_CREATE:
        return AUDIT_CREATE
    if op.kind == ZNODE_DELETE:
        return AUDIT_DELETE
    return AUDIT_COMPARE if op.kind == ZNODE_CHECK else AUDIT_UPDATE


# A key that is too long has no place: the request is refused. A sequential name is told without its number.
cdef void _note_znodes(ClientServer* server, const Command* command) noexcept nogil:
    cdef AuditRecord* head = _head(server)
    cdef bint is_plain = command.znodes.size == 1 and not command.is_multi
    cdef size_t i
    head.operation = _operation_of(&command.znodes.data[0]) if is_plain else <uint8_t>AUDIT_TRANSACTION
    head.is_listed = not is_plain
    head.kind = AUDIT_WRITES
    for i in range(command.znodes.size):
        _append_item(server, _operation_of(&command.znodes.data[i]), AUDIT_LABEL_KEY, 0, &command.znodes.data[i].key,
                     NULL, 0)


cdef void _note_rights(ClientServer* server, const Command* command) noexcept nogil:
    cdef AuditRecord* head = _head(server)
    cdef GrantHead grant
    cdef Bytes start, end
    head.operation = <uint8_t>(AUDIT_AUTH_ENABLE + command.id - 1 if 1 <= command.id <= RIGHTS_VERBS else AUDIT_COMMAND)
    head.kind = AUDIT_ADMINISTRATION
    if command.name.length:
        _append_item(server, 0, AUDIT_LABEL_NAME, 0, &command.name, NULL, 0)
        head = _head(server)
    if head.operation in (AUDIT_AUTH_BIND, AUDIT_AUTH_UNBIND):
        start = _window(command.data.data, min(command.data.length, <uint32_t>AUDIT_ITEM_BYTES_MAX))
        _append_item(server, 0, AUDIT_LABEL_ROLE, 0, &start, NULL, 0)
    elif head.operation in (AUDIT_AUTH_GRANT, AUDIT_AUTH_REVOKE) and command.data.length >= sizeof(GrantHead):
        memcpy(&grant, command.data.data, sizeof(GrantHead))
        if sizeof(GrantHead) + grant.start_length + grant.end_length == command.data.length:
            start = _window(command.data.data + sizeof(GrantHead), grant.start_length)
            end = _window(start.data + grant.start_length, grant.end_length)
            _append_item(server, 0, AUDIT_LABEL_KEY, 0, &start, &end, grant.rights)


cdef void _note_lease(ClientServer* server, const Command* command) noexcept nogil:
    cdef size_t i
    if command.kind == COMMAND_LEASE_KEEP_ALIVE:
        for i in range(command.leases.size):
            _append_item(server, AUDIT_LEASE_KEEP_ALIVE, AUDIT_LABEL_LEASE, command.leases.data[i].lease, NULL, NULL, 0)
        _head(server).is_listed = command.leases.size > 1
    elif command.kind == COMMAND_LEASE_REVOKE or command.id:
        _append_item(server, 0, AUDIT_LABEL_LEASE, command.id, NULL, NULL, 0)


cdef void _note_process(ClientServer* server, const Command* command) noexcept nogil:
    cdef Bytes boot = _window(<const uint8_t*>&command.boot, sizeof(uint64_t))
    _append_item(server, 0, AUDIT_LABEL_PROCESS, command.member, &boot, NULL, 0)


cdef void audit_command(ClientServer* server) noexcept nogil:
    cdef const Command* command = &server.command
    cdef AuditRecord* head
    if not server.has_note:
        return
    head = _head(server)
    if command.kind == COMMAND_KEYS:
        _note_keys(server, command)
    elif command.kind == COMMAND_ZNODES:
        _note_znodes(server, command)
    elif command.kind == COMMAND_GROUPS:
        head.operation = <uint8_t>(AUDIT_GROUP_JOIN + groups_verb(&command.data) - GROUP_JOIN)
        head.kind = AUDIT_WRITES
        _append_item(server, 0, AUDIT_LABEL_KEY, 0, &command.name, NULL, 0)
    elif command.kind == COMMAND_RIGHTS:
        _note_rights(server, command)
    elif command.kind < COMMAND_KIND_MAX and COMMANDS[command.kind] != 0:
        head.operation = COMMANDS[command.kind]
        head.kind = _kind_of(head.operation)
        if command.kind == COMMAND_USER:
            _append_item(server, 0, AUDIT_LABEL_MACHINE, 0, &command.name, NULL, 0)
        elif command.kind == COMMAND_COMPACT:
            _append_item(server, 0, AUDIT_LABEL_REVISION, command.id, NULL, NULL, 0)
        elif command.kind == COMMAND_PROCESS_END:
            _note_process(server, command)
        elif command.kind in (COMMAND_LEASE_GRANT, COMMAND_LEASE_REVOKE, COMMAND_LEASE_KEEP_ALIVE):
            _note_lease(server, command)
    if command.fence.is_present:
        _append_item(server, AUDIT_FENCE, AUDIT_LABEL_FENCE if not _head(server).is_listed else AUDIT_LABEL_KEY, 0,
                     &command.fence.key, NULL, 0)


# --- what must be recorded --------------------------------------------------------------------------------------------
cdef status_t audit_check(ClientServer* server) noexcept nogil:
    cdef AuditClass kind
    if not server.has_note or not server.base.audit.is_required or _head(server).is_quiet:
        return OK
    kind = <AuditClass>_head(server).kind
    if not audit_wants(server.base.audit, kind):
        return OK
    if (load_shared(&server.base.audit.is_failing)
            or not audit_promise(server.base.audit, AUDIT_BY_CLIENTS, _size(server), kind)):
        return NO_SPACE
    server.audit_promised = _size(server)
    return OK


cdef inline uint32_t _rounded(size_t bytes) noexcept nogil:
    return <uint32_t>(bytes + ROUND - 1) & ~<uint32_t>(ROUND - 1)


cdef uint32_t _size(const ClientServer* server) noexcept nogil:
    return _rounded(server.audit_note.size)


# --- a ticket under way -----------------------------------------------------------------------------------------------
cdef size_t audit_note_bytes(ClientServer* server, const ClientConnection* connection, uint64_t id) noexcept nogil:
    if not server.has_note or connection == NULL or id != server.audit_id:
        return 0
    return server.audit_note.size


cdef void audit_carry(ClientServer* server, ClientPending* pending) noexcept nogil:
    if pending.note_length == 0:
        return
    memcpy(<uint8_t*>pending + sizeof(ClientPending) + pending.length, server.audit_note.data, pending.note_length)
    pending.is_note_promised = server.audit_promised != 0
    server.audit_promised = 0
    server.has_note = False


cdef void audit_resume(ClientServer* server, const ClientPending* pending) noexcept nogil:
    _forget(server)
    if pending.note_length == 0:
        return
    server.audit_note.clear()
    server.has_note = server.audit_note.append(<const uint8_t*>pending + sizeof(ClientPending) + pending.length,
                                               pending.note_length)
    server.audit_id = pending.id
    server.audit_promised = _rounded(pending.note_length) if pending.is_note_promised else 0


# --- the end ----------------------------------------------------------------------------------------------------------
cdef void _record(ClientServer* server, status_t status, uint64_t revision, uint64_t index) noexcept nogil:
    cdef AuditRecord* head = _head(server)
    cdef AuditClass kind = <AuditClass>head.kind
    cdef bint was_promised = server.audit_promised != 0
    _forget(server)
    if head.is_quiet and status == OK:
        return
    if head.operation == AUDIT_AUTHENTICATE and status != OK:
        if not audit_admits(server.base.audit, AUDIT_BY_CLIENTS, server.base.now_ns):
            return
        kind = AUDIT_DENIED
    elif status == PERMISSION_DENIED or status == AUTHENTICATION_FAILED:
        kind = max(kind, AUDIT_DENIED)
    if not audit_wants(server.base.audit, kind) or not server.audit_note.resize(_size(server)):
        return
    head = _head(server)
    head.size = <uint32_t>server.audit_note.size
    head.status = status
    head.revision = revision
    head.index = index
    head.wall_ms = wall_now_ms()
    audit_push(server.base.audit, AUDIT_BY_CLIENTS, head, kind, was_promised)


cdef void audit_answer(ClientServer* server, uint64_t id, status_t status, uint64_t revision,
                       uint64_t index) noexcept nogil:
    if server.has_note and server.audit_id == id:
        _record(server, status, revision, index)


# A command was decided, whoever is left to hear of it. All else was not done.
cdef void audit_finish(ClientServer* server, const ClientPending* pending, status_t status, uint64_t revision,
                       uint64_t index) noexcept nogil:
    cdef bint is_decided = pending.kind in (REQUEST_COMMAND, REQUEST_CHANGE, REQUEST_MEET, REQUEST_TRANSFER)
    if server.has_note:
        _record(server, status if is_decided or status != OK else <status_t>WITHDRAWN, revision, index)


cdef void audit_refuse(ClientServer* server, const ClientConnection* connection, status_t status) noexcept nogil:
    if server.base.audit == NULL or status == OK:
        return
    if server.has_note:
        _record(server, status, 0, 0)
    else:
        audit_push_refusal(server.base.audit, AUDIT_BY_CLIENTS, AUDIT_PORT_CLIENTS, &connection.base.audit_address,
                           status, server.base.now_ns)


cdef void audit_watch_ended(ClientServer* server, const ClientConnection* connection,
                            const ClientWatch* watch) noexcept nogil:
    cdef Bytes start = _window(watch.bounds.data, watch.start_length)
    cdef Bytes end = _window(watch.bounds.data + watch.start_length, watch.bounds.size - watch.start_length)
    _forget(server)
    if server.base.audit == NULL or not _open(server, connection, AUDIT_WATCH_ENDED, 0):
        return
    if watch.bounds.size:
        _append_item(server, 0, AUDIT_LABEL_KEY, 0, &start, &end, 0)
    _record(server, PERMISSION_DENIED, 0, 0)
