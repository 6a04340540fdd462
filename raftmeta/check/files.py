"""Histories in files: JSON lines, Jepsen's EDN, Parquet.

JSON lines: one object per event, with the names of raftmeta.check.Event. EDN: as Jepsen writes `history.edn`; a read's
value is its result, anything else's value are its arguments, and what its nemesis did becomes faults. Parquet: the
columns of the Event, texts as canonical JSON; pyarrow is needed for it, and only for it.

It decides which event stands where in a file. A line that is no event goes into quarantine; it is never left out
silently.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, cast

from raftmeta.check.edn import read_edn
from raftmeta.check.history import (
    KIND_UNKNOWN,
    KINDS,
    NOT_TOLD,
    Event,
    Fault,
    History,
    Nothing,
    Quarantined,
    TextColumn,
    canonical,
)

__all__ = ["bucket_model", "from_arrow", "read_history", "rows_of", "sorted_table", "to_arrow", "write_history"]

RAW_MAX = 200  # characters of a bad line that are kept
NEMESIS = "nemesis"  # Jepsen's name for the process that does harm
TOLD_AGAIN = (
    "write",
    "delete",
    "enqueue",
    "acquire",
    "release",
    "add",
    "append",
    "remove",
)  # arguments, as value of ok
CANONICAL = b"raftmeta.history"  # metadata of a schema whose texts are canonical already
BUCKETS = b"raftmeta.buckets"  # ... of a file whose row groups hold whole components: the model that joined them
BUCKET_ROWS = 250_000  # events of a row group, if it has more components than one
TOLD_ALWAYS = ("process",)  # columns of numbers in which a null is an error; sorted_table looks at seq
_FIELDS = {"seq", "process", "kind", "operation", "key", "arguments", "result", "revision", "time_ns"}


# --- JSON lines -------------------------------------------------------------------------------------------------------
def _read_json_lines(path: Path) -> History:
    events, bad = [], []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            if line.strip():
                try:
                    events.append(_event_of(json.loads(line), number))
                except (ValueError, TypeError, KeyError) as error:
                    bad.append(Quarantined(number, f"no event: {error}", line.strip()[:RAW_MAX]))
    history = History.of(events)
    history.quarantined += bad
    return history


def _event_of(fields: Any, number: int) -> Event:
    """Raises ValueError or TypeError for an object that is no event."""
    if not isinstance(fields, dict):
        raise ValueError("not an object")
    if unknown := fields.keys() - _FIELDS:
        raise ValueError(f"unknown fields {', '.join(sorted(unknown))}")
    if missing := [name for name in ("kind", "process") if fields.get(name) is None]:
        raise ValueError(f"without {', '.join(missing)}")
    event = Event(
        seq=_whole(fields, "seq", number),
        process=fields["process"],
        kind=str(fields["kind"]),
        operation=fields.get("operation"),
        key=fields.get("key", Nothing),
        arguments=fields.get("arguments", Nothing),
        result=fields.get("result", Nothing),
        revision=_whole(fields, "revision", None),
        time_ns=_whole(fields, "time_ns", None),
    )
    if not isinstance(event.process, str):
        _whole(fields, "process", None)
    if not isinstance(event.operation, str | None):
        raise ValueError("operation is no name")
    return event


def _whole(fields: dict[str, Any], name: str, otherwise: Any) -> Any:
    value = fields.get(name)
    if value is None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise ValueError(f"{name} is no whole number of 64 bits")
    return value


def _write_json_lines(history: History, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for event in history:
            fields = {name: getattr(event, name) for name in Event.__slots__}
            told = {name: value for name, value in fields.items() if value is not Nothing}
            for name in ("operation", "revision", "time_ns"):
                if told[name] is None:
                    del told[name]
            file.write(json.dumps(told, ensure_ascii=False) + "\n")


# --- Jepsen's EDN -----------------------------------------------------------------------------------------------------
def _read_edn_file(path: Path, *, is_keyed: bool = False) -> History:
    events, bad, harm = [], [], []
    for number, fields in enumerate(_maps(read_edn(path.read_text(encoding="utf-8")))):
        if not isinstance(fields, dict) or "type" not in fields or "process" not in fields:
            bad.append(Quarantined(number, "no event: without :type or :process", str(fields)[:RAW_MAX]))
        elif fields["process"] == NEMESIS:
            harm.append(fields)
        else:
            try:
                events.append(_jepsen_event(fields, number, is_keyed))
            except ValueError as error:
                bad.append(Quarantined(number, f"no event: {error}", str(fields)[:RAW_MAX]))
    history = History.of(events)
    history.quarantined += bad
    history.faults += _faults(harm)
    return history


def _maps(values: Iterable[Any]) -> Iterator[Any]:
    """The operations: one map per line, or all in one vector."""
    for value in values:
        if isinstance(value, list):
            yield from value
        else:
            yield value


def _jepsen_event(fields: dict[str, Any], number: int, is_keyed: bool) -> Event:
    """Raises ValueError."""
    kind, operation, value = str(fields["type"]), fields.get("f"), fields.get("value")
    key: Any = Nothing
    if not isinstance(operation, str):
        raise ValueError("without :f")
    if is_keyed:
        if not isinstance(value, list) or len(value) != 2:
            raise ValueError("a value that is no pair of key and value")
        key, value = value
    if operation in ("acquire", "release") and value is None:
        value = fields["process"]  # Jepsen's mutex does not say whose it is
    process = fields["process"]
    if process is None:
        raise ValueError("without a :process")
    return Event(
        seq=_whole(fields, "index", number),
        process=process if isinstance(process, str) else _whole(fields, "process", None),
        kind=kind,
        operation=operation,
        key=key,
        arguments=value if kind == "invoke" else Nothing,
        result=_jepsen_result(operation, kind, value),
        time_ns=_whole(fields, "time", None),
    )


def _jepsen_result(operation: str, kind: str, value: Any) -> Any:
    if kind != "ok":
        return Nothing
    if operation == "cas":
        return True  # one that found another value is a :fail, and left out
    return Nothing if operation in TOLD_AGAIN else value


def _faults(harm: list[dict[str, Any]]) -> Iterator[Fault]:
    """start-x until stop-x; each is reported twice, before and after it was done."""
    begun: dict[str, int] = {}
    latest = 0
    for fields in harm:
        name, time_ns = str(fields.get("f")), int(fields.get("time") or 0)
        latest = max(latest, time_ns)
        verb, _, rest = name.partition("-")
        if verb in ("start", "stop"):
            name = rest or "fault"
        if verb != "stop":
            begun.setdefault(name, time_ns)
        elif name in begun:
            yield Fault(name, begun.pop(name), time_ns)
    for name, start_ns in begun.items():
        yield Fault(name, start_ns, latest)


# --- Parquet ----------------------------------------------------------------------------------------------------------
def _pyarrow() -> ModuleType:
    try:
        import pyarrow
    except ImportError:
        raise ImportError("Parquet and Arrow need pyarrow: pip install 'raftmeta[parquet]'") from None
    return cast(ModuleType, pyarrow)


def from_arrow(table: Any) -> History:
    """A history from an Arrow table or record batch with the columns of Event, in any order of rows.

    seq, process and kind must be there; a null in seq or process is an error. kind is a text or 0 invoke, 1 ok, 2 fail,
    3 info; key, arguments and result are JSON. Columns are used where they lie, if the schema says that their texts are
    canonical. Raises ValueError for columns that are missing, incomplete or of another type, ImportError without
    pyarrow.
    """
    pa = _pyarrow()
    table = sorted_table(table)
    is_canonical = CANONICAL in (table.schema.metadata or {})
    try:
        return _from_columns(table, pa, is_canonical)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"a column of the table is of another type: {error}") from None


def sorted_table(table: Any) -> Any:
    """The events of an Arrow table or record batch in the order of `seq`. Raises what from_arrow raises."""
    pa = _pyarrow()
    import pyarrow.compute as pc

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if missing := {"seq", "process", "kind"} - set(table.column_names):
        raise ValueError(f"the table has no column {', '.join(sorted(missing))}")
    table = table.combine_chunks()
    seq = table.column("seq")
    if seq.null_count:
        row = seq.is_null().index(True).as_py()
        raise ValueError(
            f"{seq.null_count} events have no seq, the first of them at row {row}: give each event its place"
        )
    if len(seq) > 1 and not pc.all(pc.less_equal(seq[:-1], seq[1:])).as_py():
        table = table.sort_by("seq").combine_chunks()
    return table


def _from_columns(table: Any, pa: ModuleType, is_canonical: bool) -> History:
    def numbers(name: str, kind: Any, code: Literal["b", "q"]) -> Any:
        if name not in table.column_names:
            return array(code, [NOT_TOLD]) * len(table)
        column = table.column(name).cast(kind)
        if name in TOLD_ALWAYS and column.null_count:
            row = column.is_null().index(True).as_py()
            raise ValueError(
                f"{column.null_count} events have no {name}, the first of them at row {row} in the order of seq: "
                f"give each event a {name}"
            )
        whole = _one_chunk(column, pa).fill_null(NOT_TOLD)
        view = memoryview(whole.buffers()[1]).cast(code) if len(whole) else memoryview(array(code))
        return view[whole.offset : whole.offset + len(whole)]

    def texts(name: str) -> TextColumn:
        if name not in table.column_names:
            return TextColumn(array("q", [0]) * (len(table) + 1), b"")
        column = table.column(name).cast(pa.large_binary())
        whole = _one_chunk(column, pa).fill_null(b"")
        if not is_canonical:
            whole = _canonical_texts(whole, pa)
        if not len(whole):
            return TextColumn(array("q", [0]), b"")
        _, offsets, data = whole.buffers()
        return TextColumn(
            memoryview(offsets).cast("q")[whole.offset : whole.offset + len(whole) + 1],
            memoryview(data or b"").cast("B"),
        )

    operations, names = _dictionary(table, pa)
    return History(
        seq=numbers("seq", pa.int64(), "q"),
        process=numbers("process", pa.int64(), "q"),
        kind=_kinds(table, pa, numbers),
        operation=operations,
        revision=numbers("revision", pa.int64(), "q"),
        time_ns=numbers("time_ns", pa.int64(), "q"),
        key=texts("key"),
        arguments=texts("arguments"),
        result=texts("result"),
        names=names,
    )


def _one_chunk(column: Any, pa: ModuleType) -> Any:
    """A column of a table as one array; without a copy if it is one."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _dictionary(table: Any, pa: ModuleType) -> tuple[Any, list[str]]:
    """The column of operations as codes, and their names."""
    if "operation" not in table.column_names:
        return array("i", [-1]) * len(table), []
    column = table.column("operation")
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    whole = _one_chunk(column.unify_dictionaries(), pa)
    codes = whole.indices.cast(pa.int32()).fill_null(-1)
    view = memoryview(codes.buffers()[1]).cast("i") if len(codes) else memoryview(array("i"))
    return view[codes.offset : codes.offset + len(codes)], [str(name) for name in whole.dictionary.to_pylist()]


