"""The names of engines, readers and writers, here and on the pages."""

from __future__ import annotations

from typing import Final

OURS: Final = "ours"
HIVE_4: Final = "Hive 4.0.1"
HIVE_3: Final = "Hive 3.1.3"
TRINO: Final = "Trino 483"
ALTERNATING: Final = "in turns"
WRITERS: Final = (OURS, HIVE_4, TRINO, HIVE_3, ALTERNATING)
"""In the order of the page."""

NATIVE: Final = "ours, Spark's reader"
ARROW: Final = "ours, Arrow"
HIVE_3_READER: Final = "Hive 3.1.3's reader"
READERS: Final = (NATIVE, ARROW, HIVE_4, HIVE_3_READER, TRINO)
"""In the order of the page."""
