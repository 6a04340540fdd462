"""PySyncObj's public surface on raftmeta: programs written for it run unchanged.

    python -m raftmeta.compat.pysyncobj -- program.py arguments
    python -m raftmeta.compat.pysyncobj --folder /var/lib/counter -- -m package.module arguments

This puts a package named `pysyncobj` into the process before the program runs. The same from Python is `install()`.
docs/pysyncobj.md says what is the same, what differs, and where the state is kept.
"""

from __future__ import annotations

import importlib
import sys

from raftmeta.compat.pysyncobj.dns_resolver import globalDnsResolver
from raftmeta.compat.pysyncobj.syncobj import (
    _COMMAND_TYPE as _COMMAND_TYPE,
)
from raftmeta.compat.pysyncobj.syncobj import (
    _RAFT_STATE as _RAFT_STATE,
)
from raftmeta.compat.pysyncobj.syncobj import (
    FAIL_REASON,
    HAS_CRYPTO,
    SERIALIZER_STATE,
    SyncObj,
    SyncObjConf,
    SyncObjConsumer,
    SyncObjException,
    createJournal,
    replicated,
    replicated_sync,
)
from raftmeta.compat.pysyncobj.utility import TcpUtility

__all__ = [
    "FAIL_REASON",
    "HAS_CRYPTO",
    "SERIALIZER_STATE",
    "SyncObj",
    "SyncObjConf",
    "SyncObjConsumer",
    "SyncObjException",
    "TcpUtility",
    "createJournal",
    "globalDnsResolver",
    "install",
    "replicated",
    "replicated_sync",
]

NAME = "pysyncobj"
MODULES = (
    *("batteries", "config", "dns_resolver", "encryptor", "journal", "monotonic", "node", "pickle", "syncobj"),
    *("syncobj_admin", "tcp_connection", "transport", "utility", "version"),
)


def install() -> None:
    """Make `import pysyncobj` mean this package in this process. Raises RuntimeError: another one was imported."""
    present = sys.modules.get(NAME)
    if present is not None and present is not sys.modules[__name__]:
        raise RuntimeError("pysyncobj is imported already: install before the first import of it")
    sys.modules[NAME] = sys.modules[__name__]
    for name in MODULES:
        sys.modules[f"{NAME}.{name}"] = importlib.import_module(f"{__name__}.{name}")
