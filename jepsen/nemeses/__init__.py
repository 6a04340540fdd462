"""Every nemesis by its name: those of the network, of processes, hosts, members and observers, of certificates, and
those of jepsen/faults.
"""

from __future__ import annotations

from jepsen.nemeses import (
    certificates,
    clocks,
    disks,
    frames,
    hosts,
    members,
    observers,
    partitions,
    processes,
    storage,
)
from jepsen.nemesis import Nemesis

_KINDS = (partitions, frames, processes, hosts, clocks, disks, storage, members, observers, certificates)
NEMESES: dict[str, type[Nemesis]] = {nemesis.name: nemesis for kind in _KINDS for nemesis in kind.NEMESES}
