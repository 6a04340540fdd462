"""The whole, by the public interface: one module for each page of the results, run by `python -m benchmarks`."""
