"""Real processes for tests and the demonstration: start, call, wait for a condition, kill by pid, keep the logs.

waiting     wait for a condition, with a deadline
remote      one child process; functions are called in it by name
child       what runs inside it
cluster     nodes as such processes, with ports and folders of their own
load        writers in the test's process, which remember what was acknowledged
interrupted a process of its own for Ctrl-C
"""
