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
//
// Unsynced. A page may name a journal: then the old bytes of each write below its root, and each creation, rename and
// removal of a name, are kept there until the sync that makes them durable. A volatile cache in a disk may lose exactly
// those; jepsen/faults/unsynced.py takes them back after a cut, also when they were written past the page cache. The
// journal is a ring: what it has no room for counts as written back by the disk itself.
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
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    PATH_BYTES = 192,
    RULES = 8,
    CUT_PATHS = 8,
    PARTS_MAX = 1024,  // IOV_MAX of Linux
    ARMED_DISORDERED = 2,
    LAYOUT = 0x524d5332,  // "RMS2"
};
enum call { CALL_READ = 1, CALL_WRITE = 2, CALL_SYNC = 4 };
enum action { COUNT = 0, FAIL = 1, DELAY = 2, SHORTEN = 3, CUT_BEFORE = 4, CUT_AFTER = 5, LIE = 6, EARLY = 7, STRAY = 8,
              SWAP = 9 };

struct rule {
    uint64_t calls;       // a set of enum call; 0: no rule
    uint64_t action;
    uint64_t value;       // FAIL: the errno; DELAY: nanoseconds; SWAP: the place of the other rule
    uint64_t skip;        // so many matching calls pass first
    uint64_t count;       // and of so many after them each may be struck; 0: of all
    uint64_t chance_ppm;  // with this probability
    uint64_t seen;        // counted here: matching calls
    uint64_t struck;      // and those that were struck
    char path[PATH_BYTES];  // a part of the file's path, empty: any file or folder; with a *: how it goes on, and ends
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
    uint64_t armed;           // 0: there is no rule; 2: there is one of EARLY, STRAY or SWAP; 1: there are others
    char cut_paths[CUT_PATHS][PATH_BYTES];  // mounted ext4 file systems that lose their power together
    struct rule rules[RULES];
    char journal[PATH_BYTES];  // the file of the journal; empty: none is kept
    char root[PATH_BYTES];     // of what is below this folder
    char stash[PATH_BYTES];    // a folder of the same file system, for files whose name was removed
};

static struct page* page;

static bool is_armed(void) { return page != NULL && __atomic_load_n(&page->armed, __ATOMIC_ACQUIRE) != 0; }

