// The machine's own limit for a replicated durable write: append, fdatasync, loopback, majority - and nothing else.
//
// What it does: a leader process encodes commands with a checksum, sends them to two follower processes over loopback
// TCP and writes them to a preallocated log, all in batches; a command is done when two of three logs have it on the
// disk and the leader has put its value into a table. What it never does: elections, terms, sessions, truncation,
// snapshots, watches, an ordered index of keys. So it is a bound and not a promise: what share of it an engine reaches
// is what that engine's rules cost.
//
//     caller      submit() as many as it likes, wait for wake_fd, read done()
//     core        caller's commands -> log and sockets; acknowledgements -> commit -> table -> wake_fd
//     log         everything appended so far -> one pwrite, one fdatasync
//     follower    a process: receive, check, pwrite, fdatasync, apply, acknowledge
//
// Entries are numbered from 1 and all of one size; entry n lies in place n % places of a ring in memory that looks like
// the file, so nothing is ever moved. A failed system call ends the process with its name: a limit has no error handling.
#pragma once
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "intrinsics.hpp"

namespace limit {

constexpr size_t RING_BYTES = 16 << 20;     // at least
constexpr size_t TABLE_SLOTS = 65536;
constexpr int FOLLOWERS = 2;
constexpr size_t SOCKET_BYTES = 4 << 20;

struct Header {
    uint64_t number;
    uint64_t key;
    uint32_t value_bytes;
    uint32_t checksum;      // of the value
};

inline void must(bool went_well, const char* what) {
    if (!went_well) {
        fprintf(stderr, "limit: %s: %s\n", what, strerror(errno));
        _exit(1);
    }
}

inline void ring_bell(int fd) {
    uint64_t one = 1;
    must(write(fd, &one, sizeof one) == sizeof one, "eventfd write");
}

inline void answer_bell(int fd) {
    uint64_t count;
    must(read(fd, &count, sizeof count) == sizeof count || errno == EAGAIN, "eventfd read");
}

// The file and its image in memory, and the table that entries are applied to.
class Store {
public:
    // outstanding: commands that may be under way; a quarter of the places at most.
    Store(const std::string& path, size_t value_bytes, uint64_t outstanding)
        : entry_bytes(sizeof(Header) + value_bytes),
          places(std::max<uint64_t>(RING_BYTES / entry_bytes, 4 * outstanding)), value_bytes_(value_bytes) {
        ring_ = static_cast<uint8_t*>(zeroed(places * entry_bytes));
        table_ = static_cast<uint8_t*>(zeroed(TABLE_SLOTS * value_bytes));
        file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        must(file_ >= 0, "open");
        // Written once and synced, so that no later sync has to record an allocation.
        must(pwrite(file_, ring_, places * entry_bytes, 0) == ssize_t(places * entry_bytes), "preallocate");
        must(fsync(file_) == 0, "fsync");
    }
    ~Store() {
        close(file_);
        munmap(ring_, places * entry_bytes);
        munmap(table_, TABLE_SLOTS * value_bytes_);
    }
    Store(const Store&) = delete;

    uint8_t* entry(uint64_t number) { return ring_ + number % places * entry_bytes; }

    void encode(uint64_t number, uint64_t key, const void* value) {
        Header header{number, key, uint32_t(value_bytes_), raftmeta::crc32c(0, value, value_bytes_)};
        memcpy(entry(number), &header, sizeof header);
        memcpy(entry(number) + sizeof header, value, value_bytes_);
    }

    void check(uint64_t number) {
        Header header;
        memcpy(&header, entry(number), sizeof header);
        uint32_t found = raftmeta::crc32c(0, entry(number) + sizeof header, value_bytes_);
        errno = EBADMSG;
        must(header.number == number && header.checksum == found, "entry");
    }

    void apply(uint64_t number) {
        Header header;
        memcpy(&header, entry(number), sizeof header);
        memcpy(table_ + header.key % TABLE_SLOTS * value_bytes_, entry(number) + sizeof header, value_bytes_);
    }

    // How many entries from `first` up to `end` lie in one piece.
    uint64_t in_one_piece(uint64_t first, uint64_t end) const { return std::min(end - first, places - first % places); }

