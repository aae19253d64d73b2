"""Enumerations of a metastore's values; a newer server may send values without a member.

An unknown value must not hide the rest of an answer, so it becomes an object that shows the value
and differs from every member.

Example:
    >>> class Color(ServerEnum):
    ...     RED = "red"
    >>> Color.received("red")
    <Color.RED: 'red'>
    >>> Color.received("blue").value, Color.received("blue").is_known
    ('blue', False)
"""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import Self, cast


class ServerEnum(enum.Enum):
    """Base class of the enumerations whose values a metastore sends."""

    @classmethod
    def received(cls, value: str) -> Self:
        """Return the member with this value, or an object that only shows the value."""
        try:
            return cls(value)
        except ValueError:
            return cast("Self", _unknown(cls, value))

    @property
    def is_known(self) -> bool:
        """False if only a newer server has this value."""
        return type(self).__members__.get(self.name) is self

    def __reduce_ex__(self, _: object) -> tuple[object, ...]:
        # By default, unpickling calls the class, which refuses an unknown value.
        return type(self).received, (self.value,)


@lru_cache  # equal values are one object, as for members
def _unknown(cls: type[ServerEnum], value: str) -> ServerEnum:
    member = object.__new__(cls)
    member._name_, member._value_ = value, value
    return member
