"""What helper columns of a frame are called: nothing that a column of a user is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def free_name(name: str, *taken: Iterable[str]) -> str:
    """A name for a helper column that none of these columns has, in upper or lower case.

    Example:
        >>> free_name("place", ["id", "__PLACE"], ["_place"])
        '___place'
    """
    known = {column.lower() for columns in taken for column in columns}
    found = f"__{name}"
    while found in known:
        found = f"_{found}"
    return found
