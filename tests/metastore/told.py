"""Handlers that remember what they were told."""

from __future__ import annotations

from typing import Any

from raftmeta import metastore
from tests.processes.waiting import wait_until

WAIT_S = 60.0


class Node(metastore.ZNodeChangeHandler):
    """ "created", "deleted" and "changed", in order."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.told: list[str] = []

    def handle_creation(self) -> None:
        self.told.append("created")

    def handle_deletion(self) -> None:
        self.told.append("deleted")

    def handle_data_change(self) -> None:
        self.told.append("changed")

    def wait(self, *expected: str) -> None:
        """Until it was told this, and nothing else."""
        wait_until(lambda: len(self.told) >= len(expected), timeout_s=WAIT_S, what=f"{expected} of {self.path}")
        assert self.told == list(expected)


class Children(metastore.ZNodeChildChangeHandler):
    """ "children" for each time."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.told: list[str] = []

    def handle_child_change(self) -> None:
        self.told.append("children")

    def wait(self, count: int) -> None:
        wait_until(lambda: len(self.told) >= count, timeout_s=WAIT_S, what=f"{count} changes below {self.path}")
        assert len(self.told) == count


class States(metastore.StateChangeHandler):
    """What happened, and the session at that time."""

    def __init__(self, name: str, store: Any) -> None:
        self.name = name
        self._store = store
        self.told: list[tuple[str, int]] = []

    def before_initializing_session(self) -> None:
        self.told.append(("before", self._store.session_id))

    def after_initializing_session(self) -> None:
        self.told.append(("after", self._store.session_id))

    def on_auth_failure(self) -> None:
        self.told.append(("auth", self._store.session_id))
