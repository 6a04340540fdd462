# A refusal for users or rights is said only by a node that knows the newest of them.
#
# A node that lags behind a change would call a new password wrong, a new user a stranger and a new right missing. So
# the node asks the leader how far the log is (a read round) and applies that far before it refuses. Meanwhile the
# request stays in front of its connection, which is not read on; then the request is taken again. A connection has one
# second look at a time, and all of a turn share one round: a stranger gets no more of the node than a ticket.
# This module never decides what is refused.
from raftmeta.loop.tickets cimport Ticket
from raftmeta.server.state cimport ClientConnection, ClientServer
from raftmeta.status cimport status_t

# The request would be refused. True: the node looks again, so nothing is answered yet, and the request will be taken
# again. False: it is refused now, because the node did look again, is not ready, or has no memory to do so.
cdef bint second_look_begin(ClientServer* server, ClientConnection* connection) noexcept nogil
# The ticket of the round is back.
cdef void second_look_done(ClientConnection* connection, const Ticket* ticket) noexcept nogil
# The request was answered or handed on.
cdef void second_look_end(ClientConnection* connection) noexcept nogil
# The status to refuse a request with: the given one, unless this node could not learn the newest state.
cdef status_t second_look_verdict(ClientServer* server, const ClientConnection* connection,
                                  status_t status) noexcept nogil
