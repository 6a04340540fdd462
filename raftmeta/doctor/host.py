"""The machine below a node: clock, processor, limits of the process, memory, and the versions of its parts."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

from raftmeta.config import Config
from raftmeta.doctor.findings import Finding
from raftmeta.version import VERSION

__all__ = ["check_clock", "check_limits", "check_memory", "check_processor", "check_versions", "processor_finding"]

CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
SLOW_SOURCES = {"hpet", "acpi_pm", "pit", "jiffies"}
MEMORY = Path("/proc/meminfo")
GROUPS = Path("/proc/self/cgroup")
GROUPS_ROOT = Path("/sys/fs/cgroup")

TIMEX_BYTES = 512  # more than struct timex of any Linux: 208 bytes on 64-bit ones
TIME_ERROR = 5  # adjtimex(2): the clock is not synchronised

KEPT_DESCRIPTORS = 128  # that clients never take: docs/operations.md "Sizes"
NODE_BYTES = 50 << 20  # the same, "Memory"
SLEEP_S = 0.001


def check_versions() -> Finding:
    libc = " ".join(part for part in platform.libc_ver() if part)
    return Finding(
        "versions",
        "ok",
        f"raftmeta {VERSION}, Python {platform.python_version()}, {ssl.OPENSSL_VERSION}, {libc}, "
        f"{platform.system()} {platform.release()} on {platform.machine()}",
    )


# --- time -------------------------------------------------------------------------------------------------------------


def check_clock(*, has_tls: bool) -> Finding:
    """Elections and leases run on the monotonic clock. The time of day counts for certificates and audit trails."""
    try:
        source = CLOCK_SOURCE.read_text().strip()
    except OSError:
        source = ""
    if source in SLOW_SOURCES:
        return Finding(
            "clock",
            "warning",
            f"each reading of the clock {source} is a slow access to a device",
            "let the kernel use the processor's counter (clocksource=tsc)",
        )
    is_synchronised = _is_synchronised()
    if is_synchronised is None:
        return Finding("clock", "unknown", "the kernel does not tell whether the time of day is synchronised")
    if not is_synchronised and has_tls:
        return Finding(
            "clock",
            "warning",
            "no service keeps the time of day, by which the dates of certificates are judged",
            "run chrony, systemd-timesyncd or another client of NTP",
        )
    kept = "kept by a service" if is_synchronised else "kept by no service; only audit trails and people read it"
    return Finding("clock", "ok", f"the clock is {source or 'of an unknown source'}; the time of day is {kept}")


def _is_synchronised() -> bool | None:
    """None: the system cannot say."""
    try:
        adjtimex = ctypes.CDLL(None, use_errno=True).adjtimex
    except (AttributeError, OSError):
        return None
    state: int = adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))  # modes = 0: only asks
    return None if state < 0 else state != TIME_ERROR


def check_processor(config: Config, duration_s: float) -> Finding:
    """How late a thread runs again that asked for a millisecond of sleep."""
    latest_s = 0.0
    ends = time.monotonic() + duration_s
    while (began := time.monotonic()) < ends:
        time.sleep(SLEEP_S)
        latest_s = max(latest_s, time.monotonic() - began - SLEEP_S)
    quota = _quota()
    return processor_finding(latest_s, config, quota)


def processor_finding(latest_s: float, config: Config, quota: float | None) -> Finding:
    """latest_s: the longest delay, in seconds. quota: processors that the group of this process may use; None: all."""
    told = f"a thread ran up to {latest_s * 1000:.1f} ms late"
    if latest_s >= config.election_timeout_s:
        return Finding(
            "processor",
            "failure",
            f"{told}: the others replace a leader that is silent for {config.election_timeout_s * 1000:.0f} ms",
            "give the machine less other work or more processors, or set election_timeout_s to more",
        )
    if latest_s >= config.heartbeat_s:
        return Finding(
            "processor",
            "warning",
            f"{told}, longer than a heartbeat of {config.heartbeat_s * 1000:.0f} ms",
            "give the machine less other work or more processors",
        )
    if quota is not None and quota < 1:
        return Finding(
            "processor",
            "warning",
            f"{told}; the control group allows {quota:.2f} of a processor and stops the process once that is used",
            "allow the group at least one processor (cpu.max)",
        )
    return Finding("processor", "ok", f"{told}; {os.cpu_count()} processors")


# --- limits -----------------------------------------------------------------------------------------------------------


def check_limits(config: Config) -> Iterator[Finding]:
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = KEPT_DESCRIPTORS + config.client_connections_max
    if descriptors != resource.RLIM_INFINITY and descriptors < 2 * KEPT_DESCRIPTORS:
        yield Finding(
            "descriptors",
            "warning",
            f"the process may open {descriptors} files; few are left for clients",
            "raise the limit (ulimit -n, LimitNOFILE=)",
        )
    elif descriptors != resource.RLIM_INFINITY and descriptors < wanted:
        yield Finding(
            "descriptors",
            "ok",
            f"the process may open {descriptors:,} files; client_connections_max would need {wanted:,}",
            "raise the limit (ulimit -n, LimitNOFILE=) if so many clients come",
        )
    else:
        yield Finding("descriptors", "ok", "the process may open as many files as it can need")
    size, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if size != resource.RLIM_INFINITY and size < config.segment_bytes:
        yield Finding(
            "file size",
            "failure",
            f"a file may have {size:,} bytes; one file of the log has {config.segment_bytes:,}",
            "raise the limit (ulimit -f), or set segment_bytes to less",
        )


def check_memory(config: Config) -> Finding:
    """Memory that a node takes beside its keys: docs/operations.md "Sizes"."""
    needed = NODE_BYTES + config.log_memory_bytes_max + 3 * config.history_bytes_max + config.client_memory_bytes_max
    try:
        fields = dict(line.split(":", 1) for line in MEMORY.read_text().splitlines())
        free = int(fields["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return Finding("memory", "unknown", f"{MEMORY} does not tell how much memory is free")
    bound = _group_value("memory.max")
    if bound is not None and bound.isdecimal():
        used = _group_value("memory.current")
        free = min(free, int(bound) - (int(used) if used is not None and used.isdecimal() else 0))
    told = f"{free >> 20:,} MiB are free; beside its keys a node takes up to {needed >> 20:,} MiB"
    if free < needed:
        return Finding(
            "memory",
            "warning",
            told,
            "add memory, or set history_bytes_max, log_memory_bytes_max and client_memory_bytes_max to less",
        )
    return Finding("memory", "ok", told)


def _group_value(name: str) -> str | None:
    """A file of the control group of this process (cgroups(7), version 2); None: there is none."""
    try:
        line = next(line for line in GROUPS.read_text().splitlines() if line.startswith("0::"))
        return (GROUPS_ROOT / line.removeprefix("0::").lstrip("/") / name).read_text().strip()
    except (OSError, StopIteration):
        return None


def _quota() -> float | None:
    words = (_group_value("cpu.max") or "max").split()
    return None if len(words) != 2 or words[0] == "max" else int(words[0]) / int(words[1])
