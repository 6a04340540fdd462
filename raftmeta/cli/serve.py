"""raftmeta serve: one node as a process of its own, for clients in other processes and for trying things out."""

from __future__ import annotations

import dataclasses
import logging
import signal
import sys
import threading
import tomllib
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import quote

import click

import raftmeta
from raftmeta.cli.session import WRONG_USE, fail, fates, tls_of

LOOK_S = 0.2


def _key_file(_context: click.Context, _option: click.Parameter, path: Path | None) -> raftmeta.Encryption | None:
    return None if path is None else raftmeta.Encryption(key_file=path)


encryption_option = click.option(
    "--encryption-key-file",
    "encryption",
    type=click.Path(path_type=Path),
    callback=_key_file,
    metavar="FILE",
    help="Keys of encrypted files, one of 64 hex digits a line; the first one encrypts new files.",
)


def peers_of(pairs: tuple[str, ...]) -> dict[str, str]:
    """From NAME=HOST:PORT of each."""
    peers: dict[str, str] = {}
    for pair in pairs:
        name, equals, address = pair.partition("=")
        if not equals or name in peers:
            raise click.BadParameter(f"{pair!r} is not NAME=HOST:PORT, each name once", param_hint="--peer")
        peers[name] = address
    return peers


def config_of(
    path: Path | None,
    insecure: bool,
    has_rights: bool,
    has_local_clients: bool = False,
    etcd_prefix: str | None = None,
) -> raftmeta.Config:
    """Settings from a TOML file whose names are those of Config."""
    settings: dict[str, Any] = {}
    if path is not None:
        try:
            settings = tomllib.loads(path.read_text())
        except (OSError, ValueError) as error:
            fail(f"--config {path}: {error}", WRONG_USE)
        known = {setting.name for setting in dataclasses.fields(raftmeta.Config)}
        if unknown := sorted(set(settings) - known):
            fail(f"--config {path}: no such setting: {', '.join(unknown)}", WRONG_USE)
    if insecure:
        settings["insecure"] = True
    if has_rights:
        settings["rights_required"] = True
    if has_local_clients:
        settings["local_clients"] = True
    if etcd_prefix is not None:
        settings["etcd_prefix"] = etcd_prefix
    return raftmeta.Config(**settings)


