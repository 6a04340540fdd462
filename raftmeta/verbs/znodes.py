"""Where a znode stands among the keys, and how it is read: as ranges of keys, whose answers are read here.

A znode is the key of its tree's root and its path (docs/decisions/znodes.md). Its children are the keys behind the path
and a slash that have no other slash. Four znodes are in each tree from the start, and are found also before the first
request makes them. It never asks a store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from raftmeta.bindings.verbs import raw_bound
from raftmeta.common.text import shown
from raftmeta.errors import InvalidArgument
from raftmeta.operations import Key, RangeResult, Znode, ZnodeStat, prefix_end
from raftmeta.results import ZnodeFound
from raftmeta.verbs.asked import RangeAsked

__all__ = ["ZNODE_ROOT", "ZnodePlace"]

ZNODE_ROOT = "zookeeper"  # Config.zookeeper_root has the same default
KEY_BYTES_MAX = 480


def _founded(children: int, *, aversion: int = 0, acl: tuple[tuple[int, bytes, bytes], ...] = ()) -> Znode:
    stat = ZnodeStat(0, 0, 0, 0, 0, -children, aversion, 0, 0, children, 0)
    return Znode(stat, "persistent", 0, False, acl)


# machine/znodes, "the tree before its first request": by path, with the names of its children.
_FOUNDED = {
    "/": (_founded(1), ("zookeeper",)),
    "/zookeeper": (_founded(2), ("config", "quota")),
    "/zookeeper/config": (_founded(0, aversion=-1, acl=((1, b"world", b"anyone"),)), ()),
    "/zookeeper/quota": (_founded(0), ()),
}


class ZnodePlace:
    """One znode of one tree. key: its key."""

    __slots__ = ("_below", "_local", "_path", "key")

    def __init__(self, path: str, root: Key = ZNODE_ROOT, *, local: bool = False) -> None:
        """Raises InvalidArgument: it does not begin with a slash, or a name in it is missing."""
        if not isinstance(path, str) or not path.startswith("/") or (path.endswith("/") and path != "/"):
            raise InvalidArgument(f'path: must look like "/brokers/ids", not {path!r}', field="path")
        try:
            raw = path.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgument("path: has no UTF-8 form", field="path") from error
        self._path = path
        self._local = bool(local)
        self.key = raw_bound(root, "root") + raw
        self._below = self.key if path == "/" else self.key + b"/"

    @property
    def is_possible(self) -> bool:
        """Whether a key can be so long."""
        return len(self.key) <= KEY_BYTES_MAX

    def itself(self, revision: int) -> RangeAsked:
        """A question for the znode. Its answer has the revision also where nothing is found."""
        raw_bound(self.key, "path")
        return RangeAsked(self.key, self.key + b"\0", limit=1, revision=revision, local=self._local)

    def children(self, revision: int, *, keys_only: bool) -> RangeAsked:
        """A question for its direct children, if it has any; what is below those is passed.

        The longest key of a znode without children leaves no room for their names, and such a range would be refused.
        """
        return RangeAsked(
            self._below + b"\0",
            prefix_end(self._below),
            revision=revision,
            keys_only=keys_only,
            local=self._local,
            delimiter=b"/",
            skip=len(self._below),
        )

    async def with_children(self, found: ZnodeFound, ask: Callable[[RangeAsked], Awaitable[RangeResult]]) -> ZnodeFound:
        """The same znode with the names of its children; ask: of a store for tasks."""
        if found.stat.children == 0:
            return replace(found, children=())
        names = self.names(found, await ask(self.children(found.revision, keys_only=True)), has_values=False)
        if names is None:  # plain keys stand between them
            names = self.names(found, await ask(self.children(found.revision, keys_only=False)), has_values=True)
        return replace(found, children=names)

    def with_children_now(self, found: ZnodeFound, ask: Callable[[RangeAsked], RangeResult]) -> ZnodeFound:
        """As with_children, of a store whose callers block."""
        if found.stat.children == 0:
            return replace(found, children=())
        names = self.names(found, ask(self.children(found.revision, keys_only=True)), has_values=False)
        if names is None:
            names = self.names(found, ask(self.children(found.revision, keys_only=False)), has_values=True)
        return replace(found, children=names)

    def found(self, answer: RangeResult) -> ZnodeFound | None:
        """The znode in an answer to `itself`."""
        for record in answer.records:
            if record.znode is None:  # a plain key
                return None
            return ZnodeFound(None if record.znode.is_null else record.value, record.znode, answer.revision)
        if self._path not in _FOUNDED:
            return None
        return ZnodeFound(b"", _FOUNDED[self._path][0], answer.revision)

    def names(self, found: ZnodeFound, answer: RangeResult, *, has_values: bool) -> tuple[str, ...] | None:
        """The names in an answer to `children`; None: it must be asked again with the values.

        An answer without values does not tell znodes from plain keys; the znode knows how many there must be.
        """
        if found.stat.pzxid == 0 and not answer.records and self._path in _FOUNDED:
            return _FOUNDED[self._path][1]
        if not has_values and len(answer.records) != found.stat.children:
            return None
        keys = [record.key for record in answer.records if not has_values or record.znode is not None]
        return tuple(shown(key[len(self._below) :]) for key in keys)
