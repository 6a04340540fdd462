"""How a client proves to be a user: bodies.

    BEGINS   [name, client's nonce]       ->  [both nonces, salt, iterations]
    PROVES   [both nonces, proof]         ->  [signature]

The texts of RFC 5802 are replaced by these fields: `said` is the name's length, the name, the client's nonce, then the
body of the first answer, then both nonces again. Proof and signature are about these bytes.
    ClientSignature = HMAC(StoredKey, said)      ClientKey = proof ^ ClientSignature      H(ClientKey) = StoredKey
    signature = HMAC(ServerKey, said)

Guessing: a failed proof counts against the name of the user or token, here, and leaks away one a second. Beyond
TUNE_FAILURES_MAX the next proof is refused as OVERLOADED without being looked at. A connection has three tries.

A node that is not ready never says that a proof is wrong: it says NOT_READY, and the client asks another node. A node
that is ready may lag behind a change of the password. How a right password was refused without a second look:
1. the leader and another member applied the change, and its caller heard so; 2. this member told the old salt;
3. the proof was made for that salt, by the new password.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from raftmeta.loop.loop cimport READER_CLIENTS, loop_enter, loop_leave
from raftmeta.machine.rights cimport rights_drop, rights_hold
from raftmeta.machine.rights_state cimport FORMAT_ITERATIONS_MIN, SEED_BYTES, RightsTable, TableToken, TableUser
from raftmeta.machine.rights_table cimport table_principal
from raftmeta.machine.state cimport Machine
from raftmeta.native.intrinsics cimport hash64
from raftmeta.native.sha256 cimport are_equal_in_constant_time, hmac_sha256, sha256
from raftmeta.net.posix cimport sockaddr, sockaddr_storage, socklen_t
from raftmeta.net.stream cimport stream_is_secured
from raftmeta.security.identity cimport ROLE_CLIENT
from raftmeta.security.tls_state cimport TlsSession
from raftmeta.server.access cimport access_revision
from raftmeta.server.members cimport members_is_ready
from raftmeta.server.output cimport connection_refuse
from raftmeta.server.pending cimport request_answer
from raftmeta.server.quotas cimport quotas_attach
from raftmeta.server.second_look cimport second_look_begin
from raftmeta.server.state cimport LOOK_NONE, TUNE_FAILURE_SLOTS, Exchange, FailureSlot, Principal
from raftmeta.status cimport (AUTHENTICATION_FAILED, BAD_FIELD, INCOMPLETE, NOT_READY, NO_MEMORY, OK,
                              OVERLOADED)
from raftmeta.wire.client_messages cimport AUTHENTICATE_PROVES, NONCE_BYTES_MAX
from raftmeta.wire.commands cimport PRINCIPAL_BYTES_MAX
from raftmeta.wire.msgpack cimport Writer, number_max, write_array, write_bin, write_uint, writer_at

cdef extern from "<sys/random.h>" nogil:
    ssize_t getrandom(void* into, size_t length, unsigned int flags)

cdef extern from "<sys/socket.h>" nogil:
    enum: AF_INET
    enum: AF_INET6
    int getpeername(int fd, sockaddr* address, socklen_t* length)

cdef enum:
    OWN_NONCE_BYTES = 24
    CLIENT_NONCE_BYTES_MIN = 16
    SALT_BYTES = 16
    KEY_BYTES = 32
    DISGUISED_ITERATIONS = 32_768       # of a user that does not exist: as bindings/scram sets passwords
    TUNE_FAILURES_MAX = 10              # of one user's name at once
    TUNE_TRIES = 3                      # of one connection
    TUNE_LEAK_NS = 1_000_000_000


cdef bint authentication_prepare(ClientServer* server) noexcept nogil:
    return getrandom(server.disguise, sizeof(server.disguise), 0) == sizeof(server.disguise)


cdef bint authentication_is_near(const ClientConnection* connection, bint is_local_socket) noexcept nogil:
    cdef sockaddr_storage storage
    cdef const uint8_t* bytes = <const uint8_t*>&storage
    cdef socklen_t length = sizeof(sockaddr_storage)
    cdef uint8_t[16] loopback
    if is_local_socket:
        return True
    memset(&storage, 0, sizeof(storage))
    if getpeername(connection.base.stream.fd, <sockaddr*>&storage, &length) != 0:
        return False
    if (<const unsigned short*>bytes)[0] == AF_INET:        # sockaddr_in: family, port, address
        return bytes[4] == 127
    if (<const unsigned short*>bytes)[0] != AF_INET6:
        return False
    memset(loopback, 0, 16)                                 # sockaddr_in6: family, port, flow, address
    loopback[15] = 1
    return memcmp(bytes + 8, loopback, 16) == 0


cdef void authentication_by_certificate(ClientConnection* connection) noexcept nogil:
    cdef const TlsSession* tls = connection.base.stream.tls
    # The name has no control characters, so it is no token's and not the founder's.
    if tls == NULL or not tls.is_ready or tls.identity.role != ROLE_CLIENT:
        return
    connection.principal.name_length = tls.identity.name_length
    memcpy(connection.principal.name, tls.identity.name, tls.identity.name_length)
    connection.principal.rights_revision = number_max()
    connection.principal.token = 0


cdef void authentication_release(ClientConnection* connection) noexcept nogil:
    cdef Exchange* exchange = connection.exchange
    connection.exchange = NULL
    if exchange == NULL:
        return
    exchange.nonce.release()
    exchange.said.release()
    memset(&exchange.secret, 0, sizeof(exchange.secret))
    free(exchange)


# --- the first request ------------------------------------------------------------------------------------------------
# All nodes make up the same, so that two of them do not give away which names are users. Before the cluster has a seed
# for it, rights are off, and whoever asks may list the users.
cdef void _make_up(const ClientServer* server, const RightsTable* table, Exchange* exchange) noexcept nogil:
    cdef uint8_t[KEY_BYTES] made_up
    cdef const uint8_t* seed = &server.disguise[0]
    if table != NULL and table.has_seed:
        seed = &table.seed[0]
    hmac_sha256(seed, SEED_BYTES, exchange.asked.name, exchange.asked.name_length, made_up)
    memcpy(exchange.secret.salt, made_up, SALT_BYTES)
    exchange.secret.iterations = DISGUISED_ITERATIONS
    if exchange.asked.name_length and exchange.asked.name[0] == 0:
        exchange.secret.iterations = FORMAT_ITERATIONS_MIN      # as bindings/scram makes tokens


# The secret of the token or user that was named; one made up to look alike, if there is none.
cdef void _find_secret(ClientServer* server, Exchange* exchange) noexcept nogil:
    cdef Machine* machine = loop_enter(server.loop, READER_CLIENTS)
    cdef RightsTable* table = rights_hold(&machine.rights) if machine != NULL else NULL
    cdef const TableUser* user = NULL
    cdef const TableToken* token = NULL
    loop_leave(server.loop, READER_CLIENTS)
    exchange.rights_revision = table.revision if table != NULL else 0
    if table != NULL:
        user = table_principal(table, exchange.asked.name, exchange.asked.name_length, &token)
    exchange.is_user = user != NULL and (token != NULL or user.secret.iterations != 0)
    if exchange.is_user:
        exchange.secret = token.secret if token != NULL else user.secret
        exchange.asked.rights_revision = table.revision
    else:
        _make_up(server, table, exchange)
    if exchange.is_user and token != NULL:
        exchange.asked.token = token.id
        exchange.asked.name_length = user.name_length
        memcpy(exchange.asked.name, user.name, user.name_length)
    if table != NULL:
        rights_drop(table)


cdef status_t _say_salt(ClientServer* server, Exchange* exchange) noexcept nogil:
    cdef Writer writer
    server.scratch.clear()
    writer = writer_at(&server.scratch)
    write_array(&writer, 3)
    write_bin(&writer, exchange.nonce.data, <uint32_t>exchange.nonce.size)
    write_bin(&writer, exchange.secret.salt, SALT_BYTES)
    write_uint(&writer, exchange.secret.iterations)
    if writer.status != OK:
        return NO_MEMORY
    if not (exchange.said.append(server.scratch.data, server.scratch.size)
            and exchange.said.append(exchange.nonce.data, exchange.nonce.size)):
        return NO_MEMORY
    return OK


cdef status_t _begin(ClientServer* server, ClientConnection* connection, const ClientRequest* request) noexcept nogil:
    cdef Exchange* exchange
    cdef uint8_t length = <uint8_t>request.key.length
    cdef uint8_t[OWN_NONCE_BYTES] own
    if (request.key.length > PRINCIPAL_BYTES_MAX or request.end.length < CLIENT_NONCE_BYTES_MIN
            or request.end.length > NONCE_BYTES_MAX - OWN_NONCE_BYTES):
        return BAD_FIELD
    authentication_release(connection)
    exchange = connection.exchange = <Exchange*>calloc(1, sizeof(Exchange))
    if exchange == NULL or getrandom(own, OWN_NONCE_BYTES, 0) != OWN_NONCE_BYTES:
        return NO_MEMORY
    exchange.asked.name_length = length
    memcpy(exchange.asked.name, request.key.data, length)
    if not (exchange.nonce.append(request.end.data, request.end.length) and exchange.nonce.append(own, OWN_NONCE_BYTES)
            and exchange.said.push(length) and exchange.said.append(request.key.data, length)
            and exchange.said.append(request.end.data, request.end.length)):
        return NO_MEMORY
    _find_secret(server, exchange)
    return _say_salt(server, exchange)


# --- the second request -----------------------------------------------------------------------------------------------
cdef FailureSlot* _slot_of(ClientServer* server, const Exchange* exchange) noexcept nogil:
    cdef uint64_t place = hash64(0, exchange.asked.name, exchange.asked.name_length) % TUNE_FAILURE_SLOTS
    cdef FailureSlot* slot = &server.slots[place]
    cdef uint64_t leaked = (server.base.now_ns - slot.since_ns) // TUNE_LEAK_NS
    if leaked >= slot.count:
        slot.count = 0
        slot.since_ns = server.base.now_ns
    else:
        slot.count -= <uint32_t>leaked
        slot.since_ns += leaked * TUNE_LEAK_NS
    return slot


cdef bint _is_proof(const Exchange* exchange, const ClientRequest* request) noexcept nogil:
    cdef uint8_t[KEY_BYTES] key
    cdef uint8_t[KEY_BYTES] stored
    cdef int i
    if request.end.length != KEY_BYTES or request.key.length != exchange.nonce.size:
        return False
    hmac_sha256(exchange.secret.stored_key, KEY_BYTES, exchange.said.data, exchange.said.size, key)
    for i in range(KEY_BYTES):
        key[i] ^= request.end.data[i]
    sha256(key, KEY_BYTES, stored)
    return (are_equal_in_constant_time(stored, exchange.secret.stored_key, KEY_BYTES)
            and memcmp(request.key.data, exchange.nonce.data, exchange.nonce.size) == 0 and exchange.is_user)


# The proof is right: the connection is its user's, if the user may have one more.
cdef status_t _become(ClientServer* server, ClientConnection* connection, const Principal* principal) noexcept nogil:
    cdef Principal before = connection.principal
    cdef status_t status
    connection.principal = principal[0]
    status = quotas_attach(server, connection)
    if status != OK:
        connection.principal = before
    return status


# It counts as a failure at once. To say so, the node must know the newest users and passwords.
#
# A node that waits for the state of the cluster says NOT_READY. Another one takes a second look. If any right changed
# since the salt was told, the client begins anew; if only a change of this user counted, a stranger would learn of it.
cdef status_t _refuse(ClientServer* server, ClientConnection* connection, FailureSlot* slot) noexcept nogil:
    cdef const Exchange* exchange = connection.exchange
    if connection.look == LOOK_NONE:
        slot.count += exchange.is_user or members_is_ready(server)
        if not members_is_ready(server):
            return NOT_READY
        return <status_t>INCOMPLETE if second_look_begin(server, connection) else OVERLOADED
    if connection.look_status != OK or access_revision(server) != exchange.rights_revision:
        return NOT_READY
    connection.failures += 1
    server.counters.unauthenticated += 1
    return AUTHENTICATION_FAILED


cdef status_t _prove(ClientServer* server, ClientConnection* connection, const ClientRequest* request) noexcept nogil:
    cdef Exchange* exchange = connection.exchange
    cdef FailureSlot* slot = _slot_of(server, exchange)
    cdef uint8_t[KEY_BYTES] signature
    cdef Writer writer
    cdef status_t status
    if connection.look == LOOK_NONE and slot.count >= TUNE_FAILURES_MAX:
        return OVERLOADED
    if not _is_proof(exchange, request):
        return _refuse(server, connection, slot)
    status = _become(server, connection, &exchange.asked)
    if status != OK:
        return status
    server.counters.authenticated += 1
    hmac_sha256(exchange.secret.server_key, KEY_BYTES, exchange.said.data, exchange.said.size, signature)
    server.scratch.clear()
    writer = writer_at(&server.scratch)
    write_array(&writer, 1)
    write_bin(&writer, signature, KEY_BYTES)
    return writer.status


# --- both -------------------------------------------------------------------------------------------------------------
cdef status_t authentication_take(ClientServer* server, ClientConnection* connection,
                                  const ClientRequest* request) noexcept nogil:
    cdef status_t status = AUTHENTICATION_FAILED
    if not (connection.is_near or stream_is_secured(&connection.base.stream)):
        request_answer(server, connection, request.id, status, 0, 0, NULL, 0)
        return OK
    if not request.flags & AUTHENTICATE_PROVES:
        status = _begin(server, connection, request)
    elif connection.exchange != NULL:
        status = _prove(server, connection, request)
    if status == BAD_FIELD:
        return status
    if status == INCOMPLETE:
        return OK               # it will be taken again
    if status != OK or request.flags & AUTHENTICATE_PROVES:
        authentication_release(connection)      # a proof counts once
    if status == NO_MEMORY:
        status = OVERLOADED
    if connection.failures >= TUNE_TRIES:
        connection_refuse(server, connection, AUTHENTICATION_FAILED, b"the name or the password is wrong")
        return OK
    request_answer(server, connection, request.id, status, 0, 0, server.scratch.data,
                   server.scratch.size if status == OK else 0)
    return OK
