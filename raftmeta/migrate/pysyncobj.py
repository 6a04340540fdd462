"""PySyncObj's dump and journal as a source, without running a byte of them.

It decides which keys stand for an object of PySyncObj's own classes. Memory holds the whole dump, as on every node of
PySyncObj. It refuses values of a user's own classes and names the class: only the user's program knows what they mean.
Locks and queues belong to running processes; they are counted and left out, as are members.

    a dict          key of the dict        bytes and texts as they are, other values as JSON
    a set           element                empty
    a list          position, ten digits   as in a dict
    a counter       "counter"              a counter of the store
    others          attribute              as in a dict

"<kind>-<number>/" follows the prefix where there is more than one object. Entries of the journal are applied up to the
commit index that PySyncObj noted. Later entries may or may not have been committed; they are only counted.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from raftmeta.migrate.items import Item
from raftmeta.migrate.listed import Listed
from raftmeta.migrate.plain_data import NotData, read_data
from raftmeta.migrate.problems import NotMigratable, SourceDamaged, wrong_source
from raftmeta.migrate.pysyncobj_journal import (
    KINDS,
    REGULAR,
    Entry,
    State,
    UnknownMethod,
    apply_command,
    read_journal,
)

__all__ = ["PySyncObjSource"]

# Members of the cluster, and what is held by processes in raftmeta's own back end on PySyncObj: nobody needs them here.
OPAQUE = frozenset({"pysyncobj.node TCPNode", "pysyncobj.node Node", "raftmeta.backends.pysyncobj_state Place"})
METASTORE = frozenset({"revision", "keys", "groups", "services", "epochs"})  # raftmeta.backends.pysyncobj_state
# Attributes that tell an object which is left out: (attribute, what is counted).
LEFT_OUT = {
    "_ReplQueue__data": "queues",
    "_ReplPriorityQueue__data": "priority queues",
    "_ReplLockManagerImpl__locks": "lock managers",
}
OWN_PREFIX = "_SyncObj__"  # of attributes that are PySyncObj's business
FORCE_DUMP = "call forceLogCompaction() on a node, wait for its dump and copy that"


class PySyncObjSource(Listed):
    """The objects of a PySyncObj cluster as one of its nodes dumped them; a context, like the other sources.

    path: the dump (SyncObjConf.fullDumpFile). journal: SyncObjConf.journalFile, with its ".meta" beside it; None:
    the dump alone.
    Raises InvalidArgument: there is no such file. Raises SourceDamaged: it is damaged, or would run code. Raises
    NotMigratable: the journal has commands of a user's own class.
    """

    kind = "pysyncobj"

    def __init__(
        self,
        path: str | Path,
        *,
        journal: str | Path | None = None,
        on_progress: Callable[[int, int], object] = lambda done, size: None,
    ) -> None:
        super().__init__()
        self.path = Path(path)
        if not self.path.is_file():
            raise wrong_source(f"there is no {path}")
        states, self.index, self.term = self._read_dump()
        self._kinds, self._states = self._known(states)
        self.applied = 0
        if journal is not None:
            self._replay(Path(journal))
        self._keep(self._make_items())
        self.position = f"index {self.index}"
        on_progress(1, 1)

    # --- reading ------------------------------------------------------------------------------------------------------

    def _read_dump(self) -> tuple[list[State], int, int]:
        """(attributes of the main object and of each consumer, index and term of the last entry in it)."""
        try:
            with gzip.open(self.path, "rb") as stream:
                data, last, _, _ = read_data(stream.read(), opaque=OPAQUE)
            _, index, term = last
        except NotData as error:
            raise SourceDamaged(self.path, error.offset, f"(unpacked) {error}") from error
        except (OSError, EOFError, zlib.error) as error:
            raise SourceDamaged(self.path, 0, f"cannot be unpacked ({error})") from error
        except (TypeError, ValueError) as error:
            raise SourceDamaged(self.path, 0, "no dump of PySyncObj's") from error
        states = data if isinstance(data, list) else [data]
        if not states or not all(isinstance(state, dict) for state in states) or not isinstance(index, int):
            raise SourceDamaged(self.path, 0, "no dump of PySyncObj's, or one that a serializer of its user's wrote")
        main = {name: value for name, value in states[0].items() if not str(name).startswith(OWN_PREFIX)}
        return [main, *states[1:]], index, term

    def _known(self, states: list[State]) -> tuple[list[str], list[State]]:
        """Kind and state of each object; objects that are left out are counted."""
        kinds, known = [], []
        for number, state in enumerate(states):
            kind = _kind_of(state)
            if kind == "object" and not state and number == 0:
                continue  # a SyncObj that has no state of its own
            kinds.append(kind)
            known.append(_kept(kind, state))
            if kind in LEFT_OUT.values():
                self.dropped[kind] += 1
            elif kind == "metastore":
                self.dropped["members and candidates"] += sum(len(held) for held in state["groups"].values())
                self.dropped["members and candidates"] += sum(len(held) for held in state["services"].values())
        return kinds, known

    def _replay(self, path: Path) -> None:
        """Entries behind the dump, up to the commit index that was noted."""
        if not path.is_file():
            raise wrong_source(f"there is no {path}")
        entries = list(read_journal(path))
        if entries and entries[0].number > self.index + 1:
            raise SourceDamaged(path, 0, f"it begins at entry {entries[0].number}, the dump ends at {self.index}")
        committed = _commit_index(Path(f"{path}.meta"))
        uncertain = 0
        for entry in entries:
            if entry.number <= self.index:
                continue
            if entry.number > committed:
                uncertain += entry.command[:1] == bytes([REGULAR])
                continue
            self._apply(path, entry)
        if self.applied:
            self.warnings.append(
                "commands of the journal were applied as those of PySyncObj's own classes: if the program's SyncObj "
                f"has replicated methods of its own, their numbers are others; {FORCE_DUMP}"
            )
        if uncertain:
            self.warnings.append(
                f"{uncertain} commands behind commit index {committed} are not applied: whether they were committed "
                f"is not noted; stop the cluster, {FORCE_DUMP}"
            )

    def _apply(self, path: Path, entry: Entry) -> None:
        try:
            apply_command(path, entry, self._kinds, self._states)
        except UnknownMethod as error:
            raise NotMigratable(
                f"{path}, byte {entry.offset}: entry {entry.number} is no command of PySyncObj's own "
                f"classes ({error}); {FORCE_DUMP}"
            ) from error
        self.index = entry.number
        self.term = entry.term
        self.applied += 1

    # --- what is in it ------------------------------------------------------------------------------------------------

    def _make_items(self) -> Iterator[Item]:
        shown = [kind for kind in self._kinds if kind not in LEFT_OUT.values()]
        for number, (kind, state) in enumerate(zip(self._kinds, self._states, strict=True), 1):
            place = f"{kind}-{number}/".encode() if len(shown) > 1 else b""
            if kind == "counter":
                yield _counter(place + b"counter", state["counter"])
            elif kind == "list":
                for position, value in enumerate(state["data"]):
                    yield _item(place + b"%010d" % position, value)
            elif kind == "set":
                for element in state["data"]:
                    yield _item(place + _key(element), b"", of_key=element)
            elif kind == "metastore":
                for key, (value, revision) in state["keys"].items():
                    yield Item(place + _key(key), value, f'{{"type":"bytes","revision":{revision}}}')
            elif kind in ("dict", "object"):
                for key, value in state["data"].items():
                    yield _item(place + _key(key), value, of_key=key)

    def facts(self) -> Mapping[str, int | str]:
        return {
            "dump": str(self.path),
            "objects": len(self._kinds),
            "commands of the journal applied": self.applied,
            "last index": self.index,
            "last term": self.term,
        }


def _kind_of(state: State) -> str:
    """By the attributes, which carry the names of their classes."""
    for kind, (attribute, _, _) in KINDS.items():
        if attribute in state:
            return kind
    for attribute, what in LEFT_OUT.items():
        if attribute in state:
            return what
    return "metastore" if state.keys() >= METASTORE else "object"


def _kept(kind: str, state: State) -> State:
    """The needed part of an object's attributes, under short names."""
    if kind in KINDS:
        attribute, name, _ = KINDS[kind]
        return {name: state[attribute]}
    return {"keys": state["keys"]} if kind == "metastore" else {"data": state}


