"""What happens at a step of a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn


class StopError(Exception):
    """Ends a job at a step, as an error of its own does."""


def at(step: str, act: Callable[[], object]) -> Callable[[str], None]:
    """Act at a step of a job."""

    def on_step(reached: str) -> None:
        if reached == step:
            act()

    return on_step


def raises(error: BaseException) -> Callable[..., NoReturn]:
    """Return a function of any arguments that raises an error."""

    def act(*_: object) -> NoReturn:
        raise error

    return act


def stop_at(step: str) -> Callable[[str], None]:
    """End a job at a step."""
    return at(step, raises(StopError()))
