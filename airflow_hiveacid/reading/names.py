"""Names for helper columns of a frame, distinct from the names of users' columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def free_name(name: str, *taken: Iterable[str]) -> str:
    """Return a name for a helper column that differs from all these names, ignoring case.

    Example:
        >>> free_name("clause", ["id", "__CLAUSE"], ["_clause"])
        '___clause'
    """
    names = {column.lower() for columns in taken for column in columns}
    candidate = f"__{name}"
    while candidate in names:
        candidate = f"_{candidate}"
    return candidate
