"""The real disk: a folder by its descriptor, every call of the operating system mapped to a status.

It decides nothing. It must never retry a sync, follow a name out of its folder, hold Python. Reads of an
existing file see what is on stable storage: `open` syncs what an earlier process left in the cache and then drops
the cached pages, since after a failed sync they may say more than the disk has (decisions/log.md D5).

Writes of whole blocks go past the page cache (O_DIRECT) where the file system can (decisions/log.md).
"""

from libc.errno cimport (EACCES, EAGAIN, EDQUOT, EFBIG, EINTR, EINVAL, EMFILE, ENFILE, ENOENT, ENOSPC, EPERM, EROFS,
                         errno)
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset, strlen

from raftmeta.native.atomics cimport exchange_shared, load_shared, store_release, store_shared, swap_shared
from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.native.threads cimport boot_now_ns, futex_wait, futex_wake
from raftmeta.ports cimport FILE_NAME_BYTES_MAX, DiskPort, FileName, file_t
from raftmeta.status cimport DISK_FAILED, IN_USE, NO_MEMORY, NO_SPACE, NOT_FOUND, OK, status_t
from raftmeta.storage.disk cimport (DISK_CALL_CHANGE, DISK_CALL_LIST, DISK_CALL_OPEN, DISK_CALL_READ, DISK_CALL_SYNC,
                                    DISK_CALL_WRITE, TUNE_RESERVED_DESCRIPTORS, DiskCall, RealDisk)


cdef extern from "<fcntl.h>" nogil:
    enum:
        O_RDONLY
        O_RDWR
        O_CREAT
        O_CLOEXEC
        O_DIRECTORY
        O_NOFOLLOW
        O_DIRECT
        F_GETFL
        F_SETFL
        F_OFD_SETLK
        F_DUPFD_CLOEXEC
        F_WRLCK
        F_UNLCK
        SEEK_SET
        POSIX_FADV_DONTNEED
    struct flock:
        short l_type
        short l_whence
        long l_start
        long l_len
        int l_pid
    int posix_open "open"(const char* path, int flags, ...)
    int openat(int directory, const char* name, int flags, ...)
    int fcntl(int descriptor, int command, ...)
    int dup3(int source, int target, int flags)
    int posix_fadvise(int descriptor, long offset, long length, int advice)


cdef extern from "<unistd.h>" nogil:
    ctypedef long ssize_t
    int posix_close "close"(int descriptor)
    int fsync(int descriptor)
    int fdatasync(int descriptor)
    int ftruncate(int descriptor, long length)
    int unlinkat(int directory, const char* name, int flags)
    ssize_t pread(int descriptor, void* into, size_t length, long offset)
    ssize_t pwrite(int descriptor, const void* data, size_t length, long offset)
    int getpid()


cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t pwritev(int descriptor, const iovec* parts, int count, long offset)


cdef extern from "<stdio.h>" nogil:
    int renameat(int source_directory, const char* source, int target_directory, const char* target)
    int snprintf(char* into, size_t size, const char* text, ...)


cdef extern from "<stdlib.h>" nogil:
    unsigned long strtoul(const char* text, char** end, int base)
    int posix_memalign(void** memory, size_t alignment, size_t size)


cdef extern from "<sys/stat.h>" nogil:
    struct stat_t "stat":
        long st_size
        unsigned long st_ino
        unsigned st_mode
    int fstat(int descriptor, stat_t* found)
    int mkdir(const char* path, unsigned mode)


cdef extern from "<sys/statvfs.h>" nogil:
    struct statvfs_t "statvfs":
        unsigned long f_frsize
        unsigned long f_bavail
    int fstatvfs(int descriptor, statvfs_t* found)


cdef extern from "<dirent.h>" nogil:
    ctypedef struct DIR:
        pass
    struct dirent:
        char* d_name
    DIR* fdopendir(int descriptor)
    dirent* readdir(DIR* stream)
    void rewinddir(DIR* stream)
    int closedir(DIR* stream)

