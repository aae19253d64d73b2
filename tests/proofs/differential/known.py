"""The known differences: the entries of docs/evidence/differences.json, and their values.

The file holds an entry for each row of the table in docs/reference/sql.md, and for those not yet
mended. A function here decides by the entry's `id` whether a differing value belongs to it:
`@entry("its-id")` marks a function of `Seen`, or of a statement's marks. An entry without such a
function is about errors only.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Final

from tests.proofs.differential import statements
from tests.proofs.differential.cases import UNORDERED, Seen, order_of
from tests.proofs.differential.values import Value
from tests.support.documents import EVIDENCE

FILE: Final = EVIDENCE / "differences.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An expression or query with the answers of both engines; see the module `examples`."""

    sql: str
    hive: str
    ours: str
    grouped: bool = False
    tables: Sequence[str] = ()
    statement: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A known difference, and its row in docs/reference/sql.md, which several may share.

    `where`, `ours` and `hive` are the cells of that row.
    """

    id: str
    what: str
    where: str
    hive: str
    ours: str
    remedy: str
    examples: Sequence[Example]


def entries(file: Path = FILE) -> list[Entry]:
    return [
        Entry(**{**one, "examples": [Example(**example) for example in one["examples"]]})
        for one in json.loads(file.read_text())
    ]


PREDICATES: Final[dict[str, Callable[[Seen], bool]]] = {}


def entry(name: str) -> Callable[[Callable[[Seen], bool]], Callable[[Seen], bool]]:
    """Register a function that decides whether a differing value belongs to this entry."""

    def keep(test: Callable[[Seen], bool]) -> Callable[[Seen], bool]:
        PREDICATES[name] = test
        return test

    return keep


def names_of(seen: Seen) -> list[str]:
    """Return the IDs of the entries that a value belongs to, best first."""
    return [name for name, test in PREDICATES.items() if test(seen)]


_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_NUMBERS: Final = (*_INTEGERS, "decimal", "float", "double")
_TEXTS: Final = ("string", "varchar", "char")
_TIMES: Final = ("date", "timestamp")
_COMPARING: Final = frozenset(
    {"=", "<>", "<", "<=", ">", ">=", "<=>", "BETWEEN AND", "NOT BETWEEN AND", "IN", "NOT IN"}
    | {"IS DISTINCT FROM", "IS NOT DISTINCT FROM", "nullif", "CASE WHEN THEN WHEN THEN ELSE END"}
)
_ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%", "mod", "pmod", "DIV"})
_CHOOSING: Final = frozenset(
    {"coalesce", "if", "nvl", "nullif", "CASE WHEN THEN ELSE END", "CASE WHEN THEN END"}
)
_MONTHS: Final = re.compile(r"INTERVAL '[^']*' (MONTH|YEAR)|add_months")


def _is_nan(value: Value) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_nan, value))
    return isinstance(value, float) and math.isnan(value)


def _is_zero(value: Value) -> bool:
    return isinstance(value, float) and value == 0


def _is_negative(value: Value) -> bool:
    return isinstance(value, int | float | Decimal) and value < 0


def _has_nan(seen: Seen) -> bool:
    return any(map(_is_nan, seen.values()))


def _is_text(kind: str) -> bool:
    return kind.startswith(_TEXTS)


def _digits(value: Value) -> str:
    """Return a number's text without trailing zeros."""
    return re.sub(r"(\.\d*?)0+(?!\d)", r"\1", str(value)).replace(".|", "|").rstrip(".")


def _without_trailing_zeros(text: str, numbers: Sequence[str]) -> str:
    """Return a text without the zeros that follow one of these decimal numbers in it."""
    for number in numbers:
        text = re.sub(f"{re.escape(number)}0+", number, text)
    return text


def _all_kinds(seen: Seen, *kinds: str) -> bool:
    return bool(seen.kinds) and all(kind.startswith(kinds) for kind in seen.kinds if kind)


def _is_whole(kind: str) -> bool:
    return kind.startswith(_INTEGERS)


# The differences in the table of docs/reference/sql.md.


