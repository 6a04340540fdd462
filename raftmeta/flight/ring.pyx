"""The flight recorder: threads write records into memory, one thread carries them to the file.

It decides how often records are carried and synced, and which pauses of its own thread are worth a record. It must
never make an owner of a part wait, stop a node because its file fails, or follow a link out of the folder.
"""

from libc.errno cimport EEXIST, EINTR, ENOMEM, errno
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from raftmeta.native.atomics cimport add_shared, load_acquire, load_shared, store_release
from raftmeta.native.intrinsics cimport crc32c
from raftmeta.native.threads cimport boot_now_ns, futex_wait, futex_wake, thread_join, thread_start


cdef extern from "<time.h>" nogil:
    ctypedef long time_t
    struct timespec:
        time_t tv_sec
        long tv_nsec
    int CLOCK_REALTIME
    int clock_gettime(int clock, timespec* now)


cdef extern from "<fcntl.h>" nogil:
    enum:
        O_RDONLY
        O_RDWR
        O_CREAT
        O_CLOEXEC
        O_NOFOLLOW
        O_NONBLOCK
    int openat(int directory, const char* name, int flags, ...)
    int posix_open "open"(const char* path, int flags, ...)
    int posix_fallocate(int descriptor, long offset, long length)


cdef extern from "<sys/stat.h>" nogil:
    struct stat_t "stat":
        long st_size
        unsigned st_mode
    int fstat(int descriptor, stat_t* found)
    bint S_ISREG(unsigned mode)


cdef extern from "<unistd.h>" nogil:
    ctypedef long ssize_t
    int posix_close "close"(int descriptor)
    int ftruncate(int descriptor, long length)
    int fdatasync(int descriptor)
    int getpid()
    ssize_t pread(int descriptor, void* into, size_t length, long offset)
    ssize_t pwrite(int descriptor, const void* data, size_t length, long offset)

cdef enum:
    FILE_MODE = 0o600
    HEADER_PAGES = 2
    RECORD_WORDS = FORMAT_FLIGHT_RECORD_BYTES // 8
    CARRY_RECORDS = 64                  # of one call of the system
    MACHINE_ID_BYTES = 36               # "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
    TUNE_CARRY_NS = 20_000_000          # a killed process loses at most what it recorded within that time
    TUNE_SYNC_NS = 1_000_000_000        # a power cut takes at most what was carried within that time
    TUNE_ALIVE_NS = 250_000_000         # between two signs of life
    TUNE_CLOCKS_NS = 1_000_000          # two clocks that are read further apart are read again later
    NS_PER_MS = 1_000_000

cdef const char* FILE_NAME = "flight.ring"
cdef const char* MACHINE_ID_FILE = "/proc/sys/kernel/random/boot_id"
cdef const char* MAGIC = "RAFTFLT\n"

# FORMAT_: the beginning of the file.
cdef struct Header:
    uint8_t[8] magic
    uint32_t version
    uint32_t record_bytes
    uint32_t parts
    uint32_t name_length
    uint64_t capacity               # records of a part
    uint8_t[NAME_BYTES_MAX] name    # of the node
    uint32_t padding
    uint32_t checksum               # CRC-32C of all before it

# FORMAT_: the beginning of its second page.
cdef struct Alive:
    uint64_t boot_ns
    uint64_t wall_ns
    uint64_t life
    uint32_t padding
    uint32_t checksum               # CRC-32C of all before it


cdef uint64_t _wall_now_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return <uint64_t>now.tv_sec * 1_000_000_000 + <uint64_t>now.tv_nsec


# --- the file ---------------------------------------------------------------------------------------------------------
# False: the file does not take it now.
cdef bint _put(int file, const void* data, size_t length, uint64_t offset) noexcept nogil:
    cdef const uint8_t* bytes = <const uint8_t*>data
    cdef ssize_t count
    while length:
        count = pwrite(file, bytes, length, <long>offset)
        if count < 0 and errno == EINTR:
            continue
        if count <= 0:
            return False
        bytes += count
        length -= <size_t>count
        offset += <uint64_t>count
    return True


cdef bint _get(int file, void* into, size_t length, uint64_t offset) noexcept nogil:
    cdef uint8_t* bytes = <uint8_t*>into
    cdef ssize_t count
    while length:
        count = pread(file, bytes, length, <long>offset)
        if count < 0 and errno == EINTR:
            continue
        if count <= 0:
            return False
        bytes += count
        length -= <size_t>count
        offset += <uint64_t>count
    return True


cdef uint64_t _file_bytes(const FlightRing* ring) noexcept nogil:
    return (HEADER_PAGES * FORMAT_FLIGHT_PAGE_BYTES
            + <uint64_t>FLIGHT_PARTS * ring.capacity * FORMAT_FLIGHT_RECORD_BYTES)


