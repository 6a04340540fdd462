"""The one way to start nodes as real processes, for tests, the demonstration, fault runs (jepsen) and benchmarks.

waiting     wait for a condition, with a deadline; free ports
remote      the parent's side of a child: start, call, hear its reports, kill, pause, read the end of its log
child       the child's side: answer calls, report, end when the parent ends
leading     who leads, by what members tell
cluster     nodes as such processes, with ports and folders of their own
program     a program of somebody else: started, asked by lines, killed, paused, ended
load        writers in the test's process, which remember what was acknowledged
interrupted a process of its own for Ctrl-C

A child runs where and how its parent says: behind a launcher (`ip netns exec ...`), with variables of its own (the
LD_PRELOAD of a shim), in a control group that its pid was added to. `waiting`, `remote`, `child` and `leading` import
nothing of raftmeta: the demonstration judges it from outside.
"""
