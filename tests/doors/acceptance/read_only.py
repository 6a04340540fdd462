"""A minority serves read-only sessions to ZooKeeper's own client, which goes on by itself when the others are back."""

from __future__ import annotations

from contextlib import ExitStack

from tests.doors.acceptance.trial import Trial
from tests.doors.raw import RawSession, text
from tests.doors.servers import JAVA, Servers, four_letter
from tests.doors.software import ZOOKEEPER, compiled, java
from tests.processes.program import Program
from tests.processes.waiting import wait_until

SESSION_MS = 20_000  # longer than the others are away: the session must be there when they come back
CHANGE_S = 60.0
LOOK_S = 0.1
SURVIVOR = 0
WRITES = ("create /ro/new", "ephemeral /ro/new", "set /ro 2")


def run(trial: Trial) -> None:
    # A real ZooKeeper has this mode only where it is asked for, and for sessions that no other server knows.
    local = {"localSessionsEnabled": "true", "localSessionsUpgradingEnabled": "true"}
    real = {"settings": local, "properties": {"readonlymode.enabled": "true"}}
    options = real if trial.kind == "zookeeper" else {}
    with ExitStack() as stack:
        servers = stack.enter_context(trial.servers(**options))
        with trial.check("a client writes"):
            kept = stack.enter_context(client(trial, servers, "kept"))
            asked(kept, "wait CONNECTED", "CONNECTED")
            for command in ("create /ro", "ephemeral /ro/mine"):
                asked(kept, command, command.split()[1])
            asked(kept, "set /ro 1", "ok")
            session = kept.ask("session")
            _catch_up(servers)
        others = [number for number in range(len(servers.addresses)) if number != SURVIVOR]
        with trial.check("a minority goes on read-only"):
            for number in others:
                servers.kill(number)
            address = servers.addresses[SURVIVOR]
            wait_until(
                lambda: four_letter(address, "isro") == "ro", timeout_s=CHANGE_S, what="isro: ro", pause_s=LOOK_S
            )
            fresh = stack.enter_context(client(trial, servers, "fresh"))
            asked(fresh, "wait CONNECTEDREADONLY", "CONNECTEDREADONLY")
            asked(fresh, "get /ro", "1")
            asked(fresh, "owner /ro/mine", session)
            asked(fresh, "watch /ro", "ok")
        with trial.check("it takes no writes"):
            for command in WRITES:
                asked(fresh, command, "NOTREADONLY")
        with trial.check("it turns away who wants to write"):
            assert _is_turned_away(address, read_only=False)
            assert _is_turned_away(address, read_only=None)
            assert not _is_turned_away(address, read_only=True)
        with trial.check("with the others all write again"):
            for number in others:
                servers.begin_restart(number)
            for one in (kept, fresh):
                asked(one, "wait CONNECTED", "CONNECTED")
            assert kept.ask("session") == session
            assert fresh.ask("session") not in ("0", session)
            asked(kept, "owner /ro/mine", session)
            asked(fresh, "ephemeral /ro/new", "/ro/new")
            asked(kept, "sync /ro", "ok")
            asked(kept, "owner /ro/new", fresh.ask("session"))
        with trial.check("a watch of the minority is told"):
            asked(kept, "set /ro 2", "ok")
            asked(fresh, "event", "NodeDataChanged /ro")


def client(trial: Trial, servers: Servers, name: str) -> Program:
    command = [java(), *JAVA, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    command += ["-cp", compiled("ReadOnlyClient", ZOOKEEPER), "ReadOnlyClient", servers.connect, str(SESSION_MS)]
    return Program(command, log=trial.folder / f"{name}.log", talks=True)


def asked(one: Program, command: str, expected: str) -> None:
    answer = one.ask(command)
    assert answer == expected, f"{one.log.stem}: {command}: {answer}, not {expected}"


def _catch_up(servers: Servers) -> None:
    """The survivor has all that was committed: a client goes to no server that has less than it saw."""
    with RawSession(servers.addresses[SURVIVOR]) as session:
        session.do("sync", text("/"))
        session.close()


def _is_turned_away(address: str, *, read_only: bool | None) -> bool:
    """Whether a connect request is answered by a closed connection. read_only: None is the old, shorter form."""
    try:
        with RawSession(address, read_only=read_only):
            return False
    except (EOFError, ConnectionError):
        return True
