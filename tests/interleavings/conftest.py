"""Lets every test of this folder happen in the laboratory."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from tests.interleavings.stand_ins import installed

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _in_the_laboratory() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    with installed():
        yield
    logging.disable(logging.NOTSET)
