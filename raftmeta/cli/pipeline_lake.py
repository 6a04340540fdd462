"""raftmeta pipeline feed, history, state: fill a lake or a topic with all changes, and ask a lake."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raftmeta.cli.pipeline_parts import answered, lake_master_option, master_option, shown
from raftmeta.cli.session import Session, pass_session, text_of
from raftmeta.errors import ConfigError
from raftmeta.spark import (
    ClientSource,
    FedTopic,
    FileSource,
    KafkaTopics,
    Lag,
    Lake,
    Progress,
    Source,
    changes,
    feed_topic,
    lake_of,
    merge,
    retain,
    spark_session,
    state,
)
from raftmeta.spark import feed as feed_lake
from raftmeta.spark.folders import write_table, written
from raftmeta.spark.jobs import told

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN_VALUE_MAX = 80  # characters
FOLDER = click.Path(path_type=Path)
# A lake; or a sealed file, of which one is made for the time of the command.
lake_argument = click.argument("lake", type=FOLDER)


class Time(click.ParamType[datetime.datetime, str]):
    """A time in ISO 8601; UTC where it names no zone."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, context: click.Context | None) -> datetime.datetime:
        if isinstance(value, datetime.datetime):
            return value
        try:
            at = datetime.datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no time, as in 2026-11-22T08:30:00+00:00", param, context)
        return at if at.tzinfo else at.replace(tzinfo=datetime.UTC)


@click.command()
@click.option("--out", type=FOLDER, help="The lake; made if it is not there.")
@click.option("--kafka", metavar="HOST:PORT,...", help="Brokers of Kafka, instead of a lake: fill --topic there.")
@click.option("--topic", help="A topic of Kafka that this feed alone fills; it must be there.")
@click.option("--kafka-setting", "settings", multiple=True, metavar="NAME=VALUE", help="Of librdkafka; repeat it.")
@click.option("--path", type=FOLDER, help="A backup, instead of the store at --url.")
@click.option(
    "--from", "first", type=click.IntRange(min=1), help="Revision of the first change in a new lake or topic."
)
@click.option("--follow", is_flag=True, help="Go on until Ctrl-C.")
@click.option("--allow-gap", is_flag=True, help="Go on behind what the store has compacted meanwhile; note the gap.")
@click.option(
    "--metrics", type=FOLDER, help="A text file for Prometheus: how far the lake or topic is behind the store."
)
@click.option("--merge", "merges", is_flag=True, help="Afterwards make one file of many small ones of a day.")
@click.option("--keep-days", type=click.FloatRange(min=0.0), help="Afterwards give up the days before.")
@master_option
@pass_session
def feed(
    session: Session,
    out: Path | None,
    kafka: str | None,
    topic: str | None,
    settings: tuple[str, ...],
    path: Path | None,
    first: int | None,
    follow: bool,
    allow_gap: bool,
    metrics: Path | None,
    merges: bool,
    keep_days: float | None,
    master: str,
) -> None:
    """Bring the lake --out, or a topic of Kafka, up to the newest revision of the store at --url, or of a backup.

    Every change is there once, whatever was killed before. Exit code 2: the feed failed, and the lake is whole.
    """
    if kafka is not None:
        with answered("feed"), shown() as tell:
            if out is not None or merges or keep_days is not None:
                raise ConfigError("kafka: --out, --merge and --keep-days are for a lake", field="kafka")
            fed_topic = _feed_topic(session, kafka, topic, settings, path, first, follow, allow_gap, metrics, tell)
        facts = {"last": fed_topic.last, "changes": fed_topic.changes, "keys": fed_topic.keys}
        session.show(
            facts,
            f"{fed_topic.changes:,} changes more, {fed_topic.keys:,} keys of a state; {topic} is at {fed_topic.last}",
        )
        return
    with answered("feed"), shown() as tell:
        if out is None:
            raise ConfigError("out: give --out, the folder of a lake, or --kafka and --topic", field="out")
        if path is not None and follow:
            raise ConfigError("follow: a file does not go on; follow the store at --url", field="follow")
        with _source(session, path) as source:
            fed = feed_lake(
                source,
                out,
                first=first,
                follow=follow,
                allow_gap=allow_gap,
                on_progress=lambda last, newest: tell("revisions", last, newest),
                on_lag=None if metrics is None else _written_to(metrics),
            )
        lake = fed.lake
        if merges or keep_days is not None:
            with spark_session(master, app="raftmeta pipeline feed") as spark, told(spark, "files", tell):
                if keep_days is not None:
                    before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=keep_days)
                    lake = retain(spark, out, before=before)
                if merges:
                    lake = merge(spark, out)
    facts = {"oldest": lake.oldest, "last": lake.last, "changes": fed.changes, "files": len(lake.files)}
    text = f"{fed.changes:,} changes more; revisions {lake.oldest} to {lake.last} in {len(lake.files)} files"
    session.show(facts, text + "".join(f"; {gap.first} to {gap.last} are missing" for gap in lake.gaps))


def _feed_topic(
    session: Session,
    servers: str,
    topic: str | None,
    settings: tuple[str, ...],
    path: Path | None,
    first: int | None,
    follow: bool,
    allow_gap: bool,
    metrics: Path | None,
    tell: Progress,
) -> FedTopic:
    if not topic:
        raise ConfigError("topic: give --topic with --kafka", field="topic")
    if path is not None and follow:
        raise ConfigError("follow: a file does not go on; follow the store at --url", field="follow")
    pairs = [one.partition("=") for one in settings]
    if not all(equals for _, equals, _ in pairs):
        raise ConfigError("kafka-setting: must be NAME=VALUE", field="kafka-setting")
    with (
        _source(session, path) as source,
        KafkaTopics(servers, topic, settings={name: value for name, _, value in pairs}) as topics,
    ):
        return feed_topic(
            source,
            topics,
            first=first,
            follow=follow,
            allow_gap=allow_gap,
            on_progress=lambda last, newest: tell("revisions", last, newest),
            on_lag=None if metrics is None else _written_to(metrics),
        )