@entry("mixed-texts")
def _mixed_texts(seen: Seen) -> bool:
    others = (*_NUMBERS, *_TIMES, "boolean")
    # In a choice inside a choice, Hive's inner result is a text, and ours is a number.
    is_mixed = seen.has(*others) or (_is_text(seen.their_kind) and not _is_text(seen.our_kind))
    return seen.name in _CHOOSING | _COMPARING and any(map(_is_text, seen.kinds)) and is_mixed


@entry("index-beyond-a-made-array")
def _made_array(seen: Seen) -> bool:
    is_indexed = re.search(r"coalesce\(.*\barray\(.*\)\[", seen.text) is not None
    return is_indexed and (seen.name in {"IS NULL", "IS NOT NULL"} or seen.name.startswith("count"))


@entry("boolean-as-text")
def _boolean_as_text(seen: Seen) -> bool:
    as_text = str(seen.ours).lower() == str(seen.theirs).lower()
    return seen.has("boolean") and (as_text or any(map(_is_text, seen.kinds)))


@entry("decimal-as-text")
def _decimal_as_text(seen: Seen) -> bool:
    if not isinstance(seen.ours, str) or not isinstance(seen.theirs, str):
        return False
    if "round(" in seen.text:  # further text may stand behind the number
        numbers = [str(value) for value in seen.values() if isinstance(value, Decimal)]
        ours, theirs = (_without_trailing_zeros(t, numbers) for t in (seen.ours, seen.theirs))
        if ours == theirs:
            return True
    ours, theirs = _digits(seen.ours), _digits(seen.theirs)
    if seen.has("boolean"):  # "boolean-as-text" in the same string
        ours, theirs = ours.lower(), theirs.lower()
    return seen.has("decimal") and ours == theirs


@entry("date-plus-days-as-text")
def _date_plus_days(seen: Seen) -> bool:
    time = " 00:00:00"
    return "INTERVAL" in seen.text and str(seen.theirs) == f"{seen.ours}{time}"


@entry("text-as-time")
def _text_as_time(seen: Seen) -> bool:
    compares = seen.name in _COMPARING and seen.has(*_TIMES)
    of_time = compares or seen.name in _OF_TIMES
    return of_time and any(map(_is_text, seen.kinds)) and not _is_clean(seen)


_OF_TIMES: Final = frozenset(
    {"year", "month", "day", "dayofmonth", "dayofweek", "hour", "minute", "second", "quarter"}
    | {"weekofyear", "datediff", "months_between", "date_add", "date_sub", "date_format"}
    | {"cast date", "cast timestamp", "date", "timestamp", "to_date", "unix_timestamp"}
    | {"next_day", "last_day", "trunc", "add_months"}
)
_CLEAN_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d+)?)?\Z")


def _is_clean(seen: Seen) -> bool:
    """Return True if each text among the arguments is a complete time, or NULL."""
    return all(
        _CLEAN_TIME.match(str(value))
        for kind, argument in zip(seen.kinds, seen.arguments, strict=True)
        for value in argument
        if _is_text(kind) and value is not None
    )


@entry("nan-inf-text")
def _nan_inf_text(seen: Seen) -> bool:
    words = {"nan", "inf", "infinity", "-inf", "-infinity", "+inf"}
    return any(isinstance(v, str) and v.strip().lower() in words for v in seen.values())


@entry("beyond-16-bits")
def _beyond_16_bits(seen: Seen) -> bool:
    return any(isinstance(v, str) and any(ord(c) > 0xFFFF for c in v) for v in seen.values())


@entry("pattern-with-a-backslash")
def _pattern(seen: Seen) -> bool:
    return "LIKE" in seen.name and any("\\" in v for v in seen.values() if isinstance(v, str))


@entry("conv-blanks")
def _conv(seen: Seen) -> bool:
    return seen.name == "conv"


@entry("unix-timestamp-before-1970")
def _unix_timestamp(seen: Seen) -> bool:
    return seen.name in {"unix_timestamp", "cast bigint"} and "." in str(seen.value(0))


