"""The Hive functions that SQL may call, and the Spark SQL that replaces them.

A function is allowed if tests/interop/test_functions.py has compared its results in Spark and in
Hive 4.0.1, over rows with NULL, empty strings, negative numbers and more. A call runs as Spark's
own function, as Hive's Java class in Spark (`plan.statements.hive_functions`), or as a Spark
expression with the same results. A replacement never changes an argument.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> (span,) = statements_of("substr(x, n)")
    >>> check_function(span, 0)
    >>> span.written(function_changes(span))
    '__hiveacid_substr(x, n)'
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from airflow_hiveacid.plan.statements.hive_functions import called
from airflow_hiveacid.sql.expressions.arguments import (
    NEEDED,
    Argument,
    has_no_blanks,
    is_natural,
    is_positive,
    is_some_text,
    is_string,
    is_without_choice,
)
from airflow_hiveacid.sql.text import Span
from airflow_hiveacid.sql.text.tokens import Kind

TRUTH: Final = (
    "Hive and Spark convert different strings to true, and a number here may be a string",
    "a comparison: x = 'true' for a string, x <> 0 for a number",
)
_OF_SESSION: Final = "the value would be the driver's user"
_OTHER_SESSION: Final = "the value would be from a different session"
_APPROXIMATE: Final = ("each engine approximates it differently", "percentile(x, p)")
_OF_POPULATION: Final = "Hive computes it for a population, but Spark computes it for a sample"
# The difference and the proposed replacement, by function name.
_NEVER: Final[Mapping[str, tuple[str, str]]] = {
    "aes_decrypt": ("the modes differ", "the text itself"),
    "aes_encrypt": ("the modes differ", "sha2(x, 256) for a digest"),
    "boolean": TRUTH,
    "char": ("Spark does not truncate the string in a cast", "substr(x, 1, n)"),
    "current_catalog": (_OTHER_SESSION, "the name"),
    "current_database": (_OTHER_SESSION, "the name"),
    "current_schema": (_OTHER_SESSION, "the name"),
    "current_user": (_OF_SESSION, "a template"),
    "grouping_id": ("the bits differ", "grouping(a) * 2 + grouping(b)"),
    "hash": (
        "the hashes differ; for char and varchar even Hive's own class differs",
        "md5, sha2 or crc32",
    ),
    "histogram_numeric": _APPROXIMATE,
    "logged_in_user": (_OF_SESSION, "a template"),
    "percentile_approx": _APPROXIMATE,
    "session_user": (_OF_SESSION, "a template"),
    "std": (_OF_POPULATION, "stddev_pop or stddev_samp"),
    "stddev": (_OF_POPULATION, "stddev_pop or stddev_samp"),
    "surrogate_key": ("Spark does not have it", "the key yourself"),
    "typeof": ("Spark has other names for Hive's types", "the type"),
    "user": (_OF_SESSION, "a template"),
    "varchar": ("Spark does not truncate the string in a cast", "substr(x, 1, n)"),
    "variance": (_OF_POPULATION, "var_pop or var_samp"),
    "version": ("it would be Spark's version", "the version"),
    "xpath": ("the engines differ on nodes that are not text", "xpath_string"),
}
# Hive's equivalents of functions that users may expect from Spark or other engines.
_INSTEAD: Final[Mapping[str, str]] = {
    "any": "max(CASE WHEN x THEN 1 ELSE 0 END) = 1",
    "any_value": "max(x)",
    "approx_count_distinct": "count(DISTINCT x)",
    "array_size": "size(x)",
    "charindex": "locate(x, y)",
    "count_if": "sum(CASE WHEN x THEN 1 ELSE 0 END)",
    "bool_and": "min(CASE WHEN x THEN 1 ELSE 0 END) = 1",
    "bool_or": "max(CASE WHEN x THEN 1 ELSE 0 END) = 1",
    "date_diff": "datediff(x, y)",
    "date_part": "extract(month FROM x)",
    "date_trunc": "trunc(x, 'MM')",
    "dec": "cast(x AS decimal(10,2))",
    "decimal": "cast(x AS decimal(10,2))",
    "element_at": "x[0]",
    "endswith": "x LIKE '%y'",
    "every": "min(CASE WHEN x THEN 1 ELSE 0 END) = 1",
    "exists": "EXISTS (SELECT ...)",
    "group_concat": "concat_ws(',', collect_list(x))",
    "ifnull": "nvl(x, y)",
    "left": "substr(x, 1, n)",
    "len": "length(x)",
    "like": "x LIKE y",
    "listagg": "concat_ws(',', collect_list(x))",
    "make_date": "cast(concat(y, '-', m, '-', d) AS date)",
    "now": "current_timestamp()",
    "numeric": "cast(x AS decimal(10,2))",
    "regexp": "x RLIKE y",
    "regexp_like": "x RLIKE y",
    "right": "substr(x, -2)",
    "rlike": "x RLIKE y",
    "some": "max(CASE WHEN x THEN 1 ELSE 0 END) = 1",
    "startswith": "x LIKE 'y%'",
    "string_agg": "concat_ws(',', collect_list(x))",
    "to_timestamp": "cast(x AS timestamp)",
    "try_cast": "CASE WHEN x RLIKE '^[0-9]+$' THEN cast(x AS int) END",
}
# Functions with their minimum and maximum number of arguments; None means no maximum.
_COUNTED: Final[Mapping[tuple[int, int | None], str]] = {
    (0, 0): (
        "cume_dist current_date current_timestamp dense_rank e percent_rank pi rand rank row_number"
        " unix_timestamp uuid"
    ),
    (1, 1): (
        "abs acos array_distinct array_max array_min ascii asin atan avg base64 bigint bin cbrt"
        " ceil ceiling char_length character_length chr collect_list collect_set cos crc32 date day"
        " dayofmonth dayofweek degrees double exp explode extract factorial float floor grouping"
        " hex hour initcap inline int isnotnull isnull last_day lcase length ln log10 log2 lower"
        " ltrim map_keys map_values mask max md5 min minute month negative ntile octet_length"
        " posexplode positive quarter radians reverse rtrim second sha sha1 sign sin size smallint"
        " soundex sort_array space sqrt stddev_pop stddev_samp string sum tan timestamp tinyint"
        " to_date trim ucase unbase64 unhex upper var_pop var_samp weekofyear year"
    ),
    (1, 2): "bround first_value from_unixtime last_value log round to_unix_timestamp",
    (1, 3): "lag lead str_to_map",
    (2, 2): (
        "add_months array_contains array_except array_intersect array_remove array_union corr"
        " covar_pop covar_samp date_add date_format date_sub datediff decode encode find_in_set"
        " format_number from_utc_timestamp get_json_object instr levenshtein mod months_between"
        " next_day nullif nvl percentile pmod pow power repeat sha2 shiftleft shiftright"
        " shiftrightunsigned split to_utc_timestamp trunc xpath_boolean xpath_double xpath_float"
        " xpath_int xpath_long xpath_number xpath_short xpath_string"
    ),
    (2, 3): "array_join locate parse_url regexp_extract substr substring",
    (3, 3): "conv if lpad regexp_replace replace rpad substring_index translate",
    (4, 4): "width_bucket",
    (
        1,
        None,
    ): "array cast coalesce concat elt greatest least map named_struct printf stack struct",
    (2, None): "concat_ws json_tuple",
}
_COUNTS: Final[Mapping[str, tuple[int, int | None]]] = (
    {name: counts for counts, names in _COUNTED.items() for name in names.split()}
    | dict.fromkeys(("array", "count", "map"), (0, None))
    | {"unix_timestamp": (0, 2)}
)
COMPARED: Final = frozenset(_COUNTS)
"""The allowed functions, in lower case."""
# Words before a parenthesis that are not function names; `_calls_though` lists exceptions.
_NO_CALLS: Final = frozenset(
    {"AND", "OR", "NOT", "IN", "ON", "WHERE", "WHEN", "THEN", "ELSE", "CASE", "FROM", "JOIN"}
    | {"SELECT", "OVER", "AS", "BY", "GROUP BY", "ORDER BY", "PARTITION BY", "SORT BY", "HAVING"}
    | {"CLUSTER BY", "DISTRIBUTE BY", "USING", "EXISTS", "UNION", "ALL", "ANY", "SOME", "DISTINCT"}
    | {"LIKE", "RLIKE", "REGEXP", "BETWEEN", "IS", "INTERVAL", "VALUES", "SETS", "GROUPING SETS"}
    | {"ROLLUP", "CUBE", "DIV", "LIMIT", "OFFSET", "EXCEPT", "INTERSECT", "MINUS"}
    | {"DECIMAL", "NUMERIC", "DEC"}
)
_OF_PATTERNS: Final = frozenset({"LIKE", "RLIKE", "REGEXP"})
_OF_QUERIES: Final = frozenset({"ANY", "SOME", "EXISTS"})
_OF_DIGITS: Final = frozenset({"DECIMAL", "NUMERIC", "DEC"})
_BEFORE_TYPES: Final = frozenset({"AS", ":", "<", ","})
# After these words, a name before a parenthesis is no function, but a table with a column list, as
# in `t (a, b)`; a type, as in `decimal(10,2)`; or a name after that of its database.
_BEFORE_NAMES: Final = frozenset({"AS", ")", "."})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """The replacement for a Hive function that has different results in Spark.

    `alike` is a condition on an argument under which both return equal results, or None. `body` is
    a Spark expression over the arguments a, b, c and d; `bodies` has one for each number of
    arguments. Without both, Spark calls Hive's Java class.
    """

    alike: Argument | None = None
    body: str | None = None
    bodies: Mapping[int, str] = field(default_factory=dict)


_TYPES: Final = "concat_ws(' ', typeof(a), typeof(b), typeof(c))"
_ARE_DECIMALS: Final = f"{_TYPES} LIKE '%decimal%' AND NOT {_TYPES} RLIKE 'double|float'"
_NO_DECIMALS: Final = (
    "raise_error('width_bucket of decimals is exact in Hive, and rounded in Spark:"
    " write width_bucket(cast(x AS double), ...)')"
)
_PATTERN: Final = Argument(1, is_some_text)
_PAD: Final = Argument(2, is_some_text)
_START: Final = Argument(1, is_natural)
_BY_HIVES_CLASS: Final = (
    "add_months array_contains ascii chr concat_ws get_json_object initcap map_keys "
    "map_values printf size soundex str_to_map"
)
_WAYS: Final[Mapping[str, _Way]] = {
    **dict.fromkeys(_BY_HIVES_CLASS.split(), _Way()),
    "acos": _Way(body="CASE WHEN a BETWEEN -1 AND 1 THEN acos(a) END"),
    "array_join": _Way(
        bodies={
            2: "CASE WHEN size(a) <> 0 THEN array_join(a, b) END",
            3: (
                "CASE WHEN size(a) = 0 THEN NULL WHEN c IS NULL THEN array_join(a, b)"
                " ELSE array_join(a, b, c) END"
            ),
        }
    ),
    "array_remove": _Way(body="CASE WHEN size(a) = 0 THEN a ELSE array_remove(a, b) END"),
    "asin": _Way(body="CASE WHEN a BETWEEN -1 AND 1 THEN asin(a) END"),
    "base64": _Way(body=r"replace(base64(a), '\r\n', '')"),  # Spark breaks lines after 76 letters
    # Hive takes the digits of a string, Spark those of a whole number.
    "hex": _Way(
        body=(
            "CASE WHEN typeof(a) RLIKE 'decimal|double|float' THEN hex(cast(a AS string))"
            " ELSE hex(a) END"
        )
    ),
    "instr": _Way(
        alike=_PATTERN, body="CASE WHEN length(a) = 0 AND length(b) = 0 THEN 0 ELSE instr(a, b) END"
    ),
    "locate": _Way(
        alike=Argument(2, lambda span: span.text == "1")
    ),  # Spark finds an empty string at any start
    "lpad": _Way(alike=_PAD),
    "pmod": _Way(alike=Argument(1, is_positive), body="(a % b + b) % b"),
    "regexp_extract": _Way(alike=Argument(1, is_without_choice)),
    "replace": _Way(alike=_PATTERN),
    "rpad": _Way(alike=_PAD),
    "split": _Way(alike=_PATTERN),
    "sqrt": _Way(body="CASE WHEN a >= 0 THEN sqrt(a) END"),
    "substr": _Way(alike=_START),
    "substring": _Way(alike=_START),
    "substring_index": _Way(
        body="CASE WHEN length(a) = 0 THEN '' ELSE substring_index(a, b, c) END"
    ),
    "width_bucket": _Way(
        # an int in Hive, a bigint in Spark
        body=f"CASE WHEN {_ARE_DECIMALS} THEN {_NO_DECIMALS} ELSE int(width_bucket(a, b, c, d)) END"
    ),
}
_SUBSTR_FROM_END: Final = _Way(
    bodies={
        2: "CASE WHEN length(a) < -b THEN substr(a, 1, 0) ELSE substr(a, b) END",
        3: "CASE WHEN length(a) < -b THEN substr(a, 1, c * 0) ELSE substr(a, b, c) END",
    }
)
_EXTREMES: Final = {"greatest": "array_max", "least": "array_min"}
_CLASS_OF: Final = {"substring": "substr"}
_HELD: Final = "__hiveacid_x"
_WHOLE: Final = frozenset({"TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT"})
_TO_WHOLE: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_BLANKS: Final = f"cast({_HELD} AS string) RLIKE '^[\\\\p{{Cntrl}}\\\\s]|[\\\\p{{Cntrl}}\\\\s]$'"
_NO_NUMBER: Final = (
    "raise_error('Hive tasks do not read a string with blanks around a number as a number: remove"
    ' blanks with trim(x), tabs and line ends with regexp_replace(x, "[^0-9-]", "")\')'
)
_ELSE: Final = f"CASE WHEN {_BLANKS} THEN {_NO_NUMBER} ELSE"
_PARAMETERS: Final = "abcd"
_PARAMETER: Final = re.compile(r"\b[abcd]\b")


def check_function(span: Span, index: int) -> None:
    """Refuse a call, at the index of its name, if Spark and Hive return different results."""
    name = _name(span, index)
    if name in _NEVER:
        _refuse(span, index, *_NEVER[name])
    if name == "extract" and span.word(index + 2) in {"SECOND", "SECONDS"}:
        _refuse(span, index, "SECOND includes a fraction in Spark, but not in Hive", "second(x)")
    arguments = _arguments(span, index)
    for needed in NEEDED.get((name, len(arguments)), ()):
        argument = arguments[needed.position]
        if not needed.is_right(argument):
            argument.fail(f"{name}(): {needed.problem}", f"write {needed.remedy}")


def check_calls(span: Span) -> None:
    """Refuse calls of functions whose results were not compared with Hive's results."""
    for index, token in enumerate(span.tokens):
        if token.name and span.word(index - 1) == "." and span.word(index + 1) == "(":
            span.fail(
                "Spark cannot call functions of a database, and Hive cannot call Spark's",
                "write the function without a database, or an expression",
                span.tokens[_path_begin(span, index)],
            )
        if not _is_call(span, index):
            continue
        name = _name(span, index)
        if name not in _COUNTS:
            _refuse(span, index, "its results were not compared with Hive's", _suggested(name))
        minimum, maximum = _COUNTS[name]
        count = len(_arguments(span, index))
        if count < minimum or (maximum is not None and count > maximum):
            span.fail(
                f"{name}(): the results of Spark and Hive were compared only for"
                f" {_count_text(minimum, maximum)} arguments, not for {count}",
                "use that number of arguments, or run this statement in Hive",
                token,
            )


