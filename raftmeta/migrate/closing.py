"""What holds files while it is used: a context that closes at its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["Closing"]


class Closing(ABC):
    """As a context it is closed at the end of the block, whatever ended that."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what it holds; nothing more can be asked of it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()
