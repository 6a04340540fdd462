"""Backups that clients fetch.

It decides which file a client gets: the first one that holds everything acknowledged before it asked. It stays
open with the connection, so a newer one may take its place in the folder meanwhile; nothing is kept for a client that
went away. It must never look into the file (the client checks every byte of it), or read much at once: a piece
is read when it is asked for, and the kernel is told to read the next ones ahead.
"""

from libc.errno cimport ENOENT, errno
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memset

from raftmeta.engine.snapshots.files cimport sealed_name
from raftmeta.engine.submission cimport AWAIT_SNAPSHOT, SUBMIT_READ, Submission
from raftmeta.net cimport posix
from raftmeta.ports cimport FILE_NAME_BYTES_MAX
from raftmeta.server.pending cimport request_answer, request_is_crowded, request_submit, submission_of
from raftmeta.status cimport NOT_FOUND, OK, OVERLOADED
from raftmeta.storage.sealed cimport SealedFooter
from raftmeta.wire.client_messages cimport REQUEST_PIECE, REQUEST_SNAPSHOT
from raftmeta.wire.msgpack cimport Writer, write_bin, write_uint, writer_at

cdef extern from "<fcntl.h>" nogil:
    enum: O_RDONLY
    enum: O_CLOEXEC
    enum: O_NOFOLLOW
    enum: POSIX_FADV_WILLNEED
    int openat(int folder, const char* name, int flags)
    int posix_fadvise(int fd, long offset, long length, int advice)

cdef extern from "<unistd.h>" nogil:
    enum: SEEK_END
    ssize_t pread(int fd, void* into, size_t length, long offset)
    long lseek(int fd, long offset, int whence)

cdef enum:
    TUNE_AHEAD_BYTES = 4 * 1024 * 1024      # read ahead by the kernel: what a client asks for ahead, and more

cdef enum:
    AWAITS_READ = 0             # the read round: what was acknowledged anywhere before is applied here
    AWAITS_FILE = 1


cdef void snapshot_close(ClientConnection* connection) noexcept nogil:
    if connection.has_file:
        posix.close(connection.file)
    connection.has_file = False


# --- which file -------------------------------------------------------------------------------------------------------
cdef void _await(ClientServer* server, ClientConnection* connection, uint64_t id, uint8_t phase) noexcept nogil:
    cdef ClientPending pending
    cdef Submission what = submission_of(AWAIT_SNAPSHOT if phase == AWAITS_FILE else SUBMIT_READ)
    memset(&pending, 0, sizeof(ClientPending))
    pending.kind = REQUEST_SNAPSHOT
    pending.id = id
    pending.phase = phase
    if request_submit(server, connection, &pending, NULL, NULL, &what) != OK:
        request_answer(server, connection, id, OVERLOADED, 0, 0, NULL, 0)


# NOT_FOUND: it was removed in this moment, and a newer one is there; OVERLOADED: it cannot be opened just now.
cdef status_t _open(ClientServer* server, ClientConnection* connection, uint64_t index,
                    SealedFooter* footer) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] name
    cdef ssize_t length
    sealed_name(index, name)
    snapshot_close(connection)
    connection.file = openat(server.loop.disk.directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    connection.has_file = connection.file >= 0
    if not connection.has_file:
        return NOT_FOUND if errno == ENOENT else OVERLOADED
    length = lseek(connection.file, 0, SEEK_END)
    connection.file_bytes = <uint64_t>length
    if pread(connection.file, footer, sizeof(SealedFooter), length - <ssize_t>sizeof(SealedFooter)) < 0:
        return OVERLOADED
    return OK


cdef void snapshot_found(ClientServer* server, ClientConnection* connection, const ClientPending* pending,
                         const Ticket* ticket) noexcept nogil:
    cdef SealedFooter footer
    cdef Writer writer
    cdef status_t status = ticket.status
    if status == OK and pending.phase == AWAITS_FILE:
        status = _open(server, connection, ticket.revision, &footer)
    if status == NOT_FOUND or (status == OK and pending.phase == AWAITS_READ):
        _await(server, connection, pending.id, AWAITS_FILE)
        return
    if status != OK:
        request_answer(server, connection, pending.id, status, ticket.revision, ticket.index, NULL, 0)
        return
    server.scratch.clear()
    writer = writer_at(&server.scratch)
    write_bin(&writer, <const uint8_t*>&footer, sizeof(SealedFooter))
    write_uint(&writer, connection.file_bytes)
    # The client asks again for an answer that could not be written down.
    request_answer(server, connection, pending.id, OK if writer.status == OK else OVERLOADED, 0, ticket.revision,
                   server.scratch.data, server.scratch.size if writer.status == OK else 0)


# --- its bytes --------------------------------------------------------------------------------------------------------
# An empty answer: the file has no more.
cdef void _piece(ClientServer* server, ClientConnection* connection, const ClientRequest* request) noexcept nogil:
    cdef ssize_t got = -1
    server.scratch.clear()
    if connection.has_file and request.number <= connection.file_bytes and server.scratch.resize(request.limit):
        got = pread(connection.file, server.scratch.data, request.limit, <long>request.number)
        posix_fadvise(connection.file, <long>(request.number + request.limit), TUNE_AHEAD_BYTES, POSIX_FADV_WILLNEED)
    if got < 0:
        request_answer(server, connection, request.id, NOT_FOUND, 0, 0, NULL, 0)
    else:
        request_answer(server, connection, request.id, OK, 0, 0, server.scratch.data, <size_t>got)


cdef status_t snapshots_take(ClientServer* server, ClientConnection* connection,
                             const ClientRequest* request) noexcept nogil:
    if request.kind == REQUEST_PIECE:
        _piece(server, connection, request)
    elif request_is_crowded(server, False):
        request_answer(server, connection, request.id, OVERLOADED, 0, 0, NULL, 0)
    else:
        _await(server, connection, request.id, AWAITS_READ)
    return OK
