"""Knows all histories behind the golden directories: what Hive was told to do, case by case."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from tests.judges.golden_evolution import EVOLUTION
from tests.judges.golden_history import History
from tests.judges.golden_types import TYPES

_FILE: Final = Path(__file__).with_name("golden_cases.toml")


def _written() -> tuple[History, ...]:
    """The histories of the file; lists become tuples."""
    return tuple(
        History(**{key: tuple(one) if isinstance(one, list) else one for key, one in case.items()})
        for case in tomllib.loads(_FILE.read_text(encoding="utf-8"))["case"]
    )


HISTORIES: Final = (*_written(), *TYPES, *EVOLUTION)
