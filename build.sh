#!/usr/bin/env bash
# Everything one does with this checkout, from a bare Debian 12 on; each step is skipped when nothing changed.
#
#   ./build.sh demo [options]        the demonstration: real brokers, killed and frozen, nothing lost; --web: on a page
#   ./build.sh test [pytest args]    the whole test suite, in two processes; -n 0: in one, for a debugger
#   ./build.sh check                 format, lint, types, layers, stubs, no GIL in hot modules
#   ./build.sh check --tools         format, lint and types only; the rest are tests, which `test` runs too
#   ./build.sh check --tsan | --asan | --coverage [pytest args]
#                                    the native tests in an instrumented build of its own (build-tsan/, ...)
#   ./build.sh bench [options]       the whole beside its peers and the machine's limit (docs/performance.md)
#   ./build.sh bench against FOLDER [options]   the same rows in another tree by turns, with ratios
#   ./build.sh bench parts [pytest args]   single parts; results in build/benchmarks
#   ./build.sh bench doors           the door beside a real ZooKeeper, loaded by ZooKeeper's Java client
#   ./build.sh bench groups          the Kafka door beside a real Kafka 3.9, loaded by the same client
#   ./build.sh bench etcd            the etcd door beside a real etcd 3.7, loaded by etcd's client in Go
#   ./build.sh doors [names] [--on zookeeper]
#                                    real clients of ZooKeeper on our door: kazoo, Curator, Kafka, ... (docs/doors.md)
#   ./build.sh doors --on kafka      clients of Kafka's groups on a real Kafka (docs/kafka-requests.md)
#   ./build.sh jepsen [options]      real clusters of 3 and of 5 under all faults, ten minutes each (docs/jepsen.md)
#   ./build.sh fuzz [--seconds N] [--jobs N] [targets]
#                                    fuzz all that reads foreign bytes; --planted: known bugs, which it must find
#   ./build.sh wheel [interpreters]  wheels for each CPython 3.11 to 3.14 that is here, checked, with what is in them
#   ./build.sh mutants [names]       plant known bugs, one at a time; which invariant kills each, after how many events
#   ./build.sh build [modules...]    the extensions only, all or those named (raftmeta._core)
#   ./build.sh clean                 remove what was built; .venv stays
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

VENV=.venv
APT_LINE="apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends g++ python3-venv python3-dev libssl-dev libnghttp2-dev ca-certificates"
JAVA_LINE="apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends openjdk-17-jre-headless"
DOORS_LINE="apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends openjdk-17-jdk-headless maven clickhouse-server clickhouse-client postgresql"
BROWSER_LINE="apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium"
CLANG_LINE="apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends clang libclang-rt-dev"
unset PYTHONPATH PYTHONHOME

step() { printf '[%s] %s\n' "$(date +%H:%M:%S)" "$*" >&2; }

# --- the tools of the machine -----------------------------------------------------------------------------------------

# The headers of OpenSSL, for TLS and for files at rest, and of nghttp2, for etcd's clients.
has_headers() {
    g++ -E -x c++ - <<<$'#include <openssl/ssl.h>\n#include <nghttp2/nghttp2.h>' >/dev/null 2>&1
}

# Set `python` to the first one, in the order of PATH, that can make a virtual environment and compile extensions.
find_python() {
    local candidate
    command -v g++ >/dev/null && has_headers || return 1
    for candidate in $(type -aP python3 python3.14 python3.13 python3.12 python3.11); do
        if python=$("$candidate" - 2>/dev/null <<'PYTHON'
import ensurepip, os, sys, sysconfig
header = os.path.join(sysconfig.get_path("include"), "Python.h")
if sys.version_info < (3, 11) or not os.path.exists(header):
    sys.exit(1)
print(sys._base_executable)
PYTHON
        ); then return 0; fi
    done
    return 1
}

# As find_python, after installing what is missing; without the right to do so, print the line that does it.
require_python() {
    find_python && return
    if [ "$(id -u)" -ne 0 ]; then
        echo "$APT_LINE"
        exit 2
    fi
    step "installing a compiler, Python and the headers of Python, OpenSSL and nghttp2"
    bash -c "$APT_LINE" >&2
    hash -r
    find_python || {
        echo "build.sh: still no Python >= 3.11 with ensurepip and Python.h, no g++, or no openssl/ssl.h or nghttp2/nghttp2.h" >&2
        exit 1
    }
}

