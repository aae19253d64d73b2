"""The JSON form of frozen dataclasses, in job contracts and in files.

Fields may be str, int, float, bool, None, enums, tuples, frozen sets, mappings with keys that are
text, nested dataclasses, and named tuples. A `Codec` reads the JSON values back by the type hints.

Example:
    >>> from airflow_hiveacid.format.records import Move
    >>> to_json(Move(location="/t", source="a", target="b"))
    {'location': '/t', 'source': 'a', 'target': 'b'}
    >>> Codec().read(Move, {"location": "/t", "source": "a", "target": "b"})
    Move(location='/t', source='a', target='b')
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NewType, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from airflow_hiveacid.format.errors import InvalidNameError

JsonValue = None | bool | int | float | str | list[Any] | dict[str, Any]
"""The result of `json.loads`; nested values are also JSON values."""

_STORED_AS: Final = "stored_as"

_T = TypeVar("_T")
_Read = Callable[[Any, str], object]


class MisfitError(ValueError):
    """A JSON value does not have the expected type; `path` leads to the value."""

    def __init__(self, path: str, expected: str) -> None:
        self.path, self.expected = path, expected
        super().__init__(f"at {path}: expected {expected}")


class UnknownFieldError(MisfitError):
    """An object has a field that its dataclass lacks."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "no such field")


