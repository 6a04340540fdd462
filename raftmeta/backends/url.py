"""The connection string of a back end: scheme://addresses/path?option=value&..., taken apart and checked.

It decides what a URL says. Each back end lists its own options and gives them their meaning. An option outside that
list is an error here, because a misspelt option would otherwise be a promise that nobody keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from raftmeta.errors import ConfigError, InvalidArgument
from raftmeta.verbs.prefix import Prefix

__all__ = ["BackendUrl", "prefix_of"]

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class BackendUrl:
    """A parsed URL. text: as it was given. addresses: "host:port" each; path: without a query, "" if there is none."""

    text: str
    scheme: str
    addresses: tuple[str, ...]
    path: str
    options: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> BackendUrl:
        """Raises ConfigError for what is no URL, or names an option twice."""
        if not isinstance(text, str) or "://" not in text:
            raise ConfigError(f'url: must look like "raft://host:port", not {text!r}', field="url")
        try:
            parts = urlsplit(text)
            pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError as error:
            raise ConfigError(f"url: {text!r}: {error}", field="url") from None
        options = dict(pairs)
        if len(options) != len(pairs):
            raise ConfigError(f"url: {text!r} names an option twice", field="url")
        addresses = tuple(address for address in parts.netloc.split(",") if address)
        return cls(text, parts.scheme, addresses, unquote(parts.path), options)

    def only(self, known: Iterable[str]) -> None:
        """Raise ConfigError for an option that is not among the known ones."""
        names = sorted(known)
        for name in self.options:
            if name not in names:
                raise ConfigError(f"url: {self.scheme}:// has no option {name!r}, only {', '.join(names)}", field=name)

    def required(self, name: str) -> str:
        """An option that must be given."""
        if not self.options.get(name):
            raise ConfigError(f"url: {self.scheme}:// needs the option {name}", field=name)
        return self.options[name]

    def option(self, name: str, parse: Callable[[str], Value], default: Value) -> Value:
        """An option read by parse, or default. Raises ConfigError where parse raises ValueError."""
        if name not in self.options:
            return default
        try:
            return parse(self.options[name])
        except ValueError:
            raise ConfigError(f"url: {name}: {self.options[name]!r} is no {parse.__name__}", field=name) from None


def prefix_of(url: BackendUrl, *, has_path: bool) -> Prefix | None:
    """The prefix of all keys of this URL: the option prefix, or "app/" for the path /app. None: there is none.

    has_path: the path means something else. Raises ConfigError.
    """
    path = "" if has_path else url.path.strip("/")
    if path and "prefix" in url.options:
        raise ConfigError("url: prefix: stands in the path and beside it", field="prefix")
    text = f"{path}/" if path else url.options.get("prefix", "")
    try:
        return Prefix(text) if text else None
    except InvalidArgument as error:
        raise ConfigError(f"url: {error}", field="prefix") from None
