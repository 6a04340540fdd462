// The shim: stands between one process and the C library (LD_PRELOAD) and lets clocks and disks fail on order.
//
// What it decides: which calls are struck, by the rules of a page of shared memory that jepsen/faults/shim.py writes, and
// counts there what it saw and struck. What it never does: act without a page, allocate, or change a call that no rule
// names. A process whose page is missing or of another layout dies at once: a fault must not be left out silently.
//
// Clocks. MONOTONIC and BOOTTIME run `rate_ppm` too fast and `steady_offset_ns` ahead, REALTIME is `wall_offset_ns`
// off; MONOTONIC_RAW stays true, for those who watch. Waits keep true time, like those of a kernel under a drifting
// oscillator: absolute deadlines are translated back.
//
// Files. Reads, writes and syncs of regular files. A write to a descriptor with O_DSYNC is a sync, too: LMDB commits by
// one. What a process reads through a mapping is not seen here.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    PATH_BYTES = 192,
    RULES = 8,
    CUT_PATHS = 8,
    PARTS_MAX = 1024,  // IOV_MAX of Linux
    LAYOUT = 0x524d5331,  // "RMS1"
};
enum call { CALL_READ = 1, CALL_WRITE = 2, CALL_SYNC = 4 };
enum action { COUNT = 0, FAIL = 1, DELAY = 2, SHORTEN = 3, CUT_BEFORE = 4, CUT_AFTER = 5, LIE = 6 };

struct rule {
    uint64_t calls;       // a set of enum call; 0: no rule
    uint64_t action;
    uint64_t value;       // FAIL: the errno; DELAY: nanoseconds
    uint64_t skip;        // so many matching calls pass first
    uint64_t count;       // and of so many after them each may be struck; 0: of all
    uint64_t chance_ppm;  // with this probability
    uint64_t seen;        // counted here: matching calls
    uint64_t struck;      // and those that were struck
    char path[PATH_BYTES];  // a part of the file's path; empty: any regular file
};

struct page {
    uint64_t layout;
    uint64_t bytes;
    uint64_t seed;
    uint64_t clock_sequence;  // odd: the clock is being changed (a sequence lock)
    int64_t wall_offset_ns;
    int64_t steady_offset_ns;
    int64_t rate_ppm;
    int64_t rate_since_ns;    // true MONOTONIC time from which rate_ppm holds
    uint64_t clock_reads;     // counted here: readings of a clock that was wrong
    uint64_t cuts;            // and power cuts
    uint64_t armed;           // whether there is any rule
    char cut_paths[CUT_PATHS][PATH_BYTES];  // mounted ext4 file systems that lose their power together
    struct rule rules[RULES];
};

static struct page* page;

static bool is_armed(void) { return page != NULL && __atomic_load_n(&page->armed, __ATOMIC_ACQUIRE) != 0; }

// The next definition of a function in the order of libraries: that of the C library.
#define NEXT(name) \
    static __typeof__(name)* next_##name; \
    if (!next_##name) next_##name = (__typeof__(name)*)dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void open_page(void) {
    const char* path = getenv("RAFTMETA_SHIM_PAGE");
    if (path == NULL) return;
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    struct stat found;
    void* mapped = MAP_FAILED;
    if (descriptor >= 0 && fstat(descriptor, &found) == 0 && (size_t)found.st_size >= sizeof(struct page))
        mapped = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (descriptor >= 0) close(descriptor);
    struct page* candidate = mapped == MAP_FAILED ? NULL : mapped;
    if (!candidate || candidate->layout != LAYOUT || candidate->bytes != sizeof(struct page)) {
        dprintf(2, "shim: RAFTMETA_SHIM_PAGE=%s is no page of this shim; make one by jepsen/faults/shim.py\n", path);
        _exit(125);
    }
    page = candidate;
}

// --- clocks -----------------------------------------------------------------------------------------------------------

static const int64_t SECOND_NS = 1000000000;

static int64_t to_ns(const struct timespec* time) { return time->tv_sec * SECOND_NS + time->tv_nsec; }

static struct timespec to_timespec(int64_t ns) {
    struct timespec time = {ns / SECOND_NS, ns % SECOND_NS};
    if (time.tv_nsec < 0) { time.tv_nsec += SECOND_NS; time.tv_sec -= 1; }
    return time;
}

static int64_t true_ns(clockid_t clock) {
    NEXT(clock_gettime);
    struct timespec now;
    next_clock_gettime(clock, &now);
    return to_ns(&now);
}

