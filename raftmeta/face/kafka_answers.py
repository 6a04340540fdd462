"""Answers of the callables of a KafkaDoor: errors of Kafka's protocol, and places in a log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from raftmeta.errors import InvalidArgument

__all__ = ["Hooks", "KafkaRefusal", "code_of", "place_of"]

AT_END, AT_START = -1, -2  # timestamps that mean a place (ListOffsetsRequest)
CODE_OF_STORAGE = 56  # KAFKA_STORAGE_ERROR
CODE_OF_TIME = 7  # REQUEST_TIMED_OUT
CODE_OF_OTHERS = -1  # UNKNOWN_SERVER_ERROR
CODE_MAX = 0x7FFF

_log = logging.getLogger("raftmeta.kafka")


class Hooks(NamedTuple):
    """The callables of a KafkaDoor, as their author gave them."""

    on_produce: Callable[[str, int, bytes, int], Any]
    on_fetch: Callable[[str, int, int, int], Any]
    on_list_offsets: Callable[[str, int, int], Any] | None


class KafkaRefusal(Exception):
    """A callable of a KafkaDoor raises it to answer its client with an error of Kafka's protocol, told by its code."""

    def __init__(self, code: int, message: str = "") -> None:
        if not -1 <= code <= CODE_MAX or code == 0:
            raise InvalidArgument("code: an error of Kafka's protocol, not 0")
        super().__init__(message or f"error {code} of Kafka's protocol")
        self.code = code


def code_of(error: BaseException) -> int:
    """The error of Kafka's protocol for what a callable raised; one that nobody expects is logged."""
    if isinstance(error, KafkaRefusal):
        return error.code
    if isinstance(error, TimeoutError):
        return CODE_OF_TIME
    if isinstance(error, OSError):
        _log.error("a callable of the Kafka door failed: %s", error)
        return CODE_OF_STORAGE
    _log.error("a callable of the Kafka door raised", exc_info=error)
    return CODE_OF_OTHERS


def place_of(timestamp: int, _records: bytes, start: int, end: int) -> tuple[int, int]:
    """The start or the end of a log, if the timestamp means it: offset and timestamp."""
    return {AT_START: start, AT_END: end}.get(timestamp, -1), -1
