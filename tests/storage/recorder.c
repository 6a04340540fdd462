/* Records what a process asks of the files in one folder: every write with its bytes, every sync, in order.
 *
 * Preloaded (LD_PRELOAD) with RECORDER_FOLDER, a path without symbolic links, and RECORDER_FILE. One record is
 * { u32 kind, u32 path_bytes, u64 offset, u64 length } and then the path, relative to the folder, and the bytes:
 *     1 write     2 write that is durable when it returns (O_DSYNC, O_SYNC)     3 sync     4 truncate (length: the size)
 * A call is recorded when it has succeeded. The process under it has one thread that writes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, DURABLE_WRITE = 2, SYNC = 3, TRUNCATE = 4 };

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int output = -1;

static void put(const void* bytes, size_t length) {
    if (REAL(write)(output, bytes, length) != (ssize_t)length) abort();
}

/* The path of a descriptor below the folder, "" for the folder itself; NULL: it is none of ours. */
static const char* path_of(int descriptor, char* found, size_t size) {
    static const char* folder;
    char link[64];
    if (folder == NULL) {
        folder = getenv("RECORDER_FOLDER");
        if (folder == NULL) return NULL;
        output = open(getenv("RECORDER_FILE"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (output < 0) abort();
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, found, size - 1);
    size_t stem = strlen(folder);
    if (length < 0) return NULL;
    found[length] = 0;
    if (strncmp(found, folder, stem) != 0 || (found[stem] != 0 && found[stem] != '/')) return NULL;
    return found[stem] == 0 ? found + stem : found + stem + 1;
}

static void record(int kind, int descriptor, uint64_t offset, uint64_t length, const struct iovec* parts, int count) {
    char buffer[4096];
    const char* path = path_of(descriptor, buffer, sizeof buffer);
    if (path == NULL) return;
    if (kind == WRITE && (fcntl(descriptor, F_GETFL) & O_DSYNC)) kind = DURABLE_WRITE;
    struct { uint32_t kind, path_bytes; uint64_t offset, length; } head = {kind, strlen(path), offset, length};
    put(&head, sizeof head);
    put(path, head.path_bytes);
    for (int i = 0; i < count && length > 0; i++) {
        size_t taken = parts[i].iov_len < length ? parts[i].iov_len : length;
        put(parts[i].iov_base, taken);
        length -= taken;
    }
}

static ssize_t wrote(int descriptor, off_t offset, ssize_t result, const struct iovec* parts, int count) {
    if (result > 0) record(WRITE, descriptor, offset, result, parts, count);
    return result;
}

ssize_t write(int descriptor, const void* bytes, size_t length) {
    struct iovec part = {(void*)bytes, length};
    off_t offset = lseek(descriptor, 0, SEEK_CUR);
    return wrote(descriptor, offset, REAL(write)(descriptor, bytes, length), &part, 1);
}

ssize_t writev(int descriptor, const struct iovec* parts, int count) {
    off_t offset = lseek(descriptor, 0, SEEK_CUR);
    return wrote(descriptor, offset, REAL(writev)(descriptor, parts, count), parts, count);
}

ssize_t pwrite(int descriptor, const void* bytes, size_t length, off_t offset) {
    struct iovec part = {(void*)bytes, length};
    return wrote(descriptor, offset, REAL(pwrite)(descriptor, bytes, length, offset), &part, 1);
}

ssize_t pwrite64(int descriptor, const void* bytes, size_t length, off_t offset) {
    struct iovec part = {(void*)bytes, length};
    return wrote(descriptor, offset, REAL(pwrite)(descriptor, bytes, length, offset), &part, 1);
}

ssize_t pwritev(int descriptor, const struct iovec* parts, int count, off_t offset) {
    return wrote(descriptor, offset, REAL(pwritev)(descriptor, parts, count, offset), parts, count);
}

ssize_t pwritev64(int descriptor, const struct iovec* parts, int count, off_t offset) {
    return wrote(descriptor, offset, REAL(pwritev)(descriptor, parts, count, offset), parts, count);
}

static int synced(int descriptor, int result) {
    if (result == 0) record(SYNC, descriptor, 0, 0, NULL, 0);
    return result;
}

int fsync(int descriptor) { return synced(descriptor, REAL(fsync)(descriptor)); }

int fdatasync(int descriptor) { return synced(descriptor, REAL(fdatasync)(descriptor)); }

int ftruncate(int descriptor, off_t length) {
    int result = REAL(ftruncate)(descriptor, length);
    if (result == 0) record(TRUNCATE, descriptor, 0, length, NULL, 0);
    return result;
}

int ftruncate64(int descriptor, off_t length) { return ftruncate(descriptor, length); }
