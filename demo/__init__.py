"""The demonstration: real processes, kill -9 under load, and a table of what was lost.

    python -m demo [--seconds N] [--nodes 3|5] [--plain | --json]

    __main__    options, and the exit code
    acts        the story: start, kill, restart, stop, read back, compare
    processes   the processes of the story as the storyteller holds them: start, command, kill by pid
    node        inside a node's process: raftmeta, and clients that write and watch
    ledger      inside the fourth process: what clients were promised, on disk; it does not know raftmeta
    report      the verdict: what was promised against what each node has
    display     how it looks: live, in plain lines

Only `node` imports raftmeta: neither who kills nor who judges can be misled by what it tests.
"""
