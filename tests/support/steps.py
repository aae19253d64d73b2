"""What happens at a step of a job, or at a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest


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

    def act(*_: object, **__: object) -> NoReturn:
        raise error

    return act


def stop_at(step: str) -> Callable[[str], None]:
    """End a job at a step."""
    return at(step, raises(StopError()))


def act_before(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, act: Callable[..., object]
) -> None:
    """Act before each call of a function, on the positional arguments of the call."""
    function = getattr(owner, name)

    def acting(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - as the function
        act(*given)
        return function(*given, **named)

    monkeypatch.setattr(owner, name, acting)


def act_after(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, act: Callable[..., object]
) -> None:
    """Act after each call of a function, on the positional arguments of the call."""
    function = getattr(owner, name)

    def acting(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - as the function
        found = function(*given, **named)
        act(*given)
        return found

    monkeypatch.setattr(owner, name, acting)
