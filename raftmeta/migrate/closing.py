"""Objects that hold files while they are used: contexts that close at their end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["Closing"]


class Closing(ABC):
    """As a context the object is closed at the end of the block, by an error too."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the files; the object answers nothing more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()
