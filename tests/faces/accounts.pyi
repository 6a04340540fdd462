"""Listeners of one node whose threads meet in its accounts (connections/accounts)."""

class NodeAccounts:
    """What principals use of one node."""

    def used(self) -> list[dict[str, int]]:
        """The words of each account; only while no listener runs."""

class Listener:
    """A listener with 16 connections, 16 requests under way and 16 leases at most. One thread may use it at a time."""

    def __init__(self, node: NodeAccounts, seed: int, connections_max: int, requests_per_s: int) -> None: ...
    def run(self, rounds: int, names: int) -> None:
        """Without the GIL: connections come, take one of so many names (0: none, only an address) and go, they ask, and leases begin, move and
        end.."""

    def ask_only(self, rounds: int) -> None:
        """Without the GIL: one connection of the name 1 asks as often as it can."""

    def give_back(self) -> None:
        """Its connections, requests and leases end."""

    def sweep(self, later_ns: int) -> int:
        """Sweep after so much time; how many accounts there are then."""

    def seen(self) -> dict[str, int]:
        """spent: requests that were let through; most: connections of one account at one moment."""