def _written_to(path: Path) -> Callable[[Lag], None]:
    def write(lag: Lag) -> None:
        with written(path) as half:
            half.write_text(lag.prometheus(), encoding="utf-8")

    return write


@contextlib.contextmanager
def _source(session: Session, path: Path | None) -> Iterator[Source]:
    if path is not None:
        yield FileSource(path)
        return
    with session.client_of(session.url) as client:
        client.ready(session.timeout_s)
        yield ClientSource(client)


@click.command()
@lake_argument
@click.option("--key", help="Of this key.")
@click.option("--prefix", help="Of the keys with this prefix.")
@click.option("--since", type=Time(), help="ISO 8601; UTC without a zone.")
@click.option("--until", type=Time(), help="Before this time.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="The newest so many.")
@lake_master_option
@pass_session
def history(
    session: Session,
    lake: Path,
    key: str | None,
    prefix: str | None,
    since: datetime.datetime | None,
    until: datetime.datetime | None,
    limit: int,
    master: str | None,
) -> None:
    """Show who changed a key and when: the changes in the LAKE, oldest first."""
    app = "raftmeta pipeline history"
    with answered("history"), lake_of(lake) as held:
        if _is_answered_here(held, master):
            from raftmeta.spark.lake_answers import newest_changes

            newest = newest_changes(held, limit, since=since, until=until, key=key, prefix=prefix)
        else:
            with spark_session(master or "local[*]", app=app) as spark:
                found = changes(spark, held, since=since, until=until, key=key, prefix=prefix)
                newest = found.orderBy("revision", "sub", ascending=False).limit(limit).toArrow()
    columns = ("revision", "ts", "op", "key", "value", "lease", "version")
    rows = newest.sort_by([("revision", "ascending"), ("sub", "ascending")]).to_pylist()
    session.show_table([_shown(row, columns) for row in rows])
    for gap in held.gaps:
        click.echo(f"revisions {gap.first} to {gap.last} are missing: compacted before they were fetched", err=True)


@click.command(name="state")
@lake_argument
@click.option("--revision", type=click.IntRange(min=0), help="As of this revision; default the newest.")
@click.option("--at", type=Time(), help="As of this time: ISO 8601; UTC without a zone.")
@click.option("--prefix", help="Only keys with this prefix.")
@click.option("--out", type=FOLDER, help="Write a Parquet file with all of it, instead of showing the first keys.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Keys that are shown.")
@lake_master_option
@pass_session
def state_command(
    session: Session,
    lake: Path,
    revision: int | None,
    at: datetime.datetime | None,
    prefix: str | None,
    out: Path | None,
    limit: int,
    master: str | None,
) -> None:
    """Show all keys of the LAKE as of a revision or a time."""
    with answered("state"):
        if out is not None and out.suffix != ".parquet":
            raise ConfigError(f"out: {out} shall be a file that ends in .parquet", field="out")
        with lake_of(lake) as held:
            if _is_answered_here(held, master):
                table = _folded(held, revision, at, prefix)
                table = table if out is not None else table[:limit]
            else:
                with spark_session(master or "local[*]", app="raftmeta pipeline state") as spark:
                    found = state(spark, held, revision=revision, at=at, prefix=prefix).orderBy("key")
                    table = (found if out is not None else found.limit(limit)).toArrow()
        if out is not None:
            write_table(out, table)
    if out is not None:
        session.show({"keys": len(table), "out": str(out)}, f"{len(table):,} keys; {out}")
    else:
        columns = ("key", "value", "create_revision", "mod_revision", "version", "lease")
        session.show_table([_shown(row, columns) for row in table.to_pylist()])


def _is_answered_here(lake: Lake, master: str | None) -> bool:
    """Whether this process answers the question: nobody named Spark, and the lake is small."""
    if master is not None:
        return False
    from raftmeta.spark.lake_answers import is_small

    return is_small(lake)


def _folded(lake: Lake, revision: int | None, at: datetime.datetime | None, prefix: str | None) -> pa.Table:
    """The same state as raftmeta.spark.state, in order of keys."""
    import pyarrow as pa

    from raftmeta.spark.lake_answers import bounds_of, fold

    if revision is not None and at is not None:
        raise ConfigError("revision and at: give one of them")
    revision = lake.revision_at(at) if at is not None else lake.last if revision is None else revision
    table = fold(lake, revision, *bounds_of(None, prefix))
    return table.add_column(0, "at_revision", pa.array([revision] * len(table), pa.int64()))


def _shown(row: dict[str, Any], columns: tuple[str, ...]) -> dict[str, Any]:
    """A row for people: bytes as text, long ones cut, times as text."""
    shown_row: dict[str, Any] = {}
    for name in columns:
        value = row[name]
        if isinstance(value, bytes):
            text = text_of(value)
            value = text if len(text) <= SHOWN_VALUE_MAX else f"{text[:SHOWN_VALUE_MAX]}... ({len(value):,} bytes)"
        shown_row[name] = value.isoformat(timespec="milliseconds") if isinstance(value, datetime.datetime) else value
    return shown_row


COMMANDS = (feed, history, state_command)