def _commit_index(path: Path) -> int:
    """The index that PySyncObj noted, at most a second before its end; 0 without the file."""
    if not path.is_file():
        return 0
    try:
        noted = read_data(path.read_bytes())
        return int(noted.get("raftCommitIndex", 0))
    except (NotData, AttributeError, TypeError, ValueError) as error:
        raise SourceDamaged(path, getattr(error, "offset", 0), f"no note of a commit index ({error})") from error


def _key(key: Any) -> bytes:
    if isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode("utf-8", "surrogatepass")
    return _json(key)


def _item(key: bytes, value: Any, *, of_key: Any = "") -> Item:
    """Bytes and texts as they are; the metadata tells their types."""
    metadata = f'{{"type":"{_type_name(value)}"'
    if not isinstance(of_key, str):
        metadata += f',"key_type":"{_type_name(of_key)}"'
    raw = value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else _json(value)
    return Item(key, raw, metadata + "}")


def _type_name(value: Any) -> str:
    return "bytes" if isinstance(value, bytes) else "str" if isinstance(value, str) else "json"


def _counter(key: bytes, value: Any) -> Item:
    if not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
        raise NotMigratable(f"a counter stands at {value!r}: a counter of the store is a signed 64-bit number")
    return Item(key, value.to_bytes(8, "big", signed=True), '{"type":"counter"}', is_counter=True)


def _json(value: Any) -> bytes:
    """JSON without loss: a value without a form in JSON becomes an object with the name of its type."""

    def plain(part: Any) -> Any:
        if isinstance(part, bytes):
            return {"bytes": base64.b64encode(part).decode()}
        if isinstance(part, set | frozenset):
            return {"set": sorted(map(plain, part), key=repr)}
        if isinstance(part, tuple):
            return {"tuple": [plain(one) for one in part]}
        if isinstance(part, list):
            return [plain(one) for one in part]
        if isinstance(part, dict):
            if all(isinstance(key, str) for key in part):
                return {key: plain(one) for key, one in part.items()}
            return {"dict": [[plain(key), plain(one)] for key, one in part.items()]}
        return part

    try:
        return json.dumps(plain(value), ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError, UnicodeError) as error:
        raise NotMigratable(f"a value has no form as JSON ({error})") from error