cdef enum:
    FOLDER_MODE = 0o700
    FILE_MODE = 0o600
    IOV_PARTS_MAX = 512             # below IOV_MAX of every Linux
    BLOCK_BYTES = 4096              # what O_DIRECT asks of addresses, offsets and lengths, on any disk of today
    STAGING_BYTES = 512 * 1024      # of a direct write at a time
    PID_TEXT_BYTES = 24
    DESCRIPTOR_PAUSE_NS = 20_000_000    # until a call that found no descriptor tries again
    EVERYBODY = 0x7FFFFFFF

cdef const char* LOCK_FILE_NAME = "lock"


cdef uint64_t disk_failure(DiskCall call, int error) noexcept nogil:
    return <uint64_t>call << 32 | <uint32_t>error


# A call failed for good; why is kept for people.
cdef status_t _broken(void* self, DiskCall call, int error) noexcept nogil:
    store_shared(&(<RealDisk*>self).failure, disk_failure(call, error))
    return DISK_FAILED


# The same for a call that may find no room, or no such name. Never a sync: what is in the cache then is not known.
cdef status_t _failed(void* self, DiskCall call, int error) noexcept nogil:
    if error == ENOSPC or error == EDQUOT or error == EFBIG:
        return NO_SPACE
    return NOT_FOUND if error == ENOENT else _broken(self, call, error)


cdef int _directory(void* self) noexcept nogil:
    return (<RealDisk*>self).directory


# --- descriptors ------------------------------------------------------------------------------------------------------
# One of the reserve is free for whoever asks next, who may be another thread of the host.
cdef bint _give_one_up(RealDisk* disk) noexcept nogil:
    cdef uint32_t held
    cdef size_t i
    for i in range(TUNE_RESERVED_DESCRIPTORS):
        held = exchange_shared(&disk.reserved[i], <uint32_t>0)
        if held != 0:
            posix_close(<int>held - 1)
            return True
    return False


cdef void _fill_reserve(RealDisk* disk) noexcept nogil:
    cdef int descriptor
    cdef size_t i
    for i in range(TUNE_RESERVED_DESCRIPTORS):
        if load_shared(&disk.reserved[i]) == 0:
            descriptor = fcntl(disk.lock, F_DUPFD_CLOEXEC, 0)
            if descriptor < 0:
                return
            if not swap_shared(&disk.reserved[i], <uint32_t>0, <uint32_t>(descriptor + 1)):
                posix_close(descriptor)


# A file's descriptor goes back into the reserve without being free for a moment.
cdef bint _take_back(RealDisk* disk, int descriptor) noexcept nogil:
    cdef size_t i
    if disk.lock < 0:
        return False
    for i in range(TUNE_RESERVED_DESCRIPTORS):
        if load_shared(&disk.reserved[i]) == 0:
            if dup3(disk.lock, descriptor, O_CLOEXEC) < 0:
                return False
            if not swap_shared(&disk.reserved[i], <uint32_t>0, <uint32_t>(descriptor + 1)):
                posix_close(descriptor)
            return True
    return False


# After a call that makes a descriptor failed: True: it may succeed now.
cdef bint _may_try_again(RealDisk* disk) noexcept nogil:
    if errno == EINTR:
        return True
    if errno != EMFILE and errno != ENFILE:
        return False
    if _give_one_up(disk):
        return True
    if not load_shared(&disk.is_patient):
        return False
    store_shared(&disk.waits_for, <uint32_t>errno)
    futex_wait(&disk.is_patient, 1, DESCRIPTOR_PAUSE_NS)
    return True


# It has its descriptor, or gave up.
cdef void _has_waited(RealDisk* disk) noexcept nogil:
    if load_shared(&disk.waits_for) != 0:
        store_shared(&disk.waits_for, <uint32_t>0)