static bool is_wall(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

static bool is_steady(clockid_t clock) {
    // Not CLOCK_MONOTONIC_RAW: by that one the histories of all processes are ordered (jepsen/clock.py).
    return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME;
}

// How far this clock is off now, in nanoseconds.
static int64_t error_ns(clockid_t clock) {
    uint64_t before, after;
    int64_t error;
    if (page == NULL || !(is_wall(clock) || is_steady(clock))) return 0;
    do {
        before = __atomic_load_n(&page->clock_sequence, __ATOMIC_ACQUIRE);
        error = is_wall(clock) ? page->wall_offset_ns : page->steady_offset_ns;
        if (is_steady(clock) && page->rate_ppm)
            error += (true_ns(CLOCK_MONOTONIC) - page->rate_since_ns) / 1000 * page->rate_ppm / 1000;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        after = __atomic_load_n(&page->clock_sequence, __ATOMIC_RELAXED);
    } while (before != after || before & 1);
    return error;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
    NEXT(clock_gettime);
    int result = next_clock_gettime(clock, now);
    int64_t error = result == 0 ? error_ns(clock) : 0;
    if (error) {
        *now = to_timespec(to_ns(now) + error);
        __atomic_fetch_add(&page->clock_reads, 1, __ATOMIC_RELAXED);
    }
    return result;
}

// A deadline on the clock that the process sees, as one on the true clock.
static struct timespec true_deadline(clockid_t clock, const struct timespec* deadline) {
    return to_timespec(to_ns(deadline) - error_ns(clock));
}

// Which clock a condition waits on is hidden inside it: no machine runs for 15 years, no wall clock is that far back.
static clockid_t clock_of(const struct timespec* deadline) {
    return deadline->tv_sec > 500000000 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec* pause, struct timespec* rest) {
    NEXT(clock_nanosleep);
    if (!(flags & TIMER_ABSTIME)) return next_clock_nanosleep(clock, flags, pause, rest);
    struct timespec deadline = true_deadline(clock, pause);
    return next_clock_nanosleep(clock, flags, &deadline, rest);
}

int sem_clockwait(sem_t* semaphore, clockid_t clock, const struct timespec* until) {
    NEXT(sem_clockwait);
    struct timespec deadline = true_deadline(clock, until);
    return next_sem_clockwait(semaphore, clock, &deadline);
}

int sem_timedwait(sem_t* semaphore, const struct timespec* until) {
    NEXT(sem_timedwait);
    struct timespec deadline = true_deadline(CLOCK_REALTIME, until);
    return next_sem_timedwait(semaphore, &deadline);
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const struct timespec* until) {
    static __typeof__(pthread_cond_timedwait)* next;
    struct timespec deadline = true_deadline(clock_of(until), until);
    // Two versions live on x86-64; an unversioned look-up may find the one of 2002, for another layout of conditions.
    if (!next) next = (__typeof__(next))dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!next) next = (__typeof__(next))dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    return next(condition, mutex, &deadline);
}

int pthread_timedjoin_np(pthread_t thread, void** result, const struct timespec* until) {
    NEXT(pthread_timedjoin_np);
    struct timespec deadline = true_deadline(CLOCK_REALTIME, until);
    return next_pthread_timedjoin_np(thread, result, &deadline);
}

// --- which calls are struck -------------------------------------------------------------------------------------------

// SplitMix64: the same page and the same order of calls give the same faults.
static uint64_t mix(uint64_t number) {
    number += 0x9e3779b97f4a7c15;
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
    number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
    return number ^ (number >> 31);
}

// The path of a file, or of a folder, which is synced, too; empty for anything else.
static void find_path(int descriptor, char* path, size_t size) {
    struct stat found;
    char link[32];
    path[0] = 0;
    if (fstat(descriptor, &found) != 0 || !(S_ISREG(found.st_mode) || S_ISDIR(found.st_mode))) return;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, size - 1);
    path[length < 0 ? 0 : length] = 0;
}

static bool is_struck(struct rule* rule, size_t number) {
    uint64_t call = __atomic_fetch_add(&rule->seen, 1, __ATOMIC_RELAXED);
    if (call < rule->skip || (rule->count && call - rule->skip >= rule->count)) return false;
    if (mix(page->seed ^ mix(number) ^ call) % 1000000 >= rule->chance_ppm) return false;
    __atomic_fetch_add(&rule->struck, 1, __ATOMIC_RELAXED);
    return true;
}

