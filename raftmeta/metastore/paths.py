"""Paths of znodes: which ones there are (ZooKeeper's PathUtils.validatePath), and how a chroot stands before them."""

from __future__ import annotations

import re

__all__ = ["Chroot", "is_path", "parent_of"]

# Characters that ZooKeeper refuses: control characters, surrogates (and so all that need two of them), the private
# area, and the end of the first plane.
_REFUSED = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")


def is_path(path: object, *, is_sequential: bool = False) -> bool:
    """Whether ZooKeeper takes it for the path of a znode. is_sequential: digits follow, so it may end with "/"."""
    if not isinstance(path, str):
        return False
    if is_sequential:
        path += "1"
    if path == "/":
        return True
    if not path.startswith("/") or path.endswith("/") or _REFUSED.search(path):
        return False
    return all(name not in ("", ".", "..") for name in path[1:].split("/"))


def parent_of(path: str) -> str:
    """The path of the parent; "/" for the root itself."""
    return path.rpartition("/")[0] or "/"


class Chroot:
    """Puts a path of the store before the paths of a metastore, and takes it off again. "" is no chroot."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"Chroot({self.path!r})"

    def below(self, path: str, *, is_sequential: bool = False) -> str:
        """The store's path of a path of the metastore. is_sequential: digits follow, so "/" stays at its end."""
        if not self.path:
            return path
        return self.path if path == "/" and not is_sequential else self.path + path

    def off(self, path: str) -> str | None:
        """The metastore's path of a path of the store; None: it stands beside the chroot."""
        if not self.path:
            return path
        if path == self.path:
            return "/"
        return path[len(self.path) :] if path.startswith(f"{self.path}/") else None

    def to_create(self) -> list[str]:
        """The store's paths that must exist, parents first."""
        names = self.path.split("/")[1:]
        return ["/" + "/".join(names[: count + 1]) for count in range(len(names))]
