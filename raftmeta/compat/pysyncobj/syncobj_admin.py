"""The command of PySyncObj's administrators: status, add, remove, set_version, transfer."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from raftmeta.compat.pysyncobj.utility import TcpUtility, UtilityException

__all__ = ["executeAdminCommand", "main"]

PORT_MAX = 65_535


def _is_address(text: str | None) -> bool:
    host, _, port = (text or "").rpartition(":")
    return bool(host) and port.isascii() and port.isdecimal() and 0 < int(port) <= PORT_MAX


def executeAdminCommand(args: Sequence[str]) -> str:
    """Ask the node that -conn names, and return what it says as text."""
    parser = argparse.ArgumentParser(prog="syncobj_admin")
    parser.add_argument("-conn", dest="connection", help="address of the node to ask")
    parser.add_argument("-pass", dest="password", help="the cluster's password")
    parser.add_argument("-status", action="store_true", help="show what the node knows")
    parser.add_argument("-add", help="add the node at this address")
    parser.add_argument("-remove", help="remove the node at this address")
    parser.add_argument("-set_version", dest="version", type=int, help="enable this code version")
    parser.add_argument("-transfer", nargs="?", const="", help="let another node lead; -conn names the leader")
    given = parser.parse_args(list(args))
    if not _is_address(given.connection):
        return "invalid address to connect"
    message = _message(given)
    if isinstance(message, str):
        return message
    try:
        answer = TcpUtility(given.password).executeCommand(given.connection, message)
    except UtilityException as error:
        return str(error)
    if isinstance(answer, dict):
        return "\n".join(f"{name}: {value}" for name, value in sorted(answer.items()))
    return str(answer)


def _message(given: argparse.Namespace) -> list[Any] | str:
    """The question, or what is wrong."""
    if given.status:
        return ["status"]
    for name in ("add", "remove"):
        address = getattr(given, name)
        if address:
            return [name, address] if _is_address(address) else f"invalid address to command {name}"
    if given.version is not None:
        return ["set_version", given.version]
    if given.transfer is not None:
        return ["transfer", given.transfer]
    return "invalid command"


def main(args: Sequence[str] | None = None) -> None:
    sys.stdout.write(executeAdminCommand(sys.argv[1:] if args is None else args) + "\n")


if __name__ == "__main__":
    main()