# A checkout may have its .venv from a time at which these were not needed.
require_headers() {
    has_headers && return
    if [ "$(id -u)" -ne 0 ]; then
        echo "$APT_LINE"
        exit 2
    fi
    step "installing the headers of OpenSSL and nghttp2"
    bash -c "$APT_LINE" >&2
    has_headers || { echo "build.sh: still no openssl/ssl.h or nghttp2/nghttp2.h" >&2; exit 1; }
}

# Spark, which checks the histories of fault runs, runs on Java; nothing else here does.
require_java() {
    if [ -n "${JAVA_HOME:-}" ] || command -v java >/dev/null; then return; fi
    if [ "$(id -u)" -ne 0 ]; then
        echo "$JAVA_LINE"
        exit 2
    fi
    step "installing Java"
    bash -c "$JAVA_LINE" >&2
}

# The servers and clients of the acceptance of doors: what is not fetched by Maven or pip.
require_doors() {
    local program missing=""
    for program in java javac mvn clickhouse-server clickhouse-client; do
        command -v "$program" >/dev/null || missing+=" $program"
    done
    compgen -G "/usr/lib/postgresql/*/bin/postgres" >/dev/null || missing+=" postgres"
    if [ -z "$missing" ]; then return; fi
    if [ "$(id -u)" -ne 0 ]; then
        echo "$DOORS_LINE"
        exit 2
    fi
    step "installing what brings$missing"
    bash -c "$DOORS_LINE" >&2
}

# The browser that looks at the dashboard.
require_browser() {
    if command -v chromium >/dev/null; then return; fi
    if [ "$(id -u)" -ne 0 ]; then
        echo "$BROWSER_LINE"
        exit 2
    fi
    step "installing Chromium"
    bash -c "$BROWSER_LINE" >&2
}

# The fuzzers are built by clang, because libFuzzer is a part of it.
require_clang() {
    if command -v clang++ >/dev/null && [ -e "$(clang -print-file-name="libclang_rt.fuzzer_no_main-$(uname -m).a")" ]; then
        return
    fi
    if [ "$(id -u)" -ne 0 ]; then
        echo "$CLANG_LINE"
        exit 2
    fi
    step "installing clang"
    bash -c "$CLANG_LINE" >&2
}

# --- the virtual environment --------------------------------------------------------------------------------------------

# need <stamp> <files...>: true when the stamp is missing or does not carry the checksum of the files.
need() {
    local stamp=$1
    shift
    [ "$(cat "$stamp" 2>/dev/null)" != "$(cat "$@" | sha256sum)" ]
}

done_with() {
    local stamp=$1
    shift
    cat "$@" | sha256sum >"$stamp"
}

# make_venv [demo|web]: all packages, or only what the build and the demonstration need: no Spark (450 MB), no test tools.
# web: with its page.
make_venv() {
    local wanted=${1:-all} stamp=$VENV/packages.stamp
    if [ ! -x "$VENV/bin/python" ]; then
        local python
        require_python
        step "making $VENV with $("$python" --version)"
        "$python" -m venv "$VENV"
    fi
    if [ "$wanted" != all ] && need "$stamp" constraints.txt pyproject.toml; then
        stamp=$VENV/packages-$wanted.stamp
    fi
    if need "$stamp" constraints.txt pyproject.toml; then
        step "installing packages (constraints.txt)"
        "$VENV/bin/python" - "$wanted" >"$VENV/packages.txt" <<'PYTHON'
import sys
import tomllib
with open("pyproject.toml", "rb") as file:
    table = tomllib.load(file)
extras = table["project"]["optional-dependencies"]
names = {*table["build-system"]["requires"], *table["project"]["dependencies"]}
wanted = {"demo": ("demo",), "web": ("demo", "cli", "web"), "all": ("test", "check", "demo", "bench", "wheel")}
for extra in wanted[sys.argv[1]]:
    names.update(extras[extra])
print("\n".join(sorted(names)))
PYTHON
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt pip
        if [ "$wanted" = all ]; then
            # There is no wheel of pyspark: pip makes one of its 450 MB, in half the time when it does not compress it again.
            "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt \
                --config-settings=--build-option=--compression=stored pyspark
        fi
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt -r "$VENV/packages.txt"
        done_with "$stamp" constraints.txt pyproject.toml
    fi
}

