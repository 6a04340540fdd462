"""Faults of disks, clocks and connections, done to real processes: each module is usable alone.

shim: what the C library answers to one process. images: disks that can lose their power. damage: what happens to files
at rest. proxy: what happens to frames between two nodes. nemeses: all of them as the faults of a run.
"""
