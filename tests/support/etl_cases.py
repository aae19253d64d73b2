"""A hundred statements of daily ETL, as people write them for Hive: which are read as they are.

The tables are the usual ones: `raw` holds texts as they arrived, `stage` typed rows, `dw` facts and
dimensions, `mart` sums. Whether a statement is read needs no table. A statement that is refused
stands in `REFUSED` with what to write in its place, which is read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.sql_files import sql_paragraphs

_FOLDER: Final = Path(__file__).with_name("etl")
READ: Final = tuple(sql_paragraphs(_FOLDER / "read.sql"))
_PAIRS: Final = sql_paragraphs(_FOLDER / "refused.sql")
REFUSED: Final = dict(zip(_PAIRS[::2], _PAIRS[1::2], strict=True))