@entry("float")
def _float(seen: Seen) -> bool:
    is_cast = "AS float" in seen.text
    if is_cast and seen.name in {"floor", "ceil", "ceiling"}:
        return True
    if seen.our_kind == "double" and re.match(
        rf"{re.escape(seen.name)}\(cast\(\w+ AS float\)", seen.text
    ):
        return True
    is_mixed = seen.has("float") and (is_cast or seen.has(*(k for k in _NUMBERS if k != "float")))
    return is_mixed and seen.name in _ARITHMETIC | _COMPARING


@entry("nan-in-comparisons")
def _nan_compared(seen: Seen) -> bool:
    if seen.name == "NOT":  # Hive turns the comparison round
        has_nan = not seen.words.isdisjoint({"d", "f"}) or "NaN" in seen.text
        return has_nan and seen.ours is True and _COMPARISON.search(seen.text) is not None
    return _has_nan(seen) and (seen.name in _COMPARING or "CASE" in seen.name)


_COMPARISON: Final = re.compile(r"[<>=]|BETWEEN|\bIN\b")


@entry("null-of-a-partition")
def _null_partition(seen: Seen) -> bool:
    return "pp" in seen.words or "__HIVE_DEFAULT_PARTITION__" in seen.values()


@entry("hive-trunc-of-a-date")
def _hive_trunc(seen: Seen) -> bool:
    return seen.name == "trunc" and str(seen.theirs).startswith("1970-01-01")


@entry("blank-around-a-whole-number")
def _blank(seen: Seen) -> bool:
    called = re.match(r"(cast )?(tinyint|smallint|int|bigint)\Z", seen.name)
    value = seen.value(0)
    return called is not None and isinstance(value, str) and value != value.strip()


@entry("decimal-and-bigint")
def _decimal_bigint(seen: Seen) -> bool:
    is_mixed = seen.name in _ARITHMETIC and any(map(_is_whole, seen.kinds))
    is_quotient = seen.name == "/" and seen.our_kind != seen.their_kind
    is_rounded = is_quotient and _is_rounded(seen.ours, seen.theirs)
    return seen.has("decimal") and (
        is_mixed or is_rounded or _is_last_digit(seen.ours, seen.theirs)
    )


def _is_rounded(one: Value, other: Value) -> bool:
    """Return True for decimals that differ only by the digits behind the shorter one's last."""
    if not isinstance(one, Decimal) or not isinstance(other, Decimal):
        return False
    return abs(one - other) <= Decimal(1).scaleb(-min(_places(one), _places(other)))


def _is_last_digit(one: Value, other: Value) -> bool:
    """Return True for decimals that differ only after 30 digits."""
    if not isinstance(one, Decimal) or not isinstance(other, Decimal):
        return False
    return abs(one - other) * 10**30 < max(abs(one), abs(other))


@entry("common-type-of-decimals")
def _common_type(seen: Seen) -> bool:
    types = {kind for kind in seen.kinds if kind.startswith("decimal(")}
    if seen.name in {"IN", "NOT IN"}:
        first, *others = [*seen.values()] or [None]
        return len(types) > 1 and any(_is_rounded(first, other) for other in others)
    has_common = len(types) > 1 and seen.name not in _ARITHMETIC
    is_other = seen.our_kind != seen.their_kind
    return has_common and is_other and _is_rounded(seen.ours, seen.theirs)


@entry("average-of-a-wide-decimal")
def _average(seen: Seen) -> bool:
    found = re.match(r"decimal\((\d+)", seen.our_kind)
    is_wide = found is not None and int(found[1]) >= _WIDE
    is_of_rounded = "round(" in seen.text and _is_rounded(seen.ours, seen.theirs)
    return seen.name.startswith("avg") and (is_wide or is_of_rounded)


_WIDE: Final = 34  # an average has four digits more than its argument


@entry("decimal-overflow-that-is-a-value")
def _overflow(seen: Seen) -> bool:
    return seen.name in _ARITHMETIC and seen.theirs is None and seen.has("decimal")


