"""python -m tests.fuzz [--seconds N] [--jobs N] [--input FILE] [targets]: run fuzzers, where build.sh built them.

The seconds are shared among the targets. What a fuzzer learns stays in corpus-grown/ beside the modules, so the next
run goes on from there. Exit code 1: there is a finding, and its input is named.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.lint.sources import ROOT

SHORTEST_S = 2
INPUT_BYTES_MAX = 2048
ONE_INPUT_S = 20  # an execution that takes longer is a finding
MEMORY_MIB_MAX = 1024
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
TARGETS = sorted(path.name for path in CORPUS.iterdir())  # this process cannot load the modules: no sanitizer is here
GROWN = ROOT / "corpus-grown"
FINDINGS = ROOT / "findings"


@dataclass(frozen=True)
class Run:
    """The work of one fuzzer. artifact: the input of the finding, and log: all that the fuzzer said, if any."""

    target: str
    executions: int
    seconds: float
    edges: int
    log: Path | None = None
    artifact: str = ""


def runtime_library(name: str) -> str:
    """A library of clang's run-time."""
    asked = ["clang", f"-print-file-name=libclang_rt.{name}-{platform.machine()}.so"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def environment() -> dict[str, str]:
    """libFuzzer and the sanitizer come before all other libraries: the modules find their functions there."""
    options = {
        "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0:quarantine_size_mb=1:malloc_context_size=4",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "LD_PRELOAD": f"{ROOT / 'driver.so'} {runtime_library('asan')}",
    }
    return {**os.environ, **options}


def fuzz(target: str, seconds: float) -> Run:
    """Run one fuzzer for so long, or until it finds something."""
    for folder in (GROWN / target, FINDINGS):
        folder.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={max(SHORTEST_S, round(seconds))}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={ONE_INPUT_S}",
        f"-rss_limit_mb={MEMORY_MIB_MAX}",
        f"-artifact_prefix={FINDINGS / target}-",
        "-print_final_stats=1",
    ]
    began = time.monotonic()
    command = [sys.executable, "-m", "tests.fuzz.one", target, *options, str(GROWN / target), str(CORPUS / target)]
    ended = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, errors="replace")
    elapsed = time.monotonic() - began
    executed = re.search(r"stat::number_of_executed_units: (\d+)", ended.stderr)
    edges = re.findall(r"\bcov: (\d+)", ended.stderr)
    run = Run(target, int(executed[1]) if executed else 0, elapsed, int(edges[-1]) if edges else 0)
    if ended.returncode == 0 and executed:
        return run
    log = FINDINGS / f"{target}.log"
    log.write_text(ended.stderr)
    found = re.search(r"Test unit written to (\S+)", ended.stderr)
    return Run(target, run.executions, elapsed, run.edges, log, found[1] if found else "no input: see the log")


def main() -> int:
    parser = argparse.ArgumentParser(prog="./build.sh fuzz", description="Fuzz all that reads foreign bytes.")
    parser.add_argument("--seconds", type=float, default=300.0, help="for all targets together (default: 300)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="fuzzers at a time (default: processors)")
    parser.add_argument("--input", type=Path, metavar="FILE", help="execute this input once, by one target")
    parser.add_argument("targets", nargs="*", metavar="target", help=f"default: all of {', '.join(TARGETS)}")
    asked = parser.parse_args()
    if unknown := set(asked.targets) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    targets = asked.targets or list(TARGETS)
    if asked.input:
        if len(asked.targets) != 1:
            parser.error("--input needs one target")
        once = [
            sys.executable,
            "-m",
            "tests.fuzz.one",
            targets[0],
            str(ROOT.parent / asked.input),
        ]  # seen from the checkout
        return subprocess.run(once, cwd=ROOT, env=environment(), check=False).returncode
    share = asked.seconds * min(asked.jobs, len(targets)) / len(targets)
    print(f"{len(targets)} targets, {share:.0f} s each, {asked.jobs} at a time", flush=True)
    with ThreadPoolExecutor(asked.jobs) as pool:
        runs = []
        for run in pool.map(lambda target: fuzz(target, share), targets):
            runs.append(run)
            rate = run.executions / run.seconds
            told = f"FOUND {run.artifact} ({run.log})" if run.log else ""
            print(f"{run.target:16}{run.executions:14,}{rate:12,.0f}/s{run.edges:7} edges  {told}", flush=True)
    total = sum(run.executions for run in runs)
    found = sum(run.log is not None for run in runs)
    print(f"{total:,} executions, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
