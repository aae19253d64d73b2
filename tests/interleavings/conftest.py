"""Lets every test of this folder happen in the laboratory."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.interleavings.stand_ins import installed


@pytest.fixture(autouse=True)
def _in_the_laboratory() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    with installed():
        yield
    logging.disable(logging.NOTSET)
