"""How the kernel schedules a thread of this machine, as a test sees it."""

from __future__ import annotations

import ctypes
import os
from typing import NamedTuple

SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}


class Scheduling(NamedTuple):
    """slice_ns: how long the thread runs at a time beside others; 0 where the kernel has no such slices."""

    policy: int
    nice: int
    slice_ns: int


class _Attributes(ctypes.Structure):
    """struct sched_attr of linux/sched/types.h."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("slice_ns", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def scheduling(thread: int = 0) -> Scheduling:
    """Of a thread by its id; 0: the calling one."""
    found = _Attributes()
    number = SCHED_GETATTR[os.uname().machine]
    assert ctypes.CDLL(None).syscall(number, thread, ctypes.byref(found), ctypes.sizeof(found), 0) == 0
    return Scheduling(found.policy, found.nice, found.slice_ns)
