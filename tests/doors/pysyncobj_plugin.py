"""A plugin of pytest for PySyncObj's own suite: `pysyncobj` is raftmeta's package.

With RAFTMETA_PYSYNCOBJ_KILL every object that is destroyed ends its node as `kill -9` does.
"""

from __future__ import annotations

import os

from raftmeta.compat import pysyncobj
from raftmeta.compat.pysyncobj.member import Member

pysyncobj.install()
if os.environ.get("RAFTMETA_PYSYNCOBJ_KILL"):
    Member.close = Member.abort  # type: ignore[method-assign]