def _path_begin(span: Span, index: int) -> int:
    while index > 1 and span.word(index - 1) == ".":
        index -= 2
    return index


def _count_text(minimum: int, maximum: int | None) -> str:
    if maximum is None:
        return f"{minimum} or more"
    return str(minimum) if minimum == maximum else f"{minimum} to {maximum}"


def function_changes(span: Span) -> dict[int, str]:
    """Return replacements, by start position, of names, parentheses and commas of checked calls."""
    changes: dict[int, str] = {}
    for index in range(len(span.tokens)):
        if _is_call(span, index):
            changes |= _changes(span, index)
    return changes


def _changes(span: Span, index: int) -> dict[int, str]:
    name = _name(span, index)
    opens, closes = span.tokens[index + 1], span.tokens[span.closing(index + 1)]
    start = span.tokens[index].start
    if name in _CHANGES:
        return _CHANGES[name](span, index)
    if name in _EXTREMES:
        element = f"{_HELD}_one"
        extreme = (
            f"CASE WHEN exists({_HELD}, {element} -> {element} IS NULL) THEN NULL"
            f" ELSE {_EXTREMES[name]}({_HELD}) END"
        )
        return {
            start: "transform(array(array",
            closes.start: f")), {_HELD} -> {extreme})[0]",
        }
    arguments = _arguments(span, index)
    way = _way(name, arguments)
    if way is None:
        return {}
    body = way.bodies.get(len(arguments), way.body)
    if body is None:
        changes = {start: called(_CLASS_OF.get(name, name))}
        if name == "add_months":  # Hive 2.3 parses 31 June as 1 July
            changes |= {
                opens.start: "(cast(",
                _commas(span, index)[0]: " AS date),",
            }
        return changes
    # The arguments become the fields of one struct, and `body` reads these fields.
    body = _PARAMETER.sub(lambda match: f"{_HELD}.{match[0]}", body)
    commas = _commas(span, index)
    return {
        start: "transform(array(named_struct",
        opens.start: "('a', ",
        **{comma: f", '{field}'," for comma, field in zip(commas, _PARAMETERS[1:], strict=False)},
        closes.start: f")), {_HELD} -> {body})[0]",
    }