cdef int _open_at(RealDisk* disk, const char* name, int flags) noexcept nogil:
    cdef int descriptor = openat(disk.directory, name, flags, FILE_MODE)
    while descriptor < 0 and _may_try_again(disk):
        descriptor = openat(disk.directory, name, flags, FILE_MODE)
    _has_waited(disk)               # makes no call, so that errno stays
    return descriptor


cdef void real_disk_be_patient(RealDisk* disk) noexcept nogil:
    store_shared(&disk.is_patient, <uint32_t>1)


cdef void real_disk_give_up(RealDisk* disk) noexcept nogil:
    store_shared(&disk.is_patient, <uint32_t>0)
    futex_wake(&disk.is_patient, EVERYBODY)


# --- files ------------------------------------------------------------------------------------------------------------
# Once in the life of this RealDisk for each file: sync what an earlier life left in the cache, then read from the disk.
cdef status_t _settle(RealDisk* disk, int descriptor) noexcept nogil:
    cdef stat_t found
    cdef int error
    cdef size_t i
    if fstat(descriptor, &found) != 0:
        return _broken(disk, DISK_CALL_OPEN, errno)
    for i in range(disk.settled.size):
        if disk.settled.data[i] == found.st_ino:
            return OK
    if fdatasync(descriptor) != 0:
        return _broken(disk, DISK_CALL_SYNC, errno)
    error = posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED)
    if error != 0:
        return _broken(disk, DISK_CALL_OPEN, error)
    return OK if disk.settled.push(found.st_ino) else NO_MEMORY


cdef status_t _open(void* self, const char* name, bint create, file_t* file) noexcept nogil:
    cdef int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW
    cdef int descriptor = _open_at(<RealDisk*>self, name, flags)
    cdef status_t status
    if descriptor < 0 and errno == ENOENT and create:
        descriptor = _open_at(<RealDisk*>self, name, flags | O_CREAT)
    if descriptor < 0:
        return _failed(self, DISK_CALL_OPEN, errno)
    status = _settle(<RealDisk*>self, descriptor)
    if status != OK:
        posix_close(descriptor)
        return status
    file[0] = descriptor
    return OK


cdef void _close(void* self, file_t file) noexcept nogil:
    if not _take_back(<RealDisk*>self, file):
        posix_close(file)


cdef status_t _size(void* self, file_t file, uint64_t* size_bytes) noexcept nogil:
    cdef stat_t found
    if fstat(file, &found) != 0:
        return _broken(self, DISK_CALL_READ, errno)
    size_bytes[0] = <uint64_t>found.st_size
    return OK


# False: this file system knows no such writes.
cdef bint _set_direct(int descriptor, bint is_direct) noexcept nogil:
    cdef int flags = fcntl(descriptor, F_GETFL)
    if flags >= 0 and ((flags & O_DIRECT) != 0) == is_direct:
        return True
    return flags >= 0 and fcntl(descriptor, F_SETFL, flags ^ O_DIRECT) == 0


cdef status_t _read(void* self, file_t file, uint64_t offset, uint8_t* into, size_t length, size_t* got) noexcept nogil:
    cdef ssize_t count
    got[0] = 0
    if not _set_direct(file, False):
        return _broken(self, DISK_CALL_READ, errno)
    while got[0] < length:
        count = pread(file, into + got[0], length - got[0], <long>(offset + got[0]))
        if count < 0 and errno == EINTR:
            continue
        if count < 0:
            return _broken(self, DISK_CALL_READ, errno)
        if count == 0:
            break
        got[0] += <size_t>count
    return OK


