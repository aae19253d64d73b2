"""Tests that are coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import ParamSpec

Given = ParamSpec("Given")


def in_event_loop(test: Callable[Given, Coroutine[object, object, None]]) -> Callable[Given, None]:
    """Run a test in an event loop of its own; its fixtures are made outside of it."""

    @wraps(test)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run
