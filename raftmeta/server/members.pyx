"""Questions of clients about the cluster.

It decides nothing. A change of members is the client's plan (members/plans), one step at a time: it looks
(MEMBERS), takes a step (CHANGE, MEET, TRANSFER), looks again. Each step names the membership that it was made from, and
the leader judges it; so a client may die between any two, and another one goes on. It must never wait for a
change to be committed; the client looks for that.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp, memset

from raftmeta._core cimport CoreStatus
from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.engine.submission cimport (SUBMIT_MEET, SUBMIT_MEMBERSHIP, SUBMIT_READ, SUBMIT_TRANSFER, Submission)
from raftmeta.loop.loop cimport NodeStatus
from raftmeta.raft.membership cimport membership_decode, membership_is_plain_text
from raftmeta.raft.types cimport MEMBERS_MAX, Membership
from raftmeta.server.access cimport access_to_all
from raftmeta.server.pending cimport parts_of, request_answer, request_is_crowded, request_submit, submission_of
from raftmeta.server.state cimport ClientPending, Parts
from raftmeta.status cimport BAD_FIELD, NOT_FOUND, OK, OVERLOADED
from raftmeta.wire.client_messages cimport (READ_LOCAL, REQUEST_CHANGE, REQUEST_MEET, REQUEST_STATUS,
                                            REQUEST_TRANSFER)
from raftmeta.wire.feed_messages cimport Observed
from raftmeta.wire.msgpack cimport Writer, write_array, write_bin, write_bool, write_uint, writer_at


cdef enum:
    ROLE_OBSERVER = 5           # in a status, beside the roles of raft/ready
    OBSERVER_ELEMENTS = 5


cdef void members_read(ClientServer* server) noexcept nogil:
    while not server.loop.membership.read(&server.membership):
        pass
    while not server.loop.links.read(&server.links):
        pass
    while not server.loop.observers.read(&server.observers):
        pass


# --- what is told -----------------------------------------------------------------------------------------------------
cdef void _write_members(ClientServer* server, Writer* writer) noexcept nogil:
    cdef uint32_t count = 0
    cdef uint32_t i
    write_array(writer, server.membership.count)
    for i in range(server.membership.count):
        write_array(writer, 4)
        write_uint(writer, server.membership.members[i].id)
        write_uint(writer, server.membership.members[i].roles)
        write_bin(writer, server.membership.members[i].name, server.membership.members[i].name_length)
        write_bin(writer, server.membership.members[i].address, server.membership.members[i].address_length)
    for i in range(MEMBERS_MAX):
        count += server.links.links[i].name_length != 0
    write_array(writer, count)
    for i in range(MEMBERS_MAX):
        if server.links.links[i].name_length != 0:
            write_array(writer, 6)
            write_uint(writer, server.links.links[i].id)
            write_bool(writer, server.links.links[i].is_up or server.links.links[i].is_self)
            write_bin(writer, server.links.links[i].name, server.links.links[i].name_length)
            write_uint(writer, server.links.links[i].bytes_in)
            write_uint(writer, server.links.links[i].bytes_out)
            write_bool(writer, server.status.lost_links >> i & 1)


cdef void _write_name_of(ClientServer* server, Writer* writer, uint64_t id) noexcept nogil:
    cdef uint32_t i
    for i in range(<uint32_t>MEMBERS_MAX):
        if id != 0 and server.links.links[i].id == id:
            write_bin(writer, server.links.links[i].name, server.links.links[i].name_length)
            return
    write_bin(writer, NULL, 0)


cdef bint _is_fed(const CoreStatus* core, uint64_t id) noexcept nogil:
    cdef uint32_t i
    for i in range(core.feed_count):
        if core.feeds[i].id == id:
            return True
    return False


# Those that this node feeds, and those that follow through them.
cdef void _write_observers(ClientServer* server, Writer* writer) noexcept nogil:
    cdef const CoreStatus* core = &server.status.core
    cdef const Observed* one
    cdef uint32_t count = core.feed_count
    cdef uint32_t i
    for i in range(server.observers.count):
        count += not _is_fed(core, server.observers.observers[i].id)
    write_array(writer, count)
    for i in range(core.feed_count):
        write_array(writer, OBSERVER_ELEMENTS)
        write_uint(writer, core.feeds[i].id)
        _write_name_of(server, writer, core.feeds[i].id)
        write_uint(writer, server.status.id)
        write_uint(writer, core.feeds[i].index)
        write_uint(writer, core.committed - min(core.committed, core.feeds[i].index))
    for i in range(server.observers.count):
        one = &server.observers.observers[i]
        if not _is_fed(core, one.id):
            write_array(writer, OBSERVER_ELEMENTS)
            write_uint(writer, one.id)
            write_bin(writer, one.name, one.name_length)
            write_uint(writer, one.feeder)
            write_uint(writer, one.last)
            write_uint(writer, one.lag)


cdef void _write_own_name(ClientServer* server, Writer* writer) noexcept nogil:
    write_bin(writer, server.loop.engine.config.name, server.loop.engine.config.name_length)


cdef bint members_is_ready(ClientServer* server) noexcept nogil:
    members_read(server)
    return (server.status.engine_state == ENGINE_RUNNING and server.status.session != 0
            and server.status.core.leader != 0)


cdef status_t _status(ClientServer* server, ClientConnection* connection, const ClientRequest* request) noexcept nogil:
    cdef Writer writer
    cdef bint sees_all = access_to_all(server, connection)
    cdef bint is_ready = members_is_ready(server)
    server.scratch.clear()
    writer = writer_at(&server.scratch)
    _write_own_name(server, &writer)
    write_uint(&writer, server.status.id)
    write_uint(&writer, server.status.boot)
    write_bin(&writer, server.loop.engine.config.cluster_name, server.loop.engine.config.cluster_name_length)
    write_uint(&writer, server.status.cluster_low)
    write_uint(&writer, server.status.cluster_high)
    write_uint(&writer, server.status.engine_state)
    write_uint(&writer, ROLE_OBSERVER if server.status.core.is_observer else <uint32_t>server.status.core.role)
    write_uint(&writer, server.status.core.term)
    write_uint(&writer, server.status.core.leader)
    write_uint(&writer, server.status.core.committed)
    write_uint(&writer, server.status.core.applied)
    write_uint(&writer, server.status.core.persisted)
    write_uint(&writer, server.status.core.last)
    write_uint(&writer, server.status.machine.revision)
    write_uint(&writer, server.status.machine.compacted)
    # These tell something of every key: by the hash a guess at the only value that is not known could be tested.
    write_uint(&writer, server.status.machine.keys if sees_all else 0)
    write_uint(&writer, server.status.machine.state_hash.low if sees_all else 0)
    write_uint(&writer, server.status.machine.state_hash.high if sees_all else 0)
    write_uint(&writer, server.status.machine.feature_level)
    write_bin(&writer, server.version, server.version_length)
    write_bool(&writer, is_ready)
    _write_members(server, &writer)
    _write_name_of(server, &writer, server.status.core.feeder)
    _write_observers(server, &writer)
    if writer.status == OK:
        request_answer(server, connection, request.id, OK, server.status.machine.revision, server.status.core.applied,
                       server.scratch.data, server.scratch.size)
    return writer.status


cdef void members_answer(ClientServer* server, ClientConnection* connection, uint64_t id) noexcept nogil:
    cdef Writer writer
    cdef NodeStatus status
    # A read round that ended since this turn began must be in it. First, see loop/loop.
    while not server.loop.status.read(&status):
        pass
    server.status = status
    members_read(server)
    server.scratch.clear()
    writer = writer_at(&server.scratch)
    _write_own_name(server, &writer)
    write_uint(&writer, status.id)
    write_uint(&writer, status.machine.revision)
    write_uint(&writer, server.membership.index)
    write_bool(&writer, not server.membership.is_joint and server.membership.index <= status.core.committed)
    write_bool(&writer, status.core.is_removed)
    write_uint(&writer, status.core.leader)
    _write_members(server, &writer)
    # A look that failed for memory was not made, and may be made elsewhere.
    request_answer(server, connection, id, OK if writer.status == OK else OVERLOADED, status.machine.revision,
                   status.core.applied, server.scratch.data, server.scratch.size if writer.status == OK else 0)


# --- what is asked of the loop ----------------------------------------------------------------------------------------
cdef status_t _pass_on(ClientServer* server, ClientConnection* connection, const ClientRequest* request,
                       const Submission* what, const Parts* payload) noexcept nogil:
    cdef ClientPending pending
    memset(&pending, 0, sizeof(ClientPending))
    pending.kind = request.kind
    pending.id = request.id
    # An operator's step is urgent, as a membership change is on the node itself.
    if (request_is_crowded(server, True)
            or request_submit(server, connection, &pending, NULL, payload, what) != OK):
        request_answer(server, connection, request.id, OVERLOADED, 0, 0, NULL, 0)
    return OK


cdef status_t _transfer(ClientServer* server, ClientConnection* connection,
                        const ClientRequest* request) noexcept nogil:
    cdef Submission what = submission_of(SUBMIT_TRANSFER)
    cdef uint64_t target = 0
    cdef int i
    members_read(server)
    for i in range(server.membership.count):
        if (server.membership.members[i].name_length == request.key.length
                and memcmp(server.membership.members[i].name, request.key.data, request.key.length) == 0):
            target = server.membership.members[i].id
    if request.key.length != 0 and target == 0:
        request_answer(server, connection, request.id, NOT_FOUND, 0, 0, NULL, 0)
        return OK
    what.arguments.transfer.target = target
    return _pass_on(server, connection, request, &what, NULL)


cdef status_t _change(ClientServer* server, ClientConnection* connection, const ClientRequest* request) noexcept nogil:
    cdef Submission what = submission_of(SUBMIT_MEMBERSHIP)
    cdef Membership asked
    cdef Parts payload = parts_of(request.key.data, request.key.length, NULL, 0)
    members_read(server)
    if (membership_decode(request.key.data, request.key.length, &asked) != OK
            or not membership_is_plain_text(&asked, &server.membership)):
        request_answer(server, connection, request.id, BAD_FIELD, 0, 0, NULL, 0)
        return OK
    what.arguments.membership.made_from = request.number
    return _pass_on(server, connection, request, &what, &payload)


cdef status_t members_take(ClientServer* server, ClientConnection* connection,
                           const ClientRequest* request) noexcept nogil:
    cdef Submission what
    cdef Parts named
    if request.kind == REQUEST_STATUS:
        return _status(server, connection, request)
    if request.kind == REQUEST_TRANSFER:
        return _transfer(server, connection, request)
    if request.kind == REQUEST_CHANGE:
        return _change(server, connection, request)
    if request.kind == REQUEST_MEET:
        named = parts_of(request.key.data, request.key.length, request.end.data, request.end.length)
        what = submission_of(SUBMIT_MEET)
        what.arguments.meet.name_length = named.first.length
        return _pass_on(server, connection, request, &what, &named)
    if request.flags & READ_LOCAL:
        members_answer(server, connection, request.id)
        return OK
    what = submission_of(SUBMIT_READ)
    return _pass_on(server, connection, request, &what, NULL)
