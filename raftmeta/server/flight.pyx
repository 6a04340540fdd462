"""Records of the node's flight recorder for a client.

It decides how many records one answer has. It reads them from memory: a disk that hangs keeps no answer back, and the
newest records are in it. It must never wait for who writes them.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.flight.ring cimport FlightLook, FlightPart, FlightRecord, FlightRing, flight_copy
from raftmeta.server.output cimport connection_share
from raftmeta.server.pending cimport request_answer
from raftmeta.status cimport OK, OVERLOADED
from raftmeta.wire.msgpack cimport Writer, write_bin, write_uint, writer_at

cdef enum:
    TUNE_ANSWER_BYTES = 256 * 1024      # of records, at most
    COPIED_RECORDS = 64                 # at once


cdef status_t flight_take(ClientServer* server, ClientConnection* connection,
                          const ClientRequest* request) noexcept nogil:
    cdef const FlightRing* ring = server.loop.recorder.ring
    cdef FlightRecord[COPIED_RECORDS] records
    cdef FlightLook look
    cdef Writer writer
    cdef uint64_t left
    if ring == NULL:
        request_answer(server, connection, request.id, OK, 0, 0, NULL, 0)
        return OK
    left = min(<uint64_t>request.limit, connection_share(server, TUNE_ANSWER_BYTES) // sizeof(FlightRecord))
    flight_copy(ring, <FlightPart>request.flags, request.number, min(left, <uint64_t>COPIED_RECORDS), records, &look)
    server.scratch.clear()
    writer = writer_at(&server.scratch)
    write_bin(&writer, server.loop.engine.config.name, server.loop.engine.config.name_length)
    write_uint(&writer, look.life)
    write_uint(&writer, look.capacity)
    write_uint(&writer, look.boot_ns)
    write_uint(&writer, look.wall_ns)
    write_uint(&writer, look.newest)
    while look.copied != 0 and writer.status == OK:
        write_bin(&writer, <const uint8_t*>records, <uint32_t>(look.copied * sizeof(FlightRecord)))
        left -= look.copied
        flight_copy(ring, <FlightPart>request.flags, look.first + look.copied, min(left, <uint64_t>COPIED_RECORDS),
                    records, &look)
    # The client asks again for an answer that could not be written down.
    request_answer(server, connection, request.id, OK if writer.status == OK else OVERLOADED, 0, 0,
                   server.scratch.data, server.scratch.size if writer.status == OK else 0)
    return OK
