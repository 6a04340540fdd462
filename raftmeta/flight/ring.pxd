# The flight recorder of one node: what its threads saw, in memory of their own, and on disk a moment later.
#
# Each thread that records owns one part of the ring and is its only writer: a record costs a few stores, two looks at a
# clock and a checksum, and no lock or system call. A thread of the recorder's own (raftmeta-flight) carries new records
# to the file `flight.ring` of the node's folder and syncs it. So a disk that hangs, fills up or becomes read-only stops
# that thread alone. Why it is not mapped: docs/decisions/recorder.md. Its format: docs/formats.md "Flight recorder".
# Any thread may copy records out of the memory (flight_copy): a look at a running node needs no disk.
#
# Never in it: keys, values, addresses, secrets. raftmeta/explain reads it, and no node ever reads more of its own file
# than it needs to go on behind it.
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.native.threads cimport pthread_t
from raftmeta.raft.types cimport NAME_BYTES_MAX

cdef enum:
    FORMAT_FLIGHT_VERSION = 1
    FORMAT_FLIGHT_RECORD_BYTES = 64
    FORMAT_FLIGHT_PAGE_BYTES = 4096     # the header's, then that of the sign of life
    FLIGHT_TEXT_BYTES = 32              # of a text in one record
    TUNE_FLIGHT_SLOW_NS = 100_000_000   # a sync, a pause or a step of the clock below that is not recorded

# Who writes a part.
cdef enum FlightPart:
    FLIGHT_LOOP = 0                 # the loop thread; before it runs, the thread that starts the node
    FLIGHT_LOG = 1                  # the write thread
    FLIGHT_HOST = 2                 # the thread of the host that looks at the GIL (face/host)
    FLIGHT_OWN = 3                  # raftmeta-flight
    FLIGHT_PARTS = 4

# FORMAT_: kinds of records, with the names of a, b, c and d. Times are of CLOCK_BOOTTIME in ns.
cdef enum FlightKind:
    # 1..255: an event of the engine or of the loop (engine/state, loop/event_log): its three numbers, and the term
    FLIGHT_TRACE = 256              # + TraceType of raft/ready: its two numbers, 0, the term
    FLIGHT_START = 512              # a life begins: boot number, member id, process, the last sign of life (wall, ns)
    FLIGHT_MACHINE = 513            # with it: two halves of the id of this boot of the machine, 0, 0
    FLIGHT_STOP = 514               # it ends in order: status that stopped the engine before, 0, 0, the term
    FLIGHT_TEXT = 515               # more of the record before it: 32 bytes of text
    FLIGHT_PAUSE = 516              # the part's thread did not run: since, for how long, 0, 0
    FLIGHT_CLOCK = 517              # the wall clock stepped: by how many ms (signed), 0, 0, 0
    FLIGHT_SYNC = 518               # of a file: since, for how long, status, 0
    FLIGHT_WRITE = 519              # of a file, before its sync: as FLIGHT_SYNC
    FLIGHT_WAITED = 520             # callers' commands waited, and none was answered: since, for how long, 0, the term
    FLIGHT_GIL = 521                # Python's lock was held: since, for how long, processor time of its holder
                                    # meanwhile (ns; 0: not proved), the holder; its stack as text

cdef struct FlightRecord:
    uint64_t number                 # within its part, from 1; its place is (number - 1) modulo the part's records
    uint64_t boot_ns                # CLOCK_BOOTTIME
    uint64_t wall_ns                # CLOCK_REALTIME
    uint16_t kind
    uint16_t life                   # low bits of FlightRing.life
    uint32_t checksum               # CRC-32C of the record with 0 here
    uint64_t a
    uint64_t b
    uint64_t c
    uint64_t d

cdef struct FlightRoom:
    FlightRecord* records
    uint64_t count                  # shared: number of the newest record
    uint64_t carried                # raftmeta-flight: the newest one that the file has

cdef struct FlightRing:
    int file
    uint64_t capacity               # records of a part
    uint64_t life                   # starts that this file has seen
    uint64_t last_alive_ns          # wall time of the last sign of life before this life; 0: none
    FlightRecord* memory            # of all parts
    FlightRoom[FLIGHT_PARTS] rooms
    pthread_t thread
    bint is_running
    bint has_failed                 # the file takes nothing any more
    uint32_t bell                   # shared: changes when the thread has to end
    int64_t clock_ms                # wall time less CLOCK_BOOTTIME, as seen last
    uint64_t told_alive_ns
    uint64_t dirty_since_ns         # 0: all that was carried is synced

# At the ring and one of its parts, at this moment.
cdef struct FlightLook:
    uint64_t life
    uint64_t capacity
    uint64_t boot_ns
    uint64_t wall_ns
    uint64_t newest                 # number of the part's newest record
    uint64_t first                  # number of the first record that was copied
    uint64_t copied                 # how many

# The file of a folder by its descriptor: continued, or made anew where there is none of this size. NULL: there is no
# memory or no room, or the name is no file of ours; *error is an errno.
cdef FlightRing* flight_open(int directory, uint64_t bytes, const uint8_t* name, uint8_t name_length, int* error
                             ) noexcept nogil
cdef bint flight_start(FlightRing* ring) noexcept nogil         # false: no thread
# The owner of the part. ring NULL: nothing is recorded.
cdef void flight_write(FlightRing* ring, FlightPart part, uint32_t kind, uint64_t a, uint64_t b, uint64_t c,
                       uint64_t d) noexcept nogil
# More of the record that the owner wrote last.
cdef void flight_text(FlightRing* ring, FlightPart part, const uint8_t* text, size_t length) noexcept nogil
# Any thread, while the ring is not destroyed: the oldest records of a part from number `first` on, at most `most`, as
# they lie in the file. The owner may write over some meanwhile: those then have a wrong checksum, or a higher number.
cdef void flight_copy(const FlightRing* ring, FlightPart part, uint64_t first, uint64_t most, FlightRecord* into,
                      FlightLook* look) noexcept nogil
# A life begins: part FLIGHT_LOOP, before the loop runs.
cdef void flight_begin_life(FlightRing* ring, uint64_t boot, uint64_t member) noexcept nogil
# All owners have ended. True: the thread has carried everything and ended, or ring is NULL. False: the disk does not
# answer, and the ring must be left alone.
cdef bint flight_stop(FlightRing* ring, uint64_t timeout_ns) noexcept nogil
cdef void flight_destroy(FlightRing* ring) noexcept nogil
# In a fork child: only the descriptor.
cdef void flight_close_in_child(FlightRing* ring) noexcept nogil
