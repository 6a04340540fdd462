"""raftmeta znodes: read and change the znodes of a tree through any node that serves clients (docs/znodes.md).

Each command is one request, so it is done in one revision or not at all. It needs no ZooKeeper door.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import NoReturn

import click

import raftmeta
from raftmeta.cli.session import NO, Session, fail, pass_session, text_of
from raftmeta.operations import ZnodeOperation

# ZooKeeper's letters of the rights 1, 2, 4, 8 and 16, in the order in which zkCli shows them.
_LETTERS = ((4, "c"), (8, "d"), (1, "r"), (2, "w"), (16, "a"))
KINDS = ("persistent", "ephemeral", "container", "ttl")


@dataclass(frozen=True, slots=True)
class Tree:
    """The options before the command."""

    session: Session
    root: str
    identities: tuple[tuple[str, str], ...]

    def found(
        self, path: str, *, children: bool = False, revision: int = 0, local: bool = False
    ) -> raftmeta.ZnodeFound:
        """The znode; without one the command ends with exit code 1."""
        session = self.session
        with session.store() as store:
            found = store.znode(
                path, children=children, root=self.root, revision=revision, local=local, timeout_s=session.timeout_s
            )
        if found is None:
            self._none(path)
        return found

    def ask(self, operation: ZnodeOperation, *, lease: int = 0) -> raftmeta.ZnodesReply:
        session = self.session
        with session.store() as store:
            return store.znodes(
                [operation], lease=lease, identities=self.identities, root=self.root, timeout_s=session.timeout_s
            )

    def _none(self, path: str) -> NoReturn:
        fail(f"no znode {path!r} in the tree with the root {self.root!r}", NO)


pass_tree = click.make_pass_decorator(Tree)
_revision = click.option("--revision", type=int, default=0, help="As of this revision.")
_local = click.option("--local", is_flag=True, help="What the node asked has applied, without asking a quorum.")
_if_version = click.option(
    "--if-version", "version", type=click.IntRange(min=-1), default=-1, help="Refuse if the data has another version."
)


@click.group()
@click.option(
    "--root", default="zookeeper", show_default=True, help="The root of the tree, as zookeeper_root of the nodes."
)
@click.option(
    "--as",
    "identities",
    multiple=True,
    metavar="SCHEME:ID",
    help="Speak as this one to the lists of rights, as 'digest:user:hash'; only while rights of raftmeta are off.",
)
@pass_session
@click.pass_context
def znodes(context: click.Context, session: Session, root: str, identities: tuple[str, ...]) -> None:
    """Znodes: ls, get, stat, create, set, rm. A PATH looks like /brokers/ids."""
    pairs = [text.partition(":") for text in identities]
    context.obj = Tree(session, root, tuple((scheme, name) for scheme, _, name in pairs))


@znodes.command("ls")
@click.argument("path", default="/")
@_revision
@_local
@pass_tree
def list_(tree: Tree, path: str, revision: int, local: bool) -> None:
    """Print the names of the children of PATH, a line each. Exit code 1: there is no such znode."""
    found = tree.found(path, children=True, revision=revision, local=local)
    children = found.children or ()
    tree.session.show({"children": children, "revision": found.revision}, "\n".join(children))


@znodes.command("get")
@click.argument("path")
@_revision
@_local
@pass_tree
def get(tree: Tree, path: str, revision: int, local: bool) -> None:
    """Print the data of PATH. Exit code 1: there is no such znode."""
    found = tree.found(path, revision=revision, local=local)
    tree.session.show_raw(found, found.data or b"")


@znodes.command("stat")
@click.argument("path")
@_revision
@_local
@pass_tree
def stat(tree: Tree, path: str, revision: int, local: bool) -> None:
    """Print the kind, the counters and the list of rights of PATH. Exit code 1: there is no such znode."""
    found = tree.found(path, revision=revision, local=local)
    lines = [f"kind\t{found.znode.kind}"]
    lines += [f"{name}\t{number}" for name, number in found.stat._asdict().items()]
    lines += [f"acl\t{_right_text(*right)}" for right in found.znode.acl]
    tree.session.show({"kind": found.znode.kind, "stat": found.stat, "acl": found.znode.acl}, "\n".join(lines))


def _right_text(rights: int, scheme: bytes, name: bytes) -> str:
    letters = "".join(letter for bit, letter in _LETTERS if rights & bit)
    return f"{letters or '-'} {text_of(scheme)}:{text_of(name)}"


@znodes.command("create")
@click.argument("path")
@click.argument("data", default="")
@click.option("--kind", type=click.Choice(KINDS), default="persistent", show_default=True, help="What ends it.")
@click.option("--lease", type=int, default=0, help="The owner of an ephemeral.")
@click.option("--ttl", "ttl_s", type=click.FloatRange(min=0.001), help="Of a znode of the kind ttl, in seconds.")
@click.option("--sequential", is_flag=True, help="Put the number of the next child behind PATH.")
@pass_tree
def create(tree: Tree, path: str, data: str, kind: str, lease: int, ttl_s: float | None, sequential: bool) -> None:
    """Make a znode with DATA ("-": standard input; without it, empty) and print its path. Its parent must exist."""
    if (kind == "ttl") != (ttl_s is not None):
        raise click.UsageError("--kind ttl and --ttl belong together")
    if (kind == "ephemeral") != (lease != 0):
        raise click.UsageError("--kind ephemeral and --lease belong together")
    ttl_ms = 0 if ttl_s is None else round(ttl_s * 1000)
    operation = raftmeta.ZnodeCreate(path, _raw(data), kind=kind, sequential=sequential, ttl_ms=ttl_ms)
    created = tree.ask(operation, lease=lease).results[0]
    assert isinstance(created, raftmeta.ZnodeCreated)
    tree.session.show(created, created.path)


@znodes.command("set")
@click.argument("path")
@click.argument("data")
@_if_version
@pass_tree
def set_(tree: Tree, path: str, data: str, version: int) -> None:
    """Set the data of PATH to DATA ("-": standard input) and print its new version."""
    stat = tree.ask(raftmeta.ZnodeSetData(path, _raw(data), version)).results[0]
    assert isinstance(stat, raftmeta.ZnodeStat)
    tree.session.show(stat, str(stat.version))


@znodes.command("rm")
@click.argument("path")
@_if_version
@pass_tree
def remove(tree: Tree, path: str, version: int) -> None:
    """Remove PATH, which has no children, and print the revision."""
    reply = tree.ask(raftmeta.ZnodeDelete(path, version))
    tree.session.show({"revision": reply.revision}, str(reply.revision))


def _raw(data: str) -> bytes:
    return sys.stdin.buffer.read() if data == "-" else data.encode()


COMMANDS = (znodes,)
