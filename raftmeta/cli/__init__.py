"""The command line `raftmeta`: run a node, look at a cluster, read and write keys, change members, keep backups.

It uses the public names like any other program: nothing here knows how a cluster works. One file per subject; `app`
puts them together and decides the exit code.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """The console script."""
    try:
        from raftmeta.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        print(f"raftmeta: the command line needs {error.name}: pip install 'raftmeta[cli]'", file=sys.stderr)
        sys.exit(2)
    app(prog_name="raftmeta")
