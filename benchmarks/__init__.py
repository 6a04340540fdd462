"""How fast raftmeta is, beside what its users would take instead and beside what the machine allows.

Two kinds of measurements live here. `test_bench_*.py` are pytest-benchmark suites of single parts. `benchmarks/suites`
measure the whole, by the public interface, in rounds that are interleaved; `python -m benchmarks --help` runs them, and
docs/performance.md says what each row means.
"""