def _cast_changes(span: Span, index: int) -> dict[int, str]:
    """Make casts of strings with blanks to integers fail; Hive's tasks return NULL in this case."""
    closes = span.closing(index + 1)
    inner = span[index + 2 : closes]
    middle = inner.find("AS")
    if middle is None or inner.word(middle + 1) not in _WHOLE or has_no_blanks(inner[:middle]):
        return {}
    return {
        span.tokens[index].start: "transform(array",
        inner.tokens[middle].start: f"), {_HELD} -> {_ELSE} cast({_HELD} AS",
        span.tokens[closes].start: ") END)[0]",
    }


def _call_changes(span: Span, index: int) -> dict[int, str]:
    """Let `int(x)` fail for text with blanks, as `_cast_changes` does for CAST(x AS int)."""
    closes = span.closing(index + 1)
    if has_no_blanks(span[index + 2 : closes]):
        return {}
    cast = f"cast({_HELD} AS {_name(span, index)})"
    return {
        span.tokens[index].start: "transform(array",
        span.tokens[closes].start: f"), {_HELD} -> {_ELSE} {cast} END)[0]",
    }


def _concat_changes(span: Span, index: int) -> dict[int, str]:
    """Make Spark return a string even if all arguments are binaries, as Hive does."""
    if any(map(is_string, _arguments(span, index))):
        return {}
    return {span.tokens[index + 1].start: "('', "}