# Write all of parts[0 .. count), which it changes: what a short write took is taken off them.
cdef status_t _write_all(void* self, int descriptor, iovec* parts, int count, uint64_t offset) noexcept nogil:
    cdef ssize_t written
    while count > 0:
        if parts[0].iov_len == 0:
            parts += 1
            count -= 1
            continue
        written = pwritev(descriptor, parts, count, <long>offset)
        if written < 0 and errno == EINTR:
            continue
        if written < 0:
            return _failed(self, DISK_CALL_WRITE, errno)
        offset += <uint64_t>written
        while written > 0:
            if <size_t>written < parts[0].iov_len:
                parts[0].iov_base = <uint8_t*>parts[0].iov_base + written
                parts[0].iov_len -= <size_t>written
                break
            written -= <ssize_t>parts[0].iov_len
            parts += 1
            count -= 1
    return OK


# Parts of whole blocks in sum, by way of the staging buffer.
cdef status_t _write_direct(RealDisk* disk, int descriptor, uint64_t offset, const Slice* parts,
                            size_t count) noexcept nogil:
    cdef iovec vector
    cdef uint64_t taken = 0         # of parts[0]
    cdef uint64_t length
    cdef size_t staged
    cdef status_t status = OK
    while status == OK and count:
        staged = 0
        while staged < STAGING_BYTES and count:
            length = min(parts[0].length - taken, <uint64_t>STAGING_BYTES - staged)
            memcpy(disk.staging + staged, parts[0].data + taken, length)
            staged += length
            taken += length
            if taken == parts[0].length:
                taken = 0
                parts += 1
                count -= 1
        vector.iov_base = disk.staging
        vector.iov_len = staged
        status = _write_all(disk, descriptor, &vector, 1, offset)
        offset += staged
    return status


# Whether this write may go past the cache; then the staging buffer is this thread's.
cdef bint _take_staging(RealDisk* disk, int descriptor, uint64_t offset, const Slice* parts,
                        size_t count) noexcept nogil:
    cdef uint64_t length = 0
    cdef size_t i
    for i in range(count):
        length += parts[i].length
    if disk.has_no_direct_writes or length == 0 or offset % BLOCK_BYTES or length % BLOCK_BYTES:
        return False
    if exchange_shared(&disk.is_staging_taken, <uint32_t>1):
        return False                # another thread writes; through the cache is as right
    if ((disk.staging == NULL and posix_memalign(<void**>&disk.staging, BLOCK_BYTES, STAGING_BYTES) != 0)
            or not _set_direct(descriptor, True)):
        disk.has_no_direct_writes = True
        store_shared(&disk.is_staging_taken, <uint32_t>0)
        return False
    return True


cdef status_t _write(void* self, file_t file, uint64_t offset, const Slice* parts, size_t count) noexcept nogil:
    cdef RealDisk* disk = <RealDisk*>self
    cdef status_t status
    if _take_staging(disk, file, offset, parts, count):
        status = _write_direct(disk, file, offset, parts, count)
        store_shared(&disk.is_staging_taken, <uint32_t>0)
        if status != DISK_FAILED or errno != EINVAL:
            return status
        disk.has_no_direct_writes = True    # larger blocks than ours, or none that it would take so
    if not _set_direct(file, False):
        return _broken(self, DISK_CALL_WRITE, errno)
    return _write_cached(self, file, offset, parts, count)


cdef status_t _write_cached(void* self, int file, uint64_t offset, const Slice* parts, size_t count) noexcept nogil:
    cdef iovec[IOV_PARTS_MAX] vectors
    cdef uint64_t length
    cdef int taken
    cdef status_t status = OK
    while status == OK and count:
        taken = 0
        length = 0
        while taken < IOV_PARTS_MAX and count:
            vectors[taken].iov_base = parts[0].data
            vectors[taken].iov_len = parts[0].length
            length += parts[0].length
            taken += 1
            parts += 1
            count -= 1
        status = _write_all(self, file, vectors, taken, offset)
        offset += length
    return status


cdef status_t _sync(void* self, file_t file) noexcept nogil:
    # Also when the file grew: fdatasync writes the metadata that is needed to read the data back.
    cdef uint64_t begun_ns = boot_now_ns()
    cdef status_t status = OK if fdatasync(file) == 0 else _broken(self, DISK_CALL_SYNC, errno)
    _count_sync(<RealDisk*>self, boot_now_ns() - begun_ns)
    return status


