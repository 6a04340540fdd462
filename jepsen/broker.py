"""A broker of the system under test: one raftmeta node in a process, with a port for clients and callers of its own.

It stands for any program that embeds raftmeta, and uses public names only. `live` is the life of the process; the run
calls `ask` and `close` in it, `stop_asking` of jepsen/workers.py, and `hold_gil`, as a hung C extension does.

In a secure run it has TLS and encryption at rest. A lie is a mistake that is planted to see whether the run finds it: a
node is `deaf` to changes of its certificates, `lenient` with revoked ones, goes on with its first key (`keyless`), or
turns no rights on (`open`). Lies of observers are in jepsen/observing.py.

It ends with EXIT_NODE_STOPPED when its node had to stop (Fatal), and keeps the files.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import raftmeta
from jepsen.observing import lying
from jepsen.workers import Slot, Workers
from tests.processes.child import Parent

REPORT_S = 0.1
START_AGAIN_S = 0.5
EXIT_NODE_STOPPED = 3
REFUSED_CLIENTS = tuple(f"{port}_tls_handshakes_refused" for port in ("client", "zookeeper", "etcd"))
DOOR_ROLE = "zookeeper"  # of client processes that ask through doors: the tree of znodes
TLS_METRICS = ("tls_certificate_expires_s", "tls_readings", "tls_handshakes_refused", *REFUSED_CLIENTS)
KEYS_PER_PAGE = 1000


class Program:
    """node: of this process; face: to ask it. workers: its callers, which ask it too."""

    def __init__(self, parent: Parent, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._parent = parent
        self.node = raftmeta.Node(
            settings["name"],
            peers=settings["peers"],
            role=settings["role"],
            seeds=settings["seeds"],
            data_dir=settings["folder"],
            listen=settings["listen"],
            client_listen=settings["client_listen"],
            **settings["doors"],
            cluster=settings["cluster"],
            config=raftmeta.Config(**settings["config"]),
            tls=_tls_of(settings["tls"], settings["lies"]) if settings["tls"] else None,
            encryption=raftmeta.Encryption(key_file=settings["key_file"]) if settings["key_file"] else None,
        )
        self.lies: list[str] = settings["lies"]

    async def _start(self) -> None:
        """As under a supervisor: a start that finds no room changed nothing, and is tried again."""
        while True:
            try:
                self.node.start()
                return
            except raftmeta.NoSpace as error:
                print(f"not started: {error}", file=sys.stderr, flush=True)
                await asyncio.sleep(START_AGAIN_S)

    async def run(self) -> None:
        await self._start()
        self.node.log_events()
        self.face = self.node.aio()
        self.workers = self._make_workers()
        self._parent.serve(self, asyncio.get_running_loop())
        async with asyncio.TaskGroup() as group:
            group.create_task(self._report_on())
            group.create_task(self.workers.run())

    def _make_workers(self) -> Workers:
        settings = self._settings
        return Workers(
            lambda _workload: lying(self.face, self.lies if settings["role"] == "observer" else ()),
            [Slot(**slot) for slot in settings["slots"]],
            spools=Path(settings["spools"]),
            name=settings["name"],
            node=settings["name"],
            life=settings["life"],
            t0_ns=settings["t0_ns"],
            seed=settings["seed"],
        )

    async def _report_on(self) -> None:
        while self.node.is_running:
            status = self.node.status()
            if status.state == "stopped":
                print(f"the node stopped: {status}", file=sys.stderr, flush=True)
                os._exit(EXIT_NODE_STOPPED)
            self._parent.report({**dataclasses.asdict(status), **self.workers.report(), **self._of_tls()})
            await asyncio.sleep(REPORT_S)

    def _of_tls(self) -> dict[str, float]:
        """What the nemeses of certificates look for."""
        if not self._settings["tls"]:
            return {}
        metrics = self.node.metrics()
        return {word: metrics.get(word, 0.0) for word in TLS_METRICS}  # not each broker has a door


class _LenientTls(raftmeta.Tls):
    """Reads its files again when the lists of revoked ones change, and forgets the lists."""

    def read(self) -> Any:
        return dataclasses.replace(super().read(), revoked=None)


def _tls_of(files: dict[str, str], lies: list[str]) -> raftmeta.Tls:
    if "deaf" in lies:
        frozen = Path(f"{Path(files['key']).parent}-frozen-{os.getpid()}")
        shutil.copytree(Path(files["key"]).parent, frozen)
        files = {word: str(frozen / Path(path).name) for word, path in files.items()}
    kind = _LenientTls if "lenient" in lies else raftmeta.Tls
    return kind(
        certificate=files["certificate"], key=files["key"], authorities=files["authorities"], revoked=files["revoked"]
    )


async def live(parent: Parent, settings: dict[str, Any]) -> None:
    """The life of the process."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)
    await Program(parent, settings).run()


# --- called by the run ------------------------------------------------------------------------------------------------


async def ask(program: Program, verb: str, arguments: dict[str, Any]) -> Any:
    """A verb of the node about its members: members, add_member, remove_member, replace_member, promote, transfer."""
    found = await getattr(program.face, verb)(**arguments)
    return [dataclasses.asdict(member) for member in found] if verb == "members" else found


async def close(program: Program) -> None:
    """The quiet end of the node; then the process may be ended."""
    await asyncio.to_thread(program.node.close)


async def set_rights(
    program: Program, passwords: dict[str, str], grants: dict[str, list[Any]], certified: Sequence[str]
) -> None:
    """Make users and their roles, and ask everybody for rights from now on. grants: (rights, prefix) of each role.

    certified: users without a password, who may use the whole tree of the ZooKeeper doors, and all that the roles may.

    The last is left out where that is the lie.
    """
    auth = program.face.auth
    for user, password in passwords.items():
        await auth.put_user(user, password)
    for role, granted in grants.items():
        await auth.put_role(role)
        for rights, prefix in granted:
            await auth.grant(role, *rights, prefix=prefix)
        await auth.bind(role, role)
    if certified:
        await auth.put_role(DOOR_ROLE)
        await auth.grant(DOOR_ROLE, "read", "write", "watch", "lease", prefix=raftmeta.Config().zookeeper_root)
    for user in certified:
        await auth.put_user(user)
        for role in (DOOR_ROLE, *grants):
            await auth.bind(user, role)
    if "open" not in program.lies:
        await auth.enable()


async def catch_up(program: Program) -> None:
    """Return once this node has applied all that was decided before: it answers a linearizable read."""
    await program.face.get("caught-up")


async def find(program: Program, text: str) -> list[str]:
    """The keys that have this text in them or in their values."""
    found, start = [], b""
    while True:
        page = await program.face.range(start=start, limit=KEYS_PER_PAGE)
        found += [str(one.key) for one in page.records if text.encode() in one.key + b" " + one.value]
        if len(page.records) < KEYS_PER_PAGE:
            return found
        start = page.records[-1].key + b"\0"


async def read_keys(program: Program) -> str:
    """Let the node read its key file of encryption; the id of the key that it writes with."""
    if "keyless" in program.lies:
        return ""
    return await program.face.rotate_encryption_key()


async def keys_in_use(program: Program) -> dict[str, int]:
    """How many files need each key."""
    return await asyncio.to_thread(program.node.encryption_keys)
