"""Fuzzers of all that reads foreign bytes: ./build.sh fuzz builds and runs them, tests/fuzz/test_corpus.py replays.

tests/faces/fuzz.pyx has the targets. clang compiles them and the modules below them with AddressSanitizer, UBSan and
counters of branches. libFuzzer runs in the process of Python, and calls a native target directly: Python takes no part
in an execution.
"""