@entry("float-as-decimal")
def _float_decimal(seen: Seen) -> bool:
    return seen.has("float") and "decimal" in f"{seen.our_kind} {seen.their_kind}"


@entry("float-in-choices")
def _float_choices(seen: Seen) -> bool:
    return seen.name in _CHOOSING and seen.has("float")


@entry("days-before-1582-10-15")
def _julian(seen: Seen) -> bool:
    old = "1583"  # a month of 1582 may lose or gain days
    times = [seen.ours, seen.theirs, *seen.values()]
    texts = [str(value)[:10] for value in times if value is not None]
    is_old = any(re.match(r"\d{4}-\d\d-\d\d", text) and text < old for text in texts)
    of_time = seen.our_kind.startswith(_TIMES) or seen.has(*_TIMES) or seen.name in _OF_TIMES
    return is_old and of_time


@entry("minus-zero-as-text")
def _minus_zero(seen: Seen) -> bool:
    is_shown = isinstance(seen.ours, str) or seen.name in {"pow", "power"}
    return any(map(_is_zero, seen.values())) and is_shown


@entry("hive-rounds-what-is-calculated")
def _hive_round(seen: Seen) -> bool:
    is_large = isinstance(seen.theirs, float) and abs(seen.theirs) >= _LARGEST_LONG
    if seen.name in _COMPARING:
        return "round(" in seen.text and any(value is None for value in seen.values())
    return seen.name in {"round", "bround"} and (seen.has("decimal") or is_large)


@entry("hive-small-integers-and-decimals")
def _hive_small(seen: Seen) -> bool:
    return seen.name in _ARITHMETIC and seen.has("tinyint", "smallint") and seen.has("decimal")


@entry("nan-in-functions")
def _nan_functions(seen: Seen) -> bool:
    endless = any(isinstance(v, float) and math.isinf(v) for v in seen.values())
    # Hive stores NULL for NaN, but does not find it by IS NULL.
    looks_for_null = re.match(r"is(not)?null\(|.* IS (NOT )?NULL", seen.text) is not None
    is_shown = seen.ours is None and _is_nan(seen.theirs)
    is_hidden = looks_for_null or is_shown
    is_hidden = is_hidden and any(f"{name}(" in seen.text for name in _OF_NAN)
    if re.match(r"count\((DISTINCT )?a(cos|sin)\(", seen.text):
        return (
            isinstance(seen.ours, int) and isinstance(seen.theirs, int) and seen.ours < seen.theirs
        )
    if re.match(r"corr\(.*\ba(cos|sin)\(", seen.text):
        return _is_nan(seen.theirs)  # our acos and asin of NaN are NULL, and left out
    if re.search(r"\ba(cos|sin)\(", seen.text) and is_shown:
        return True
    return is_hidden or (seen.name in _OF_NAN and (_has_nan(seen) or endless))


_OF_NAN: Final = frozenset(
    {"round", "bround", "ln", "log", "log2", "log10", "sqrt", "sign", "width_bucket"}
    | {"array_distinct", "collect_set", "covar_pop", "covar_samp"}
)


@entry("nullif-of-date-and-timestamp")
def _nullif(seen: Seen) -> bool:
    return seen.name == "nullif" and seen.has("date") and seen.has("timestamp")


_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32}


@entry("nullif-of-a-larger-constant")
def _nullif_of_a_constant(seen: Seen) -> bool:
    bits, constant = _BITS.get("".join(seen.kinds[:1]), 0), seen.value(1)
    if seen.name != "nullif" or seen.theirs is not None or not bits:
        return False
    both = isinstance(seen.ours, int) and isinstance(constant, int)
    return both and (constant - seen.ours) % (1 << bits) == 0


@entry("malformed-texts")
def _malformed(seen: Seen) -> bool:
    is_no_utf8 = any(isinstance(value, str) and "\ufffd" in value for value in seen.values())
    return is_no_utf8 or seen.name in {"unbase64", "unhex", "parse_url"}


@entry("hive-decimals-of-several-scales")
def _scales(seen: Seen) -> bool:
    return seen.name == "array" and _all_kinds(seen, "decimal")


