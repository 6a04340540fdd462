"""Commands on keys: get, put, del, range, txn, watch, lease."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TypeVar

import click

import raftmeta
from raftmeta.cli.session import NO, Session, fail, pass_session, plain, text_of
from raftmeta.cli.transaction_text import parse_compare, parse_operation

Parsed = TypeVar("Parsed")


def _record_line(record: raftmeta.KeyRecord) -> str:
    return f"{text_of(record.key)}\t{text_of(record.value)}"


@click.command()
@click.argument("key")
@click.option("--revision", type=int, default=0, help="As of this revision.")
@click.option("--local", is_flag=True, help="What the node asked has applied, without asking a quorum.")
@pass_session
def get(session: Session, key: str, revision: int, local: bool) -> None:
    """Print the value of KEY. Exit code 1: there is no such key."""
    with session.store() as client:
        record = client.get(key, revision=revision, local=local, timeout_s=session.timeout_s)
        if record is None:
            fail(f"no key {key!r}", NO)
        session.show_raw(record, record.value)


@click.command()
@click.argument("key")
@click.argument("value", required=False)
@click.option("--lease", type=int, default=0, help="Attach the key to this lease.")
@click.option("--create", "must_be_new", is_flag=True, help="Refuse if the key exists.")
@click.option("--update", "must_exist", is_flag=True, help="Refuse if the key does not exist.")
@pass_session
def put(session: Session, key: str, value: str | None, lease: int, must_be_new: bool, must_exist: bool) -> None:
    """Set KEY to VALUE, or to the text on standard input, and print the revision."""
    if must_be_new and must_exist:
        raise click.UsageError("--create and --update exclude each other")
    raw = sys.stdin.buffer.read() if value is None else value.encode()
    with session.store() as client:
        if must_be_new:
            revision = client.create(key, raw, lease=lease, timeout_s=session.timeout_s)
        elif must_exist:
            revision = client.update(key, raw, lease=lease, timeout_s=session.timeout_s)
        else:
            revision = client.put(key, raw, lease=lease, timeout_s=session.timeout_s)
        session.show(revision, str(int(revision)))


@click.command("del")
@click.argument("key")
@click.option("--prefix", is_flag=True, help="Every key that begins with KEY; at most 10,000.")
@pass_session
def delete(session: Session, key: str, prefix: bool) -> None:
    """Remove KEY and print how many keys were removed. Exit code 1: none."""
    with session.store() as client:
        if prefix:
            revision = client.delete_range(prefix=key, timeout_s=session.timeout_s)
            count = revision.result
        else:
            revision = client.delete(key, timeout_s=session.timeout_s, previous=True)
            count = int(revision.result is not None)
        session.show({"revision": revision.revision, "deleted": count}, str(count))
        if not count:
            sys.exit(NO)


@click.command("range")
@click.argument("start", default="")
@click.argument("end", default="")
@click.option("--prefix", help="Keys that begin with this, instead of START and END.")
@click.option("--delimiter", help="Keys that have this behind the prefix are shown once, as what they begin with.")
@click.option("--limit", type=click.IntRange(min=0), default=0, help="At most so many; 0: all.")
@click.option("--revision", type=int, default=0, help="As of this revision.")
@click.option("--local", is_flag=True, help="What the node asked has applied, without asking a quorum.")
@click.option("--keys", "keys_only", is_flag=True, help="Without values.")
@click.option("--count", "count_only", is_flag=True, help="Only how many.")
@pass_session
def range_(
    session: Session,
    start: str,
    end: str,
    prefix: str | None,
    delimiter: str | None,
    limit: int,
    revision: int,
    local: bool,
    keys_only: bool,
    count_only: bool,
) -> None:
    """Print keys and values from START up to, without, END (empty: to the last key), a line each."""
    with session.store() as client:
        found = client.range(
            start,
            end,
            prefix=prefix,
            delimiter=delimiter,
            limit=limit,
            revision=revision,
            local=local,
            keys_only=keys_only,
            count_only=count_only,
            timeout_s=session.timeout_s,
        )
        if count_only:
            session.show({"count": found.count}, str(found.count))
            return
        lines: list[raftmeta.KeyRecord | bytes] = [*found.records, *found.prefixes]
        for line in sorted(lines, key=lambda line: line if isinstance(line, bytes) else line.key):
            if isinstance(line, bytes):
                session.show({"prefix": line}, text_of(line))
            else:
                session.show(line, text_of(line.key) if keys_only else _record_line(line))


@click.command()
@click.option("--if", "compares", multiple=True, metavar="COMPARE", help="'version(KEY) = 0', 'value(KEY) = x', ...")
@click.option(
    "--then", "then", multiple=True, metavar="OPERATION", help="'put KEY VALUE', 'delete KEY', 'get KEY', ..."
)
@click.option("--else", "otherwise", multiple=True, metavar="OPERATION", help="Done when a compare fails.")
@pass_session
def txn(session: Session, compares: tuple[str, ...], then: tuple[str, ...], otherwise: tuple[str, ...]) -> None:
    """Do every --then if every --if holds, else every --else, in one revision. Exit code 1: a compare failed."""
    with session.store() as client:
        reply = client.txn(
            _parse_all(parse_compare, compares, "--if"),
            _parse_all(parse_operation, then, "--then"),
            _parse_all(parse_operation, otherwise, "--else"),
            timeout_s=session.timeout_s,
        )
        lines = [f"{'succeeded' if reply.succeeded else 'failed'} revision={reply.revision}"]
        lines += [_result_text(result) for result in reply.results]
        session.show(reply, "\n".join(lines))
        if not reply.succeeded:
            sys.exit(NO)


def _parse_all(parse: Any, texts: Iterable[str], option: str) -> list[Any]:
    try:
        return [parse(text) for text in texts]
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def _result_text(result: Any) -> str:
    if isinstance(result, raftmeta.KeyRecord):
        return _record_line(result)
    if isinstance(result, raftmeta.RangeResult):
        return "\n".join(_record_line(record) for record in result.records) or "-"
    return "-" if result is None else str(plain(result))


@click.command()
@click.argument("key")
@click.option("--prefix", is_flag=True, help="Every key that begins with KEY.")
@click.option("--from-revision", type=int, default=0, help="Begin in the past; 0: now.")
@click.option("--count", type=click.IntRange(min=0), default=0, help="End after so many changes; 0: never.")
@pass_session
def watch(session: Session, key: str, prefix: bool, from_revision: int, count: int) -> None:
    """Print every change of KEY, one line each, until interrupted."""
    seen = 0
    with session.store() as client:
        target: dict[str, Any] = {"prefix": key} if prefix else {"key": key}
        with client.watch(**target, start_revision=from_revision) as events:
            for event in events:
                if isinstance(event, raftmeta.WatchReset):  # never without reset=True
                    continue
                session.show(event, f"{event.revision}\t{event.type}\t{_record_line(event.record)}")
                sys.stdout.flush()
                seen += 1
                if seen == count:
                    break


@click.group()
def lease() -> None:
    """Leases: the keys attached to a lease are removed when it runs out."""


@lease.command("hold")
@click.argument("ttl_s", type=float)
@click.option("--id", "lease_id", type=int, default=0, help="Chosen id; 0: drawn.")
@pass_session
def hold(session: Session, ttl_s: float, lease_id: int) -> None:
    """Grant a lease of TTL_S seconds, print its id, and keep it alive until interrupted or lost (exit code 1)."""
    with session.client() as client, client.lease(ttl_s, id=lease_id, timeout_s=session.timeout_s) as held:
        session.show({"lease": held.id, "ttl_s": held.ttl_s}, str(held.id))
        sys.stdout.flush()
        held.wait_lost()
        fail(f"lease {held.id} was lost", NO)


COMMANDS = (get, put, delete, range_, txn, watch, lease)
