"""The command line put together: options before the command, and the commands of each file.

A file is imported when the shell asks for one of its commands. The simulator, the checker and the pipeline import as
much as all the rest, and otherwise every command would wait for them.
"""

from __future__ import annotations

import importlib
import os

import click
from click.core import ParameterSource

import raftmeta
from raftmeta.cli.passwords import VARIABLE, password_of, token_of
from raftmeta.cli.session import Session, tls_of

# Which file of this package has which commands, under COMMANDS.
FILES = {
    "audit": ("audit",),
    "auth": ("auth",),
    "check": ("check",),
    "cluster": ("status", "hash", "transfer"),
    "conformance": ("tck", "tck-matrix"),
    "dashboard": ("dashboard",),
    "doctor": ("doctor",),
    "explain": ("explain",),
    "groups": ("group",),
    "keys": ("get", "put", "del", "range", "txn", "watch", "lease"),
    "members": ("member",),
    "migrate": ("migrate",),
    "pipeline": ("pipeline",),
    "pki": ("pki",),
    "serve": ("serve",),
    "sim": ("sim",),
    "recover": ("recover",),
    "snapshots": ("snapshot",),
    "znodes": ("znodes",),
}
FILE_OF = {command: file for file, commands in FILES.items() for command in commands}


class Commands(click.Group):
    """The commands of FILES, and those of this file."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*FILE_OF, *super().list_commands(ctx)])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in FILE_OF:
            return super().get_command(ctx, cmd_name)
        file = importlib.import_module(f"raftmeta.cli.{FILE_OF[cmd_name]}")
        found: click.Command = next(command for command in file.COMMANDS if command.name == cmd_name)
        return found


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--url",
    envvar="RAFTMETA_URL",
    default="raft://127.0.0.1:7700",
    show_default=True,
    help="Where the cluster is: raft://host:port,host:port or raft+unix:///folder of a node.",
)
@click.option("--below", metavar="PREFIX", default="", help="For commands on keys: only those that begin with PREFIX.")
@click.option("--cluster", envvar="RAFTMETA_CLUSTER", default="default", show_default=True, help="Its name.")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0.001), default=5.0, show_default=True, help="Seconds."
)
@click.option("--json", "is_json", is_flag=True, help="Answers as JSON.")
@click.option("--tls-ca", envvar="RAFTMETA_TLS_CA", metavar="FILE", help="Authorities that sign nodes' certificates.")
@click.option("--tls-cert", envvar="RAFTMETA_TLS_CERT", metavar="FILE", help="Certificate of this client.")
@click.option("--tls-key", envvar="RAFTMETA_TLS_KEY", metavar="FILE", help="Its private key.")
@click.option("--tls-crl", envvar="RAFTMETA_TLS_CRL", metavar="FILE", help="Lists of revoked certificates.")
@click.option("--user", envvar="RAFTMETA_USER", metavar="NAME", help="The user whose rights count, if rights are on.")
@click.option(
    "--password-file",
    envvar="RAFTMETA_PASSWORD_FILE",
    metavar="FILE",
    help=f"Its password, in the first line. Without it: the variable {VARIABLE}, or a prompt.",
)
@click.option(
    "--token-file",
    envvar="RAFTMETA_TOKEN_FILE",
    metavar="FILE",
    help="A token in the place of --user and its password, in the first line (auth token new).",
)
@click.version_option(raftmeta.__version__, prog_name="raftmeta")
@click.pass_context
def app(
    context: click.Context,
    url: str,
    below: str,
    cluster: str,
    timeout_s: float,
    is_json: bool,
    tls_ca: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    tls_crl: str | None,
    user: str | None,
    password_file: str | None,
    token_file: str | None,
) -> None:
    """Consensus inside your own processes: look at a cluster, read and write it, run a node.

    Exit codes: 0 done, 1 refused, no right or not found, 2 wrong use, 3 certainly not executed,
    4 outcome unknown, 5 stopped or damaged.
    """
    user_is_named = context.get_parameter_source("user") is ParameterSource.COMMANDLINE
    if token_file is not None and not user_is_named:
        user = password_file = None  # of the environment: a token counts in their place
    context.obj = Session(
        url=url,
        cluster=cluster,
        timeout_s=timeout_s,
        is_json=is_json,
        tls=tls_of(tls_ca, tls_cert, tls_key, tls_crl),
        user=user,
        below=below,
        password=password_of(user, password_file, os.environ.get(VARIABLE)),
        token=token_of(token_file, user),
    )


@app.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a SHELL: eval "$(raftmeta completion bash)"."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, f"click completes {shell}"
    click.echo(kind(app, {}, "raftmeta", "_RAFTMETA_COMPLETE").source())