def _kinds(table: Any, pa: ModuleType, numbers: Callable[[str, Any, Literal["b", "q"]], Any]) -> Any:
    kind = table.schema.field("kind").type
    if pa.types.is_integer(kind):
        return numbers("kind", pa.int8(), "b")
    codes = {name: code for code, name in enumerate(KINDS)}
    return array("b", (codes.get(name, KIND_UNKNOWN) for name in table.column("kind").cast(pa.string()).to_pylist()))


def _canonical_texts(column: Any, pa: ModuleType) -> Any:
    """The same column with canonical texts; each that differs is looked at once."""
    encoded = column.dictionary_encode()
    texts = [_canonical_text(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.large_binary()).take(encoded.indices)


def _canonical_text(text: bytes) -> bytes:
    """A text that is no JSON is taken for a string."""
    try:
        return canonical(json.loads(text)) if text else b""
    except ValueError:
        return canonical(text.decode(errors="replace"))


def to_arrow(history: History) -> Any:
    """The history as an Arrow table, with canonical texts. Raises ImportError without pyarrow."""
    pa = _pyarrow()
    import pyarrow.compute as pc

    def numbers(column: Any, kind: Any, *, is_nullable: bool = False) -> Any:
        made = pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column)])
        return pc.if_else(pc.equal(made, NOT_TOLD), None, made) if is_nullable else made

    def texts(column: TextColumn) -> Any:
        buffers = [None, pa.py_buffer(column.offsets), pa.py_buffer(bytes(column.data))]
        made = pa.Array.from_buffers(pa.large_binary(), len(history), buffers).cast(pa.large_string())
        return pc.if_else(pc.equal(made, ""), None, made)

    codes = numbers(history.operation, pa.int32(), is_nullable=True)
    columns = {
        "seq": numbers(history.seq, pa.int64()),
        "process": numbers(history.process, pa.int64()),
        "kind": numbers(history.kind, pa.int8()),
        "operation": pa.DictionaryArray.from_arrays(codes, pa.array(history.names, pa.string())),
        "key": texts(history.key),
        "arguments": texts(history.arguments),
        "result": texts(history.result),
        "revision": numbers(history.revision, pa.int64(), is_nullable=True),
        "time_ns": numbers(history.time_ns, pa.int64(), is_nullable=True),
    }
    return pa.table(columns).replace_schema_metadata({CANONICAL: b"1"})


