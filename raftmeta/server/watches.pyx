"""Watches of clients.

It decides when the items of a watch are taken from its queue: while its connection has little unsent. So a client
that is too slow fills its own queue, ends with one LAGGED that says where to go on, and holds nobody up. It
must never skip an item, or free what the loop may still signal.

Whose memory the signal is: the loop writes to it from SUBMIT_WATCH until it has answered SUBMIT_UNWATCH; both answers
come through the same mailbox as the signals, in order, so behind the answer to the unwatch no signal follows.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from raftmeta.connections.accounts_state cimport account_drop, account_hold
from raftmeta.connections.connections cimport connection_next_turn
from raftmeta.connections.state cimport CONNECTION_OPEN, NOWHERE, TUNE_TURN_BYTES
from raftmeta.engine.submission cimport SUBMIT_UNWATCH, Submission
from raftmeta.loop.tickets cimport MAIL_WATCH
from raftmeta.machine.watch_purse cimport purse_create, purse_drop, purse_hold
from raftmeta.machine.watches cimport watch_take
from raftmeta.native.atomics cimport add_shared, subtract_shared
from raftmeta.server.access cimport access_of_watch, access_revision
from raftmeta.server.audit cimport audit_watch_ended
from raftmeta.server.output cimport connection_has_room, connection_send
from raftmeta.server.pending cimport request_answer, request_submit, submission_of
from raftmeta.server.state cimport (CLIENT_WATCH_CLOSING, CLIENT_WATCH_OPEN, CLIENT_WATCH_OPENING, TUNE_WATCHES_MAX,
                                    ClientPending)
from raftmeta.status cimport NO_MEMORY, OK, PERMISSION_DENIED
from raftmeta.wire.client_messages cimport CLIENT_EVENTS, REQUEST_UNWATCH, ClientMessage

cdef enum:
    TUNE_ITEMS = 256                # taken at once
    TUNE_ITEM_BYTES = 1 << 17


cdef ClientWatch* watch_create(ClientServer* server, ClientConnection* connection,
                               const ClientRequest* request) noexcept nogil:
    cdef ClientWatch* watch
    if connection.watch_count >= TUNE_WATCHES_MAX:
        return NULL
    if connection.purse == NULL:
        connection.purse = purse_create(server.pool)
    if connection.purse == NULL:
        return NULL
    watch = <ClientWatch*>calloc(1, sizeof(ClientWatch))
    if watch == NULL:
        return NULL
    if connection.principal.name_length != 0 and not (watch.bounds.append(request.key.data, request.key.length)
                                                      and watch.bounds.append(request.end.data, request.end.length)):
        watch.bounds.release()
        free(watch)
        return NULL
    watch.start_length = request.key.length
    watch.signal.mail.kind = MAIL_WATCH
    watch.signal.mailbox = server.mailbox
    watch.signal.consumer = watch
    watch.id = request.id
    watch.place = connection.base.place
    watch.state = CLIENT_WATCH_OPENING
    watch.purse = connection.purse
    purse_hold(watch.purse)
    watch.account = connection.base.account
    account_hold(watch.account)
    add_shared(&watch.account.watches, <uint32_t>1)
    watch.next = connection.watches
    connection.watches = watch
    connection.watch_count += 1
    server.counters.watches += 1
    return watch


cdef void watch_free(ClientWatch* watch) noexcept nogil:
    if watch != NULL:
        watch.bounds.release()
        purse_drop(watch.purse)
        free(watch)


cdef ClientWatch* watch_find(ClientConnection* connection, const ClientRequest* request) noexcept nogil:
    cdef ClientWatch* watch = connection.watches
    while watch != NULL and (watch.id != request.number or watch.state != CLIENT_WATCH_OPEN):
        watch = watch.next
    return watch


# Out of the list of its connection, if it still has one.
cdef void _unlink(ClientServer* server, ClientWatch* watch) noexcept nogil:
    cdef ClientConnection* connection
    cdef ClientWatch** at
    server.counters.watches -= 1
    subtract_shared(&watch.account.watches, <uint32_t>1)
    account_drop(watch.account)
    watch.account = NULL
    if watch.place == NOWHERE:
        return
    connection = &server.connections[watch.place]
    at = &connection.watches
    while at[0] != watch:
        at = &at[0].next
    at[0] = watch.next
    connection.watch_count -= 1
    watch.place = NOWHERE


cdef void watch_opened(ClientServer* server, ClientWatch* watch, const Ticket* ticket) noexcept nogil:
    if ticket.status != OK:
        _unlink(server, watch)
        watch_free(watch)
        return
    memcpy(&watch.watch, ticket.body, sizeof(watch.watch))
    watch.state = CLIENT_WATCH_OPEN
    if watch.place == NOWHERE:          # its connection went away meanwhile
        watches_unwatch(server, NULL, watch, 0)
    elif not access_of_watch(server, &server.connections[watch.place], watch):
        _deny(server, &server.connections[watch.place], watch)
    elif watch.has_items:
        watch_news(server, watch)       # it was signalled before its answer was looked at


cdef void watch_closed(ClientServer* server, ClientWatch* watch, status_t status) noexcept nogil:
    _unlink(server, watch)
    if status == OK:
        watch_free(watch)
        return
    # The node stopped: its hub still knows the signal, so it is given back with the node.
    watch.next = server.orphans
    server.orphans = watch


# The right to it has gone: its client is told by a second answer, and what waits is told to nobody.
cdef void _deny(ClientServer* server, ClientConnection* connection, ClientWatch* watch) noexcept nogil:
    request_answer(server, connection, watch.id, PERMISSION_DENIED, 0, 0, NULL, 0)
    audit_watch_ended(server, connection, watch)
    watches_unwatch(server, connection, watch, 0)


cdef void watches_look(ClientServer* server) noexcept nogil:
    cdef uint64_t revision = access_revision(server)
    cdef ClientWatch* watch
    cdef ClientWatch* next
    cdef uint32_t place
    if revision == server.rights_revision:
        return
    server.rights_revision = revision
    for place in range(server.base.limits.connections_max):
        watch = server.connections[place].watches
        while watch != NULL:
            next = watch.next
            if watch.state == CLIENT_WATCH_OPEN and not access_of_watch(server, &server.connections[place], watch):
                _deny(server, &server.connections[place], watch)
            watch = next


cdef void watch_news(ClientServer* server, ClientWatch* watch) noexcept nogil:
    cdef ClientConnection* connection
    cdef ClientMessage message
    cdef uint32_t count = 1
    cdef int status = OK
    watch.has_items = True
    if watch.state != CLIENT_WATCH_OPEN or watch.place == NOWHERE:
        return
    connection = &server.connections[watch.place]
    while status == OK and connection.base.state == CONNECTION_OPEN and connection_has_room(server, connection):
        if server.base.turn_bytes >= TUNE_TURN_BYTES:
            connection_next_turn(&server.base, &connection.base)
            return
        server.scratch.clear()
        status = watch_take(watch.watch, TUNE_ITEMS, TUNE_ITEM_BYTES, &server.scratch, &count)
        if count == 0:
            watch.has_items = False
            return
        # Behind the taking: the table of rights was published before any event that followed its change.
        if not access_of_watch(server, connection, watch):
            _deny(server, connection, watch)
            return
        memset(&message, 0, sizeof(ClientMessage))
        message.kind = CLIENT_EVENTS
        message.id = watch.id
        message.body.data = server.scratch.data
        message.body.length = <uint32_t>server.scratch.size
        connection_send(server, connection, &message)


cdef void _begin_behind(ClientConnection* connection, ClientWatch* watch) noexcept nogil:
    cdef ClientWatch* first = connection.watches
    cdef ClientWatch* last = watch.next
    connection.watches = watch.next
    while last.next != NULL:
        last = last.next
    last.next = first
    watch.next = NULL


cdef void watches_resume(ClientServer* server, ClientConnection* connection) noexcept nogil:
    cdef ClientWatch* watch = connection.watches
    while watch != NULL and connection_has_room(server, connection):
        if watch.has_items:
            watch_news(server, watch)
        if (watch.has_items and watch.state == CLIENT_WATCH_OPEN and watch.next != NULL
                and (server.base.turn_bytes >= TUNE_TURN_BYTES or not connection_has_room(server, connection))):
            _begin_behind(connection, watch)        # it has more than fits: the others come first next time
            return
        watch = watch.next


cdef void watches_abandon(ClientServer* server, ClientConnection* connection) noexcept nogil:
    cdef ClientWatch* watch = connection.watches
    cdef ClientWatch* next
    connection.watches = NULL
    while watch != NULL:
        next = watch.next
        watch.place = NOWHERE
        watch.next = NULL
        if watch.state == CLIENT_WATCH_OPEN:
            watches_unwatch(server, NULL, watch, 0)
        watch = next


cdef void watches_unwatch(ClientServer* server, ClientConnection* connection, ClientWatch* watch,
                          uint64_t id) noexcept nogil:
    cdef ClientPending pending
    cdef Submission what = submission_of(SUBMIT_UNWATCH)
    memset(&pending, 0, sizeof(ClientPending))
    pending.kind = REQUEST_UNWATCH
    pending.id = id
    pending.watch = watch
    what.arguments.unwatch.watch = watch.watch
    if request_submit(server, connection, &pending, NULL, NULL, &what) == OK:
        watch.state = CLIENT_WATCH_CLOSING
    else:
        watch_closed(server, watch, NO_MEMORY)      # it stays with the node until both end