cdef uint64_t _offset(const FlightRing* ring, int part, uint64_t place) noexcept nogil:
    return (HEADER_PAGES * FORMAT_FLIGHT_PAGE_BYTES
            + (<uint64_t>part * ring.capacity + place) * FORMAT_FLIGHT_RECORD_BYTES)


cdef uint32_t _checksum(const FlightRecord* record) noexcept nogil:
    cdef FlightRecord copy = record[0]
    copy.checksum = 0
    return crc32c(0, &copy, sizeof(FlightRecord))


cdef void _fill_header(const FlightRing* ring, const uint8_t* name, uint8_t name_length,
                       Header* header) noexcept nogil:
    memset(header, 0, sizeof(Header))
    memcpy(header.magic, MAGIC, sizeof(header.magic))
    header.version = FORMAT_FLIGHT_VERSION
    header.record_bytes = FORMAT_FLIGHT_RECORD_BYTES
    header.parts = FLIGHT_PARTS
    header.name_length = name_length
    header.capacity = ring.capacity
    memcpy(header.name, name, name_length)
    header.checksum = crc32c(0, header, sizeof(Header) - sizeof(uint32_t))


# The file goes on behind the records of earlier lives: their numbers and lives, and the last sign of life.
cdef void _continue(FlightRing* ring) noexcept nogil:
    cdef FlightRecord* record
    cdef Alive alive
    cdef uint64_t i
    cdef int part
    if not _get(ring.file, ring.memory, <size_t>(FLIGHT_PARTS * ring.capacity * FORMAT_FLIGHT_RECORD_BYTES),
                HEADER_PAGES * FORMAT_FLIGHT_PAGE_BYTES):
        return
    for part in range(<int>FLIGHT_PARTS):
        for i in range(ring.capacity):
            record = &ring.rooms[part].records[i]
            if record.number == 0 or (record.number - 1) % ring.capacity != i or _checksum(record) != record.checksum:
                continue
            ring.rooms[part].count = max(ring.rooms[part].count, record.number)
            if record.kind == FLIGHT_START:
                ring.life = max(ring.life, <uint64_t>record.life)
        ring.rooms[part].carried = ring.rooms[part].count
    if (_get(ring.file, &alive, sizeof(Alive), FORMAT_FLIGHT_PAGE_BYTES)
            and alive.checksum == crc32c(0, &alive, sizeof(Alive) - sizeof(uint32_t))):
        ring.last_alive_ns = alive.wall_ns
        ring.life = max(ring.life, alive.life)


# 0, or an errno. A file of another size, version or node begins anew.
cdef int _prepare(FlightRing* ring, const uint8_t* name, uint8_t name_length) noexcept nogil:
    cdef Header wanted, found
    cdef stat_t status
    cdef int error
    _fill_header(ring, name, name_length, &wanted)
    if fstat(ring.file, &status) != 0:
        return errno
    if not S_ISREG(status.st_mode):
        return EEXIST
    if (<uint64_t>status.st_size == _file_bytes(ring) and _get(ring.file, &found, sizeof(Header), 0)
            and memcmp(&found, &wanted, sizeof(Header)) == 0):
        _continue(ring)
        return 0
    if ftruncate(ring.file, 0) != 0:
        return errno
    error = posix_fallocate(ring.file, 0, <long>_file_bytes(ring))
    if error != 0:
        ftruncate(ring.file, 0)         # a full disk gets its room back
        return error
    return 0 if _put(ring.file, &wanted, sizeof(Header), 0) else errno


cdef FlightRing* flight_open(int directory, uint64_t bytes, const uint8_t* name, uint8_t name_length, int* error
                             ) noexcept nogil:
    cdef FlightRing* ring = <FlightRing*>calloc(1, sizeof(FlightRing))
    cdef int part
    error[0] = ENOMEM
    if ring == NULL:
        return NULL
    ring.file = -1
    ring.capacity = bytes // (FLIGHT_PARTS * FORMAT_FLIGHT_RECORD_BYTES)
    ring.memory = <FlightRecord*>calloc(<size_t>(FLIGHT_PARTS * ring.capacity), sizeof(FlightRecord))
    if ring.memory == NULL or ring.capacity == 0:
        flight_destroy(ring)
        return NULL
    for part in range(<int>FLIGHT_PARTS):
        ring.rooms[part].records = ring.memory + <size_t>(part * ring.capacity)
    # Not blocking: the name may be a pipe of somebody else.
    ring.file = openat(directory, FILE_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, FILE_MODE)
    error[0] = errno if ring.file < 0 else _prepare(ring, name, name_length)
    if error[0] != 0:
        flight_destroy(ring)
        return NULL
    ring.life += 1
    ring.clock_ms = _clock_ms()
    return ring


