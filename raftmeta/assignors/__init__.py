"""raftmeta.assignors: who in a group gets which resource, as pure functions.

    from raftmeta import assignors

    plan = assignors.assignor("sticky").assign(
        [assignors.Member("a"), assignors.Member("b")], assignors.Resources.of_topics({"events": 12})
    )
    plan.assignments["a"]

docs/assignors.md says what each assignor promises. An assignor is found by its name: among those that this process
registered (register), then among those of raftmeta. A name with a colon is a place, "package.module:object".
"""

from __future__ import annotations

from importlib import import_module

from raftmeta.assignors.codec import Codec, OwnCodec
from raftmeta.assignors.cooperative import CooperativeSticky
from raftmeta.assignors.incremental import Incremental
from raftmeta.assignors.leader import OneLeader
from raftmeta.assignors.plain import Range, RoundRobin
from raftmeta.assignors.reconcile import Phase, Standing, Target, reconcile, retarget
from raftmeta.assignors.rendezvous import Rendezvous
from raftmeta.assignors.shapes import Assignor, Member, Plan, Resources
from raftmeta.assignors.sticky import Sticky
from raftmeta.errors import ConfigError

__all__ = [
    "Assignor",
    "Codec",
    "CooperativeSticky",
    "Incremental",
    "Member",
    "OneLeader",
    "OwnCodec",
    "Phase",
    "Plan",
    "Range",
    "Rendezvous",
    "Resources",
    "RoundRobin",
    "Standing",
    "Sticky",
    "Target",
    "assignor",
    "names",
    "reconcile",
    "register",
    "retarget",
    "unregister",
]

_OWN: dict[str, Assignor] = {
    one.name: one
    for one in (
        CooperativeSticky(),
        Incremental(),
        OneLeader(),
        Range(),
        Rendezvous(),
        RoundRobin(),
        Sticky(),
    )
}
_registered: dict[str, Assignor | str] = {}  # of this process, by name; the program decides


def register(name: str, made: Assignor | str) -> None:
    """Let this process find an assignor by a name, also by one that raftmeta has an assignor for.

    made: the object, or its place "package.module:object", which is imported when it is first needed.
    Raises ConfigError for text that is no place, and for a name with a colon.
    """
    if ":" in name:
        raise ConfigError(f"name: {name!r} has a colon, which only places have", field="name")
    if isinstance(made, str):
        _place(made)
    _registered[name] = made


def unregister(name: str) -> None:
    """Forget what register was told of a name; one that was not registered is ignored."""
    _registered.pop(name, None)


def names() -> tuple[str, ...]:
    """Every name that `assignor` knows, sorted."""
    return tuple(sorted(_OWN.keys() | _registered.keys()))


def assignor(name: str) -> Assignor:
    """The assignor of a name or a place. A place is imported: take it from your own configuration, never from a peer.

    Raises ConfigError: there is none of that name, or it cannot be imported.
    """
    if ":" in name:
        return _imported(name)
    found = _registered.get(name, _OWN.get(name))
    if found is None:
        raise ConfigError(f"assignor: none is called {name!r}, only {', '.join(names())}", field="assignor")
    if isinstance(found, str):
        found = _registered[name] = _imported(found)
    return found


def _place(text: str) -> tuple[str, str]:
    module, _, name = text.partition(":")
    if not module or not name:
        raise ConfigError(f'assignor: must look like "package.module:object", not {text!r}', field="assignor")
    return module, name


def _imported(text: str) -> Assignor:
    module, name = _place(text)
    try:
        found: Assignor = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"assignor: {text!r} cannot be imported: {error}", field="assignor") from None
    return found
