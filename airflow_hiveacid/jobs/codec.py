"""The JSON form of frozen dataclasses; an unknown or missing field is an error.

Input is dataclasses with fields of str, int, float, bool, None, enums, tuples, mappings with string
keys, and nested dataclasses. Output is plain JSON values. This module does not depend on the types
of jobs.

Example:
    >>> read_object('{"version": 1, "kind": "clean"}', reader=Side.APPLICATION)
    {'kind': 'clean'}
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from airflow_hiveacid.format.errors import ContractVersionError

JsonValue = None | bool | int | float | str | list[Any] | dict[str, Any]
"""The result of `json.loads`; nested values are also JSON values."""

CONTRACT_VERSION: Final = 1
"""The version of the contract, incremented whenever a field is added, removed or redefined."""

_T = TypeVar("_T")


class Side(enum.Enum):
    """The two sides of the contract; error messages use the values as names."""

    OPERATOR = "operator"
    APPLICATION = "application"

    @property
    def other(self) -> Side:
        """The side of the contract whose JSON this side reads."""
        return Side.APPLICATION if self is Side.OPERATOR else Side.OPERATOR


def to_json(value: object) -> JsonValue:
    """Convert a dataclass value to JSON values, including fields that are None.

    Raises:
        TypeError: a nested value has a type that the contract does not allow.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return cast("JsonValue", value.value)
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(v) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a job contract cannot contain a {type(value).__name__}")


def read_object(text: str, *, reader: Side) -> dict[str, Any]:
    """Parse a JSON object from the opposite side; return it without its version.

    Raises:
        ContractVersionError: the text is not a JSON object, or has a different version. The error
            names the older side.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise misfit(reader, "the document", f"JSON, found {error}") from error
    if not isinstance(data, dict):
        raise misfit(reader, "the document", f"an object, found {type(data).__name__}")
    found = data.pop("version", None)
    if found != CONTRACT_VERSION:
        is_older = isinstance(found, int) and found < CONTRACT_VERSION
        raise ContractVersionError(
            found=found,
            supported=CONTRACT_VERSION,
            side=(reader.other if is_older or found is None else reader).value,
        )
    return data


def from_json(
    cls: type[_T],
    data: object,
    *,
    reader: Side,
    path: str = "",
    given: Mapping[str, object] = {},
) -> _T:
    """Return a dataclass built from JSON values.

    Args:
        cls: the dataclass.
        data: the JSON values of its fields.
        reader: the side that reads.
        path: the path of `data` in error messages.
        given: the fields whose type depends on another field; the caller has read them. Then `data`
            must have all other fields, even those with a default.

    Raises:
        ContractVersionError: a field is missing, unknown or of the wrong type. A field is unknown
            if the reader is older, and missing if the writer is older.
    """
    return _Decoder(reader).dataclass(cls, data, path, given)


def misfit(reader: Side, where: str, expected: str) -> ContractVersionError:
    """Return the error for an unexpected value; either side may be too old."""
    return _error(
        f"{reader.other.value} or the {reader.value}", f"At {where}: expected {expected}."
    )


def _error(side: str, detail: str) -> ContractVersionError:
    return ContractVersionError(
        found=CONTRACT_VERSION, supported=CONTRACT_VERSION, side=side, detail=detail
    )


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


class _Decoder:
    """A decoder of JSON values that follows type hints; errors name `reader`."""

    def __init__(self, reader: Side) -> None:
        self._reader = reader

    def dataclass(
        self, cls: type[_T], data: object, path: str, given: Mapping[str, object] = {}
    ) -> _T:
        if not isinstance(data, dict):
            raise self._wrong(path or cls.__name__, "an object", data)
        known = cast("Any", cls)
        hints = _hints(known)
        fields = {f.name: f for f in dataclasses.fields(known) if f.name not in given}
        for name in data:
            if name not in fields:
                where = f"{path}.{name}".lstrip(".")
                raise _error(self._reader.value, f"It does not know the field {where}.")
        values: dict[str, Any] = {**given}
        for name, field in fields.items():
            where = f"{path}.{name}".lstrip(".")
            if name in data:
                values[name] = self._value(hints[name], data[name], where)
            elif given or _is_required(field):
                raise _error(self._reader.other.value, f"It did not write the field {where}.")
        return cls(**values)

    def _value(self, hint: Any, data: object, path: str) -> Any:  # noqa: ANN401 - driven by hints
        origin, args = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            return self._union(args, data, path)
        if origin is tuple and isinstance(data, list):
            return tuple(self._value(args[0], item, f"{path}[{i}]") for i, item in enumerate(data))
        if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(data, dict):
            return {k: self._value(args[1], v, f"{path}.{k}") for k, v in data.items()}
        if isinstance(hint, type) and origin is None:
            return self._plain(hint, data, path)
        raise self._wrong(path, str(hint), data)

    def _union(self, args: tuple[Any, ...], data: object, path: str) -> Any:  # noqa: ANN401
        if data is None and type(None) in args:
            return None
        options = [arg for arg in args if arg is not type(None)]
        if len(options) == 1:  # an error from this call names the nested field
            return self._value(options[0], data, path)
        for arg in options:
            try:
                return self._value(arg, data, path)
            except ContractVersionError:
                continue
        raise self._wrong(path, " or ".join(arg.__name__ for arg in options), data)

    def _plain(self, hint: type, data: object, path: str) -> Any:  # noqa: ANN401
        if dataclasses.is_dataclass(hint):
            return self.dataclass(hint, data, path)
        if issubclass(hint, enum.Enum):
            try:
                return hint(data)
            except ValueError:
                raise misfit(self._reader, path, f"a {hint.__name__}, found {data!r}") from None
        if hint is float and isinstance(data, int) and not isinstance(data, bool):
            return float(data)
        if isinstance(data, hint) and (hint is bool or not isinstance(data, bool)):
            return data
        raise self._wrong(path, hint.__name__, data)

    def _wrong(self, path: str, expected: str, data: object) -> ContractVersionError:
        return misfit(self._reader, path, f"{expected}, found {type(data).__name__}")


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
