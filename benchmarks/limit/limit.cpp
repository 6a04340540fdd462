// The limit as a program, without Python: one line of JSON for a closed loop of so many commands under way.
//
//     limit lead FOLDER VALUE_BYTES OUTSTANDING SECONDS WARMUP_SECONDS
//     limit follow LOG VALUE_BYTES OUTSTANDING PORT
//
// `lead` starts its two followers, and they end with it. Time begins after the warm-up; values are drawn before it.
#include <spawn.h>
#include <sys/poll.h>
#include <sys/wait.h>
#include <time.h>

#include <random>
#include <vector>

#include "limit.hpp"

extern char** environ;

namespace {

constexpr size_t VALUES = 4096;
constexpr uint64_t KEYS = 1000;

uint64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return uint64_t(now.tv_sec) * 1'000'000'000u + uint64_t(now.tv_nsec);
}

pid_t start_follower(char** leader, const std::string& log, uint16_t port) {
    std::string port_text = std::to_string(port);
    const char* program = leader[0];
    const char* arguments[] = {program, "follow", log.c_str(), leader[3], leader[4], port_text.c_str(), nullptr};
    pid_t child;
    errno = posix_spawn(&child, program, nullptr, nullptr, const_cast<char**>(arguments), environ);
    limit::must(errno == 0, "posix_spawn");
    return child;
}

int listen_on_loopback(uint16_t* port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    limit::must(listener >= 0, "socket");
    limit::must(bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0, "bind");
    limit::must(listen(listener, 8) == 0, "listen");
    limit::must(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) == 0, "getsockname");
    *port = ntohs(address.sin_port);
    return listener;
}

std::vector<uint8_t> drawn_values(size_t value_bytes) {
    std::mt19937_64 draw(1);
    std::vector<uint8_t> values(VALUES * value_bytes);
    for (uint8_t& byte : values) byte = uint8_t(draw());
    return values;
}

struct Measured {
    uint64_t count = 0;
    double seconds = 0;
    std::vector<uint32_t> latencies_ns;
};

// Keep `outstanding` commands under way; only what ends between warm-up and the end counts.
Measured run(limit::Leader& leader, size_t value_bytes, uint64_t outstanding, double seconds, double warmup_s) {
    std::vector<uint8_t> values = drawn_values(value_bytes);
    std::vector<uint64_t> submitted_ns(outstanding);
    Measured measured;
    measured.latencies_ns.reserve(8'000'000);
    uint64_t began_ns = now_ns();
    uint64_t from_ns = began_ns + uint64_t(warmup_s * 1e9), until_ns = from_ns + uint64_t(seconds * 1e9);
    uint64_t seen = 0, sent = 0;
    for (uint64_t now = began_ns; now < until_ns;) {
        for (; sent - seen < outstanding; ++sent) {
            submitted_ns[sent % outstanding] = now;
            leader.submit(sent % KEYS, &values[sent % VALUES * value_bytes]);
        }
        leader.flush();
        pollfd bell{leader.wake_fd, POLLIN, 0};
        limit::must(poll(&bell, 1, -1) == 1, "poll");
        limit::answer_bell(leader.wake_fd);
        now = now_ns();
        for (uint64_t end = leader.done(); seen < end; ++seen) {
            if (now < from_ns) continue;
            measured.latencies_ns.push_back(uint32_t(std::min<uint64_t>(now - submitted_ns[seen % outstanding], ~0u)));
            ++measured.count;
        }
        measured.seconds = double(now - from_ns) / 1e9;
    }
    return measured;
}

double percentile_ms(std::vector<uint32_t>& latencies_ns, double share) {
    if (latencies_ns.empty()) return 0;
    auto place = latencies_ns.begin() + std::ptrdiff_t(share * double(latencies_ns.size() - 1));
    std::nth_element(latencies_ns.begin(), place, latencies_ns.end());
    return *place / 1e6;
}

void print(Measured& measured) {
    std::vector<uint32_t>& all = measured.latencies_ns;
    printf("{\"count\": %lu, \"seconds\": %.6f, \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f}\n",
           static_cast<unsigned long>(measured.count), measured.seconds, percentile_ms(all, 0.5),
           percentile_ms(all, 0.99), percentile_ms(all, 0.999));
}

int lead(char** arguments) {
    std::string folder = arguments[2];
    size_t value_bytes = size_t(atol(arguments[3]));
    uint16_t port;
    int listener = listen_on_loopback(&port);
    pid_t followers[limit::FOLLOWERS];
    for (int i = 0; i < limit::FOLLOWERS; ++i) {
        followers[i] = start_follower(arguments, folder + "/log-" + std::to_string(i + 1), port);
    }
    {
        uint64_t outstanding = uint64_t(atol(arguments[4]));
        limit::Leader leader(listener, folder + "/log-0", value_bytes, outstanding);
        Measured measured = run(leader, value_bytes, outstanding, atof(arguments[5]), atof(arguments[6]));
        print(measured);
    }
    for (pid_t follower : followers) limit::must(waitpid(follower, nullptr, 0) == follower, "waitpid");
    return 0;
}

}  // namespace

int main(int count, char** arguments) {
    if (count == 7 && std::string(arguments[1]) == "lead") return lead(arguments);
    if (count == 6 && std::string(arguments[1]) == "follow") {
        limit::follow(uint16_t(atoi(arguments[5])), arguments[2], size_t(atol(arguments[3])),
                      uint64_t(atol(arguments[4])));
        return 0;
    }
    fprintf(stderr, "usage: limit lead FOLDER VALUE_BYTES OUTSTANDING SECONDS WARMUP_SECONDS\n");
    return 2;
}