    // [first, end) onto the disk.
    void sync(uint64_t first, uint64_t end) {
        while (first < end) {
            uint64_t count = in_one_piece(first, end);
            ssize_t length = ssize_t(count * entry_bytes);
            must(pwrite(file_, entry(first), size_t(length), off_t(first % places * entry_bytes)) == length, "pwrite");
            first += count;
        }
        must(fdatasync(file_) == 0, "fdatasync");
    }

    const size_t entry_bytes;
    const uint64_t places;

private:
    static void* zeroed(size_t bytes) {
        void* found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        must(found != MAP_FAILED, "mmap");
        return found;
    }

    const size_t value_bytes_;
    uint8_t* ring_;
    uint8_t* table_;
    int file_;
};

inline void tune(int socket) {
    int one = 1, bytes = SOCKET_BYTES;
    must(setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0, "TCP_NODELAY");
    must(setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) == 0, "SO_SNDBUF");
    must(setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) == 0, "SO_RCVBUF");
}

// A follower's whole life: until the leader closes the connection.
inline void follow(uint16_t port, const std::string& path, size_t value_bytes, uint64_t outstanding) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Store store(path, value_bytes, outstanding);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(socket >= 0 && connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "connect");
    tune(socket);
    uint64_t whole = 1;     // the next entry that is not complete
    size_t bytes = 0;       // of it and later ones that are there
    while (true) {
        size_t start = whole % store.places * store.entry_bytes + bytes;
        ssize_t got = recv(socket, store.entry(0) + start, store.places * store.entry_bytes - start, 0);
        if (got == 0) break;
        must(got > 0 || errno == ECONNRESET, "recv");
        if (got < 0) break;
        bytes += size_t(got);
        uint64_t end = whole + bytes / store.entry_bytes;
        if (end == whole) continue;
        for (uint64_t number = whole; number < end; ++number) store.check(number);
        store.sync(whole, end);
        for (uint64_t number = whole; number < end; ++number) store.apply(number);
        bytes %= store.entry_bytes;
        whole = end;
        uint64_t acknowledged = end - 1;
        if (send(socket, &acknowledged, sizeof acknowledged, MSG_NOSIGNAL) < 0) {
            must(errno == EPIPE || errno == ECONNRESET, "acknowledge");     // the leader has seen enough
            break;
        }
    }
    close(socket);
}

class Leader {
public:
    // Waits for both followers on `listener`, which stays the caller's.
    Leader(int listener, const std::string& path, size_t value_bytes, uint64_t outstanding)
        : wake_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), store_(path, value_bytes, outstanding),
          core_bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), log_bell_(eventfd(0, EFD_CLOEXEC)),
          epoll_(epoll_create1(EPOLL_CLOEXEC)) {
        must(wake_fd >= 0 && core_bell_ >= 0 && log_bell_ >= 0 && epoll_ >= 0, "descriptors");
        watch(core_bell_, EPOLLIN, FOLLOWERS);
        for (int i = 0; i < FOLLOWERS; ++i) {
            peers_[i].socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
            must(peers_[i].socket >= 0, "accept");
            tune(peers_[i].socket);
            watch(peers_[i].socket, EPOLLIN | EPOLLOUT | EPOLLET, i);
        }
        log_ = std::thread(&Leader::run_log, this);
        core_ = std::thread(&Leader::run_core, this);
    }
    ~Leader() {
        is_closing_ = true;
        ring_bell(core_bell_);
        ring_bell(log_bell_);
        core_.join();
        log_.join();
        for (Peer& peer : peers_) close(peer.socket);
        for (int fd : {wake_fd, core_bell_, log_bell_, epoll_}) close(fd);
    }
    Leader(const Leader&) = delete;

    // One caller, at most `outstanding` commands under way; they are sent with the next flush().
    void submit(uint64_t key, const void* value) { store_.encode(++submitted_by_caller_, key, value); }
    void flush() {
        submitted_.store(submitted_by_caller_, std::memory_order_seq_cst);
        if (is_asleep_.exchange(false)) ring_bell(core_bell_);
    }
    uint64_t done() const { return applied_.load(std::memory_order_acquire); }
    uint64_t submitted() const { return submitted_by_caller_; }

    const int wake_fd;      // readable when more is done than at the last reading