// The power of all disks fails at once, and with it this process: nothing that it does afterwards is ever seen.
static void cut_power(void) {
    uint32_t without_flush = 2;  // EXT4_GOING_FLAGS_NOLOGFLUSH: the journal's last transactions go, too
    __atomic_fetch_add(&page->cuts, 1, __ATOMIC_SEQ_CST);
    for (size_t i = 0; i < CUT_PATHS && page->cut_paths[i][0]; ++i) {
        int descriptor = open(page->cut_paths[i], O_RDONLY | O_CLOEXEC);
        if (descriptor < 0 || ioctl(descriptor, _IOR('X', 125, uint32_t), &without_flush) != 0)
            dprintf(2, "shim: the power of %s did not fail: %s\n", page->cut_paths[i], strerror(errno));
    }
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

// What becomes of one call. Delays and cuts before it are done when this returns.
struct verdict {
    int error;        // not 0: it fails with this errno
    bool is_short;    // only half of the bytes
    bool is_cut;      // the power fails when it is done
    bool is_lie;      // it does nothing and says that all is well
};

static struct verdict judge(enum call call, int descriptor) {
    struct verdict verdict = {0, false, false, false};
    char path[PATH_MAX];
    bool is_known = false;
    if (!is_armed()) return verdict;
    for (size_t i = 0; i < RULES; ++i) {
        struct rule* rule = &page->rules[i];
        if (!(__atomic_load_n(&rule->calls, __ATOMIC_ACQUIRE) & call)) continue;
        if (!is_known) find_path(descriptor, path, sizeof(path));
        is_known = true;
        if (!path[0] || !strstr(path, rule->path) || !is_struck(rule, i)) continue;
        if (rule->action == DELAY) {
            struct timespec pause = to_timespec((int64_t)rule->value);
            nanosleep(&pause, NULL);
        }
        if (rule->action == CUT_BEFORE) cut_power();
        if (rule->action == CUT_AFTER) verdict.is_cut = true;
        if (rule->action == FAIL) verdict.error = (int)rule->value;
        if (rule->action == SHORTEN) verdict.is_short = true;
        if (rule->action == LIE) verdict.is_lie = true;
    }
    return verdict;
}

static ssize_t done(struct verdict verdict, ssize_t result) {
    if (verdict.is_cut) cut_power();
    return result;
}

static ssize_t failed(struct verdict verdict) {
    errno = verdict.error;
    return -1;
}

static size_t shortened(struct verdict verdict, size_t length) {
    return verdict.is_short && length > 1 ? length / 2 : length;
}

static enum call kind_of_write(int descriptor) {
    int flags = is_armed() ? fcntl(descriptor, F_GETFL) : 0;
    return flags >= 0 && flags & O_DSYNC ? CALL_SYNC : CALL_WRITE;
}

// --- files ------------------------------------------------------------------------------------------------------------

#define SYNC(name) \
    int name(int descriptor) { \
        NEXT(name); \
        struct verdict verdict = judge(CALL_SYNC, descriptor); \
        if (verdict.is_lie) return 0; \
        return (int)(verdict.error ? failed(verdict) : done(verdict, next_##name(descriptor))); \
    }
SYNC(fsync)
SYNC(fdatasync)

// The same functions twice: with 64-bit offsets they have another name, and on 64-bit machines no other meaning.
#define READ_AND_WRITE_AT(pread, pwrite, pwritev, off_t) \
    ssize_t pread(int descriptor, void* into, size_t length, off_t offset) { \
        NEXT(pread); \
        struct verdict verdict = judge(CALL_READ, descriptor); \
        if (verdict.error) return failed(verdict); \
        return done(verdict, next_##pread(descriptor, into, shortened(verdict, length), offset)); \
    } \
    ssize_t pwrite(int descriptor, const void* data, size_t length, off_t offset) { \
        NEXT(pwrite); \
        struct verdict verdict = judge(kind_of_write(descriptor), descriptor); \
        if (verdict.error) return failed(verdict); \
        return done(verdict, next_##pwrite(descriptor, data, shortened(verdict, length), offset)); \
    } \
    ssize_t pwritev(int descriptor, const struct iovec* parts, int count, off_t offset) { \
        NEXT(pwritev); \
        struct verdict verdict = judge(kind_of_write(descriptor), descriptor); \
        struct iovec kept[PARTS_MAX]; \
        if (verdict.error) return failed(verdict); \
        if (verdict.is_short) { count = halve(parts, count, kept); parts = kept; } \
        return done(verdict, next_##pwritev(descriptor, parts, count, offset)); \
    }

// Into kept[] the first half of all bytes; how many parts that are.
static int halve(const struct iovec* parts, int count, struct iovec* kept) {
    size_t length = 0;
    int taken = 0;
    for (int i = 0; i < count; ++i) length += parts[i].iov_len;
    size_t left = length > 1 ? length / 2 : length;
    for (; left && taken < count && taken < PARTS_MAX; ++taken) {
        kept[taken] = parts[taken];
        if (kept[taken].iov_len > left) kept[taken].iov_len = left;
        left -= kept[taken].iov_len;
    }
    return taken;
}

READ_AND_WRITE_AT(pread, pwrite, pwritev, off_t)
READ_AND_WRITE_AT(pread64, pwrite64, pwritev64, off64_t)

ssize_t read(int descriptor, void* into, size_t length) {
    NEXT(read);
    struct verdict verdict = judge(CALL_READ, descriptor);
    if (verdict.error) return failed(verdict);
    return done(verdict, next_read(descriptor, into, shortened(verdict, length)));
}

ssize_t write(int descriptor, const void* data, size_t length) {
    NEXT(write);
    struct verdict verdict = judge(kind_of_write(descriptor), descriptor);
    if (verdict.error) return failed(verdict);
    return done(verdict, next_write(descriptor, data, shortened(verdict, length)));
}

ssize_t writev(int descriptor, const struct iovec* parts, int count) {
    NEXT(writev);
    struct verdict verdict = judge(kind_of_write(descriptor), descriptor);
    struct iovec kept[PARTS_MAX];
    if (verdict.error) return failed(verdict);
    if (verdict.is_short) { count = halve(parts, count, kept); parts = kept; }
    return done(verdict, next_writev(descriptor, parts, count));
}
