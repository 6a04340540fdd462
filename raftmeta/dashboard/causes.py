"""Why each leader came to lead, as one principal may know it.

It decides when nodes are asked for their flight recorders (raftmeta/explain): once for each change of the leader that
was seen, SETTLE_S after it, all at one moment. Changes that follow one another within that time are one question. Who
has no right to see recorders is refused once, and never asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

from raftmeta import explain as explaining
from raftmeta.aio import Client
from raftmeta.errors import AuthenticationFailed, PermissionDenied, RaftmetaError
from raftmeta.explain import Asked, Cause, Explained

__all__ = ["Causes"]

SETTLE_S = 2.0  # until then the old leader noticed too, and those that lead again are connected
ANSWER_S = 10.0  # a question is asked once: a node that is slow may still answer
TERMS_MAX = 400

Ask = Callable[[Mapping[str, Client]], Awaitable[Asked]]


class Causes:
    """clients: by address, one for each node; the caller closes them."""

    def __init__(
        self,
        clients: Mapping[str, Client],
        *,
        ask: Ask | None = None,
        settle_s: float = SETTLE_S,
    ) -> None:
        self._clients = clients
        self._ask: Ask = ask or partial(explaining.ask, timeout_s=ANSWER_S)
        self._settle_s = settle_s
        self._found: dict[int, Cause | None] = {}  # by term, in the order in which they were asked for
        self._wanted: set[int] = set()
        self._is_refused = False
        self._task: asyncio.Task[None] | None = None

    def want(self, terms: Iterable[int]) -> None:
        """These terms began with a change of the leader. A term that was asked for is not asked for again."""
        self._wanted |= set(terms) - self._found.keys()
        is_busy = self._task is not None and not self._task.done()
        if self._wanted and not self._is_refused and not is_busy:
            self._task = asyncio.create_task(self._find())

    def of(self, term: int) -> dict[str, str]:
        """The cause and its confidence; both empty if they are not known."""
        cause = self._found.get(term)
        return {"cause": cause.text if cause else "", "confidence": cause.confidence if cause else ""}

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _find(self) -> None:
        await asyncio.sleep(self._settle_s)
        terms, self._wanted = self._wanted, set()
        self._found |= dict.fromkeys(sorted(terms))
        for old in list(self._found)[:-TERMS_MAX]:
            del self._found[old]
        try:
            asked = await self._ask(self._clients)
            explained: Explained = await asyncio.to_thread(explaining.explain, asked=asked)
        except (PermissionDenied, AuthenticationFailed):
            self._is_refused = True
        except RaftmetaError:
            pass  # nobody answered, or no node has a recorder
        else:
            causes = {one.terms[1]: one.cause for one in explained.incidents if one.kind == "leader_change"}
            self._found |= {term: causes.get(term) for term in terms}
