"""Runs in the environment of an installed wheel, without the checkout: python -I installed.py FOLDER.

Imports every module that needs no further package, starts a node, writes and reads, and asks the same of the command
line. Prints what was checked; ends with 1 and the reason otherwise.
"""

from __future__ import annotations

import importlib
import pkgutil
import socket
import subprocess
import sys
from pathlib import Path

OWN_PACKAGES = {"raftmeta", "lmdb", "msgpack"}


def modules() -> tuple[int, int]:
    """How many were imported, and how many need a package that is not installed here."""
    import raftmeta

    imported = waiting = 0
    for found in pkgutil.walk_packages(raftmeta.__path__, "raftmeta.", onerror=lambda _name: None):
        if found.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(found.name)
            imported += 1
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] in OWN_PACKAGES:
                raise
            waiting += 1
    return imported, waiting


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def main(folder: Path) -> None:
    import raftmeta

    home = Path(raftmeta.__file__)
    if not home.is_relative_to(Path(sys.prefix)):
        sys.exit(f"raftmeta comes from {home}, not from {sys.prefix}")
    imported, waiting = modules()
    address, clients = free_address(), free_address()
    with raftmeta.Node("a", peers={"a": address}, data_dir=folder / "a", client_listen=clients) as node:
        node.ready(60)
        node.put("key", b"value")
        record = node.get("key")
        if record is None or record.value != b"value":
            sys.exit(f"get gave {record}")
        program = Path(sys.prefix) / "bin" / "raftmeta"
        for words, wanted in ((["put", "shell", "1"], None), (["get", "shell"], "1\n"), (["--version"], None)):
            ended = subprocess.run(
                [str(program), "--url", f"raft://{clients}", "--timeout", "30", *words],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=120,
            )
            if ended.returncode or wanted not in (None, ended.stdout):
                sys.exit(f"raftmeta {' '.join(words)}: {ended.returncode} {ended.stdout!r} {ended.stderr!r}")
    print(f"{imported} modules imported, {waiting} need another package; a node and the command line wrote and read")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