# One thread counts; others may read at any time.
cdef void _count_sync(RealDisk* disk, uint64_t time_ns) noexcept nogil:
    store_release(&disk.counters.syncs, disk.counters.syncs + 1)
    store_release(&disk.counters.time_ns, disk.counters.time_ns + time_ns)
    if time_ns > disk.counters.time_ns_max:
        store_release(&disk.counters.time_ns_max, time_ns)


cdef status_t _truncate(void* self, file_t file, uint64_t size_bytes) noexcept nogil:
    cdef int result = ftruncate(file, <long>size_bytes)
    while result != 0 and errno == EINTR:
        result = ftruncate(file, <long>size_bytes)
    return OK if result == 0 else _failed(self, DISK_CALL_CHANGE, errno)


# --- the folder -------------------------------------------------------------------------------------------------------
cdef status_t _rename(void* self, const char* source, const char* target) noexcept nogil:
    if renameat(_directory(self), source, _directory(self), target) != 0:
        return _failed(self, DISK_CALL_CHANGE, errno)
    return OK


cdef status_t _remove(void* self, const char* name) noexcept nogil:
    return OK if unlinkat(_directory(self), name, 0) == 0 else _failed(self, DISK_CALL_CHANGE, errno)


cdef status_t _sync_directory(void* self) noexcept nogil:
    cdef uint64_t begun_ns = boot_now_ns()
    cdef status_t status = OK if fsync(_directory(self)) == 0 else _broken(self, DISK_CALL_SYNC, errno)
    _count_sync(<RealDisk*>self, boot_now_ns() - begun_ns)
    return status


cdef status_t _list_names(void* self, Vec[FileName]* names) noexcept nogil:
    cdef int descriptor = fcntl(_directory(self), F_DUPFD_CLOEXEC, 0)
    cdef DIR* stream
    cdef dirent* entry
    cdef FileName name
    cdef status_t status = OK
    while descriptor < 0 and _may_try_again(<RealDisk*>self):
        descriptor = fcntl(_directory(self), F_DUPFD_CLOEXEC, 0)
    if descriptor < 0:
        status = _broken(self, DISK_CALL_LIST, errno)
        _has_waited(<RealDisk*>self)
        return status
    _has_waited(<RealDisk*>self)
    stream = fdopendir(descriptor)
    if stream == NULL:
        posix_close(descriptor)
        return NO_MEMORY
    rewinddir(stream)       # the position is shared with every duplicate of the descriptor
    while status == OK:
        entry = readdir(stream)
        if entry == NULL:
            break
        if entry.d_name[0] == c'.' or strlen(entry.d_name) > FILE_NAME_BYTES_MAX:
            continue        # none of ours
        memset(&name, 0, sizeof(FileName))
        memcpy(name.text, entry.d_name, strlen(entry.d_name))
        if not names.push(name):
            status = NO_MEMORY
    closedir(stream)
    return status


cdef status_t _free_bytes(void* self, uint64_t* free_bytes) noexcept nogil:
    cdef statvfs_t found
    if fstatvfs(_directory(self), &found) != 0:
        return _broken(self, DISK_CALL_READ, errno)
    free_bytes[0] = <uint64_t>found.f_bavail * found.f_frsize
    return OK


cdef DiskPort real_disk_port(RealDisk* disk) noexcept nogil:
    cdef DiskPort port
    port.self = disk
    port.keys = NULL
    port.open = _open
    port.close = _close
    port.size = _size
    port.read = _read
    port.write = _write
    port.sync = _sync
    port.truncate = _truncate
    port.rename = _rename
    port.remove = _remove
    port.sync_directory = _sync_directory
    port.list_names = _list_names
    port.free_bytes = _free_bytes
    return port