cdef void flight_close_in_child(FlightRing* ring) noexcept nogil:
    if ring != NULL and ring.file >= 0:
        posix_close(ring.file)
        ring.file = -1


cdef void flight_destroy(FlightRing* ring) noexcept nogil:
    if ring == NULL:
        return
    if ring.file >= 0:
        posix_close(ring.file)
    free(ring.memory)
    free(ring)


# --- owners of parts --------------------------------------------------------------------------------------------------
# Others may copy the record meanwhile. The checksum tells them of a mixture.
cdef void _store(FlightRecord* place, const FlightRecord* record) noexcept nogil:
    cdef int i
    for i in range(<int>RECORD_WORDS):
        store_release(&(<uint64_t*>place)[i], (<const uint64_t*>record)[i])


cdef void _load(const FlightRecord* place, FlightRecord* record) noexcept nogil:
    cdef int i
    for i in range(<int>RECORD_WORDS):
        (<uint64_t*>record)[i] = load_acquire(&(<const uint64_t*>place)[i])


cdef void flight_copy(const FlightRing* ring, FlightPart part, uint64_t first, uint64_t most, FlightRecord* into,
                      FlightLook* look) noexcept nogil:
    cdef const FlightRoom* room = &ring.rooms[<int>part]
    cdef uint64_t count = load_acquire(&room.count)
    cdef uint64_t i
    look.life = ring.life
    look.capacity = ring.capacity
    look.boot_ns = boot_now_ns()
    look.wall_ns = _wall_now_ns()
    look.newest = count
    look.first = max(first, count - min(count, ring.capacity) + 1)
    look.copied = 0 if look.first > count else min(most, count - look.first + 1)
    for i in range(look.copied):
        _load(&room.records[(look.first - 1 + i) % ring.capacity], &into[i])


cdef void flight_write(FlightRing* ring, FlightPart part, uint32_t kind, uint64_t a, uint64_t b, uint64_t c,
                       uint64_t d) noexcept nogil:
    cdef FlightRoom* room
    cdef FlightRecord record
    if ring == NULL:
        return
    room = &ring.rooms[<int>part]
    record.number = room.count + 1
    record.boot_ns = boot_now_ns()
    record.wall_ns = _wall_now_ns()
    record.kind = <uint16_t>kind
    record.life = <uint16_t>ring.life
    record.checksum = 0
    record.a = a
    record.b = b
    record.c = c
    record.d = d
    record.checksum = crc32c(0, &record, sizeof(FlightRecord))
    _store(&room.records[room.count % ring.capacity], &record)
    store_release(&room.count, room.count + 1)


cdef void flight_text(FlightRing* ring, FlightPart part, const uint8_t* text, size_t length) noexcept nogil:
    cdef uint64_t[4] words
    cdef size_t taken
    while length:
        taken = min(length, <size_t>FLIGHT_TEXT_BYTES)
        memset(words, 0, sizeof(words))
        memcpy(words, text, taken)
        flight_write(ring, part, FLIGHT_TEXT, words[0], words[1], words[2], words[3])
        text += taken
        length -= taken


