// libFuzzer as a library: build.sh links it with the fuzzer's archive, and Python hands it a target of tests/faces/fuzz.
#include <cstddef>
#include <cstdint>
#include <cstdio>

extern "C" int LLVMFuzzerRunDriver(int* argc, char*** argv, int (*callback)(const uint8_t* data, size_t size));

namespace {

using Target = int (*)(const uint8_t* data, size_t size);

Target target = nullptr;

// A belief that proved wrong ends the process as a crash does: the fuzzer keeps the input.
int callback(const uint8_t* data, size_t size) {
    if (const int belief = target(data, size)) {
        std::fprintf(stderr, "belief %d proved wrong\n", belief);
        __builtin_trap();
    }
    return 0;
}

}  // namespace

// Runs until the fuzzer has enough, and ends the process as the fuzzer does: 0, or another code for a finding.
extern "C" __attribute__((visibility("default"))) int fuzz(uintptr_t address, int argc, char** argv) {
    target = reinterpret_cast<Target>(address);
    return LLVMFuzzerRunDriver(&argc, &argv, callback);
}
