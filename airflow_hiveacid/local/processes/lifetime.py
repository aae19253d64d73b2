"""Servers as context managers: a server starts on entry and stops on exit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


class Server(ABC):
    """A server that can be started and stopped, also as a context manager."""

    @abstractmethod
    def start(self) -> object:
        """Start the server, unless it already runs."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the server, if it runs."""

    def __enter__(self) -> Self:
        """Start the server."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the server."""
        self.stop()