private:
    struct Peer {
        int socket;
        uint64_t sending = 1;       // the first entry that is not sent whole
        size_t sent_bytes = 0;      // of it
        uint64_t acknowledged = 0;
        uint8_t received[sizeof(uint64_t)];
        size_t received_bytes = 0;
    };

    void watch(int fd, uint32_t events, int which) {
        epoll_event event{};
        event.events = events;
        event.data.u32 = uint32_t(which);
        must(epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
    }

    void run_core() {
        while (!is_closing_) {
            take();
            for (Peer& peer : peers_) send_to(peer);
            commit();
            sleep();
        }
    }

    void sleep() {
        epoll_event events[FOLLOWERS + 1];
        is_asleep_.store(true);
        // What came between take() and here rang nobody: look once more before sleeping.
        bool has_news = submitted_.load() > taken_ || durable_.load() > counted_durable_;
        int count = epoll_wait(epoll_, events, FOLLOWERS + 1, has_news || is_closing_ ? 0 : -1);
        is_asleep_.store(false);
        for (int i = 0; i < count; ++i) {
            if (events[i].data.u32 == FOLLOWERS) answer_bell(core_bell_);
            else receive_from(peers_[events[i].data.u32]);
        }
    }

    // What the caller encoded since the last turn, in its place in the ring already.
    void take() {
        uint64_t end = submitted_.load(std::memory_order_acquire);
        if (end == taken_) return;
        taken_ = end;
        appended_.store(end, std::memory_order_seq_cst);
        if (log_is_asleep_.exchange(false)) ring_bell(log_bell_);
    }

    void send_to(Peer& peer) {
        while (peer.sending <= taken_) {
            uint64_t count = store_.in_one_piece(peer.sending, taken_ + 1);
            size_t length = count * store_.entry_bytes - peer.sent_bytes;
            ssize_t sent = send(peer.socket, store_.entry(peer.sending) + peer.sent_bytes, length, MSG_NOSIGNAL);
            if (sent < 0 && errno == EAGAIN) return;
            must(sent > 0, "send");
            peer.sent_bytes += size_t(sent);
            peer.sending += peer.sent_bytes / store_.entry_bytes;
            peer.sent_bytes %= store_.entry_bytes;
        }
    }

    void receive_from(Peer& peer) {
        while (true) {
            ssize_t got = recv(peer.socket, peer.received + peer.received_bytes,
                               sizeof peer.received - peer.received_bytes, 0);
            if (got < 0 && errno == EAGAIN) return;
            if (got == 0 && is_closing_) return;
            must(got > 0, "a follower ended");
            peer.received_bytes += size_t(got);
            if (peer.received_bytes < sizeof peer.received) continue;
            memcpy(&peer.acknowledged, peer.received, sizeof peer.received);
            peer.received_bytes = 0;
        }
    }

    void commit() {
        counted_durable_ = durable_.load(std::memory_order_acquire);
        uint64_t a = counted_durable_, b = peers_[0].acknowledged, c = peers_[1].acknowledged;
        uint64_t committed = std::max(std::min(a, b), std::min(std::max(a, b), c));   // the median
        uint64_t applied = applied_.load(std::memory_order_relaxed);
        // The caller reuses places of what is done: so a log that lags by a quarter of the ring holds everybody up.
        uint64_t slowest = std::min({a, b, c});
        committed = std::min(committed, slowest + store_.places / 4);
        if (committed <= applied) return;
        for (uint64_t number = applied + 1; number <= committed; ++number) store_.apply(number);
        applied_.store(committed, std::memory_order_release);
        ring_bell(wake_fd);
    }

    void run_log() {
        uint64_t durable = 0;
        while (!is_closing_) {
            uint64_t end = appended_.load(std::memory_order_acquire);
            if (end == durable) {
                log_is_asleep_.store(true);
                if (appended_.load() == durable) answer_bell(log_bell_);
                log_is_asleep_.store(false);
                continue;
            }
            store_.sync(durable + 1, end + 1);
            durable = end;
            durable_.store(end, std::memory_order_seq_cst);
            if (is_asleep_.exchange(false)) ring_bell(core_bell_);
        }
    }

    Store store_;
    uint64_t submitted_by_caller_ = 0;
    std::atomic<uint64_t> submitted_{0}, appended_{0}, durable_{0}, applied_{0};
    std::atomic<bool> is_asleep_{false}, log_is_asleep_{false}, is_closing_{false};
    uint64_t taken_ = 0;                // the core thread's own, as the next
    uint64_t counted_durable_ = 0;
    const int core_bell_, log_bell_, epoll_;
    Peer peers_[FOLLOWERS];
    std::thread core_, log_;
};

}  // namespace limit