# --- the build ------------------------------------------------------------------------------------------------------------

# A third of all modules: whole packages, and modules of backups, salvage and faults on purpose.
NOT_IN_DEMO=raftmeta.check,raftmeta.migrate,raftmeta.scan,raftmeta.sim,tests
NOT_IN_DEMO+=,raftmeta.doors,raftmeta.face.etcd,raftmeta.face.kafka,raftmeta.face.own_logs,raftmeta.face.zookeeper
NOT_IN_DEMO+=,raftmeta.engine.snapshots.backup,raftmeta.face.backups,raftmeta.face.faults,raftmeta.face.stopped_log
NOT_IN_DEMO+=,raftmeta.machine.machine_handle,raftmeta.machine.record_reads,raftmeta.storage.salvage,raftmeta.storage.sealed_handle

# Builds what changed since the last such build, and everything when setup.py or the Python is another.
# make_extensions [demo]: all modules, or those that the demonstration needs if the others were never built.
make_extensions() {
    local stamp=build/extensions.stamp without="" force="" started=$SECONDS one
    if [ "${1:-all}" = demo ] && [ ! -e "$stamp" ]; then
        stamp=build/extensions-demo.stamp without=--without=$NOT_IN_DEMO
    fi
    for one in build/extensions.stamp build/extensions-demo.stamp; do
        if [ -e "$one" ] && need "$one" setup.py "$VENV/pyvenv.cfg"; then force=--force; fi
    done
    if [ -z "$force" ] && [ -e "$stamp" ] &&
        [ -z "$(find raftmeta tests/faces -name '*.p[xy][dx]' -newer "$stamp" -print -quit)" ] &&
        [ -z "$(find raftmeta -name '*.hpp' -newer "$stamp" -print -quit)" ]; then
        return
    fi
    require_headers
    mkdir -p build
    touch build/started.stamp # a source saved during the build is newer than that
    step "building the extensions (build/build.log)"
    if ! "$VENV/bin/python" setup.py build_ext --inplace $force $without >build/build.log 2>&1; then
        tail -n 60 build/build.log >&2
        exit 1
    fi
    if [ -e build/extensions-demo.stamp ]; then rm build/extensions-demo.stamp; fi
    done_with "$stamp" setup.py "$VENV/pyvenv.cfg"
    touch -r build/started.stamp "$stamp"
    step "built in $((SECONDS - started)) s"
}

install_editable() {
    need "$VENV/editable.stamp" pyproject.toml setup.py || return 0
    step "installing the checkout into $VENV"
    PYTHONWARNINGS=ignore "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check \
        --no-build-isolation --no-deps -e .
    done_with "$VENV/editable.stamp" pyproject.toml setup.py
}

make_all() {
    make_venv
    make_extensions
    install_editable
}

# --- check ------------------------------------------------------------------------------------------------------------------

# check [--tools]: each of its two slow tools has a processor; what mypy says stands in build/mypy.log until both have ended.
check() {
    local status=0 types
    export PATH="$PWD/$VENV/bin:$PATH"
    step "ruff format";  ruff format --check --quiet .
    step "ruff check";   ruff check --quiet .
    step "mypy, cython-lint"
    mkdir -p build
    mypy --no-error-summary >build/mypy.log 2>&1 &
    types=$!
    find raftmeta tests/faces -name '*.pyx' -o -name '*.pxd' | sort | xargs -P "$(nproc)" -n 50 cython-lint || status=1
    wait "$types" || status=1
    cat build/mypy.log
    [ "$status" -eq 0 ] || exit 1
    if [ "${1:-}" != --tools ]; then
        step "layers, stubs, exports, style, prose, no GIL in hot modules"
        python -m pytest -q -n 2 tests/test_layers.py tests/test_stubs.py tests/test_exports.py tests/test_style.py \
            tests/test_prose.py tests/test_no_gil.py
    fi
    step "check passed"
}

