"""Requests of ZooKeeper to commands, results and nodes to answers, as Python functions for tests.

A request is the body of a frame. Errors are ZooKeeper's codes, statuses numbers of raftmeta/status.pxd.
"""

from __future__ import annotations

from collections.abc import Buffer

from tests.faces.zookeeper import Speaker

Stat = tuple[int, int, int, int, int, int, int, int, int, int, int]
STAT_FIELDS: tuple[str, ...]

def command_make(
    body: bytes, speaker: Speaker, *, owner: int = 0, root: bytes = b"zookeeper", has_ttl: bool = True
) -> tuple[int, int, bytes]:
    """(error, position of the operation that is wrong, payload of the command)"""

def reply_result(body: bytes, result: Buffer, zxid: int = 0) -> tuple[int, int, bytes]:
    """(status, revision, the whole reply)"""

def reply_refused(body: bytes, zxid: int, error: int, position: int = 0) -> bytes: ...
def read_body(body: bytes, speaker: Speaker, node: tuple[bytes | None, bytes, Stat] | None) -> tuple[int, bytes]:
    """(error, body) of exists, getData, getACL; node: data, list of rights as stored, stat."""

def founded_children(path: bytes) -> list[bytes]: ...
def founded_node(path: bytes) -> dict[str, int] | None:
    """The stat of a node that every tree has, before a command made it."""

def config_text(servers: list[tuple[bytes, bool]], version: int) -> bytes: ...
def who_am_i(speaker: Speaker) -> bytes: ...