// The next definition of a function in the order of libraries: that of the C library.
#define NEXT(name) \
    static __typeof__(name)* next_##name; \
    if (!next_##name) next_##name = (__typeof__(name)*)dlsym(RTLD_NEXT, #name)

static void open_journal(void);

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
    open_journal();
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

// Whether a pattern is a part of the path, or, with a *, one part of it and later its end.
static bool is_named(const char* path, const char* pattern) {
    char first[PATH_BYTES];
    const char* star = strchr(pattern, '*');
    if (!star) return strstr(path, pattern) != NULL;
    snprintf(first, sizeof(first), "%.*s", (int)(star - pattern), pattern);
    const char* found = strstr(path, first);
    size_t end = strlen(star + 1), length = strlen(path);
    return found && length >= end && found + strlen(first) <= path + length - end && !strcmp(path + length - end, star + 1);
}

// A node's flight recorder is synced by time and promises nothing: a rule meets its file only by that name.
static bool is_of_recorder(const char* path, const struct rule* rule) {
    static const char name[] = "/flight.ring";
    size_t length = strlen(path);
    return length >= strlen(name) && !strcmp(path + length - strlen(name), name) && !strstr(rule->path, name + 1);
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
    bool is_early;    // it was made before the writes that it is to make durable
    bool is_stray;    // another file is synced
    int swapped_to;   // not 0: the file that the rule at this place, counted from 1, has met last is synced instead
};

static int met[RULES];  // by each rule of SWAP: a descriptor of its last file, counted from 1
static pthread_mutex_t met_lock = PTHREAD_MUTEX_INITIALIZER;

static void meet(size_t rule, int descriptor) {
    pthread_mutex_lock(&met_lock);
    if (met[rule]) close(met[rule] - 1);
    met[rule] = fcntl(descriptor, F_DUPFD_CLOEXEC, 0) + 1;
    pthread_mutex_unlock(&met_lock);
}

static struct verdict judge(enum call call, int descriptor) {
    struct verdict verdict = {0, false, false, false, false, false, 0};
    char path[PATH_MAX];
    bool is_known = false;
    if (!is_armed()) return verdict;
    for (size_t i = 0; i < RULES; ++i) {
        struct rule* rule = &page->rules[i];
        if (!(__atomic_load_n(&rule->calls, __ATOMIC_ACQUIRE) & call)) continue;
        if (!is_known) find_path(descriptor, path, sizeof(path));
        is_known = true;
        if (!path[0] || !is_named(path, rule->path) || is_of_recorder(path, rule) || !is_struck(rule, i)) continue;
        if (rule->action == DELAY) {
            struct timespec pause = to_timespec((int64_t)rule->value);
            nanosleep(&pause, NULL);
        }
        if (rule->action == CUT_BEFORE) cut_power();
        if (rule->action == CUT_AFTER) verdict.is_cut = true;
        if (rule->action == FAIL) verdict.error = (int)rule->value;
        if (rule->action == SHORTEN) verdict.is_short = true;
        if (rule->action == LIE) verdict.is_lie = true;
        if (rule->action == EARLY) verdict.is_early = true;
        if (rule->action == STRAY) verdict.is_stray = true;
        if (rule->action == SWAP) {
            verdict.swapped_to = (int)rule->value + 1;
            meet(i, descriptor);
        }
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

// --- what is not synced -----------------------------------------------------------------------------------------------

enum kind { PAD = 0, WRITTEN = 1, SYNCED = 2, DURABLE = 3, CREATED = 4, RENAMED = 5, REMOVED = 6, MADE = 7, FOLDER_SYNCED = 8 };
enum { STASHED = 16, BLOCK = 4096, BOUNCE_BYTES = 65536, LEFT_BYTES_MIN = 8 << 20 };

struct record {
    uint32_t bytes;        // of the whole record; a multiple of 8
    uint32_t kind;
    uint64_t number;       // 1, 2, ...; of SYNCED and FOLDER_SYNCED: of the last record before the sync began
    uint64_t inode;
    uint64_t generation;   // an inode number is used again, with another generation
    uint64_t offset;
    uint64_t length;
    uint64_t size_before;  // of the file
    uint32_t data_bytes;   // the old bytes from offset on; fewer than length where the file ended
    uint16_t path_bytes;
    uint16_t other_bytes;  // RENAMED: the new name; then 0 or 1 in offset: whether the stash has what it replaced
};                         // behind it: path, other path, data

struct journal {
    uint64_t capacity;     // bytes of records, behind this header
    uint64_t head;         // bytes ever appended
    uint64_t tail;         // bytes ever dropped
    uint64_t number;
    struct { uint64_t number, folder; } stashed[STASHED];
};

static struct journal* journal;
static pthread_mutex_t journal_lock = PTHREAD_MUTEX_INITIALIZER;
static char bounce[BOUNCE_BYTES] __attribute__((aligned(BLOCK)));

static void open_journal(void) {
    struct stat found;
    if (!page->journal[0]) return;
    int descriptor = open(page->journal, O_RDWR | O_CLOEXEC);
    void* mapped = MAP_FAILED;
    if (descriptor >= 0 && fstat(descriptor, &found) == 0)
        mapped = mmap(NULL, (size_t)found.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (descriptor >= 0) close(descriptor);
    if (mapped == MAP_FAILED || ((struct journal*)mapped)->capacity + sizeof(struct journal) != (uint64_t)found.st_size) {
        dprintf(2, "shim: %s is no journal; make one by jepsen/faults/unsynced.py\n", page->journal);
        _exit(125);
    }
    journal = mapped;
}

static bool is_kept(const char* path) {
    size_t length = strlen(page->root);
    return strncmp(path, page->root, length) == 0 && path[length] == '/';
}

static uint64_t folder_of(const char* path, size_t length) {
    uint64_t hash = 0;
    while (length && path[length - 1] != '/') --length;
    for (size_t i = 0; i + 1 < length; ++i) hash = mix(hash ^ (unsigned char)path[i]);
    return hash;
}

static void stash_path(char* path, uint64_t number) {
    snprintf(path, PATH_MAX, "%s/%llu", page->stash, (unsigned long long)number);
}

static void drop_stashed(size_t place) {
    NEXT(unlink);
    char path[PATH_MAX];
    if (!journal->stashed[place].number) return;
    stash_path(path, journal->stashed[place].number);
    next_unlink(path);
    journal->stashed[place].number = 0;
}

// A second name for what is about to lose its own. False: there is no room for it, and the removal counts as durable.
static bool stash(const char* path, uint64_t number) {
    struct statvfs room;
    char kept[PATH_MAX];
    size_t place = number % STASHED;
    bool is_full = statvfs(page->stash, &room) != 0 || room.f_bavail * room.f_frsize < LEFT_BYTES_MIN;
    for (size_t i = 0; is_full && i < STASHED; ++i) drop_stashed(i);
    drop_stashed(place);
    stash_path(kept, number);
    if (is_full || link(path, kept) != 0) return false;
    journal->stashed[place].number = number;
    journal->stashed[place].folder = folder_of(path, strlen(path));
    return true;
}

static uint64_t generation_of(int descriptor) {
    long generation = 0;
    return ioctl(descriptor, _IOR('v', 1, long), &generation) == 0 ? (uint64_t)(uint32_t)generation : 0;
}

static char* place_at(uint64_t position) { return (char*)(journal + 1) + position % journal->capacity; }

// Room for one record, whole: the oldest ones are dropped. NULL: it is too large to be kept. Under the lock.
static struct record* reserve(size_t bytes) {
    uint64_t left = journal->capacity - journal->head % journal->capacity;
    bytes = (bytes + 7) & ~(size_t)7;
    if (bytes > journal->capacity / 4) return NULL;
    uint64_t wanted = bytes + (left < bytes ? left : 0);
    while (journal->head + wanted - journal->tail > journal->capacity)
        journal->tail += ((struct record*)place_at(journal->tail))->bytes;
    if (left < bytes) {
        struct record* pad = (struct record*)place_at(journal->head);
        pad->bytes = (uint32_t)left;
        pad->kind = PAD;
        journal->head += left;
    }
    struct record* record = (struct record*)place_at(journal->head);
    memset(record, 0, sizeof(*record));
    record->bytes = (uint32_t)bytes;
    return record;
}

static void publish(struct record* record) { __atomic_store_n(&journal->head, journal->head + record->bytes, __ATOMIC_RELEASE); }

static bool read_old(int descriptor, char* into, size_t length, uint64_t offset) {
    NEXT(pread64);
    char link[32];
    int own = -1;
    while (length) {
        // Whole blocks into an aligned place, which is what a descriptor for direct access asks for.
        uint64_t first = offset / BLOCK * BLOCK, skip = offset - first;
        ssize_t got = next_pread64(own >= 0 ? own : descriptor, bounce, BOUNCE_BYTES, (off64_t)first);
        if (got < 0 && own < 0) {  // opened for writing only
            snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
            own = open(link, O_RDONLY | O_CLOEXEC);
            if (own >= 0) continue;
        }
        if (got <= (ssize_t)skip) break;
        size_t part = (size_t)got - skip < length ? (size_t)got - skip : length;
        memcpy(into, bounce + skip, part);
        into += part, offset += part, length -= part;
    }
    if (own >= 0) close(own);
    return length == 0;
}

static void note_range(enum kind kind, int descriptor, uint64_t offset, uint64_t length, bool has_data) {
    struct stat found;
    char path[PATH_MAX];
    if (journal == NULL || length == 0 || fstat(descriptor, &found) != 0 || !S_ISREG(found.st_mode)) return;
    find_path(descriptor, path, sizeof(path));
    if (!is_kept(path)) return;
    uint64_t size = (uint64_t)found.st_size, end = offset + length < size ? offset + length : size;
    size_t data_bytes = has_data && end > offset ? end - offset : 0, path_bytes = strlen(path);
    pthread_mutex_lock(&journal_lock);
    struct record* record = reserve(sizeof(*record) + path_bytes + data_bytes);
    if (record != NULL) {
        char* rest = (char*)(record + 1);
        *record = (struct record){record->bytes, kind, ++journal->number, found.st_ino, generation_of(descriptor), offset,
                                  length, size, (uint32_t)data_bytes, (uint16_t)path_bytes, 0};
        memcpy(rest, path, path_bytes);
        if (read_old(descriptor, rest + path_bytes, data_bytes, offset)) publish(record);
    }
    pthread_mutex_unlock(&journal_lock);
}

static void note_write(int descriptor, bool is_lie, uint64_t offset, uint64_t length) {
    if (journal == NULL) return;
    int flags = fcntl(descriptor, F_GETFL);
    if (flags >= 0 && flags & O_APPEND) {
        struct stat found;
        if (fstat(descriptor, &found) == 0) offset = (uint64_t)found.st_size;
    }
    note_range(flags >= 0 && flags & O_DSYNC && !is_lie ? DURABLE : WRITTEN, descriptor, offset, length,
               !(flags >= 0 && flags & O_DSYNC && !is_lie));
}

// Of names: other is NULL but for RENAMED. The caller holds the lock.
static void note_names(enum kind kind, uint64_t number, const char* path, const char* other, const struct stat* found,
                       uint64_t generation, bool is_stashed) {
    size_t path_bytes = strlen(path), other_bytes = other ? strlen(other) : 0;
    struct record* record = reserve(sizeof(*record) + path_bytes + other_bytes);
    if (record == NULL) return;
    *record = (struct record){record->bytes, kind, number, found ? found->st_ino : 0, generation, is_stashed, 0, 0, 0,
                              (uint16_t)path_bytes, (uint16_t)other_bytes};
    memcpy(record + 1, path, path_bytes);
    if (other) memcpy((char*)(record + 1) + path_bytes, other, other_bytes);
    publish(record);
}

static uint64_t last_number(void) {
    if (journal == NULL) return 0;
    pthread_mutex_lock(&journal_lock);
    uint64_t number = journal->number;
    pthread_mutex_unlock(&journal_lock);
    return number;
}

static void note_sync(int descriptor, uint64_t number) {
    struct stat found;
    char path[PATH_MAX];
    if (journal == NULL || fstat(descriptor, &found) != 0) return;
    find_path(descriptor, path, sizeof(path));
    if (!path[0] || !(is_kept(path) || strcmp(path, page->root) == 0)) return;
    bool is_folder = S_ISDIR(found.st_mode);
    pthread_mutex_lock(&journal_lock);
    note_names(is_folder ? FOLDER_SYNCED : SYNCED, number, path, NULL, &found, generation_of(descriptor), false);
    size_t length = strlen(path);
    path[length] = '/';
    uint64_t folder = is_folder ? folder_of(path, length + 1) : 0;
    for (size_t i = 0; is_folder && i < STASHED; ++i)
        if (journal->stashed[i].folder == folder && journal->stashed[i].number <= number) drop_stashed(i);
    pthread_mutex_unlock(&journal_lock);
}

// --- names ------------------------------------------------------------------------------------------------------------

// The path of a name, without links in its folder; false: it is not kept.
static bool full_path(int folder, const char* name, char* path) {
    char given[PATH_MAX], parent[PATH_MAX];
    if (journal == NULL) return false;
    if (name[0] == '/' || folder == AT_FDCWD) snprintf(given, sizeof(given), "%s", name);
    else snprintf(given, sizeof(given), "/proc/self/fd/%d/%s", folder, name);
    size_t length = strlen(given);
    while (length > 1 && given[length - 1] == '/') given[--length] = 0;
    char* slash = strrchr(given, '/');
    const char* last = slash ? slash + 1 : given;
    if (slash && slash != given) *slash = 0;
    if (realpath(slash ? given : ".", parent) == NULL) return false;
    if ((size_t)snprintf(path, PATH_MAX, "%s/%s", parent, last) >= PATH_MAX) return false;
    return is_kept(path);
}

static int noted_open(int folder, const char* name, int flags, int (*next)(int, const char*, int, mode_t), mode_t mode) {
    bool is_new = journal != NULL && flags & O_CREAT && faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
    int descriptor = next(folder, name, flags, mode);
    struct stat found;
    char path[PATH_MAX];
    int error = errno;
    if (is_new && descriptor >= 0 && fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode)) {
        find_path(descriptor, path, sizeof(path));
        if (is_kept(path)) {
            pthread_mutex_lock(&journal_lock);
            note_names(CREATED, ++journal->number, path, NULL, &found, generation_of(descriptor), false);
            pthread_mutex_unlock(&journal_lock);
        }
    }
    errno = error;
    return descriptor;
}

static int open_at(int folder, const char* name, int flags, mode_t mode) {
    NEXT(openat);
    return next_openat(folder, name, flags, mode);
}

#define MODE_OF_CALL(last) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, last); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }
#define OPEN(open, openat) \
    int open(const char* name, int flags, ...) { \
        MODE_OF_CALL(flags) \
        return noted_open(AT_FDCWD, name, flags, open_at, mode); \
    } \
    int openat(int folder, const char* name, int flags, ...) { \
        MODE_OF_CALL(flags) \
        return noted_open(folder, name, flags, open_at, mode); \
    }
OPEN(open, openat)
OPEN(open64, openat64)

int renameat(int from, const char* source, int to, const char* target) {
    NEXT(renameat);
    char path[PATH_MAX], other[PATH_MAX];
    if (!full_path(from, source, path) || !full_path(to, target, other)) return next_renameat(from, source, to, target);
    pthread_mutex_lock(&journal_lock);
    uint64_t number = ++journal->number;
    bool is_replaced = faccessat(AT_FDCWD, other, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    bool is_stashed = is_replaced && stash(other, number);
    int result = next_renameat(from, source, to, target), error = errno;
    if (result == 0 && is_replaced == is_stashed) note_names(RENAMED, number, path, other, NULL, 0, is_stashed);
    pthread_mutex_unlock(&journal_lock);
    errno = error;
    return result;
}

int rename(const char* source, const char* target) { return renameat(AT_FDCWD, source, AT_FDCWD, target); }

static int removed(int folder, const char* name, int flags) {
    NEXT(unlinkat);
    char path[PATH_MAX];
    if (flags & AT_REMOVEDIR || !full_path(folder, name, path)) return next_unlinkat(folder, name, flags);
    pthread_mutex_lock(&journal_lock);
    uint64_t number = ++journal->number;
    bool is_stashed = stash(path, number);
    int result = next_unlinkat(folder, name, flags), error = errno;
    if (result == 0 && is_stashed) note_names(REMOVED, number, path, NULL, NULL, 0, true);
    pthread_mutex_unlock(&journal_lock);
    errno = error;
    return result;
}

int unlinkat(int folder, const char* name, int flags) { return removed(folder, name, flags); }
int unlink(const char* name) { return removed(AT_FDCWD, name, 0); }

int mkdirat(int folder, const char* name, mode_t mode) {
    NEXT(mkdirat);
    char path[PATH_MAX];
    int result = next_mkdirat(folder, name, mode), error = errno;
    if (result == 0 && full_path(folder, name, path)) {
        pthread_mutex_lock(&journal_lock);
        note_names(MADE, ++journal->number, path, NULL, NULL, 0, false);
        pthread_mutex_unlock(&journal_lock);
    }
    errno = error;
    return result;
}

int mkdir(const char* name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

// --- files ------------------------------------------------------------------------------------------------------------

// Mistakes that a test plants: a sync that came before its writes, and one of another file.
enum { FILES_REMEMBERED = 64 };
static pthread_mutex_t order_lock = PTHREAD_MUTEX_INITIALIZER;
static struct { ino_t inode; uint64_t number; } synced_until[FILES_REMEMBERED];  // by the syncs that came too early
static int latest[2] = {-1, -1};  // the two files that were synced last, the newest first

static bool is_disordered(void) {
    return page != NULL && __atomic_load_n(&page->armed, __ATOMIC_ACQUIRE) == ARMED_DISORDERED;
}

static ino_t inode_of(int descriptor) {
    struct stat found;
    return descriptor >= 0 && fstat(descriptor, &found) == 0 ? found.st_ino : 0;
}

static int noted_sync(int descriptor, int (*next)(int)) {
    uint64_t number = last_number();
    int result = next(descriptor), error = errno;
    if (result == 0) note_sync(descriptor, number);
    errno = error;
    return result;
}

static void remember(int descriptor) {
    if (inode_of(descriptor) == inode_of(latest[0])) return;
    if (latest[1] >= 0) close(latest[1]);
    latest[1] = latest[0];
    latest[0] = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
}

// Durable is what was so at the call before this one, as if it had been made before all writes since then.
static void sync_early(int descriptor) {
    ino_t inode = inode_of(descriptor);
    uint64_t number = last_number();
    size_t place = 0;
    while (place < FILES_REMEMBERED - 1 && synced_until[place].inode && synced_until[place].inode != inode) ++place;
    if (synced_until[place].inode == inode) note_sync(descriptor, synced_until[place].number);
    synced_until[place].inode = inode;
    synced_until[place].number = number;
}

// The other file of the two, if it was met; the one that was asked for waits until the other is synced again.
static void sync_swapped(struct verdict verdict, int (*next)(int)) {
    pthread_mutex_lock(&met_lock);
    if (met[verdict.swapped_to - 1]) noted_sync(met[verdict.swapped_to - 1] - 1, next);
    pthread_mutex_unlock(&met_lock);
}

static int sync_judged(int descriptor, int (*next)(int)) {
    struct verdict verdict = judge(CALL_SYNC, descriptor);
    if (verdict.error) return (int)failed(verdict);
    if (verdict.is_lie) return (int)done(verdict, 0);
    if (!is_disordered()) return (int)done(verdict, noted_sync(descriptor, next));
    int result = 0;
    pthread_mutex_lock(&order_lock);
    int other = inode_of(latest[0]) == inode_of(descriptor) ? latest[1] : latest[0];
    if (verdict.is_early) {
        sync_early(descriptor);
    } else if (verdict.is_stray) {
        if (other >= 0) noted_sync(other, next);
    } else if (verdict.swapped_to) {
        sync_swapped(verdict, next);
    } else {
        result = noted_sync(descriptor, next);
        remember(descriptor);
    }
    int error = errno;
    pthread_mutex_unlock(&order_lock);
    errno = error;
    return (int)done(verdict, result);
}

#define SYNC(name) \
    int name(int descriptor) { \
        NEXT(name); \
        return sync_judged(descriptor, next_##name); \
    }
SYNC(fsync)
SYNC(fdatasync)

static size_t bytes_of(const struct iovec* parts, int count) {
    size_t length = 0;
    for (int i = 0; i < count; ++i) length += parts[i].iov_len;
    return length;
}

// A write that was to be a sync, too.
static bool is_no_sync(struct verdict verdict) {
    return verdict.is_lie || verdict.is_early || verdict.is_stray || verdict.swapped_to;
}

// A write by O_DSYNC that was to be a sync, and whose sync is that of another file.
static void after_write(struct verdict verdict) {
    NEXT(fdatasync);
    int error = errno;
    if (verdict.swapped_to) sync_swapped(verdict, next_fdatasync);
    errno = error;
}

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
        note_write(descriptor, is_no_sync(verdict), (uint64_t)offset, length); \
        ssize_t written = next_##pwrite(descriptor, data, shortened(verdict, length), offset); \
        after_write(verdict); \
        return done(verdict, written); \
    } \
    ssize_t pwritev(int descriptor, const struct iovec* parts, int count, off_t offset) { \
        NEXT(pwritev); \
        struct verdict verdict = judge(kind_of_write(descriptor), descriptor); \
        struct iovec kept[PARTS_MAX]; \
        if (verdict.error) return failed(verdict); \
        if (verdict.is_short) { count = halve(parts, count, kept); parts = kept; } \
        note_write(descriptor, is_no_sync(verdict), (uint64_t)offset, bytes_of(parts, count)); \
        ssize_t written = next_##pwritev(descriptor, parts, count, offset); \
        after_write(verdict); \
        return done(verdict, written); \
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
    if (journal != NULL) note_write(descriptor, is_no_sync(verdict), (uint64_t)lseek(descriptor, 0, SEEK_CUR), length);
    return done(verdict, next_write(descriptor, data, shortened(verdict, length)));
}

ssize_t writev(int descriptor, const struct iovec* parts, int count) {
    NEXT(writev);
    struct verdict verdict = judge(kind_of_write(descriptor), descriptor);
    struct iovec kept[PARTS_MAX];
    if (verdict.error) return failed(verdict);
    if (verdict.is_short) { count = halve(parts, count, kept); parts = kept; }
    if (journal != NULL)
        note_write(descriptor, is_no_sync(verdict), (uint64_t)lseek(descriptor, 0, SEEK_CUR), bytes_of(parts, count));
    return done(verdict, next_writev(descriptor, parts, count));
}

// Bytes that a file loses at its end are old bytes, too.
static int noted_truncate(int descriptor, off_t size, int (*next)(int, off_t)) {
    struct stat found;
    if (journal != NULL && fstat(descriptor, &found) == 0 && found.st_size > size)
        note_range(WRITTEN, descriptor, (uint64_t)size, (uint64_t)(found.st_size - size), true);
    return next(descriptor, size);
}

int ftruncate(int descriptor, off_t size) {
    NEXT(ftruncate);
    return noted_truncate(descriptor, size, next_ftruncate);
}

int ftruncate64(int descriptor, off64_t size) {
    NEXT(ftruncate64);
    return noted_truncate(descriptor, size, next_ftruncate64);
}
