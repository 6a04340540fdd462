"""The demonstration: real processes, kill -9 under load, and a table of what was lost.

    python -m demo [--brokers 3|5] [--topics N] [--plain | --json]

    __main__    options, and the exit code
    acts        the story: start, kill, restart, stop, read back, compare
    stage       what an act needs: the members of a cluster, their ledger, the picture
    processes   the members and the ledger as processes of tests/processes
    broker      inside a member's process: raftmeta, and clients that write and watch
    peer        the same for PySyncObj
    writers     the clients that write, in either of them
    ledger      inside the fourth process: what clients were promised, on disk; it does not know raftmeta
    report      the verdict: what was promised against what each node has
    display     how it looks: live, in plain lines

Only `broker` imports raftmeta: neither who kills nor who judges can be misled by what it tests.
"""