def _read_parquet(path: Path) -> History:
    _pyarrow()
    import pyarrow.parquet as pq

    return from_arrow(pq.read_table(path))


def _write_parquet(history: History, path: Path) -> None:
    table = to_arrow(history)
    import pyarrow.parquet as pq

    pq.write_table(table, path)


def bucket_model(schema: Any) -> str:
    """The model whose components each row group of a file holds whole, by its schema; "" if it was not written so."""
    return str((schema.metadata or {}).get(BUCKETS, b"").decode())


def rows_of(numbers: bytes) -> Any:
    """32-bit numbers of rows as an Arrow array."""
    pa = _pyarrow()
    return pa.Array.from_buffers(pa.int32(), len(numbers) // 4, [None, pa.py_buffer(numbers)])


def _write_buckets(history: History, path: Path, model: str, rows_max: int) -> None:
    """One row group for each bucket, and one for what belongs to no component."""
    from raftmeta.check.prepared import Prepared

    table = to_arrow(history)
    import pyarrow.parquet as pq

    prepared = Prepared(history, model)
    handle = prepared.handle
    if prepared.quarantined():
        # Events that make no sense must be seen beside all others: such a history stays in one piece.
        pq.write_table(table, path)
        return
    handle.group(rows_max)
    groups = [rows_of(rows) for rows in (*handle.buckets(), handle.outside())]
    table = table.replace_schema_metadata({**table.schema.metadata, BUCKETS: model.encode()})
    with pq.ParquetWriter(path, table.schema) as writer:
        for rows in groups:
            if len(rows):
                writer.write_table(table.take(rows), row_group_size=len(rows))


# --- by name ----------------------------------------------------------------------------------------------------------
FORMATS: dict[str, tuple[Callable[..., History], Callable[[History, Path], None] | None]] = {
    ".jsonl": (_read_json_lines, _write_json_lines),
    ".edn": (_read_edn_file, None),
    ".parquet": (_read_parquet, _write_parquet),
}


def read_history(path: str | Path, *, is_keyed: bool = False) -> History:
    """The history in a file, by the suffix of its name: .jsonl, .edn or .parquet.

    is_keyed: of EDN, whose values are then pairs [key value] (Jepsen's `independent`). Lines that are no events are in
    History.quarantined. Raises OSError, ValueError for a file that is not what its name says, ImportError for Parquet
    without pyarrow.
    """
    path = Path(path)
    read, _ = _format(path)
    return read(path, is_keyed=True) if is_keyed and path.suffix == ".edn" else read(path)


def write_history(
    history: History, path: str | Path, *, bucketed_for: str | None = None, bucket_rows: int = BUCKET_ROWS
) -> None:
    """Write a history to a file, by the suffix of its name: .jsonl or .parquet.

    bucketed_for: of Parquet, the name of the model that the history will be checked with; each row group then holds all
    events of some components, bucket_rows at most or one component, so that a pipeline checks them where they lie
    (docs/pipeline.md). A history with events that make no sense is written as it is. Raises OSError, ValueError for
    another suffix or an unknown model, ImportError for Parquet without pyarrow.
    """
    path = Path(path)
    _, write = _format(path)
    if write is None:
        raise ValueError(f"{path}: histories are not written as {path.suffix}")
    if bucketed_for is None:
        write(history, path)
    elif write is _write_parquet:
        _write_buckets(history, path, bucketed_for, bucket_rows)
    else:
        raise ValueError(f"{path}: only Parquet is written in buckets")


def _format(path: Path) -> tuple[Callable[..., History], Callable[[History, Path], None] | None]:
    try:
        return FORMATS[path.suffix]
    except KeyError:
        raise ValueError(f"{path}: the name of a history ends with one of {', '.join(FORMATS)}") from None
