"""The example of docs/kip30.md is true: it runs as printed."""

from __future__ import annotations

import queue
import re

import raftmeta
from tests.lint.sources import ROOT


def test_the_example_of_the_document_runs(nodes: dict[str, raftmeta.Node]) -> None:
    """Listeners tell the member and the new value, and the fenced write of the leader is in the store."""
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "kip30.md").read_text(), re.DOTALL)
    told: queue.Queue[tuple[object, ...]] = queue.Queue()
    exec(program, {"node": nodes["a"], "print": lambda *words: told.put(words)})
    lines = [told.get(timeout=30) for _ in range(3)]
    assert sorted(map(str, lines)) == ["('members:', ['broker-1'])", "('now:', b'4')", "(b'4',)"]
