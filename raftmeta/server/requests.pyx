"""The questions of clients and their answers.

It decides which commands a client may propose, and which of them are urgent. It must never propose a
command that the machine could not read, answer a command before this node applied it, or wait.

A command is submitted as it came, in the client's own session; its ticket comes back with the result. A linearizable
read waits for its read index and is then made from the published state, on this thread. A request whose connection went
away meanwhile is carried to its end and answered to nobody.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memset

from raftmeta.connections.accounts_state cimport account_drop
from raftmeta.connections.connections cimport connection_count, connection_next_turn
from raftmeta.connections.state cimport TUNE_TURN_BYTES, bytes_end, connection_at
from raftmeta.engine.state cimport ENGINE_STOPPED
from raftmeta.engine.submission cimport (SUBMIT_CLIENT_COMMAND, SUBMIT_LIST_LEASES, SUBMIT_READ, SUBMIT_WATCH,
                                         CommandArguments, Submission)
from raftmeta.loop.loop cimport READER_CLIENTS, loop_enter, loop_leave
from raftmeta.loop.tickets cimport Ticket, ticket_drop
from raftmeta.machine.machine cimport Grouping, machine_range_shared
from raftmeta.machine.state cimport (LEVEL_OF_GROUPS, LEVEL_OF_PROCESSES, LEVEL_OF_RIGHTS, LEVEL_OF_USER_MACHINES,
                                     LEVEL_OF_ZNODES, Machine)
from raftmeta.native.atomics cimport load_acquire
from raftmeta.native.containers cimport Vec
from raftmeta.raft.genesis cimport BLANK, FOUNDED
from raftmeta.server.access cimport (access_is_guarded, access_of_pending, access_of_request, access_owner,
                                     access_speak)
from raftmeta.server.audit cimport audit_begin, audit_check, audit_command, audit_finish, audit_resume
from raftmeta.server.authentication cimport authentication_take
from raftmeta.server.flight cimport flight_take
from raftmeta.server.listing cimport listing_answer, listing_take
from raftmeta.server.machines cimport machine_read, machine_told
from raftmeta.server.members cimport members_answer, members_take
from raftmeta.server.output cimport connection_may_answer, connection_send, connection_share
from raftmeta.server.pending cimport parts_of, request_answer, request_is_crowded, request_submit, submission_of
from raftmeta.server.quotas cimport (quotas_command, quotas_note, quotas_request, quotas_settle, quotas_watch)
from raftmeta.server.second_look cimport (second_look_begin, second_look_done, second_look_end,
                                          second_look_verdict)
from raftmeta.server.snapshots cimport snapshot_found, snapshots_take
from raftmeta.server.state cimport LOOK_ASKED, LOOK_NONE, PENDING_LOOK, ClientPending, ClientWatch, Parts
from raftmeta.server.watches cimport watch_closed, watch_create, watch_find, watch_free, watch_opened, watches_unwatch
from raftmeta.status cimport (AUTHENTICATION_FAILED, COMMAND_INVALID, FOREIGN_CLUSTER, KEY_INVALID, NODE_CLOSED,
                              NOT_FOUND, NOT_READY, NO_LEADER, NO_MEMORY, NO_SPACE, OK, OUTCOME_UNKNOWN, OVERLOADED,
                              PERMISSION_DENIED, REMOVED, VALUE_TOO_LARGE)
from raftmeta.wire.client_messages cimport (CLIENT_LEADER, FORMAT_CLIENT_VERSION, READ_COUNT_ONLY, READ_KEYS_ONLY,
                                            READ_LOCAL, REQUEST_AUTHENTICATE, REQUEST_CHANGE, REQUEST_COMMAND,
                                            REQUEST_FLIGHT, REQUEST_GET, REQUEST_GROUPS, REQUEST_KIND_MAX,
                                            REQUEST_LEASES, REQUEST_MACHINE_READ, REQUEST_MEET, REQUEST_MEMBERS,
                                            REQUEST_PIECE, REQUEST_RANGE, REQUEST_RIGHTS, REQUEST_SNAPSHOT,
                                            REQUEST_STATUS, REQUEST_TRANSFER, REQUEST_UNWATCH, REQUEST_WATCH,
                                            ClientMessage, client_frame_begin, client_frame_end)
from raftmeta.wire.commands cimport (COMMAND_COMPACT, COMMAND_GROUPS, COMMAND_KEYS, COMMAND_LEASE_GRANT,
                                     COMMAND_LEASE_KEEP_ALIVE, COMMAND_LEASE_REVOKE, COMMAND_PROCESS_END,
                                     COMMAND_RIGHTS, COMMAND_SESSION_CLOSE, COMMAND_SESSION_OPEN, COMMAND_USER,
                                     COMMAND_ZNODES, OP_DELETE, OP_DELETE_RANGE, SPEAKER_NONE, Bytes,
                                     Command, command_decode)
from raftmeta.wire.groups cimport GROUP_CONSUMER, GROUP_JOIN, groups_verb
from raftmeta.wire.hello cimport HELLO_CLIENT, HELLO_PEER, Hello, hello_decode, hello_encode, hello_negotiate
from raftmeta.wire.msgpack cimport Writer, write_array, write_bin, write_bool, write_uint, writer_at
from raftmeta.wire.znodes cimport ZNODE_CHECK, ZNODE_DELETE

cdef enum:
    TUNE_RANGE_BYTES = 1 << 20      # of one answer to a RANGE


# --- HELLO ------------------------------------------------------------------------------------------------------------
cdef void _own_hello(ClientServer* server, Hello* hello) noexcept nogil:
    cdef const uint8_t* name = server.loop.engine.config.name       # set before the threads began
    memset(hello, 0, sizeof(Hello))
    hello.purpose = HELLO_PEER
    hello.version_min = hello.version_max = FORMAT_CLIENT_VERSION
    hello.genesis_state = FOUNDED if server.status.cluster_low | server.status.cluster_high else BLANK
    hello.cluster.low = server.status.cluster_low
    hello.cluster.high = server.status.cluster_high
    hello.id = server.status.id
    hello.boot = server.status.boot
    hello.name_length = server.loop.engine.config.name_length
    memcpy(hello.name, name, hello.name_length)
    hello.cluster_name_length = server.loop.engine.config.cluster_name_length
    memcpy(hello.cluster_name, server.loop.engine.config.cluster_name, hello.cluster_name_length)
    hello.address_length = server.address_length
    memcpy(hello.address, server.address, server.address_length)


cdef status_t requests_hello(ClientServer* server, ClientConnection* connection, const uint8_t* body,
                             uint32_t length) noexcept nogil:
    cdef Hello theirs, ours
    cdef uint8_t version
    cdef size_t start
    cdef status_t status = hello_decode(body, length, &theirs)
    if status != OK:
        return status
    _own_hello(server, &ours)
    if server.status.core.is_removed:
        return REMOVED
    if (theirs.purpose != HELLO_CLIENT or theirs.cluster_name_length != ours.cluster_name_length
            or memcmp(theirs.cluster_name, ours.cluster_name, ours.cluster_name_length) != 0):
        return FOREIGN_CLUSTER
    status = hello_negotiate(&ours, &theirs, &version)
    if status == OK:
        status = client_frame_begin(&connection.base.out, &start)
    if status == OK:
        status = hello_encode(&ours, &connection.base.out)
    if status == OK:
        client_frame_end(&connection.base.out, start)
    return status


# --- answers ----------------------------------------------------------------------------------------------------------
cdef void requests_tell_leader(ClientServer* server, ClientConnection* connection) noexcept nogil:
    cdef ClientMessage message
    cdef Writer writer
    cdef int i
    memset(&message, 0, sizeof(ClientMessage))
    server.scratch.clear()
    writer = writer_at(&server.scratch)
    write_array(&writer, 3)
    for i in range(server.membership.count):
        if server.status.core.leader != 0 and server.membership.members[i].id == server.status.core.leader:
            write_bin(&writer, server.membership.members[i].name, server.membership.members[i].name_length)
            break
    else:
        write_bin(&writer, NULL, 0)
    write_uint(&writer, server.limits.session_window)
    write_uint(&writer, server.limits.value_bytes_max)
    message.kind = CLIENT_LEADER
    message.body.data = server.scratch.data
    message.body.length = <uint32_t>server.scratch.size
    connection_send(server, connection, &message)


# --- commands ---------------------------------------------------------------------------------------------------------
# A client speaks for itself only through this node.
cdef bint _may_propose(const Command* command) noexcept nogil:
    if command.speaker != SPEAKER_NONE:
        return False
    if command.kind == COMMAND_SESSION_OPEN:
        return (command.sequence == 0 and command.member == 0
                and (command.session == 0 or command.session == command.id))
    if command.session == 0 or command.sequence == 0:
        return False
    if command.kind == COMMAND_GROUPS and (command.ttl_ms != 0 or groups_verb(&command.data) == GROUP_CONSUMER):
        return False            # a client grants its lease itself, where its quota is asked
    return (command.kind == COMMAND_KEYS or command.kind == COMMAND_LEASE_GRANT or command.kind == COMMAND_LEASE_REVOKE
            or command.kind == COMMAND_LEASE_KEEP_ALIVE or command.kind == COMMAND_COMPACT
            or command.kind == COMMAND_USER or command.kind == COMMAND_RIGHTS or command.kind == COMMAND_ZNODES
            or command.kind == COMMAND_GROUPS or command.kind == COMMAND_PROCESS_END
            or (command.kind == COMMAND_SESSION_CLOSE and command.id == command.session))


cdef bint _is_urgent_tree(const Command* command) noexcept nogil:
    cdef size_t i
    for i in range(command.znodes.size):
        if command.znodes.data[i].kind != ZNODE_DELETE and command.znodes.data[i].kind != ZNODE_CHECK:
            return False
    return True


# Deletes, fences, leases and sessions pass where growth is held back, as on the node itself.
cdef bint _is_urgent(const Command* command) noexcept nogil:
    cdef size_t i
    if command.kind == COMMAND_ZNODES:
        return _is_urgent_tree(command)
    if command.kind == COMMAND_GROUPS and groups_verb(&command.data) == GROUP_JOIN:
        return False
    if command.fence.is_present or (command.kind != COMMAND_KEYS and command.kind != COMMAND_USER):
        return True
    if command.kind == COMMAND_USER:
        return False
    for i in range(command.ops.size):
        if command.ops.data[i].kind != OP_DELETE and command.ops.data[i].kind != OP_DELETE_RANGE:
            return False
    return command.ops.size != 0


# The level rises by itself, and nothing above it is proposed.
cdef status_t _check_level(const ClientServer* server) noexcept nogil:
    cdef uint32_t level = server.status.machine.feature_level
    if server.command.kind == COMMAND_RIGHTS:
        return OK if level >= LEVEL_OF_RIGHTS else NOT_READY
    if server.command.kind == COMMAND_ZNODES:
        return OK if level >= LEVEL_OF_ZNODES else NOT_READY
    if server.command.kind == COMMAND_GROUPS:
        return OK if level >= LEVEL_OF_GROUPS else NOT_READY
    if server.command.kind == COMMAND_PROCESS_END:
        return OK if level >= LEVEL_OF_PROCESSES else NOT_READY
    if server.command.kind != COMMAND_USER:
        return OK
    if level < LEVEL_OF_USER_MACHINES:
        return NOT_READY
    return VALUE_TOO_LARGE if server.command.data.length > server.limits.value_bytes_max else OK


cdef status_t _command(ClientServer* server, ClientConnection* connection, const ClientRequest* request) noexcept nogil:
    cdef ClientPending pending
    cdef Submission what = submission_of(SUBMIT_CLIENT_COMMAND)
    cdef CommandArguments* asked = &what.arguments.command
    cdef Parts payload, held
    cdef Bytes spoken = request.key
    cdef status_t status = command_decode(request.key.data, request.key.length, &server.command)
    audit_command(server)
    asked.is_urgent = status == OK and _is_urgent(&server.command)
    if (connection.look == LOOK_NONE and not quotas_command(server, connection, request.id, &server.command,
                                                            request.key.length, asked.is_urgent)):
        return OK
    if status == OK and not _may_propose(&server.command):
        status = COMMAND_INVALID
    if status == OK:
        status = audit_check(server)
    if status == OK:
        status = _check_level(server)
    # Whose identities these are nobody proved to this node. While rights are off, anybody may do anything.
    if status == OK and server.command.identities.size and access_is_guarded(server):
        status = PERMISSION_DENIED
    if status == OK:
        status = access_speak(server, connection, &spoken, &server.scratch)
    if status == AUTHENTICATION_FAILED:
        if connection.principal.name_length != 0 and second_look_begin(server, connection):
            return OK
        status = second_look_verdict(server, connection, status)
    if status in (COMMAND_INVALID, KEY_INVALID, VALUE_TOO_LARGE, NOT_READY, NO_LEADER, NO_SPACE, OVERLOADED,
                  NODE_CLOSED, AUTHENTICATION_FAILED, PERMISSION_DENIED):
        request_answer(server, connection, request.id, status, server.status.machine.revision, 0, NULL, 0)
        return OK
    if status != OK:
        return status
    memset(&pending, 0, sizeof(ClientPending))
    pending.kind = REQUEST_COMMAND
    pending.id = request.id
    payload = parts_of(spoken.data, spoken.length, NULL, 0)
    held = parts_of(NULL, 0, NULL, 0)
    if server.command.kind == COMMAND_USER:
        # Its answer is its outcome, which only a copy knows: the name is needed for that, and first of all by the
        # engine, which takes no command for a machine that has no copy here.
        held = parts_of(server.command.name.data, server.command.name.length, NULL, 0)
        asked.machine_length = server.command.name.length
        # A spoken command ends with the command as it came.
        asked.machine_offset = (<uint32_t>(server.command.name.data - request.key.data)
                                + spoken.length - request.key.length)
    asked.session = server.command.session
    asked.sequence = server.command.sequence
    if server.command.kind == COMMAND_SESSION_OPEN:
        asked.session = server.command.id
    if request_is_crowded(server, asked.is_urgent):
        request_answer(server, connection, request.id, OVERLOADED, 0, 0, NULL, 0)
        return OK
    quotas_note(server, connection, &server.command, &pending)
    if request_submit(server, connection, &pending, &held, &payload, &what) != OK:
        pending.account = connection.base.account
        quotas_settle(server, &pending, OVERLOADED, NULL, 0)
        request_answer(server, connection, request.id, OVERLOADED, 0, 0, NULL, 0)
    return OK


# --- reads ------------------------------------------------------------------------------------------------------------
cdef void _serve_read(ClientServer* server, ClientConnection* connection, const ClientPending* pending,
                      const uint8_t* bytes, uint64_t index) noexcept nogil:
    cdef Machine* machine = loop_enter(server.loop, READER_CLIENTS)
    cdef Vec[uint8_t] records
    cdef Writer writer
    cdef Bytes first, last
    cdef Grouping grouping
    cdef uint64_t count = 0
    cdef uint64_t seen = 0
    cdef bint more = False
    cdef status_t status = NOT_READY
    if load_acquire(&server.loop.state) == ENGINE_STOPPED:
        status = NODE_CLOSED
    first.data = bytes
    first.length = pending.key_length
    last.data = bytes + pending.key_length
    last.length = pending.length - pending.key_length - pending.delimiter_length
    grouping.delimiter.data = last.data + last.length
    grouping.delimiter.length = pending.delimiter_length
    grouping.skip = pending.skip
    memset(&records, 0, sizeof(records))
    if status == NOT_READY and machine != NULL:
        status = machine_range_shared(machine, &first, &last, pending.number, &grouping, pending.limit,
                                      <uint32_t>connection_share(server, TUNE_RANGE_BYTES),
                                      (pending.flags & READ_KEYS_ONLY) != 0, (pending.flags & READ_COUNT_ONLY) != 0,
                                      &records, &count, &more, &seen)
    loop_leave(server.loop, READER_CLIENTS)
    if status == OK:
        status = access_of_pending(server, connection, pending, bytes)
    server.scratch.clear()
    if status == OK and pending.kind != REQUEST_GET:
        writer = writer_at(&server.scratch)
        write_uint(&writer, count)
        write_bool(&writer, more)
        status = writer.status
    if status == OK and not server.scratch.append(records.data, records.size):
        status = NO_MEMORY
    # A read that failed for memory was not made, and may be made elsewhere.
    request_answer(server, connection, pending.id, OVERLOADED if status == NO_MEMORY else status, seen, index,
                   server.scratch.data, server.scratch.size if status == OK else 0)
    records.release()


cdef status_t _read(ClientServer* server, ClientConnection* connection, const ClientRequest* request) noexcept nogil:
    cdef ClientPending pending
    cdef Submission what = submission_of(SUBMIT_READ)
    cdef Parts held
    cdef Bytes first, last
    memset(&pending, 0, sizeof(ClientPending))
    pending.kind = request.kind
    pending.flags = request.flags
    pending.id = request.id
    pending.number = request.number
    pending.limit = request.limit
    first = request.key
    last = request.end
    server.scratch.clear()
    if request.kind == REQUEST_GET:     # the range from the key to its successor
        if not server.scratch.append(request.key.data, request.key.length) or not server.scratch.push(0):
            return NO_MEMORY
        last.data = server.scratch.data
        last.length = request.key.length + 1
        pending.limit = 1
    if request.kind == REQUEST_GROUPS:  # the delimiter is held behind the end
        if (not server.scratch.append(request.end.data, request.end.length)
                or not server.scratch.append(request.delimiter.data, request.delimiter.length)):
            return NO_MEMORY
        last.data = server.scratch.data
        last.length = request.end.length + request.delimiter.length
        pending.delimiter_length = request.delimiter.length
        pending.skip = request.skip
    if request.flags & READ_LOCAL:
        return _read_local(server, connection, &pending, &first, &last)
    held = parts_of(first.data, first.length, last.data, last.length)
    if (request_is_crowded(server, False)
            or request_submit(server, connection, &pending, &held, NULL, &what) != OK):
        request_answer(server, connection, request.id, OVERLOADED, 0, 0, NULL, 0)
    return OK


cdef status_t _read_local(ClientServer* server, ClientConnection* connection, ClientPending* pending,
                          const Bytes* first, const Bytes* last) noexcept nogil:
    cdef Vec[uint8_t] bounds
    cdef status_t status = OK
    memset(&bounds, 0, sizeof(bounds))
    pending.key_length = first.length
    pending.length = first.length + last.length
    if bounds.append(first.data, first.length) and bounds.append(last.data, last.length):
        _serve_read(server, connection, pending, bounds.data, server.status.core.applied)
    else:
        status = NO_MEMORY
    bounds.release()
    return status


# --- watches, leadership, leases --------------------------------------------------------------------------------------
cdef status_t _watch(ClientServer* server, ClientConnection* connection, const ClientRequest* request) noexcept nogil:
    cdef ClientWatch* watch = NULL
    cdef ClientPending pending
    cdef Submission what = submission_of(SUBMIT_WATCH)
    cdef Parts bounds
    memset(&pending, 0, sizeof(ClientPending))
    if not quotas_watch(server, connection, request.id):
        return OK
    if not request_is_crowded(server, False):
        watch = watch_create(server, connection, request)
    if watch == NULL:
        request_answer(server, connection, request.id, OVERLOADED, 0, 0, NULL, 0)
        return OK
    pending.kind = REQUEST_WATCH
    pending.id = request.id
    pending.watch = watch
    what.arguments.watch.start_revision = request.number
    what.arguments.watch.filter = request.flags
    what.arguments.watch.handle = &watch.signal
    what.arguments.watch.purse = watch.purse
    what.arguments.watch.key_length = request.key.length
    bounds = parts_of(request.key.data, request.key.length, request.end.data, request.end.length)
    return request_submit(server, connection, &pending, NULL, &bounds, &what)


cdef status_t _unwatch(ClientServer* server, ClientConnection* connection, const ClientRequest* request) noexcept nogil:
    cdef ClientWatch* watch = watch_find(connection, request)
    if watch == NULL:
        request_answer(server, connection, request.id, NOT_FOUND, 0, 0, NULL, 0)
    else:
        watches_unwatch(server, connection, watch, request.id)
    return OK


cdef status_t _leases(ClientServer* server, ClientConnection* connection, const ClientRequest* request) noexcept nogil:
    cdef ClientPending pending
    cdef Submission what = submission_of(SUBMIT_LIST_LEASES)
    memset(&pending, 0, sizeof(ClientPending))
    pending.kind = REQUEST_LEASES
    pending.id = request.id
    what.arguments.list_leases.least = request.number
    access_owner(server, connection, &what.arguments.list_leases.owner)
    pending.number = what.arguments.list_leases.owner
    if (request_is_crowded(server, False)
            or request_submit(server, connection, &pending, NULL, NULL, &what) != OK):
        request_answer(server, connection, request.id, OVERLOADED, 0, 0, NULL, 0)
    return OK


# --- the whole --------------------------------------------------------------------------------------------------------
cdef status_t _ping(ClientServer* server, ClientConnection* connection, const ClientRequest* request) noexcept nogil:
    if request.id != 0:     # with id 0 it is the answer to ours
        request_answer(server, connection, request.id, OK, server.status.machine.revision, 0, NULL, 0)
    return OK


# The taker of a request, by its kind. A kind without a taker is a ping: wire/client_messages refuses unknown kinds.
ctypedef status_t (*Taker)(ClientServer* server, ClientConnection* connection,
                           const ClientRequest* request) noexcept nogil

cdef Taker[REQUEST_KIND_MAX + 1] TAKERS
TAKERS[<int>REQUEST_COMMAND] = _command
TAKERS[<int>REQUEST_GET] = _read
TAKERS[<int>REQUEST_RANGE] = _read
TAKERS[<int>REQUEST_GROUPS] = _read
TAKERS[<int>REQUEST_WATCH] = _watch
TAKERS[<int>REQUEST_UNWATCH] = _unwatch
TAKERS[<int>REQUEST_LEASES] = _leases
TAKERS[<int>REQUEST_STATUS] = members_take
TAKERS[<int>REQUEST_TRANSFER] = members_take
TAKERS[<int>REQUEST_MEMBERS] = members_take
TAKERS[<int>REQUEST_CHANGE] = members_take
TAKERS[<int>REQUEST_MEET] = members_take
TAKERS[<int>REQUEST_SNAPSHOT] = snapshots_take
TAKERS[<int>REQUEST_PIECE] = snapshots_take
TAKERS[<int>REQUEST_MACHINE_READ] = machine_read
TAKERS[<int>REQUEST_AUTHENTICATE] = authentication_take
TAKERS[<int>REQUEST_RIGHTS] = listing_take
TAKERS[<int>REQUEST_FLIGHT] = flight_take


# Who proved nothing is unknown to every state, and a local read is about the state that is here.
cdef status_t _refuse(ClientServer* server, ClientConnection* connection, const ClientRequest* request,
                      status_t status) noexcept nogil:
    cdef bint is_read = _is_read(request.kind) or request.kind == REQUEST_MACHINE_READ
    if connection.principal.name_length == 0 or (is_read and request.flags & READ_LOCAL):
        return status
    if second_look_begin(server, connection):
        server.counters.denied -= 1     # not yet
    return second_look_verdict(server, connection, status)


cdef status_t requests_take(ClientServer* server, ClientConnection* connection,
                            const ClientRequest* request) noexcept nogil:
    cdef Taker taker = TAKERS[request.kind] if request.kind <= REQUEST_KIND_MAX else NULL
    cdef status_t status
    audit_begin(server, connection, request)
    if connection.look == LOOK_NONE and not quotas_request(server, connection, request):
        return OK
    status = access_of_request(server, connection, request)
    if status != OK:
        status = _refuse(server, connection, request, status)
    elif request.kind != REQUEST_COMMAND:
        status = audit_check(server)
    if connection.look == LOOK_ASKED:
        return OK
    if status != OK:
        request_answer(server, connection, request.id, status, 0, 0, NULL, 0)
        second_look_end(connection)
        return OK
    status = taker(server, connection, request) if taker != NULL else _ping(server, connection, request)
    server.has_note = server.has_note and status != OK      # then the refusal of the connection is its answer
    second_look_end(connection)
    return status


cdef ClientPending* _unlink(ClientServer* server, Ticket* ticket) noexcept nogil:
    cdef ClientPending* pending = <ClientPending*>ticket.waiter
    if ticket.next_waiting != NULL:
        ticket.next_waiting.previous_waiting = ticket.previous_waiting
    if ticket.previous_waiting != NULL:
        ticket.previous_waiting.next_waiting = ticket.next_waiting
    else:
        server.waiting = ticket.next_waiting
    ticket.waiter = NULL
    bytes_end(&server.base, pending.account, pending.bytes)
    return pending


cdef inline bint _is_read(uint8_t kind) noexcept nogil:
    return kind == REQUEST_GET or kind == REQUEST_RANGE or kind == REQUEST_GROUPS


# Whether the right to the answer went while it was made. A read of keys or rights is looked at when it is made.
cdef status_t _access(ClientServer* server, ClientConnection* connection, const ClientPending* pending) noexcept nogil:
    cdef uint64_t owner = 0
    if pending.kind == REQUEST_COMMAND or pending.kind == REQUEST_RIGHTS or _is_read(pending.kind):
        return OK
    if pending.kind == REQUEST_LEASES:
        access_owner(server, connection, &owner)
        if owner != pending.number:
            return PERMISSION_DENIED
    return access_of_pending(server, connection, pending, <const uint8_t*>pending + sizeof(ClientPending))


cdef void _tell(ClientServer* server, ClientConnection* connection, const ClientPending* pending,
                const Ticket* ticket) noexcept nogil:
    cdef status_t status
    if pending.kind == PENDING_LOOK:
        second_look_done(connection, ticket)
        return
    status = _access(server, connection, pending)
    if status != OK:
        request_answer(server, connection, pending.id, status, 0, 0, NULL, 0)
    elif _is_read(pending.kind) and ticket.status == OK:
        _serve_read(server, connection, pending, <uint8_t*>pending + sizeof(ClientPending), ticket.index)
    elif pending.kind == REQUEST_MEMBERS and ticket.status == OK:
        members_answer(server, connection, pending.id)
    elif pending.kind == REQUEST_RIGHTS and ticket.status == OK:
        listing_answer(server, connection, pending)
    elif pending.kind == REQUEST_SNAPSHOT:
        snapshot_found(server, connection, pending, ticket)
    elif pending.kind == REQUEST_MACHINE_READ or (pending.kind == REQUEST_COMMAND and pending.key_length != 0):
        machine_told(server, connection, pending, ticket)
    elif pending.id != 0:
        request_answer(server, connection, pending.id, ticket.status, ticket.revision, ticket.index, ticket.body,
                       ticket.length if pending.kind == REQUEST_COMMAND or pending.kind == REQUEST_LEASES else 0)


cdef ClientConnection* requests_done(ClientServer* server, Ticket* ticket) noexcept nogil:
    cdef ClientPending* pending = _unlink(server, ticket)
    cdef ClientConnection* connection = <ClientConnection*>connection_at(&server.base, pending.place,
                                                                         pending.generation)
    quotas_settle(server, pending, ticket.status, ticket.body, ticket.length)
    account_drop(pending.account)
    if connection != NULL and _must_wait(server, connection, pending):
        _park(server, connection, pending, ticket)
        return NULL
    _finish(server, connection, pending, ticket)
    return connection


# --- answers that wait ------------------------------------------------------------------------------------------------
# Its connection has enough unsent. A read is not made before; the result of a command is there and stays. A
# request that makes or ends a watch needs more than an answer.
cdef bint _must_wait(const ClientServer* server, const ClientConnection* connection,
                     const ClientPending* pending) noexcept nogil:
    if pending.kind == REQUEST_WATCH or pending.kind == REQUEST_UNWATCH:
        return False
    return (connection.parked != NULL or not connection_may_answer(server, connection)
            or (pending.kind != REQUEST_COMMAND and server.base.turn_bytes >= TUNE_TURN_BYTES))


cdef void _park(ClientServer* server, ClientConnection* connection, ClientPending* pending,
                Ticket* ticket) noexcept nogil:
    ticket.waiter = pending
    ticket.next_waiting = NULL
    if connection.parked == NULL:
        connection.parked = ticket
    else:
        connection.parked_last.next_waiting = ticket
    connection.parked_last = ticket
    connection.base.parked_bytes += sizeof(Ticket) + ticket.length
    connection_count(&server.base, &connection.base)
    if connection_may_answer(server, connection):
        connection_next_turn(&server.base, &connection.base)


cdef Ticket* _unpark(ClientServer* server, ClientConnection* connection) noexcept nogil:
    cdef Ticket* ticket = connection.parked
    connection.parked = ticket.next_waiting
    ticket.next_waiting = NULL
    connection.base.parked_bytes -= sizeof(Ticket) + ticket.length
    connection_count(&server.base, &connection.base)
    return ticket


cdef void requests_serve_parked(ClientServer* server, ClientConnection* connection) noexcept nogil:
    cdef Ticket* ticket
    while connection.parked != NULL and connection_may_answer(server, connection):
        if server.base.turn_bytes >= TUNE_TURN_BYTES:
            connection_next_turn(&server.base, &connection.base)
            return
        ticket = _unpark(server, connection)
        _finish(server, connection, <ClientPending*>ticket.waiter, ticket)


cdef void requests_drop_parked(ClientServer* server, ClientConnection* connection) noexcept nogil:
    cdef Ticket* ticket
    while connection.parked != NULL:
        ticket = _unpark(server, connection)
        audit_resume(server, <ClientPending*>ticket.waiter)
        audit_finish(server, <ClientPending*>ticket.waiter, ticket.status, ticket.revision, ticket.index)
        free(ticket.waiter)
        ticket_drop(ticket)
        ticket_drop(ticket)


cdef void _finish(ClientServer* server, ClientConnection* connection, ClientPending* pending,
                  Ticket* ticket) noexcept nogil:
    audit_resume(server, pending)
    if connection != NULL:
        connection.under_way -= 1
        if pending.kind != REQUEST_COMMAND:
            connection.read_bytes -= pending.bytes
        _tell(server, connection, pending, ticket)
    audit_finish(server, pending, ticket.status, ticket.revision, ticket.index)
    if pending.kind == REQUEST_WATCH:
        watch_opened(server, pending.watch, ticket)
    elif pending.kind == REQUEST_UNWATCH:
        watch_closed(server, pending.watch, ticket.status)
    free(pending)
    ticket_drop(ticket)         # the engine's hold, then this server's
    ticket_drop(ticket)


cdef void requests_release(ClientServer* server) noexcept nogil:
    cdef Ticket* ticket
    cdef ClientPending* pending
    while server.waiting != NULL:
        ticket = server.waiting
        pending = _unlink(server, ticket)
        audit_resume(server, pending)
        audit_finish(server, pending, OUTCOME_UNKNOWN, 0, 0)
        watch_free(pending.watch)       # opening or closing, and of no connection any more
        account_drop(pending.account)
        free(pending)
        ticket_drop(ticket)
