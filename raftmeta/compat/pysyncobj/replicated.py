"""The decorators `replicated` and `replicated_sync`, and `SyncObjConsumer`.

A decorated method that a program calls becomes a command. Each version of a method also stands in its class as
NAME_vVERSION, and the log names that: the number of the object it belongs to, and its name.
"""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, overload

from raftmeta.compat.pysyncobj.config import FAIL_REASON
from raftmeta.compat.pysyncobj.pickle import dumps

__all__ = [
    "AsyncResult",
    "Methods",
    "SyncObjConsumer",
    "SyncObjException",
    "SyncObjExceptionWrongVer",
    "replicated",
    "replicated_sync",
]

Method = Callable[..., Any]


class SyncObjException(Exception):
    """errorCode: a FAIL_REASON, or a word."""

    def __init__(self, errorCode: Any, *args: Any) -> None:
        super().__init__(errorCode, *args)
        self.errorCode = errorCode


class SyncObjExceptionWrongVer(SyncObjException):
    """The log has a command that this program is too old for."""

    def __init__(self, ver: Any) -> None:
        super().__init__("wrongVer")
        self.ver = ver


class _Replicates(Protocol):
    """The object that consumers belong to."""

    @property
    def methods(self) -> Methods: ...
    def _applyCommand(self, command: bytes, callback: Any, commandType: int | None = None) -> None: ...


class SyncObjConsumer:
    """A part of the state of a `SyncObj`. Attributes that a subclass sets after this constructor are replicated."""

    def __init__(self) -> None:
        self._syncObj: _Replicates | None = None
        self.__own = {*vars(self), "_SyncObjConsumer__own"}

    def _destroy(self) -> None:
        self._syncObj = None

    def _serialize(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self.__own}

    def _deserialize(self, data: Mapping[str, Any]) -> None:
        vars(self).update(data)


class AsyncResult:
    """A result that a thread waits for."""

    def __init__(self) -> None:
        self.result: Any = None
        self.error: Any = None
        self.event = threading.Event()

    def onResult(self, res: Any, err: Any) -> None:
        self.result, self.error = res, err
        self.event.set()


class Methods:
    """The replicated methods of an object and its consumers, by the names that the log has.

    objects: the object itself, then its consumers. version: the highest that this program has.
    """

    def __init__(self, objects: list[Any]) -> None:
        self._objects = objects
        self._numbers = {id(one): number for number, one in enumerate(objects)}
        found = [(method.ver, number, name) for number, one in enumerate(objects) for name, method in _versions(one)]
        self.version = max((ver for ver, _, _ in found), default=0)
        self.ids: dict[Any, int] = {}
        for place, (_, number, name) in enumerate(sorted(found)):
            self.ids[name if number == 0 else (id(objects[number]), name)] = place
        self._known: dict[tuple[int, str], list[int]] = defaultdict(list)
        for ver, number, name in sorted(found):
            self._known[number, name.removesuffix(f"_v{ver}")].append(ver)

    def name_of(self, owner: Any, name: str, enabled: int) -> tuple[int, str]:
        """(number of the object, name) that a call has in the log while this code version is enabled."""
        number = self._numbers[id(owner)]
        versions = [ver for ver in self._known[number, name] if ver <= enabled]
        if not versions:
            raise SyncObjException(f"{name} needs code version {self._known[number, name][0]}, enabled is {enabled}")
        return number, f"{name}_v{versions[-1]}"

    def find(self, number: int, name: str) -> Method:
        """The method that the log names. Raises SyncObjExceptionWrongVer: this program does not have it."""
        owner = self._objects[number] if 0 <= number < len(self._objects) else None
        method: Method | None = getattr(owner, name, None)
        if method is None or not getattr(method, "replicated", False):
            raise SyncObjExceptionWrongVer(f"{name} of object {number}")
        return method


def _versions(owner: Any) -> Iterator[tuple[str, Any]]:
    for name in dir(type(owner)):
        method = getattr(type(owner), name)
        if callable(method) and getattr(method, "replicated", False) and name != method.origName:
            yield name, method


@overload
def replicated(method: Method, /) -> Method: ...
@overload
def replicated(*, ver: int = 0) -> Callable[[Method], Method]: ...
def replicated(*decArgs: Any, **decKwargs: Any) -> Any:
    """Make a method a command that runs on every node, in the order of the log.

    ver: the code version that brought this method. Calls take `callback` (result, FAIL_REASON), or `sync=True` with
    `timeout` in seconds, which raise SyncObjException.
    """
    return _decorated(decArgs, decKwargs, is_sync=False, namespace=sys._getframe(1).f_locals)


def replicated_sync(*decArgs: Any, **decKwargs: Any) -> Any:
    """As replicated, but calls wait for the result. timeout: of calls that name none."""
    return _decorated(decArgs, decKwargs, is_sync=True, namespace=sys._getframe(1).f_locals)


def _decorated(decArgs: tuple[Any, ...], options: dict[str, Any], *, is_sync: bool, namespace: dict[str, Any]) -> Any:
    def decorate(method: Method) -> Method:
        defaults = {"sync": True, "timeout": options.get("timeout")} if is_sync else {}
        call = _caller(method, defaults)
        ver = int(options.get("ver", 0))
        vars(call).update(replicated=True, ver=ver, origName=method.__name__)
        name = f"{method.__name__}_v{ver}"
        versioned = types.FunctionType(call.__code__, call.__globals__, name, call.__defaults__, call.__closure__)
        versioned.__kwdefaults__ = call.__kwdefaults__
        vars(versioned).update(vars(call))
        namespace[name] = versioned
        return call

    return decorate(decArgs[0]) if len(decArgs) == 1 and callable(decArgs[0]) else decorate


def _caller(method: Method, defaults: dict[str, Any]) -> types.FunctionType:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.pop("_doApply", False):
            return method(self, *args, **kwargs)
        owner: _Replicates | None = self._syncObj if isinstance(self, SyncObjConsumer) else self
        if owner is None or not hasattr(owner, "methods"):
            raise SyncObjException("the object belongs to no SyncObj")
        options = {name: kwargs.pop(name, defaults.get(name)) for name in ("callback", "sync", "timeout")}
        named = owner.methods.name_of(self, method.__name__, owner.getCodeVersion())  # type: ignore[attr-defined]
        return _submit(owner, dumps((*named, args, kwargs)), **options)

    assert isinstance(call, types.FunctionType)
    return call


def _submit(owner: _Replicates, command: bytes, callback: Any, sync: bool | None, timeout: float | None) -> Any:
    if callback is not None or not sync:
        owner._applyCommand(command, callback, 0)
        return None
    answer = AsyncResult()
    owner._applyCommand(command, answer.onResult, 0)
    if not answer.event.wait(timeout):
        raise SyncObjException("Timeout")
    if answer.error != FAIL_REASON.SUCCESS:
        raise SyncObjException(answer.error)
    return answer.result