@entry("hive-calculated-decimals")
def _calculated_decimals(seen: Seen) -> bool:
    is_zero = seen.theirs == 0 and seen.ours != 0
    return seen.name in {"+", "-", "pmod"} and _all_kinds(seen, "decimal") and is_zero


@entry("range-over-a-decimal")
def _range(seen: Seen) -> bool:
    return "RANGE BETWEEN" in seen.text and seen.has("decimal")


@entry("hive-sum-beyond-38-digits")
def _sum(seen: Seen) -> bool:
    is_wide = any(isinstance(v, Decimal) and len(v.as_tuple().digits) >= 38 for v in seen.values())
    if not seen.name.startswith("sum") or not (is_wide or " OVER (" in seen.text):
        return False
    return _is_rounded(seen.ours, seen.theirs) or _has_wide_part(seen.values())


def _has_wide_part(values: Iterable[Value]) -> bool:
    """Return True if a sum of some of these decimals has more than 38 digits."""
    decimals = [value for value in values if isinstance(value, Decimal)]
    scale = max(map(_places, decimals), default=0)
    with localcontext(prec=100):
        parts = [sum((v for v in decimals if v * sign > 0), Decimal()) for sign in (1, -1)]
        return any(abs(part) >= Decimal(1).scaleb(38 - scale) for part in parts)


@entry("between-null")
def _between_null(seen: Seen) -> bool:
    is_between = seen.name in {"BETWEEN AND", "NOT BETWEEN AND"}
    return is_between and seen.theirs is None and any(value is None for value in seen.values())


@entry("unix-timestamp-of-last-day")
def _unix_timestamp_of_last_day(seen: Seen) -> bool:
    is_of_text = re.match(
        r"(to_)?unix_timestamp\((last_day|next_day|trunc|add_months)\(", seen.text
    )
    return is_of_text is not None and seen.theirs is None


@entry("printf-of-a-converted-timestamp")
def _printf_of_timestamp(seen: Seen) -> bool:
    return seen.name == "printf" and str(seen.ours) == f"{seen.theirs}.0"


@entry("char-blanks")
def _char_blanks(seen: Seen) -> bool:
    ours, theirs = str(seen.ours), str(seen.theirs)
    if seen.name == "cast binary":
        return theirs.startswith(ours) and set(re.findall("..", theirs[len(ours) :])) == {"20"}
    return seen.name == "printf" and any(kind.startswith("char") for kind in seen.kinds)


@entry("lower-of-upper")
def _lower_of_upper(seen: Seen) -> bool:
    return re.match(r"(lower|lcase)\((upper|ucase)\(", seen.text) is not None


@entry("hive-deviation-of-equal-values")
def _deviation(seen: Seen) -> bool:
    numbers = [abs(float(v)) for v in seen.values() if isinstance(v, int | float | Decimal)]
    largest = max(numbers, default=1.0)
    is_tiny = isinstance(seen.theirs, float) and not abs(seen.theirs) > _TINY * max(1.0, largest)
    return seen.name.startswith(("stddev", "var_", "covar")) and seen.ours == 0 and is_tiny


_TINY: Final = 1e-6


@entry("after-the-year-9999")
def _after_9999(seen: Seen) -> bool:
    texts = [str(value) for value in (seen.ours, seen.theirs, *seen.values())]
    return any(re.match(r"\+1|\d{5}-\d\d-", text) for text in texts)


@entry("printf-of-a-large-decimal")
def _printf_of_decimals(seen: Seen) -> bool:
    is_large = any(isinstance(v, Decimal) and abs(v) >= _LARGEST_OF_CLASS for v in seen.values())
    return seen.name == "printf" and is_large


_LARGEST_OF_CLASS: Final = 10**20


