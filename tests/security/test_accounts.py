"""One account of a principal for all listeners of a node: several threads change it at the same moments.

docs/decisions/quotas.md "Principals: one account or one for each listener". `./build.sh check --tsan
tests/security/test_accounts.py` runs it under ThreadSanitizer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.faces.accounts import Listener, NodeAccounts

THREADS = 4
NAMES = 5
ASKED = 2_000_000  # by each thread: long enough for all to ask at the same time
CONNECTIONS_MAX = 6
DAY_NS = 86_400_000_000_000


def at_once(calls: list[Callable[[], None]]) -> None:
    """Each call on a thread of its own; they begin together."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], None]) -> None:
        start.wait(30)
        call()

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)


def listeners(node: NodeAccounts, *, connections_max: int = 0, requests_per_s: int = 0) -> list[Listener]:
    return [Listener(node, 7 + seed, connections_max, requests_per_s) for seed in range(THREADS)]


def test_four_threads_leave_nothing_behind_in_accounts_that_they_share() -> None:
    """Init: four listeners, five names, few connections for each. Act: all four open, ask, hold leases, move and sweep,
    then give everything back. Check: no account had more connections than it may; each count is zero; a sweep a day
    later forgets all accounts."""
    node = NodeAccounts()
    crowd = listeners(node, connections_max=CONNECTIONS_MAX, requests_per_s=1_000_000)
    at_once([lambda one=one: one.run(1_000_000, NAMES) for one in crowd])  # type: ignore[misc]
    assert max(one.seen()["most"] for one in crowd) == CONNECTIONS_MAX
    assert sum(one.seen()["spent"] for one in crowd) > 100_000
    assert sum(account["connections"] for account in node.used()) > 0
    for one in crowd:
        one.give_back()
    for account in node.used():
        account.pop("requests_ns")
        assert set(account.values()) == {0}, account
    assert crowd[0].sweep(DAY_NS) == 0


def test_no_request_of_two_threads_is_paid_for_only_once() -> None:
    """Each request costs its nanoseconds of the bucket, whichever threads ask at the same moment."""
    node = NodeAccounts()
    crowd = listeners(node, requests_per_s=1_000_000)
    at_once([lambda one=one: one.ask_only(ASKED) for one in crowd])  # type: ignore[misc]
    (account,) = node.used()
    assert sum(one.seen()["spent"] for one in crowd) == THREADS * ASKED
    assert account["requests_ns"] == THREADS * ASKED * 1_000
    assert account["connections"] == THREADS
