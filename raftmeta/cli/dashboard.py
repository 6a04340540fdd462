"""raftmeta dashboard: a page to look at the cluster with, in a browser."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from types import FrameType

import click

from raftmeta.cli.session import STOPPED, WRONG_USE, Session, fail, fates, pass_session

LOOK_S = 0.2


@click.command()
@click.option("--listen", default="127.0.0.1:7780", show_default=True, metavar="HOST:PORT", help="Where the page is.")
@click.option(
    "--allow-changes", is_flag=True, help="Offer to promote, demote and remove members, and to move the lead."
)
@click.option("--cert", metavar="FILE", help="Certificate of the page, which is then at https://.")
@click.option("--key", metavar="FILE", help="Its private key.")
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="A name under which browsers ask for the page.")
@click.option("--insecure", is_flag=True, help="Allow an address that other machines reach, without encryption.")
@pass_session
def dashboard(
    session: Session,
    listen: str,
    allow_changes: bool,
    cert: str | None,
    key: str | None,
    hosts: tuple[str, ...],
    insecure: bool,
) -> None:
    """Serve a page that shows the cluster of the URL, until SIGTERM or Ctrl-C (docs/dashboard.md).

    Visitors log in as users of the cluster, with a password or a token, and see what these may read. --user and
    --token-file are of the dashboard itself: it watches who leads with them while nobody has logged in.
    """
    try:
        from raftmeta import dashboard as page
    except ModuleNotFoundError:
        fail("dashboard needs Starlette and uvicorn: pip install 'raftmeta[web]'", WRONG_USE)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(message)s")
    logging.getLogger("raftmeta.dashboard").setLevel(logging.INFO)
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    with fates():
        server = page.serve(
            session.url,
            listen,
            cluster=session.cluster,
            tls=session.tls,
            user=session.user,
            password=None if session.password is None else session.password(),
            token=None if session.token is None else session.token(),
            certificate=cert,
            key=key,
            hosts=hosts,
            allow_changes=allow_changes,
            insecure=insecure,
        )
    with server:
        click.echo(f"raftmeta: the dashboard is at {server.url}", err=True)
        while not ended.wait(LOOK_S) and server.is_running:
            pass
    if not ended.is_set():
        fail("the dashboard has stopped: see its log", STOPPED)
    click.echo("raftmeta: the dashboard has ended", err=True)


COMMANDS = (dashboard,)
