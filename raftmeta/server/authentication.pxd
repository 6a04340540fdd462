# How a client proves to be a user: SCRAM-SHA-256 (RFC 5802, RFC 7677) in two requests.
#
# The password never comes here: the client proves that it knows it, and this node proves that it knows the verifier.
# A user that does not exist is answered like one that does, alike by every node, and fails at the proof. A token is
# proved as a password is, under its id (machine/rights_state TOKEN_NAME_BYTES). It decides who may try, and how
# often. It never decides what a user may do (server/access).
from raftmeta.server.state cimport ClientConnection, ClientServer
from raftmeta.status cimport status_t
from raftmeta.wire.client_messages cimport ClientRequest

# False: the system gives no random bytes.
cdef bint authentication_prepare(ClientServer* server) noexcept nogil
# One of the two requests.
cdef status_t authentication_take(ClientServer* server, ClientConnection* connection,
                                  const ClientRequest* request) noexcept nogil
# HELLO was welcome: the principal in the client's certificate speaks on this connection, until a password or a token is
# proved on it. No change of rights makes a certificate old.
cdef void authentication_by_certificate(ClientConnection* connection) noexcept nogil
# The connection is closed.
cdef void authentication_release(ClientConnection* connection) noexcept nogil
# Whether nobody between can listen to the connection that was accepted there. A password is proved over such a one, or
# by TLS, which is known after the handshake only.
cdef bint authentication_is_near(const ClientConnection* connection, bint is_local_socket) noexcept nogil
