"""Faults of disks, clocks and connections, done to real processes: each module is usable alone.

shim: what the C library answers to one process. images: disks that can lose their power. damage: what happens to files
at rest. proxy: what happens to frames between two nodes. every_sync: a power cut at each sync of a script. resources:
how the nemeses of a run (jepsen/nemeses) share all these.
"""
