"""jepsen: real clusters under real faults, and the recorded histories of what their clients saw.

    python -m jepsen run --nodes 3 --workload all --nemesis partition-halves,kill --time 60 --seed 7
    python -m jepsen list

The nouns are Jepsen's: a *db* is the system under test, one process for each node; a *client* asks it; a *generator*
says what is asked, and when; a *nemesis* does harm; a *checker* judges; a *store* keeps what a run left. Brokers are
real processes (jepsen/broker.py), each in a network namespace of its own where the machine allows that; clients are
other processes, and callers inside the brokers. docs/jepsen.md tells how to run it and how to read its report.

Everything here uses public names of raftmeta only. Whatever a run makes (processes, namespaces, mounts, control groups)
carries the run's id and is taken down when it ends, in whatever way.
"""
