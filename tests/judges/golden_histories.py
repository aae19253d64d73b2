"""Knows all histories behind the golden directories: what Hive was told to do, case by case."""

from __future__ import annotations

from typing import Final

from tests.judges.golden_compactions import COMPACTIONS
from tests.judges.golden_evolution import EVOLUTION
from tests.judges.golden_oddities import ODDITIES
from tests.judges.golden_types import TYPES
from tests.judges.golden_writes import WRITES

HISTORIES: Final = (*WRITES, *COMPACTIONS, *ODDITIES, *TYPES, *EVOLUTION)