@click.command()
@click.option("--name", required=True, help="This node's name.")
@click.option(
    "--peer",
    "peers",
    multiple=True,
    metavar="NAME=HOST:PORT",
    help="Each initial member, this node too.",
)
@click.option("--observer", "is_observer", is_flag=True, help="Hold no place in the membership (docs/observers.md).")
@click.option(
    "--seed", "seeds", multiple=True, metavar="NAME=HOST:PORT", help="Of an observer: a member or another observer."
)
@click.option("--data", "data_dir", required=True, type=click.Path(path_type=Path), help="The node's folder.")
@click.option("--listen", metavar="HOST:PORT", help="Where to accept peers; default: its own address in --peer.")
@click.option("--advertise", metavar="HOST:PORT", help="What peers are told to connect to.")
@click.option("--clients", "client_listen", metavar="HOST:PORT", help="Where to accept clients (raft://).")
@click.option(
    "--zookeeper",
    "zookeeper_listen",
    metavar="HOST:PORT",
    help="Where to accept ZooKeeper's clients (docs/zookeeper.md).",
)
@click.option(
    "--kafka",
    "kafka_listen",
    metavar="HOST:PORT",
    help="Where to accept Kafka's clients (docs/kafka.md).",
)
@click.option(
    "--etcd",
    "etcd_listen",
    metavar="HOST:PORT",
    help="Where to accept etcd's clients (docs/etcd.md).",
)
@click.option("--etcd-prefix", metavar="TEXT", help="Show etcd's clients only the keys that begin so, without it.")
@click.option("--http", "http_listen", metavar="HOST:PORT", help="Serve the REST protocol there (docs/rest.md).")
@click.option("--http-cert", metavar="FILE", help="Certificate of the REST server, which then speaks https.")
@click.option("--http-key", metavar="FILE", help="Its private key.")
@click.option("--http-ca", metavar="FILE", help="Serve only clients whose certificate one of these authorities signed.")
@click.option("--metrics", "metrics_listen", metavar="HOST:PORT", help="HTTP: /metrics, /livez and /readyz.")
@click.option("--cluster", default="default", show_default=True, help="Name of the cluster.")
@click.option(
    "--config", "config_path", type=click.Path(path_type=Path), help="TOML file with settings of raftmeta.Config."
)
@encryption_option
@click.option(
    "--rights",
    "has_rights",
    is_flag=True,
    help="Serve no client while rights are off; print the one-time token of the first admin at the founding.",
)
@click.option("--new-admin-token", is_flag=True, help="Print such a token once more: it was lost, or no admin is left.")
@click.option("--insecure", is_flag=True, help="Allow addresses that other machines reach, without encryption.")
@click.option("--tls-ca", metavar="FILE", help="Authorities that sign certificates of nodes and clients.")
@click.option("--tls-cert", metavar="FILE", help="This node's certificate (docs/security.md).")
@click.option("--tls-key", metavar="FILE", help="Its private key.")
@click.option("--tls-crl", metavar="FILE", help="Lists of revoked certificates.")
@click.option("--tls-key-password-file", metavar="FILE", help="The password of the key, in its first line.")
@click.option("--tls-accept-plain", is_flag=True, help="Speak without TLS too, while a cluster moves.")
@click.option("--audit-folder", metavar="FOLDER", help="Record there who asks for what (docs/security.md).")
@click.option("--audit-reads", is_flag=True, help="Record reads and watches too.")
@click.option("--audit-writes", is_flag=True, help="Record writes, leases and sessions too.")
@click.option("--audit-hash-keys", is_flag=True, help="Record a keyed hash in the place of each key.")
@click.option("--audit-key-file", metavar="FILE", help="At least 32 secret bytes: of the chain, and of hashes of keys.")
@click.option("--audit-file-bytes", type=int, metavar="N", help="Begin another file after so many bytes.")
@click.option("--audit-files", type=int, metavar="N", help="Keep so many files.")
@click.option("--audit-required", is_flag=True, help="Refuse what must be recorded and cannot be.")
def serve(
    name: str,
    peers: tuple[str, ...],
    is_observer: bool,
    seeds: tuple[str, ...],
    data_dir: Path,
    listen: str | None,
    advertise: str | None,
    client_listen: str | None,
    zookeeper_listen: str | None,
    kafka_listen: str | None,
    etcd_listen: str | None,
    etcd_prefix: str | None,
    http_listen: str | None,
    http_cert: str | None,
    http_key: str | None,
    http_ca: str | None,
    metrics_listen: str | None,
    cluster: str,
    config_path: Path | None,
    encryption: raftmeta.Encryption | None,
    has_rights: bool,
    new_admin_token: bool,
    insecure: bool,
    tls_ca: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    tls_crl: str | None,
    tls_key_password_file: str | None,
    tls_accept_plain: bool,
    audit_folder: str | None,
    **audit_settings: Any,
) -> None:
    """Run one node until SIGTERM or Ctrl-C; its events go to standard error, one line each.

    SIGHUP makes it read the key file of encryption and the files of TLS anew; a node with neither ignores it. All other
    settings are read once, at the start.
    """
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    ended, hung_up = threading.Event(), threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    # Of a terminal that closes, or of a tool that rotates logs: it must not end the node.
    signal.signal(signal.SIGHUP, lambda _number, _frame: hung_up.set())
    tls = tls_of(tls_ca, tls_cert, tls_key, tls_crl, password_file=tls_key_password_file, accept_plain=tls_accept_plain)
    with fates():
        node = raftmeta.Node(
            name,
            peers=None if is_observer and not peers else peers_of(peers),
            role="observer" if is_observer else "member",
            seeds=seeds,
            data_dir=data_dir,
            listen=listen,
            advertise=advertise,
            client_listen=client_listen,
            zookeeper_listen=zookeeper_listen,
            kafka_listen=kafka_listen,
            etcd_listen=etcd_listen,
            cluster=cluster,
            config=config_of(config_path, insecure, has_rights, http_listen is not None, etcd_prefix),
            encryption=encryption,
            tls=tls,
            audit=_audit(audit_folder, audit_settings),
        )
        with node:
            log = node.log_events()
            rest = _rest_server(data_dir, http_listen, cluster, (http_cert, http_key, http_ca), insecure)
            with _metrics_server(node, metrics_listen, insecure), rest:
                click.echo(f"raftmeta: {name} runs", err=True)
                wants_token = has_rights or new_admin_token
                while not ended.wait(LOOK_S) and log.is_alive():
                    if wants_token:
                        wants_token = not _found_rights(node, renew=new_admin_token)
                    if hung_up.is_set():
                        hung_up.clear()
                        _rotate(node, encryption)
                        _reload(node)
            if not ended.is_set():
                node.ready(0)  # the node has stopped by itself: this raises why
    click.echo(f"raftmeta: {name} has ended", err=True)


