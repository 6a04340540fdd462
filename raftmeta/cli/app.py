"""The command line put together: options before the command, and the commands of each file."""

from __future__ import annotations

import click

import raftmeta
from raftmeta.cli.check import COMMANDS as CHECK
from raftmeta.cli.cluster import COMMANDS as CLUSTER
from raftmeta.cli.conformance import COMMANDS as CONFORMANCE
from raftmeta.cli.keys import COMMANDS as KEYS
from raftmeta.cli.members import COMMANDS as MEMBERS
from raftmeta.cli.migrate import COMMANDS as MIGRATE
from raftmeta.cli.pipeline import COMMANDS as PIPELINE
from raftmeta.cli.serve import COMMANDS as SERVE
from raftmeta.cli.session import Session
from raftmeta.cli.sim import COMMANDS as SIM
from raftmeta.cli.snapshots import COMMANDS as SNAPSHOTS


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--url",
    envvar="RAFTMETA_URL",
    default="raft://127.0.0.1:7700",
    show_default=True,
    help="Where the cluster is: raft://host:port,host:port or raft+unix:///folder of a node.",
)
@click.option("--cluster", envvar="RAFTMETA_CLUSTER", default="default", show_default=True, help="Its name.")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0.001), default=5.0, show_default=True, help="Seconds."
)
@click.option("--json", "is_json", is_flag=True, help="Answers as JSON.")
@click.version_option(raftmeta.__version__, prog_name="raftmeta")
@click.pass_context
def app(context: click.Context, url: str, cluster: str, timeout_s: float, is_json: bool) -> None:
    """Consensus inside your own processes: look at a cluster, read and write it, run a node.

    Exit codes: 0 done, 1 refused or not found, 2 wrong use, 3 certainly not executed, 4 outcome unknown, 5 stopped or
    damaged.
    """
    context.obj = Session(url=url, cluster=cluster, timeout_s=timeout_s, is_json=is_json)


for command in (*CLUSTER, *MEMBERS, *KEYS, *SNAPSHOTS, *MIGRATE, *SERVE, *CONFORMANCE, *CHECK, *PIPELINE, *SIM):
    app.add_command(command)


@app.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a SHELL: eval "$(raftmeta completion bash)"."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, f"click completes {shell}"
    click.echo(kind(app, {}, "raftmeta", "_RAFTMETA_COMPLETE").source())