def _array_changes(span: Span, index: int) -> dict[int, str]:
    """Make an index beyond the end of `array(...)[i]` return NULL, as in Hive.

    Spark's optimizer also replaces such an element by NULL, but regards it as not NULL: `count`
    counts it, and `IS NULL` is false. The same holds for `(array(...))[i]`.
    """
    start, opens = index, span.closing(index + 1) + 1
    while _is_in_parentheses(span, start, opens):
        start, opens = start - 1, opens + 1
    if span.word(opens) != "[":
        return {}
    closes = span.closing(opens)
    return {
        span.tokens[start].start: "get(array" if start == index else "get((",
        span.tokens[opens].start: ", ",
        span.tokens[closes].start: ")",
    }


def _is_in_parentheses(span: Span, start: int, end: int) -> bool:
    is_enclosed = span.word(start - 1) == "(" and span.word(end) == ")"
    return is_enclosed and not (start > 1 and _is_call(span, start - 2))


_CHANGES: Final[Mapping[str, Callable[[Span, int], dict[int, str]]]] = {
    "array": _array_changes,
    "cast": _cast_changes,
    "concat": _concat_changes,
    **dict.fromkeys(_TO_WHOLE, _call_changes),
}


def _way(name: str, arguments: Sequence[Span]) -> _Way | None:
    """Return the replacement for a call; None if Spark's own function has the same results."""
    way = _WAYS.get(name)
    if way is None:
        return None
    if way.alike is not None:
        if len(arguments) <= way.alike.position:
            return None
        argument = arguments[way.alike.position]
        if way.alike.is_right(argument):
            return None
        is_literal = argument.word(0) == "-" and is_natural(argument[1:])
        if way.alike is _START and is_literal:
            return _SUBSTR_FROM_END
    return way