class MissingFieldError(MisfitError):
    """An object lacks a field of its dataclass."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "a value, found none")


def stored_as(name: str | None) -> Mapping[str, str | None]:
    """Return the metadata of a field with another name in JSON; None leaves the field out."""
    return {_STORED_AS: name}


def to_json(
    value: object, *, texts: tuple[type, ...] = (), omits_defaults: bool = False
) -> JsonValue:
    """Convert a dataclass value to JSON, `texts` to strings, or raise TypeError.

    With `omits_defaults`, leave out each field that has its default value.
    """
    if isinstance(value, texts):
        return str(value)
    convert = partial(to_json, texts=texts, omits_defaults=omits_defaults)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            name: convert(getattr(value, field.name))
            for name, field in _stored_fields(type(value))
            if not (omits_defaults and getattr(value, field.name) == _default(field))
        }
    if isinstance(value, enum.Enum):
        return cast("JsonValue", value.value)
    if isinstance(value, Mapping):
        return {str(k): convert(v) for k, v in value.items()}
    if isinstance(value, tuple | list | frozenset):
        items = sorted(value) if isinstance(value, frozenset) else value
        return [convert(item) for item in items]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"JSON cannot contain a {type(value).__name__}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    attribute: str
    read: _Read
    is_required: bool


class Codec:
    """A reader of dataclasses, and its counterpart `to_json`. Mutable: it remembers their fields.

    Threads may share it. `texts` are the types whose values are strings in JSON, with the functions
    that parse them. The functions in `numbers`, for int and float, raise ValueError if a number is
    out of bounds. With `needs_all`, no field may be missing, even if it has a default.
    """

    def __init__(
        self,
        *,
        texts: Mapping[type, Callable[[str], object]] | None = None,
        numbers: Mapping[type, Callable[[object], object]] | None = None,
        needs_all: bool = False,
        ignores_unknown: bool = False,
    ) -> None:
        self._texts, self._numbers = texts or {}, numbers or {}
        self._needs_all, self._ignores_unknown = needs_all, ignores_unknown
        self._known: dict[type, dict[str, _Field]] = {}

    def to_json(self, value: object) -> JsonValue:
        """Convert a value to JSON values, as `to_json` does."""
        return to_json(value, texts=tuple(self._texts))

    def read(self, cls: type[_T], data: object, path: str = "") -> _T:
        """Return a value of a type from JSON, or raise MisfitError; `path` is for messages."""
        return cast("_T", self._reader(cls)(data, path))

    def _object(self, cls: type, data: object, path: str) -> object:
        if not isinstance(data, dict):
            raise _wrong(path or cls.__name__, "an object", data)
        fields = self._fields(cls)
        if not self._ignores_unknown:
            for name in data:
                if name not in fields:
                    raise UnknownFieldError(_below(path, name))
        values = {}
        for name, field in fields.items():
            if name in data:
                values[field.attribute] = field.read(data[name], _below(path, name))
            elif field.is_required:
                raise MissingFieldError(_below(path, name))
        return cls(**values)

    def _fields(self, cls: type) -> dict[str, _Field]:
        if cls not in self._known:
            hints = get_type_hints(cls)
            self._known[cls] = {
                name: _Field(
                    attribute=field.name,
                    read=self._reader(hints[field.name]),
                    is_required=self._needs_all or _default(field) is dataclasses.MISSING,
                )
                for name, field in _stored_fields(cls)
            }
        return self._known[cls]

    def _reader(self, hint: Any) -> _Read:  # noqa: ANN401 - driven by hints
        origin, args = get_origin(hint), get_args(hint)
        if isinstance(hint, NewType):
            return self._reader(hint.__supertype__)
        if hint == JsonValue:  # before the unions, because it is one
            return lambda data, _path: data
        if origin in (Union, types.UnionType):
            return self._union(args)
        if origin in (tuple, frozenset):
            return _items(origin, self._reader(args[0]))
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return _mapping(str(hint), self._reader(args[0]), self._reader(args[1]))
        if isinstance(hint, type) and origin is None:
            return self._plain(hint)
        raise TypeError(f"a codec cannot read {hint}")

    def _union(self, args: tuple[Any, ...]) -> _Read:
        options = [arg for arg in args if arg is not type(None)]
        readers = [self._reader(arg) for arg in options]

        def read(data: object, path: str) -> object:
            if data is None and len(options) < len(args):
                return None
            if len(readers) == 1:  # an error from this call names the nested field
                return readers[0](data, path)
            for option in readers:
                try:
                    return option(data, path)
                except MisfitError:
                    continue
            raise _wrong(path, " or ".join(arg.__name__ for arg in options), data)

        return read

    def _plain(self, hint: type) -> _Read:
        if hint in self._texts:
            return _parsed(self._texts[hint], hint.__name__, str)
        if hint in self._numbers:
            return partial(_bounded, self._numbers[hint])
        if dataclasses.is_dataclass(hint):
            # If another field names the value's type, the caller has already read the value.
            return lambda data, path: (
                data if isinstance(data, hint) else self._object(hint, data, path)
            )
        if issubclass(hint, enum.Enum):
            return _parsed(hint, f"a {hint.__name__}")
        if issubclass(hint, tuple):
            return _named_tuple(hint, [self._reader(h) for h in get_type_hints(hint).values()])
        return partial(_scalar, hint)


def _stored_fields(cls: type) -> Iterator[tuple[str, dataclasses.Field[Any]]]:
    for field in dataclasses.fields(cls):
        name = field.metadata.get(_STORED_AS, field.name)
        if name is not None:
            yield name, field


def _default(field: dataclasses.Field[Any]) -> object:
    """Return the default value of a field, or MISSING."""
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def _items(made: type, item: _Read) -> _Read:
    def read(data: object, path: str) -> object:
        if not isinstance(data, list):
            raise _wrong(path, "a list", data)
        return made(item(one, f"{path}[{i}]") for i, one in enumerate(data))

    return read


def _named_tuple(cls: type, items: Sequence[_Read]) -> _Read:
    def read(data: object, path: str) -> object:
        if not isinstance(data, list) or len(data) != len(items):
            raise _wrong(path, f"a list of {len(items)}", data)
        pairs = enumerate(zip(items, data, strict=True))
        return cls(*(item(value, f"{path}[{i}]") for i, (item, value) in pairs))

    return read


def _mapping(expected: str, key: _Read, value: _Read) -> _Read:
    def read(data: object, path: str) -> object:
        if not isinstance(data, dict):
            raise _wrong(path, expected, data)
        return {key(k, path): value(v, _below(path, k)) for k, v in data.items()}

    return read


def _parsed(parse: Callable[[Any], object], expected: str, kind: type = object) -> _Read:
    def read(data: object, path: str) -> object:
        if not isinstance(data, kind):
            raise _wrong(path, expected, data)
        try:
            return parse(data)
        except (ValueError, InvalidNameError) as error:
            raise MisfitError(path, f"{expected}, found {data!r:.40}") from error

    return read


def _bounded(check: Callable[[object], object], data: object, path: str) -> object:
    try:
        return check(data)
    except ValueError as error:
        raise MisfitError(path, f"another number: {error}") from error


def _scalar(hint: type, data: object, path: str) -> object:
    if hint is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if isinstance(data, hint) and (hint is bool or not isinstance(data, bool)):
        return data
    raise _wrong(path, hint.__name__, data)


def _wrong(path: str, expected: str, data: object) -> MisfitError:
    return MisfitError(path, f"{expected}, found {type(data).__name__}")


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
