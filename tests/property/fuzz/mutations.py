"""Damage of every kind, from dice: to texts, to bytes and to protobuf messages."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.message import Message

_NUMBERS: Final = [0, 1, 2, 3, 7, 127, 128, 255, 256, 1 << 16, (1 << 23) - 1, 1 << 23, 10**9]
_LARGE: Final = [(1 << k) - d for k in (31, 32, 62, 63, 64) for d in (0, 1)]
_ODD_TEXTS: Final = [
    "",
    " ",
    "-",
    "_",
    ".",
    ":",
    ",",
    "/",
    "\0",
    "\n",
    "é",
    "٣",
    "\ud800",
    "9" * 5000,
]
_ODD_VALUES: Final = [None, True, -1, 1e400, float("nan"), [], {}, "", "0", [[]], {"": None}]


class Dice(random.Random):
    """Random damage. The same seed does the same."""

    def number(self) -> int:
        """A number of the kind that breaks things."""
        return self.choice([*_NUMBERS, *_LARGE, self.randrange(1 << 16)])

    def text(self, text: str, others: Sequence[str]) -> str:
        """A text that is nearly this one."""
        for _ in range(self.randint(1, 3)):
            at, end = sorted((self.randint(0, len(text)), self.randint(0, len(text))))
            other = self.choice(others)
            new = self.choice(
                [
                    "",
                    text[at:end] * 2,
                    text[at:end][::-1],
                    other[self.randint(0, len(other)) :],
                    str(self.number()),
                    self.choice(_ODD_TEXTS),
                    chr(self.randrange(1, 0x250)),
                    text[at:end] * self.choice([3, 30]),
                ]
            )
            text = text[:at] + new + text[end if self.random() < 0.5 else at :]
        return text

    def data(self, data: bytes) -> bytes:
        """Bytes that are nearly these."""
        changed = bytearray(data)
        for _ in range(self.randint(1, 4)):
            at = self.randint(0, max(0, len(changed) - 1))
            match self.randrange(5):
                case 0 if changed:
                    changed[at] ^= 1 << self.randrange(8)
                case 1:
                    changed[at : at + 1] = bytes([self.randrange(256)])
                case 2:
                    del changed[at : at + self.randint(1, 9)]
                case 3:
                    changed[at:at] = self.randbytes(self.randint(1, 9))
                case _:
                    changed[at:at] = changed[at : at + self.randint(1, 40)]
        return bytes(changed)

    def json(self, text: str) -> str:
        """A JSON document with other values or keys somewhere; or no JSON any more."""
        if self.random() < 0.3:
            return self.text(text, [text, "[" * 100_000, '{"a":' * 100_000])
        document = json.loads(text)
        for _ in range(self.randint(1, 3)):
            document = self._value(document)
        return json.dumps(document)

    def _value(self, value: Any) -> Any:  # noqa: ANN401 - any JSON
        if self.random() < 0.2:
            return self.choice([*_ODD_VALUES, self.number(), -self.number(), str(self.number())])
        match value:
            case dict() if value:
                key = self.choice(list(value))
                changed = dict(value)
                match self.randrange(6):
                    case 0:
                        del changed[key]
                    case 1:
                        changed[self.text(key, [key])] = changed.pop(key)
                    case 2:
                        changed[self.text(key, [key])] = value
                    case _:
                        changed[key] = self._value(value[key])
                return changed
            case list() if value:
                at = self.randrange(len(value))
                return [*value[:at], self._value(value[at]), *value[at + self.randrange(2) :]]
            case str():
                return self.text(value, [value])
            case _:
                return self.choice([*_ODD_VALUES, self.number()])

    def message(self, message: Message) -> None:
        """Change one thing somewhere in a message."""
        fields = message.DESCRIPTOR.fields
        is_set = [field for field, _ in message.ListFields()]
        field = self.choice(is_set if is_set and self.random() < 0.85 else list(fields))
        if field.is_repeated:
            self._repeated(getattr(message, field.name), field)
        elif self.random() < 0.1:
            message.ClearField(field.name)
        elif field.message_type is not None:
            self.message(getattr(message, field.name))
        else:
            setattr(message, field.name, self._scalar(field, getattr(message, field.name)))

    def _repeated(self, items: Any, field: Any) -> None:  # noqa: ANN401 - protobuf's own
        at = self.randrange(len(items)) if len(items) else 0
        what = self.randrange(8)
        if what == 0 and len(items):
            del items[at]
        elif what == 1 and len(items):
            other = self.randrange(len(items))
            items.append(items[other])
        elif what == 2 and len(items) > 1:
            kept = list(items)
            self.shuffle(kept)
            del items[:]
            items.extend(kept)
        elif field.message_type is not None:
            self.message(items[at] if len(items) else items.add())
        elif len(items):
            items[at] = self._scalar(field, items[at])
        else:
            items.append(self._scalar(field, field.default_value or 0))

    def _scalar(self, field: Any, value: Any) -> Any:  # noqa: ANN401 - protobuf's own
        bits = {
            field.TYPE_UINT32: (0, (1 << 32) - 1),
            field.TYPE_UINT64: (0, (1 << 64) - 1),
            field.TYPE_SINT32: (-(1 << 31), (1 << 31) - 1),
            field.TYPE_INT32: (-(1 << 31), (1 << 31) - 1),
            field.TYPE_SINT64: (-(1 << 63), (1 << 63) - 1),
        }
        match field.type:
            case field.TYPE_STRING:
                text = self.text(str(value or ""), ["row", "c1", str(value or "")])
                return text.encode(errors="replace").decode()
            case field.TYPE_BYTES:
                return self.data(bytes(value or b""))
            case field.TYPE_BOOL:
                return not value
            case field.TYPE_DOUBLE:
                return self.choice([0.0, -1.0, 1e308, float("inf"), float("nan")])
            case kind:
                low, high = bits[kind]
                near = int(value) + self.choice([-1, 1])
                wanted = self.choice([near, near, self.number(), -self.number()])
                return min(max(wanted, low), high)
