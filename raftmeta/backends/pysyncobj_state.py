"""The state that a cluster of PySyncObj replicates for the four interfaces: one consumer with one replicated method.

It decides conflicts, order of candidates and expiry, alike on every node, from commands alone. It never throws: in
PySyncObj a replicated method that throws stops the cluster for good, so every outcome is a value, ("ok", result) or
(name of an error, what to tell). Time is what the callers' wall clocks said, the highest so far: a clock that is ahead
expires others early, which is why this back end promises nothing about time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pysyncobj import SyncObjConsumer, replicated

__all__ = ["Metastore", "Outcome", "Place"]

Outcome: TypeAlias = tuple[str, Any]
_DONE: Outcome = ("ok", None)


@dataclass(frozen=True)
class Place:
    """A member of a group, or a candidate of a service. life: the process that holds it. epoch: 0 until it leads."""

    id: str
    data: bytes
    life: str
    epoch: int
    seen_s: float
    ttl_s: float


class Metastore(SyncObjConsumer):  # type: ignore[misc]  # pysyncobj has no types
    """The replicated state; what is set before SyncObjConsumer.__init__ belongs to this process alone.

    Commands run on PySyncObj's thread, reads on others. There is no lock: a signal handler that closes the back end
    waits for PySyncObj's thread, which must not wait for a read below it. So a read is one call of C on a dict or list.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        super().__init__()
        self.revision = 0
        self.clock_s = 0.0
        self.keys: dict[str, tuple[bytes, int]] = {}
        self.groups: dict[str, dict[str, Place]] = {}
        self.services: dict[str, list[Place]] = {}
        self.epochs: dict[str, int] = {}

    @replicated  # type: ignore[untyped-decorator]
    def apply(self, command: str, *arguments: Any) -> Outcome:
        try:
            outcome: Outcome = getattr(self, f"_apply_{command}")(*arguments)
        except Exception as error:
            return ("CommandRefused", f"{command}: {error!r}")
        self._on_change()
        return outcome

    # --- keys ---------------------------------------------------------------------------------------------------------
    def _apply_multi(self, steps: list[tuple[str, str, bytes, int]]) -> Outcome:
        """(verb, key, data, expected revision): all, or none."""
        changed = dict(self.keys)
        for verb, key, data, expected in steps:
            if verb == "create" and key in changed:
                return ("KeyExists", f"key {key!r} exists")
            if verb != "create" and key not in changed:
                return ("KeyMissing", f"there is no key {key!r}")
            if expected and changed[key][1] != expected:
                return ("CompareFailed", f"key {key!r} has revision {changed[key][1]}, not {expected}")
            if verb == "delete":
                del changed[key]
            else:
                changed[key] = (data, self.revision + 1)
        self.keys = changed
        self.revision += 1
        return ("ok", self.revision)

    # --- groups -------------------------------------------------------------------------------------------------------
    def _apply_join(self, group: str, id: str, data: bytes, life: str, ttl_s: float, now_s: float) -> Outcome:
        self._pass_time(now_s)
        members = self.groups.setdefault(group, {})
        if id in members:
            return ("IdConflict", f"group {group!r} has a member {id!r}")
        epoch = self._next_epoch(f"group {group}")
        members[id] = Place(id, data, life, epoch, self.clock_s, ttl_s)
        self.revision += 1
        return ("ok", epoch)

    def _apply_leave(self, group: str, id: str, life: str) -> Outcome:
        place = self.groups.get(group, {}).get(id)
        if place is not None and place.life == life:
            del self.groups[group][id]
            self.revision += 1
        return _DONE

    # --- services -----------------------------------------------------------------------------------------------------
    def _apply_nominate(self, service: str, id: str, data: bytes, life: str, ttl_s: float, now_s: float) -> Outcome:
        self._pass_time(now_s)
        candidates = self.services.setdefault(service, [])
        if any(place.id == id for place in candidates):
            return ("IdConflict", f"service {service!r} has a candidate {id!r}")
        candidates.append(Place(id, data, life, 0, self.clock_s, ttl_s))
        self.revision += 1
        self._elect(service)
        return ("ok", candidates[0].id == id)

    def _apply_resign(self, service: str, id: str, life: str) -> Outcome:
        candidates = self.services.get(service, [])
        kept = [place for place in candidates if (place.id, place.life) != (id, life)]
        if len(kept) != len(candidates):
            self.services[service] = kept
            self.revision += 1
            self._elect(service)
        return _DONE

    def _elect(self, service: str) -> None:
        """The candidate that was nominated first leads."""
        candidates = self.services[service]
        if candidates and candidates[0].epoch == 0:
            candidates[0] = replace(candidates[0], epoch=self._next_epoch(f"service {service}"))

    def _next_epoch(self, name: str) -> int:
        self.epochs[name] = self.epochs.get(name, 0) + 1
        return self.epochs[name]

    # --- time ---------------------------------------------------------------------------------------------------------
    def _apply_renew(self, life: str, now_s: float) -> Outcome:
        """Everything that this process holds was held at now_s; what others did not renew in time is removed.

        Result: what it still holds, as ("group" or "service", name, id).
        """
        self._pass_time(now_s)
        held = []
        for group, members in self.groups.items():
            for id, place in members.items():
                if place.life == life:
                    members[id] = replace(place, seen_s=self.clock_s)
                    held.append(("group", group, id))
        for service, candidates in self.services.items():
            for position, place in enumerate(candidates):
                if place.life == life:
                    candidates[position] = replace(place, seen_s=self.clock_s)
                    held.append(("service", service, place.id))
        self._expire()
        return ("ok", held)

    def _apply_end(self, life: str) -> Outcome:
        """This process ends in order: everything that it holds is given back."""
        self._remove(lambda place: place.life == life)
        return _DONE

    def _pass_time(self, now_s: float) -> None:
        self.clock_s = max(self.clock_s, now_s)

    def _expire(self) -> None:
        self._remove(self._is_late)

    def _remove(self, is_gone: Callable[[Place], bool]) -> None:
        for members in self.groups.values():
            for id in [id for id, place in members.items() if is_gone(place)]:
                del members[id]
                self.revision += 1
        for service, candidates in self.services.items():
            kept = [place for place in candidates if not is_gone(place)]
            if len(kept) != len(candidates):
                self.services[service] = kept
                self.revision += 1
                self._elect(service)

    def _is_late(self, place: Place) -> bool:
        return self.clock_s - place.seen_s > place.ttl_s
