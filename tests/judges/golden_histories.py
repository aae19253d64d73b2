"""Knows all histories behind the golden directories: what Hive was told to do, case by case."""

from __future__ import annotations

from typing import Final

from judges.golden_compactions import COMPACTIONS
from judges.golden_evolution import EVOLUTION
from judges.golden_oddities import ODDITIES
from judges.golden_types import TYPES
from judges.golden_writes import WRITES

HISTORIES: Final = (*WRITES, *COMPACTIONS, *ODDITIES, *TYPES, *EVOLUTION)