def _audit(folder: str | None, settings: dict[str, Any]) -> raftmeta.Audit | None:
    """From the options --audit-*: those that were given."""
    given = {name.removeprefix("audit_"): value for name, value in settings.items() if value}
    if given.pop("hash_keys", False):
        given["keys"] = "hash"
    if folder is None and given:
        raise click.UsageError("--audit-folder says where the audit trail is; the other options --audit-* need it")
    return None if folder is None else raftmeta.Audit(folder=folder, **given)


def _found_rights(node: raftmeta.Node, *, renew: bool) -> bool:
    """Print the token of the first admin, once. False: the cluster cannot take it yet."""
    if not node.status().is_ready:
        return False
    try:
        token = node.auth.founding_token(renew=renew, timeout_s=30)
    except raftmeta.NotExecuted:
        return False
    except raftmeta.OutcomeUnknown:
        click.echo("raftmeta: the token of the first admin may be lost: start with --new-admin-token", err=True)
        return True
    if token is not None:
        click.echo(f"raftmeta: one-time token of the first admin: {token}", err=True)
    return True


def _rotate(node: raftmeta.Node, encryption: raftmeta.Encryption | None) -> None:
    if encryption is None:
        return
    try:
        click.echo(f"raftmeta: new files use key {node.rotate_encryption_key()}", err=True)
    except raftmeta.RaftmetaError as error:
        click.echo(f"raftmeta: the keys stay as they are: {error}", err=True)


def _reload(node: raftmeta.Node) -> None:
    if node.tls is None:
        return
    try:
        node.reload_tls()
    except raftmeta.ConfigError as error:
        logging.getLogger("raftmeta").warning("tls_not_renewed node=%s: %s", node.name, error)


def _metrics_server(node: raftmeta.Node, address: str | None, insecure: bool) -> AbstractContextManager[object]:
    if address is None:
        return nullcontext()
    try:
        from raftmeta import prometheus
    except ModuleNotFoundError:
        fail("--metrics needs prometheus-client: pip install 'raftmeta[prometheus]'", WRONG_USE)
    return prometheus.serve(node, address, insecure=insecure)


def _rest_server(
    data_dir: Path, address: str | None, cluster: str, files: tuple[str | None, ...], insecure: bool
) -> AbstractContextManager[object]:
    """It is a client of the node through its folder: so the rights of each principal hold."""
    if address is None:
        return nullcontext()
    try:
        from raftmeta import rest
    except ModuleNotFoundError:
        fail("--http needs Starlette and uvicorn: pip install 'raftmeta[web]'", WRONG_USE)
    certificate, key, authorities = files
    return rest.serve(
        f"raft+unix://{quote(str(data_dir.absolute()))}",
        address,
        cluster=cluster,
        certificate=certificate,
        key=key,
        authorities=authorities,
        insecure=insecure,
    )


COMMANDS = (serve,)