# The two halves of a number in hexadecimal digits, whatever stands between them.
cdef void _read_machine(uint64_t* halves) noexcept nogil:
    cdef uint8_t[MACHINE_ID_BYTES] text
    cdef int file = posix_open(MACHINE_ID_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    cdef int digits = 0
    cdef int i
    cdef uint8_t digit
    halves[0] = halves[1] = 0
    if file < 0:
        return
    if pread(file, text, MACHINE_ID_BYTES, 0) == MACHINE_ID_BYTES:
        for i in range(MACHINE_ID_BYTES):
            digit = text[i]
            if digit == c'-' or digits == 32:
                continue
            halves[digits // 16] = halves[digits // 16] << 4 | ((digit & 0xF) + (9 if digit > c'9' else 0))
            digits += 1
    posix_close(file)


cdef void flight_begin_life(FlightRing* ring, uint64_t boot, uint64_t member) noexcept nogil:
    cdef uint64_t[2] machine
    if ring == NULL:
        return
    _read_machine(machine)
    flight_write(ring, FLIGHT_LOOP, FLIGHT_START, boot, member, <uint64_t>getpid(), ring.last_alive_ns)
    flight_write(ring, FLIGHT_LOOP, FLIGHT_MACHINE, machine[0], machine[1], 0, 0)


# --- the thread -------------------------------------------------------------------------------------------------------
# As far as the file takes it. An owner may write over a record meanwhile: the file then has a wrong checksum for a
# moment, and the successor at that place has a higher number and is carried next.
cdef void _carry(FlightRing* ring, uint64_t now_ns) noexcept nogil:
    cdef FlightRecord[CARRY_RECORDS] records
    cdef FlightRoom* room
    cdef uint64_t count, place, length, i
    cdef int part
    for part in range(<int>FLIGHT_PARTS):
        room = &ring.rooms[part]
        count = load_acquire(&room.count)
        if count - room.carried > ring.capacity:
            room.carried = count - ring.capacity
        while room.carried != count:
            place = room.carried % ring.capacity
            length = min(min(count - room.carried, ring.capacity - place), <uint64_t>CARRY_RECORDS)
            for i in range(length):
                _load(&room.records[place + i], &records[i])
            if not _put(ring.file, records, <size_t>length * FORMAT_FLIGHT_RECORD_BYTES, _offset(ring, part, place)):
                ring.has_failed = True
                return
            room.carried += length
            if ring.dirty_since_ns == 0:
                ring.dirty_since_ns = now_ns


cdef void _tell_alive(FlightRing* ring, uint64_t now_ns) noexcept nogil:
    cdef Alive alive
    memset(&alive, 0, sizeof(Alive))
    alive.boot_ns = now_ns
    alive.wall_ns = _wall_now_ns()
    alive.life = ring.life
    alive.checksum = crc32c(0, &alive, sizeof(Alive) - sizeof(uint32_t))
    _put(ring.file, &alive, sizeof(Alive), FORMAT_FLIGHT_PAGE_BYTES)
    ring.told_alive_ns = now_ns


cdef inline int64_t _abs_ms(int64_t value) noexcept nogil:
    return -value if value < 0 else value


cdef int64_t _clock_ms() noexcept nogil:
    return <int64_t>(_wall_now_ns() // NS_PER_MS) - <int64_t>(boot_now_ns() // NS_PER_MS)


cdef void _look_at_clock(FlightRing* ring) noexcept nogil:
    cdef uint64_t begun_ns = boot_now_ns()
    cdef int64_t clock_ms = _clock_ms()
    cdef int64_t step_ms = clock_ms - ring.clock_ms
    if boot_now_ns() - begun_ns > TUNE_CLOCKS_NS:
        return
    ring.clock_ms = clock_ms
    if _abs_ms(step_ms) >= TUNE_FLIGHT_SLOW_NS // NS_PER_MS:
        flight_write(ring, FLIGHT_OWN, FLIGHT_CLOCK, <uint64_t>step_ms, 0, 0, 0)


cdef void* _flight_main(void* argument) noexcept nogil:
    cdef FlightRing* ring = <FlightRing*>argument
    cdef uint32_t first = 0
    cdef uint64_t begun_ns, now_ns
    while load_shared(&ring.bell) == first:
        begun_ns = boot_now_ns()
        futex_wait(&ring.bell, first, TUNE_CARRY_NS)
        now_ns = boot_now_ns()
        if now_ns - begun_ns > <uint64_t>TUNE_CARRY_NS + TUNE_FLIGHT_SLOW_NS:
            flight_write(ring, FLIGHT_OWN, FLIGHT_PAUSE, begun_ns + TUNE_CARRY_NS,
                         now_ns - begun_ns - TUNE_CARRY_NS, 0, 0)
        _look_at_clock(ring)
        if ring.has_failed:
            continue
        _carry(ring, now_ns)
        if now_ns - ring.told_alive_ns >= TUNE_ALIVE_NS:
            _tell_alive(ring, now_ns)
        if ring.dirty_since_ns != 0 and now_ns - ring.dirty_since_ns >= TUNE_SYNC_NS:
            fdatasync(ring.file)        # one that fails changes nothing: there is nobody to tell
            ring.dirty_since_ns = 0
    if not ring.has_failed:
        _carry(ring, boot_now_ns())
    return NULL


cdef bint flight_start(FlightRing* ring) noexcept nogil:
    if ring != NULL:
        ring.is_running = thread_start(&ring.thread, _flight_main, ring, b"raftmeta-flight") == 0
        return ring.is_running
    return True


cdef bint flight_stop(FlightRing* ring, uint64_t timeout_ns) noexcept nogil:
    if ring == NULL:
        return True
    if not ring.is_running:
        if not ring.has_failed:
            _carry(ring, boot_now_ns())
        return True
    add_shared(&ring.bell, <uint32_t>1)
    futex_wake(&ring.bell, 1)
    ring.is_running = not thread_join(ring.thread, timeout_ns)
    return not ring.is_running
