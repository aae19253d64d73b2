"""Knows that a server is a context: started on the way in, ended on the way out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


class Server(ABC):
    """What is started and stopped, by calls or as a context."""

    @abstractmethod
    def start(self) -> object:
        """Starts it; nothing when it runs."""

    @abstractmethod
    def stop(self) -> None:
        """Ends it; nothing when it does not run."""

    def __enter__(self) -> Self:
        """Starts."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops."""
        self.stop()