# --- life and lock ----------------------------------------------------------------------------------------------------
cdef status_t real_disk_open(RealDisk* disk, const char* path) noexcept nogil:
    memset(<void*>disk, 0, sizeof(RealDisk))
    disk.directory = disk.lock = -1
    cdef int error = 0
    if mkdir(path, FOLDER_MODE) != 0:
        error = errno
    if error == ENOENT:
        return NOT_FOUND
    disk.directory = posix_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    if disk.directory < 0 and errno == ENOENT and error != 0:
        return _failed(disk, DISK_CALL_OPEN, error)     # it could not be made
    return OK if disk.directory >= 0 else _failed(disk, DISK_CALL_OPEN, errno)


cdef void real_disk_close_in_child(RealDisk* disk) noexcept nogil:
    while _give_one_up(disk):
        pass
    if disk.lock >= 0:
        posix_close(disk.lock)
    if disk.directory >= 0:
        posix_close(disk.directory)
    disk.directory = disk.lock = -1
    disk.settled.release()
    free(disk.staging)
    disk.staging = NULL


cdef void real_disk_close(RealDisk* disk) noexcept nogil:
    # Given up by name and not only by closing: a fork child that still has the descriptor would keep it.
    if disk.lock >= 0:
        _set_lock(disk.lock, F_UNLCK)
    real_disk_close_in_child(disk)


# A lock of the open file, not of the process: it works between two Nodes of one process, too, and another descriptor of
# the file may be closed without losing it.
cdef int _set_lock(int descriptor, short kind) noexcept nogil:
    cdef flock lock
    memset(&lock, 0, sizeof(flock))
    lock.l_type = kind
    lock.l_whence = SEEK_SET
    return fcntl(descriptor, F_OFD_SETLK, &lock)


cdef uint64_t _read_holder(int descriptor) noexcept nogil:
    cdef char[PID_TEXT_BYTES] text
    memset(text, 0, PID_TEXT_BYTES)
    if pread(descriptor, text, PID_TEXT_BYTES - 1, 0) <= 0:
        return 0
    return strtoul(text, NULL, 10)


# The name of the folder in its parent: without it a power cut takes the folder with all that is synced inside. At every
# start, since the life that made the folder may have ended before this. A parent that nobody may read is left alone.
cdef status_t _keep_name(RealDisk* disk) noexcept nogil:
    cdef int parent = openat(disk.directory, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    cdef int error
    if parent < 0:
        return OK if errno == EACCES or errno == EPERM else _failed(disk, DISK_CALL_OPEN, errno)
    error = 0 if fsync(parent) == 0 else errno
    posix_close(parent)
    if error == EROFS or error == EINVAL:       # this kind of file system takes no such sync
        return OK
    return OK if error == 0 else _broken(disk, DISK_CALL_SYNC, error)


cdef status_t real_disk_lock(RealDisk* disk, uint64_t* holder) noexcept nogil:
    cdef char[PID_TEXT_BYTES] text
    cdef int length
    cdef status_t status
    cdef int descriptor = openat(disk.directory, LOCK_FILE_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, FILE_MODE)
    holder[0] = 0
    if descriptor < 0:
        return _failed(disk, DISK_CALL_OPEN, errno)
    if _set_lock(descriptor, F_WRLCK) != 0:
        if errno != EAGAIN and errno != EACCES:
            status = _broken(disk, DISK_CALL_OPEN, errno)
            posix_close(descriptor)
            return status
        holder[0] = _read_holder(descriptor)
        posix_close(descriptor)
        return IN_USE
    # For people: the lock holds also when a full disk has no room for the number.
    length = snprintf(text, PID_TEXT_BYTES, "%-12d\n", getpid())
    holder[0] = getpid() if pwrite(descriptor, text, <size_t>length, 0) == length else 0
    disk.lock = descriptor
    _fill_reserve(disk)
    return _keep_name(disk)
