"""Certificates of a node that are read anew when their files change.

It decides when to look, and keeps what was wrong the last time. It never decides what is in force: the node makes new
contexts of the files (face/tls) or leaves the old ones, and its native threads take them over without it.
"""

from __future__ import annotations

import logging
import threading
import weakref
from typing import Protocol

from raftmeta.errors import ConfigError, ForkedProcess, NodeClosed
from raftmeta.security.settings import Tls

LOOK_S = 1.0  # how late a changed file is noticed

_LOG = logging.getLogger("raftmeta")


class Renewing(Protocol):
    """A node, as the thread that looks at its files sees it."""

    @property
    def name(self) -> str: ...

    def reload_tls(self) -> None:
        """Read the files anew."""


class Certificates:
    """The files of one node's Tls. failure: why they could not be read the last time; "": they were."""

    def __init__(self, tls: Tls) -> None:
        self.tls = tls
        self.failure = ""
        self._seen = tls.signature()
        self._ended = threading.Event()

    def begin(self) -> None:
        """The files are about to be read: what changes from here on is noticed."""
        self._seen = self.tls.signature()

    def start(self, node: Renewing) -> None:
        """Look at the files on a thread of its own, as long as the node is there and end() was not called."""
        threading.Thread(
            target=_look, args=(weakref.ref(node), self, self._ended), name="raftmeta-tls", daemon=True
        ).start()

    def end(self) -> None:
        self._ended.set()

    def has_changed(self) -> bool:
        return self.failure != "" or self.tls.signature() != self._seen


def _look(node: weakref.ref[Renewing], certificates: Certificates, ended: threading.Event) -> None:
    while not ended.wait(LOOK_S):
        if not certificates.has_changed():
            continue
        running = node()
        if running is None:
            return
        told = certificates.failure
        try:
            running.reload_tls()
        except (NodeClosed, ForkedProcess):
            return
        except ConfigError as error:
            if str(error) != told:
                _LOG.warning("tls_not_renewed node=%s: %s", running.name, error)
        except Exception:  # of a function that gives the key or its password: it may work the next time
            if not told:
                _LOG.exception("tls_not_renewed node=%s", running.name)
        del running