# copy_sources <folder>: all that a special build needs, in a folder of its own; what was built there stays.
copy_sources() {
    local folder=$1
    mkdir -p "$folder"
    rm -rf "$folder/tests" "$folder/benchmarks" "$folder/demo" "$folder/examples" "$folder/jepsen" "$folder/release"
    tar --exclude='*.so' --exclude='*.cpp' --exclude='__pycache__' \
        -cf - raftmeta tests benchmarks demo examples jepsen release docs ./*.md LICENSE \
        setup.py pyproject.toml | tar -xf - -C "$folder"
}

# instrumented <thread|address|coverage> <folder>: a copy of the sources, built there.
instrumented() {
    local instrument=$1 folder=$2
    copy_sources "$folder"
    step "building for --instrument=$instrument in $folder"
    (cd "$folder" && "../$VENV/bin/python" setup.py build_ext --inplace --instrument="$instrument" >build.log 2>&1) ||
        { tail -n 60 "$folder/build.log" >&2; exit 1; }
}

# sanitized <preloaded libraries> <command...>: its reports go to files, since pytest keeps what a test prints; any report
# is a failure. The runtime must be the first library of the process, because Python itself is not built with it.
sanitized() {
    local preload=$1 status=0
    shift
    rm -f report.*
    LD_PRELOAD=$preload "$@" || status=$?
    if compgen -G "report.*" >/dev/null; then
        cat report.* >&2
        step "the sanitizer found something: $PWD/report.*"
        [ "$status" -ne 0 ] || status=66
    fi
    return "$status"
}

check_tsan() {
    instrumented thread build-tsan
    cd build-tsan
    # With malloc's own memory: what Python gives out again it would take for the same object in two threads.
    export TSAN_OPTIONS="log_path=$PWD/report second_deadlock_stack=1 suppressions=$PWD/tests/tsan.supp" PYTHONMALLOC=malloc
    # Without address randomisation: the shadow memory of older runtimes has no place in a large random layout.
    sanitized "$(g++ -print-file-name=libtsan.so)" setarch "$(uname -m)" -R \
        "../$VENV/bin/python" -m pytest -m "not uninstrumented" "$@"
}

check_asan() {
    instrumented address build-asan
    cd build-asan
    export ASAN_OPTIONS="log_path=$PWD/report:detect_leaks=0:abort_on_error=1" PYTHONMALLOC=malloc
    export UBSAN_OPTIONS="log_path=$PWD/report:print_stacktrace=1"
    sanitized "$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libstdc++.so)" \
        "../$VENV/bin/python" -m pytest -m "not uninstrumented" "$@"
}

check_coverage() {
    instrumented coverage build-coverage
    cd build-coverage
    find . -name '*.gcda' -delete
    "../$VENV/bin/python" -m coverage run -m pytest -m "not uninstrumented" "$@"
    "../$VENV/bin/python" -m coverage report --skip-covered
    "../$VENV/bin/python" tests/lint/native_coverage.py
}

# --- fuzz -------------------------------------------------------------------------------------------------------------------

# make_fuzzers <folder>: the targets of tests/faces/fuzz and the modules below them, and libFuzzer as a library.
make_fuzzers() (
    cd "$1"
    local checks="-fsanitize=address,undefined -fno-sanitize=alignment,vptr,function -fno-sanitize-recover=undefined"
    local counters="-fsanitize=fuzzer-no-link -fsanitize-coverage-allowlist=$PWD/tests/fuzz/functions.txt"
    local flags="$checks -shared-libasan -fno-omit-frame-pointer $counters -Wno-everything"
    step "building the fuzzers in $1"
    export CC=clang CXX=clang++ CFLAGS="$flags" CXXFLAGS="$flags"
    export LDSHARED="clang++ -shared $checks -shared-libasan" LDCXXSHARED="clang++ -shared $checks -shared-libasan"
    "../$VENV/bin/python" setup.py build_ext --inplace --only="$("../$VENV/bin/python" -m tests.fuzz.modules)" \
        >build.log 2>&1 || { tail -n 60 build.log >&2; exit 1; }
    clang++ -O2 -fPIC -shared tests/fuzz/driver.cc -o driver.so -lpthread -lm -Wl,--whole-archive \
        "$(clang -print-file-name="libclang_rt.fuzzer_no_main-$(uname -m).a")" -Wl,--no-whole-archive
)

# The bugs of tests/fuzz/planted.py in a copy: the fuzzer of each must find it, or this fails.
fuzz_planted() {
    local target
    rm -rf build-fuzz-planted
    copy_sources build-fuzz-planted
    (cd build-fuzz-planted && "../$VENV/bin/python" -m tests.fuzz.planted)
    make_fuzzers build-fuzz-planted
    cd build-fuzz-planted
    for target in $("../$VENV/bin/python" -c "from tests.fuzz.planted import PLANTED; print(*[bug.target for bug in PLANTED])"); do
        if "../$VENV/bin/python" -m tests.fuzz --jobs 1 "$@" "$target"; then
            step "the fuzzer $target did not find the bug that was planted for it"
            exit 1
        fi
    done
    step "every planted bug was found"
}

# --- the verbs ----------------------------------------------------------------------------------------------------------------

verb=${1:-}
[ $# -gt 0 ] && shift
case $verb in
build)
    make_venv
    if [ $# -gt 0 ]; then
        exec "$VENV/bin/python" setup.py build_ext --inplace --only="$(IFS=,; echo "$*")"
    fi
    make_extensions
    install_editable
    ;;
demo)
    case " $* " in *" --web "*) make_venv web ;; *) make_venv demo ;; esac
    make_extensions demo # and no install: it runs in this folder
    exec "$VENV/bin/python" -m demo "$@"
    ;;
test)
    make_all
    require_java
    exec "$VENV/bin/python" -m pytest -n 2 "$@"
    ;;
check)
    make_venv
    case ${1:-} in
    "" | --tools)
        make_extensions
        install_editable
        check "$@"
        ;;
    --tsan | --asan | --coverage)
        flavour=${1#--}
        shift
        "check_$flavour" "$@"
        ;;
    *)
        echo "build.sh: check takes --tools, --tsan, --asan or --coverage, not $1" >&2
        exit 2
        ;;
    esac
    ;;
bench)
    make_all
    require_java
    case " $* " in *" doors "* | *" groups "* | *" etcd "*) require_doors ;; esac
    if [ "${1:-}" = parts ]; then
        shift
        mkdir -p build/benchmarks
        exec "$VENV/bin/python" -m pytest benchmarks --benchmark-only \
            --benchmark-json="build/benchmarks/$(date +%Y%m%d-%H%M%S).json" "$@"
    fi
    if [ "${1:-}" = against ]; then exec "$VENV/bin/python" -m benchmarks "$@"; fi
    exec "$VENV/bin/python" -m benchmarks run "$@"
    ;;
doors)
    make_all
    case " $* " in *" dashboard "*) require_browser ;; esac
    if [ "${1:-}" != dashboard ]; then require_doors; fi
    exec "$VENV/bin/python" -m tests.doors "$@"
    ;;
jepsen)
    make_all
    require_java
    status=0
    for nodes in 3 5; do
        step "$nodes nodes under all faults"
        "$VENV/bin/python" -m jepsen run --nodes "$nodes" --workload all --nemesis all --time 600 "$@" || status=1
    done
    step "leases on an idle cluster while the lead moves"
    "$VENV/bin/python" -m jepsen leases || status=1
    exit "$status"
    ;;
fuzz)
    make_venv
    require_clang
    if [ "${1:-}" = --planted ]; then
        shift
        fuzz_planted "$@"
        exit
    fi
    copy_sources build-fuzz
    make_fuzzers build-fuzz
    cd build-fuzz
    exec "../$VENV/bin/python" -m tests.fuzz "$@"
    ;;
wheel)
    make_venv
    exec "$VENV/bin/python" -m release.wheels "$@"
    ;;
mutants)
    make_all
    exec "$VENV/bin/python" -m tests.mutants "$@"
    ;;
clean)
    rm -rf build build-tsan build-asan build-coverage build-fuzz build-fuzz-planted dist .pytest_cache .mypy_cache .ruff_cache
    find raftmeta tests/faces \( -name '*.so' -o -name '*.cpp' \) -delete
    find raftmeta tests benchmarks demo examples jepsen release -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
    ;;
*)
    sed -n '4,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
