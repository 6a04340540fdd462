"""A history and a model in, a verdict out.

    ok          a linearization of every component was found
    violation   some component has none, and everything in it was understood
    unknown     a limit was reached, an event made no sense, or there was no event: not checked, which is not ok

The work is native (raftmeta/check/portfolio.pxd). This file gathers; it never decides a verdict on a component itself.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from raftmeta.check.check_handle import CheckHandle
from raftmeta.check.explain import Counterexample, explain
from raftmeta.check.history import History, Quarantined
from raftmeta.check.models import Model
from raftmeta.check.prepared import ENGINES, VERDICTS, ComponentVerdict, Limits, Prepared

__all__ = ["Checked", "check"]

NOT_OK_MAX = 1000  # components that a Checked names


@dataclass(frozen=True, slots=True)
class Checked:
    """The verdict on a history, and what stands behind it.

    verdict: ok, violation or unknown. components: how many; verdicts: how many of them got which. engines: how many
    each engine decided. not_ok: those that are not ok, at most 1,000. failed: operations that were certainly not
    executed.
    """

    verdict: str
    model: str
    events: int
    operations: int
    failed: int
    components: int
    verdicts: dict[str, int]
    engines: dict[str, int]
    steps: int
    seconds: float
    not_ok: tuple[ComponentVerdict, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    counterexample: Counterexample | None = None

    @property
    def is_empty(self) -> bool:
        """Nothing was there to be checked."""
        return not self.events and not self.quarantined


def check(
    history: History,
    *,
    model: str | Model = "kv",
    initial: object = None,
    limits: Limits | None = None,
    allow_empty: bool = False,
) -> Checked:
    """Is the history linearizable? With a counterexample when it is not.

    model: a name of `raftmeta.check.models`, or a model of your own. initial: the value of every key before the first
    operation. limits: for everything, the explanation too. allow_empty: a history without events is `ok`; otherwise it
    is `unknown`, for nothing was checked.
    Components are searched in turns; once one has no linearization, those that need more turns stay unknown.
    Raises ValueError for an unknown model, MemoryError when not even the operations fit into memory.
    """
    begun = time.monotonic()
    prepared = Prepared(history, model, initial=initial, limits=limits, stops_at_violation=True)
    prepared.run()
    handle = prepared.handle
    not_ok = handle.not_ok()
    named = [prepared.component(number) for number in not_ok[:NOT_OK_MAX]]
    verdicts = _count_verdicts(handle, not_ok)
    quarantined = tuple(prepared.quarantined())
    bad = next((number for number in not_ok if VERDICTS[handle.outcome(number)[0]] == "violation"), None)
    is_unknown = bool(not_ok or quarantined or (not len(history) and not allow_empty))
    verdict = "violation" if bad is not None else "unknown" if is_unknown else "ok"
    return Checked(
        verdict=verdict,
        model=prepared.model.name,
        events=len(history),
        operations=handle.operations + handle.unaffecting,
        failed=handle.failed,
        components=handle.components,
        verdicts=verdicts,
        engines={name: count for name, count in zip(ENGINES, handle.engines(), strict=True) if count},
        steps=handle.steps(),
        seconds=time.monotonic() - begun,
        not_ok=tuple(named),
        quarantined=quarantined,
        counterexample=None if bad is None else explain(prepared, bad),
    )


def _count_verdicts(handle: CheckHandle, not_ok: list[int]) -> dict[str, int]:
    counts = {"ok": handle.components - len(not_ok)} if handle.components > len(not_ok) else {}
    for number in not_ok:
        name = VERDICTS[handle.outcome(number)[0]]
        counts[name] = counts.get(name, 0) + 1
    return counts
