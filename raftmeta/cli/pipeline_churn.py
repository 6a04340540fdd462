"""raftmeta pipeline churn and sizes: the history of a broker cluster, and of its keys, from a lake or a backup."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

from raftmeta.cli.pipeline_lake import FOLDER, Time, lake_argument
from raftmeta.cli.pipeline_parts import answered, lake_master_option, master_option, shown
from raftmeta.cli.session import Session, pass_session
from raftmeta.spark import churn as churn_of
from raftmeta.spark import lake_of, layout_of
from raftmeta.spark import sizes as sizes_of
from raftmeta.spark.layout import KAFKA


@click.command()
@lake_argument
@click.option("--out", required=True, type=FOLDER, help="Folder for tables and report.")
@click.option("--layout", type=FOLDER, help="JSON file of the keys' layout; default Kafka's.")
@click.option("--since", type=Time(), help="ISO 8601; UTC without a zone. Default: all that the lake has.")
@click.option("--until", type=Time(), help="ISO 8601; UTC without a zone.")
@click.option("--window", type=click.IntRange(min=1), default=60, show_default=True, help="Seconds of a row of churn.")
@click.option(
    "--together", type=click.FloatRange(min=0.0), default=5.0, show_default=True, help="Seconds between brokers lost."
)
@click.option("--min-isr", type=click.IntRange(min=1), default=2, show_default=True, help="Of a partition.")
@click.option("--depth", type=click.IntRange(min=1), default=2, show_default=True, help="Parts of a prefix.")
@master_option
@pass_session
def churn(
    session: Session,
    lake: Path,
    out: Path,
    layout: Path | None,
    since: datetime.datetime | None,
    until: datetime.datetime | None,
    window: int,
    together: float,
    min_isr: int,
    depth: int,
    master: str,
) -> None:
    """Tell the history of the broker cluster in a LAKE: brokers, leaders, replicas, controllers, with a report."""
    with answered("churn"), shown() as tell, lake_of(lake) as held:
        churned = churn_of(
            held,
            out,
            layout=KAFKA if layout is None else layout_of(layout),
            since=since,
            until=until,
            window_s=window,
            together_s=together,
            min_isr=min_isr,
            depth=depth,
            master=master,
            on_progress=tell,
        )
    if session.is_json:
        session.show({"figures": churned.figures, "rows": churned.counts})
        return
    session.show_table([{"figure": name, "value": f"{value:,}"} for name, value in churned.figures.items()])
    click.echo(f"{churned.out}/report.html")


@click.command()
@lake_argument
@click.option("--revision", type=click.IntRange(min=0), help="As of this revision; default the newest.")
@click.option("--depth", type=click.IntRange(min=1), default=2, show_default=True, help="Parts of a prefix.")
@click.option("--out", type=FOLDER, help="A Parquet file to write as well.")
@lake_master_option
@pass_session
def sizes(session: Session, lake: Path, revision: int | None, depth: int, out: Path | None, master: str | None) -> None:
    """Count keys and bytes by prefix in a LAKE, and the changes and bytes that a watch of the prefix was sent."""
    with answered("sizes"), lake_of(lake) as held:
        table = sizes_of(held, out, depth=depth, revision=revision, master=master)
    session.show_table(table.to_pylist())


COMMANDS = (churn, sizes)