@entry("hive-long-constants")
def _long_constants(seen: Seen) -> bool:
    if any(_places(value) > _DIGITS_OF_LONG for value in seen.values()):
        return True
    has_long = any(map(_is_long, seen.values()))
    if has_long and seen.name in _MADE_OF_CONSTANTS:
        return True
    of_rows = any(len(argument) > 1 for argument in seen.arguments)  # of a group or window
    is_cast = re.match(r"\w+\((DISTINCT )?cast\(.* AS double\)", seen.text) is not None
    is_null = seen.name == "<=>" and seen.theirs is True and None in seen.values()
    is_none = seen.theirs in (None, 0) or (seen.name == "printf" and seen.theirs == _NULL_AS_NUMBER)
    return has_long and (is_none or is_null or (of_rows and is_cast))


_NULL_AS_NUMBER: Final = "nu"  # what '%.2f' makes of NULL
_MADE_OF_CONSTANTS: Final = frozenset({"map", "array", "struct", "named_struct"})


def _places(value: Value) -> int:
    """Return how many digits a decimal has behind the point; 0 for any other value."""
    exponent = value.as_tuple().exponent if isinstance(value, Decimal) else 0
    return -exponent if isinstance(exponent, int) else 0


def _is_long(value: Value) -> bool:
    if isinstance(value, Decimal):
        return len(re.sub(r"\D", "", f"{value:f}").lstrip("0")) > _DIGITS_OF_LONG
    is_number = isinstance(value, float) and value != 0
    return is_number and not 1 / _LARGEST_LONG < abs(value) < _LARGEST_LONG


@entry("hive-pmod-overflow")
def _pmod(seen: Seen) -> bool:
    is_whole = isinstance(seen.ours, int) and isinstance(seen.theirs, int)
    modulus = seen.value(1)
    is_large = isinstance(modulus, int) and modulus > _HALF_OF_INT
    return seen.name == "pmod" and is_whole and (is_large or seen.theirs < 0)


_HALF_OF_INT: Final = 2**30


@entry("order-of-sets")
def _order_of_sets(seen: Seen) -> bool:
    is_list = isinstance(seen.ours, list) and isinstance(seen.theirs, list)
    is_of_set = any(f"{name}(" in seen.text for name in UNORDERED)
    return is_of_set and is_list and _sorted(seen.ours) == _sorted(seen.theirs)


def _sorted(values: list[Value]) -> list[str]:
    return sorted(map(order_of, values))


@entry("hive-ceil-of-large-bigints")
def _ceil(seen: Seen) -> bool:
    is_large = any(isinstance(v, int) and abs(v) > _EXACT_IN_DOUBLE for v in seen.values())
    return seen.name in {"ceil", "ceiling", "floor", "avg", "avg DISTINCT"} and is_large


_EXACT_IN_DOUBLE: Final = 2**53
_DIGITS_OF_LONG: Final = 18
_LARGEST_LONG: Final = 10.0**_DIGITS_OF_LONG


@entry("hive-substring-index")
def _substring_index(seen: Seen) -> bool:
    delimiter = seen.value(1)
    has_several = isinstance(delimiter, str) and len(delimiter) > 1
    return seen.name == "substring_index" and has_several and _is_negative(seen.value(2))


# Hive is right about these if they are asked alone; see `course`.
TOGETHER: Final = "hive-windows-together"

# By the marks of a statement; see `statements`.
MARKS: Final = {
    "nan-in-comparisons": statements.NAN,
    "null-of-a-partition": statements.NULL_PARTITION,
    "merge-condition-null": statements.MERGE_OF_NULL,
    "totals-of-no-rows": statements.TOTALS,
    "hive-distinct-of-a-grouped-column": statements.DISTINCT_IN_TOTALS,
    "hive-fixed-grouped-column": statements.FIXED_IN_TOTALS,
    "hive-not-null-safe": statements.NOT_NULL_SAFE,
    "common-type-of-decimals": statements.COMMON_DECIMALS,
    "between-null": statements.BETWEEN_NULL,
    "hive-char-of-an-outer-view": statements.CHAR_OF_OUTER,
}


def statement_names(marks: frozenset[str]) -> list[str]:
    """Return the IDs of the entries that a statement with these marks may belong to."""
    return [name for name, mark in MARKS.items() if mark in marks]
