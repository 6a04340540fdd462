"""raftmeta doctor: a look at a host before a node runs there."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from click.core import ParameterSource

import raftmeta
from raftmeta import doctor as examination
from raftmeta.cli.cluster import statuses
from raftmeta.cli.serve import config_of, peers_of
from raftmeta.cli.session import Session, fates, pass_session, tls_of

MARKS = {"ok": "ok     ", "unknown": "?      ", "warning": "warning", "failure": "FAILURE"}
COLOURS = {"ok": "green", "unknown": "cyan", "warning": "yellow", "failure": "red"}
FAILED = 1


@click.command()
@click.option("--name", required=True, help="The name of the node that will run here.")
@click.option(
    "--peer", "peers", multiple=True, required=True, metavar="NAME=HOST:PORT", help="Each member, this node too."
)
@click.option("--data", "data_dir", required=True, type=click.Path(path_type=Path), help="The node's folder.")
@click.option("--listen", metavar="HOST:PORT", help="Where it accepts peers; default: its own address in --peer.")
@click.option("--advertise", metavar="HOST:PORT", help="The address that peers are told to connect to.")
@click.option("--config", "config_path", type=click.Path(path_type=Path), help="TOML file with settings of Config.")
@click.option("--insecure", is_flag=True, help="Allow addresses that other machines reach, without encryption.")
@click.option("--tls-ca", metavar="FILE", help="Authorities that sign certificates of nodes and clients.")
@click.option("--tls-cert", metavar="FILE", help="The node's certificate.")
@click.option("--tls-key", metavar="FILE", help="Its private key.")
@click.option("--tls-crl", metavar="FILE", help="Lists of revoked certificates.")
@click.option("--tls-key-password-file", metavar="FILE", help="The password of the key, in its first line.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0, max=600),
    default=3.0,
    show_default=True,
    help="Seconds to wait for connections of the other hosts.",
)
@pass_session
@click.pass_context
def doctor(
    context: click.Context,
    session: Session,
    name: str,
    peers: tuple[str, ...],
    data_dir: Path,
    listen: str | None,
    advertise: str | None,
    config_path: Path | None,
    insecure: bool,
    tls_ca: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    tls_crl: str | None,
    tls_key_password_file: str | None,
    wait_s: float,
) -> None:
    """Check this host before a node runs here: disk, clock, limits, addresses both ways, certificates.

    Run it on all hosts at the same time, or while their nodes run. With --url it also compares the versions of the
    nodes that answer there. One line a finding, and below it what to do. Exit code 1: at least one is a FAILURE.
    """
    tls = tls_of(tls_ca, tls_cert, tls_key, tls_crl, password_file=tls_key_password_file)
    found: list[examination.Finding] = []
    with fates():
        examined = examination.examine(
            name,
            peers=peers_of(peers),
            data_dir=data_dir,
            listen=listen,
            advertise=advertise,
            cluster=session.cluster,
            config=config_of(config_path, insecure, has_rights=False),
            tls=tls,
            wait_s=wait_s,
        )
        for finding in examined:
            found.append(finding)
            _tell(session, finding)
        if context.find_root().get_parameter_source("url") is not ParameterSource.DEFAULT:
            found.append(_nodes(session))
            _tell(session, found[-1])
    if session.is_json:
        session.show([asdict(finding) for finding in found])
    if any(finding.level == "failure" for finding in found):
        context.exit(FAILED)


def _tell(session: Session, finding: examination.Finding) -> None:
    """As soon as it is known: the checks of syncs and of addresses take seconds."""
    if session.is_json:
        return
    mark = click.style(MARKS[finding.level], fg=COLOURS[finding.level])
    click.echo(f"{mark}  {finding.check}: {finding.text}")
    if finding.advice:
        click.echo(f"         -> {finding.advice}")


def _nodes(session: Session) -> examination.Finding:
    """The versions of the nodes that run, beside each other."""
    answers = statuses(session)
    versions = {status.name: status.version for _, status, _ in answers if status}
    told = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    silent = ", ".join(url for url, status, _ in answers if status is None)
    if silent:
        return examination.Finding("nodes", "warning", f"no answer from {silent}", "`raftmeta status` says why")
    if set(versions.values()) == {raftmeta.__version__}:
        return examination.Finding("nodes", "ok", f"they run the version of this host: {told}")
    return examination.Finding(
        "nodes",
        "warning",
        f"this host has {raftmeta.__version__}; they run {told}",
        'upgrade one node after the other: docs/operations.md "Upgrade"',
    )


COMMANDS = (doctor,)
