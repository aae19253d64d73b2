"""Functions that Hive and Spark call alike and understand differently: refused, never guessed.

What is here was found by giving both engines some thousand calls over rows with NULL, NaN, empty
texts, negative numbers and more; each refusal says what to write instead, with one meaning in both.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> check_function(statements_of("substr(x, 2)")[0], 0)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hiveacid.sql.text import Piece

TRUTH: Final = (
    "a text that is cast to boolean is true in Hive unless it is one of a few words",
    "a comparison, such as x = 'true' or x <> 0",
)
_OF_SESSION: Final = "it is the driver's user"
_APPROXIMATE: Final = ("it is approximate, each engine in its way", "percentile(x, p)")
_OF_POPULATION: Final = "Hive's is of the population, Spark's of a sample"
_PADDING: Final = ("Hive answers NULL if there is nothing to pad with", "the text as it is")
# By name: what differs, and what to write instead.
_NEVER: Final = {
    "acos": ("beyond 1 Hive answers NULL, Spark NaN", "atan of what it is of"),
    "add_months": (
        "Hive moves the last day of a month to the last day of another",
        "x + INTERVAL '1' MONTH, which keeps the day",
    ),
    "aes_decrypt": ("the modes differ", "the text itself"),
    "aes_encrypt": ("the modes differ", "sha2(x, 256) for a digest"),
    "ascii": ("of letters beyond ASCII it differs", "hex(x)"),
    "asin": ("beyond 1 Hive answers NULL, Spark NaN", "atan of what it is of"),
    "boolean": TRUTH,
    "char": ("Spark does not cut a text that is cast", "substr(x, 1, n)"),
    "current_database": ("it is another session's", "the name"),
    "current_user": (_OF_SESSION, "a template"),
    "greatest": ("Hive answers NULL if one argument is, Spark skips it", "CASE"),
    "hash": ("the hashes differ", "md5, sha2 or crc32"),
    "histogram_numeric": _APPROXIMATE,
    "least": ("Hive answers NULL if one argument is, Spark skips it", "CASE"),
    "logged_in_user": (_OF_SESSION, "a template"),
    "percentile_approx": _APPROXIMATE,
    "soundex": ("of what begins with no letter it differs", "the code itself"),
    "sqrt": ("of a negative number Hive answers NULL, Spark NaN", "power(x, 0.5), NaN in both"),
    "std": (_OF_POPULATION, "stddev_pop or stddev_samp"),
    "stddev": (_OF_POPULATION, "stddev_pop or stddev_samp"),
    "surrogate_key": ("Spark does not have it", "the key yourself"),
    "varchar": ("Spark does not cut a text that is cast", "substr(x, 1, n)"),
    "variance": (_OF_POPULATION, "var_pop or var_samp"),
    "version": ("it is Spark's", "the version"),
    "xpath": ("of nodes that are no text it differs", "xpath_string"),
}
# Alike only within COALESCE or NVL.
_OF_NULL: Final = {
    "array_contains": (
        "where NULL is about, it is false in Hive and NULL in Spark",
        "coalesce(array_contains(x, y), false)",
    ),
    "map_keys": ("of NULL it is empty in Hive and NULL in Spark", "coalesce(map_keys(x), array())"),
    "map_values": (
        "of NULL it is empty in Hive and NULL in Spark",
        "coalesce(map_values(x), array())",
    ),
    "size": ("of NULL it is -1 in Hive and NULL in Spark", "coalesce(size(x), -1)"),
    "str_to_map": (
        "of NULL it is empty in Hive and NULL in Spark",
        "coalesce(str_to_map(x), map())",
    ),
}
_COALESCES: Final = frozenset({"COALESCE", "NVL"})


@dataclass(frozen=True, slots=True)
class _Argument:
    """An argument, counted from 0, that may not look so."""

    position: int
    unlike: re.Pattern[str]
    problem: str
    remedy: str


_EMPTY: Final = re.compile(r"(''|\"\")\Z")
_NEGATIVE: Final = re.compile("-")
_BEHIND: Final = _Argument(
    1,
    _NEGATIVE,
    "from the end of a text that is shorter it is '' in Hive and the whole text in Spark",
    "CASE WHEN length(x) < 3 THEN '' ELSE substr(x, length(x) - 2) END",
)
_OFFSET: Final = _Argument(
    1, re.compile("['\"] *[+-]"), "Hive passes over an offset", "the name of a time zone"
)
_ARGUMENTS: Final[Mapping[str, _Argument]] = {
    "from_utc_timestamp": _OFFSET,
    "get_json_object": _Argument(
        1,
        re.compile(r".*\[\*\].*\w"),
        "a single text that is found stands in quotes in Spark, in Hive not",
        "an index in place of *",
    ),
    "instr": _Argument(1, _EMPTY, "of an empty text it differs", "a text to look for"),
    "lpad": _Argument(2, _EMPTY, *_PADDING),
    "pmod": _Argument(1, _NEGATIVE, "of a negative divisor it differs", "one that is positive"),
    "rand": _Argument(0, re.compile("."), "the numbers of a seed differ", "rand()"),
    "replace": _Argument(1, _EMPTY, "of an empty text it differs", "a text to look for"),
    "rpad": _Argument(2, _EMPTY, *_PADDING),
    "split": _Argument(1, _EMPTY, "Hive adds an empty text at the end", "substr for each letter"),
    "substr": _BEHIND,
    "substring": _BEHIND,
    "to_utc_timestamp": _OFFSET,
    "trunc": _Argument(
        1,
        re.compile(r"['\"](?!(MM|MON|MONTH|YY|YYYY|YEAR|QUARTER)['\"])", re.IGNORECASE),
        "the units differ",
        "MM, QUARTER or YEAR",
    ),
}
_WITHOUT_NULL: Final = frozenset({"SPLIT", "COLLECT_SET", "COLLECT_LIST"})
# A group that may be passed over: NULL in Hive and '' in Spark.
_OPTIONAL_GROUP: Final = re.compile(r"\)[?*|]|\)\{0|\|")


def check_function(piece: Piece, index: int) -> None:
    """Refuse a call that means something else in Spark than in Hive.

    Args:
        piece: what it is in.
        index: its name, which is followed by a parenthesis.

    Raises:
        SqlTextError: it does.
    """
    token = piece.tokens[index]
    name = (token.name or "").lower()
    if name in _NEVER:
        _refuse(piece, index, *_NEVER[name])
    within = piece.word(index - 2) if piece.word(index - 1) == "(" else ""
    if name in _OF_NULL and within not in _COALESCES:
        _refuse(piece, index, *_OF_NULL[name])
    if name == "extract" and piece.word(index + 2) in {"SECOND", "SECONDS"}:
        _refuse(piece, index, "of SECOND it has a fraction in Spark, none in Hive", "second(x)")
    arguments = piece[index + 2 : piece.closing(index + 1)].split(",")
    rule = _ARGUMENTS.get(name)
    if rule is not None and rule.position < len(arguments):
        argument = arguments[rule.position]
        if rule.unlike.match(argument.text):
            argument.fail(f"{name}(): {rule.problem}", f"write {rule.remedy}")
    if name == "concat_ws" and len(arguments) == 2 and _may_hold_null(arguments[1]):  # noqa: PLR2004 - separator and array
        _refuse(
            piece,
            index,
            "NULL in an array is the text null in Hive, and passed over in Spark",
            "each element",
        )
    may_pass_over = name == "regexp_extract" and len(arguments) > 1
    if may_pass_over and within not in _COALESCES | {"NULLIF"}:
        _check_groups(piece, index, arguments[1].text)


def _check_groups(piece: Piece, index: int, pattern: str) -> None:
    if _OPTIONAL_GROUP.search(pattern):
        _refuse(
            piece,
            index,
            "a group that is passed over is NULL in Hive and '' in Spark",
            "coalesce(regexp_extract(x, y, 1), '')",
        )


def _may_hold_null(array: Piece) -> bool:
    return array.word(0) not in _WITHOUT_NULL


def _refuse(piece: Piece, index: int, problem: str, remedy: str) -> None:
    token = piece.tokens[index]
    name = (token.name or "").lower()
    piece.fail(f"{name}(): {problem}", f"write {remedy}", token)
