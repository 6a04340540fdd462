"""Reads EDN, the notation of Clojure's data, as far as Jepsen writes it; and what Jepsen means by it.

A keyword and a symbol become the text of their names, a vector, list or set becomes a list, a tagged value its value.
Numbers, strings, booleans and nil are themselves. Nothing is executed, whatever a tag says.

It decides what stands in a file. It never decides whether that makes sense.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

__all__ = ["read_edn"]

DEPTH_MAX = 100

_TOKEN = re.compile(
    r"""(?:[\s,]|;[^\n]*)*(?:
    (?P<string>"(?:\\.|[^"\\])*")
    |(?P<open>\#\{|[({\[])
    |(?P<close>[)}\]])
    |(?P<discard>\#_)
    |(?P<tag>\#[A-Za-z][\w.\-/*+!?<>=$&]*)
    |(?P<char>\\(?:newline|space|tab|return|u[0-9a-fA-F]{4}|.))
    |(?P<atom>[^\s,;"()\[\]{}\\\#][^\s,;"()\[\]{}\\]*)
    )""",
    re.VERBOSE | re.DOTALL,
)
_BLANK = re.compile(r"(?:[\s,]|;[^\n]*)*\Z")
_NUMBER = re.compile(r"[+-]?\d+N?\Z")
_REAL = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?M?\Z")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}
_CHARACTERS = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r"}
_CLOSING = {"(": ")", "[": "]", "{": "}", "#{": "}"}


class _Discarded:
    """The element behind #_, which is to be ignored."""


_DISCARDED = _Discarded()


def read_edn(text: str) -> Iterator[Any]:
    """Every value of the text, one after the other; maps have keywords as text without their colon.

    Raises ValueError with the position of what is not EDN.
    """
    position = 0
    while not _BLANK.match(text, position):
        value, position = _read(text, position, 0)
        if value is not _DISCARDED:
            yield value


def _read(text: str, position: int, depth: int) -> tuple[Any, int]:
    match = _TOKEN.match(text, position)
    if match is None or depth > DEPTH_MAX:
        raise ValueError(f"not EDN at character {position}: {text[position : position + 20]!r}")
    kind, token, position = str(match.lastgroup), match[str(match.lastgroup)], match.end()
    if kind == "open":
        return _read_group(text, token, position, depth)
    if kind in ("tag", "discard"):
        value, position = _read(text, position, depth + 1)
        return (_DISCARDED if kind == "discard" else value), position
    if kind == "close":
        raise ValueError(f"{token!r} without its beginning at character {position}")
    if kind == "string":
        return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", _unescape, token[1:-1], flags=re.DOTALL), position
    if kind == "char":
        name = token[1:]
        return _CHARACTERS.get(name) or (chr(int(name[1:], 16)) if len(name) > 1 else name), position
    return _atom(token), position


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)


def _read_group(text: str, opening: str, position: int, depth: int) -> tuple[Any, int]:
    values: list[Any] = []
    while True:
        match = _TOKEN.match(text, position)
        if match is not None and match.lastgroup == "close":
            if match["close"] != _CLOSING[opening]:
                raise ValueError(f"{opening!r} ends with {match['close']!r} at character {match.end()}")
            break
        value, position = _read(text, position, depth + 1)
        if value is not _DISCARDED:
            values.append(value)
    if opening != "{":
        return values, match.end()
    if len(values) % 2:
        raise ValueError(f"a map with a key and no value at character {match.end()}")
    return {_name(key): value for key, value in zip(values[::2], values[1::2], strict=True)}, match.end()


def _name(key: Any) -> str:
    return key if isinstance(key, str) else repr(key)


def _atom(token: str) -> Any:
    if token in ("nil", "true", "false"):
        return {"nil": None, "true": True, "false": False}[token]
    if _NUMBER.match(token):
        return int(token.rstrip("N"))
    if _REAL.match(token):
        return float(token.rstrip("M"))
    return token.lstrip(":")