def _commas(span: Span, index: int) -> list[int]:
    inner = span[index + 2 : span.closing(index + 1)]
    return [token.start for _, token in inner.outside() if token.word == ","]


def _arguments(span: Span, index: int) -> tuple[Span, ...]:
    inner = span[index + 2 : span.closing(index + 1)]
    return inner.split(",") if len(inner) else ()


def _is_call(span: Span, index: int) -> bool:
    """Return True for the name of a call, not of a table with columns or a type's precision."""
    token = span.tokens[index]
    is_name = token.kind is Kind.QUOTED or (token.kind is Kind.WORD and token.word not in _NO_CALLS)
    if span.word(index + 1) != "(" or span.word(index - 1) in _BEFORE_NAMES:
        return False
    if not is_name:
        return _calls_though(span, index)
    end = span.closing(index + 1)
    is_cte = span.word(end + 1) == "AS" and span.word(end + 2) == "("
    return not is_cte


def _calls_though(span: Span, index: int) -> bool:
    """Return True if a word of the grammar, such as LIKE or ANY, is called as a function."""
    word, previous = span.tokens[index].word, span.word(index - 1)
    arguments = _arguments(span, index)
    if word in _OF_PATTERNS:
        return len(arguments) > 1
    if word in _OF_QUERIES:
        first = next((t.word for t in span.tokens[index + 1 :] if t.word != "("), "")
        return previous not in _OF_PATTERNS and first not in {"SELECT", "WITH"}
    if word in _OF_DIGITS:
        # In a column definition, the name precedes the type.
        is_behind_name = index > 0 and span.tokens[index - 1].name is not None
        is_type = previous in _BEFORE_TYPES or (is_behind_name and previous not in _NO_CALLS)
        return not is_type or not all(is_natural(argument) for argument in arguments)
    return False


def _name(span: Span, index: int) -> str:
    return (span.tokens[index].name or "").lower()


def _suggested(name: str) -> str:
    if name in _INSTEAD:
        return _INSTEAD[name]
    matches = difflib.get_close_matches(name, COMPARED, n=3)
    choice = f"one of {', '.join(matches)}" if matches else "it with other functions"
    return f"{choice}, or run this statement in Hive"


def _refuse(span: Span, index: int, problem: str, remedy: str) -> None:
    span.fail(f"{_name(span, index)}(): {problem}", f"write {remedy}", span.tokens[index])
