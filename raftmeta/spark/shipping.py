"""How readers travel to executors: an executor without raftmeta says so, instead of failing to unpickle a name.

The two functions here travel by value (`cloudpickle.register_pickle_by_value`), so they import nothing at the top.
"""

from __future__ import annotations

from typing import Any

__all__ = ["load", "travelling"]


def load(version: str, module: str, name: str, arguments: tuple[Any, ...]) -> Any:
    """The object that was sent, on the machine that reads. Raises RuntimeError that says what is missing there."""
    import importlib
    import platform
    import sys

    where = f"the executor on {platform.node()} ({sys.executable})"
    try:
        found = getattr(importlib.import_module(module), name)
        there = importlib.import_module("raftmeta").__version__
    except (ImportError, AttributeError) as error:
        raise RuntimeError(
            f"{where} cannot read for format('raftmeta'): {error}; install raftmeta[spark] {version} there, on every "
            "node of the Spark cluster (compiled modules cannot be sent with the job)"
        ) from None
    if there != version:
        raise RuntimeError(f"{where} has raftmeta {there}, but the driver has {version}: install the same there")
    return found(*arguments)


def travelling(made: object, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The result of __reduce__ for an object that its class makes of these arguments."""
    import sys

    from pyspark import cloudpickle

    import raftmeta

    register: Any = cloudpickle.register_pickle_by_value
    register(sys.modules[__name__])
    kind = type(made)
    return load, (raftmeta.__version__, kind.__module__, kind.__qualname__, arguments)
