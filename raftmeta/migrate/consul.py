"""The output of `consul kv export` as a source: a JSON array of keys with their values and flags.

Consul exports keys and nothing else: no sessions, no indexes, no rights. A file that ended too early is no JSON, and is
refused; there is no checksum.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from raftmeta.migrate.items import Item
from raftmeta.migrate.listed import Listed
from raftmeta.migrate.problems import NotMigratable, SourceDamaged, wrong_source

__all__ = ["ConsulSource"]

FLAGS_MAX = 2**64 - 1
EXPORT_AGAIN = "export again: consul kv export > FILE"


class ConsulSource(Listed):
    """The keys of a Consul, as `consul kv export` wrote them; a context, like the other sources.

    path: the file. on_progress: called with the keys read so far, and their number.
    Raises InvalidArgument: there is no such file. Raises SourceDamaged: it is no export, or has ended too early.
    Raises NotMigratable: it has keys of several namespaces or partitions.
    """

    kind = "consul"

    def __init__(
        self, path: str | Path, *, on_progress: Callable[[int, int], object] = lambda done, size: None
    ) -> None:
        super().__init__()
        self.path = Path(path)
        if not self.path.is_file():
            raise wrong_source(f"there is no file {path}")
        entries = self._read()
        self._check_places(entries)
        self._keep(self._items_of(entries))
        self.position = f"{len(self._items)} keys"
        on_progress(len(self._items), len(self._items))

    def _read(self) -> list[Any]:
        raw = self.path.read_bytes()
        try:
            told = json.loads(raw)
        except UnicodeDecodeError as error:
            raise SourceDamaged(self.path, error.start, "is no text", EXPORT_AGAIN) from error
        except json.JSONDecodeError as error:
            offset = len(error.doc[: error.pos].encode())
            raise SourceDamaged(self.path, offset, f"is no JSON ({error.msg})", EXPORT_AGAIN) from error
        if not isinstance(told, list):
            raise SourceDamaged(self.path, 0, "is no array of keys", EXPORT_AGAIN)
        return told

    def _items_of(self, entries: list[Any]) -> Iterator[Item]:
        for number, entry in enumerate(entries):
            try:
                key, value = entry["key"].encode(), base64.b64decode(entry["value"] or "", validate=True)
                flags = entry.get("flags", 0)
                is_sound = bool(key) and type(flags) is int and 0 <= flags <= FLAGS_MAX
            except (TypeError, KeyError, AttributeError, ValueError, binascii.Error):
                is_sound = False
            if not is_sound:
                raise SourceDamaged(self.path, 0, f"entry {number} is no key of Consul", EXPORT_AGAIN)
            yield Item(key, value, f'{{"flags":{flags}}}')

    def _check_places(self, entries: list[Any]) -> None:
        places = Counter(
            (entry.get("namespace", ""), entry.get("partition", "")) for entry in entries if isinstance(entry, dict)
        )
        if len(places) > 1:
            raise NotMigratable(
                f"keys of {len(places)} namespaces or partitions: export each of them by itself", count=len(places)
            )

    def facts(self) -> Mapping[str, int | str]:
        return {"export": str(self.path)}
