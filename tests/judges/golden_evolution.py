"""Knows the histories of tables whose columns change: each kind of change has a column of its own.

`CHANGES` are what Hive lets one do with `ALTER TABLE ... CHANGE COLUMN`, and reads alike in 3.1.3
and 4.0.1; fields of structs it lets one add where a setting allows it. What the versions read
differently (docs/engines-values.md) is left out: floats without an exact double, and timestamps as
text, which 3.1.3 shows in the zone of its process.
Statements are in words that Hive and we understand alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.judges.golden_history import History, transactional_table


@dataclass(frozen=True, slots=True)
class Change:
    """A column that becomes another: types, and values as expressions that Hive and we read alike.

    Values stand under the old type and under the new one.
    """

    old: str
    new: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def texts(type_: str, *values: str) -> tuple[str, ...]:
    if _is_text(type_):  # to cut a text in a cast is something else to Spark
        return tuple(f"'{value}'" for value in values)
    return tuple(f"cast('{value}' as {type_})" for value in values)


def _is_text(type_: str) -> bool:
    return type_.partition("(")[0] in ("string", "varchar", "char")


def primitive(old: str, new: str, before: Sequence[str], after: Sequence[str]) -> Change:
    return Change(old, new, texts(old, *before), texts(new, *after))


_FIELD: Final = "named_struct('a', 1, 'b', 'x')"
_FIELDS: Final = "named_struct('a', 2, 'b', 'y', 'c', 1.5D)"
CHANGES: Final = (
    primitive("tinyint", "smallint", ("-128", "127"), ("-32768", "300")),
    primitive("smallint", "int", ("-32768", "7"), ("70000", "0")),
    primitive("int", "bigint", ("-2147483648", "5"), ("9223372036854775807", "1")),
    primitive("int", "double", ("-7", "2147483647"), ("0.1", "-0.5")),
    primitive("int", "string", ("-7", "2147483647"), ("text", "")),
    primitive("bigint", "decimal(20,1)", ("-9223372036854775808", "1"), ("1.5", "-0.1")),
    primitive("float", "double", ("0.25", "-2.5"), ("1e300", "0.1")),
    primitive("decimal(10,2)", "decimal(20,4)", ("-12345678.91", "0.10"), ("0.0001", "1.5")),
    primitive("decimal(10,2)", "string", ("-12345678.91", "0.10"), ("1.50", "x")),
    primitive("varchar(4)", "varchar(8)", ("äöü𝄞", "ab  "), ("äöü𝄞abcd", "")),
    primitive("varchar(4)", "string", ("äöü𝄞", "ab  "), ("longer text", "")),
    primitive("char(4)", "char(8)", ("äöü", "a"), ("äöü𝄞abcd", "")),
    primitive("char(4)", "string", ("äöü", "a"), ("longer text", "")),
    primitive("string", "varchar(4)", ("äöü𝄞abcd", "ab"), ("wxyz", "")),
    primitive("date", "string", ("2020-02-29", "1969-12-31"), ("text", "")),
    Change(
        "struct<a:int,b:string>",
        "struct<a:int,b:string,c:double>",
        (_FIELD, "named_struct('a', cast(null as int), 'b', '')"),
        (_FIELDS, "named_struct('a', 3, 'b', cast(null as string), 'c', 0.5D)"),
    ),
    Change(
        "array<struct<a:int,b:string>>",
        "array<struct<a:int,b:string,c:double>>",
        (f"array({_FIELD}, {_FIELD})", f"array({_FIELD})"),
        (f"array({_FIELDS})", f"array({_FIELDS}, {_FIELDS})"),
    ),
    Change(
        "map<string,struct<a:int,b:string>>",
        "map<string,struct<a:int,b:string,c:double>>",
        (f"map('k', {_FIELD})", f"map('k', {_FIELD}, 'l', {_FIELD})"),
        (f"map('m', {_FIELDS})", f"map('k', {_FIELDS})"),
    ),
)
ADDED: Final = (
    ("extra", "string", "'new'"),
    ("moment", "timestamp", texts("timestamp", "2021-01-01")[0]),
)


def columns(*, is_new: bool) -> list[tuple[str, str]]:
    changed = [(f"c{i}", c.new if is_new else c.old) for i, c in enumerate(CHANGES)]
    return [("id", "int"), *changed, *((n, t) for n, t, _ in ADDED if is_new)]


def selected(ids: Sequence[int], *, is_new: bool) -> str:
    """Rows of these IDs as a query; every third one has NULL in what changes."""
    return " UNION ALL ".join(
        f"SELECT {', '.join(f'{value} AS {name}' for name, value in row(i, is_new=is_new))}"
        for i in ids
    )


def row(number: int, *, is_new: bool) -> Iterator[tuple[str, str]]:
    yield "id", str(number)
    for at, change in enumerate(CHANGES):
        values, type_ = (change.after, change.new) if is_new else (change.before, change.old)
        value = values[number % len(values)]
        plain = "string" if _is_text(type_) else type_
        null = f"if(false, {value}, null)" if "<" in type_ else f"cast(null as {plain})"
        yield f"c{at}", null if number % 3 == 2 else value
    if is_new:
        yield from ((name, value) for name, _, value in ADDED)


_ANY_TYPE: Final = "set metaconf:hive.metastore.disallow.incompatible.col.type.changes="


def evolved(*, cascade: bool) -> list[str]:
    """Every change, as statements of Hive's."""
    more = " CASCADE" if cascade else ""
    changes = [f"ALTER TABLE {{t}} CHANGE c{i} c{i} {c.new}{more}" for i, c in enumerate(CHANGES)]
    added = ", ".join(f"{name} {type_}" for name, type_, _ in ADDED)
    more_columns = f"ALTER TABLE {{t}} ADD COLUMNS ({added}){more}"
    return [f"{_ANY_TYPE}false", *changes, more_columns, f"{_ANY_TYPE}true"]


def _columns(*, is_new: bool) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in columns(is_new=is_new))


def _life(*, parts: bool) -> tuple[str, ...]:
    layout = "partitioned by (p int)" if parts else ""
    into = (lambda p: f"partition (p={p})") if parts else (lambda _: "")
    return (
        transactional_table(_columns(is_new=False), layout, ", 'orc.compress'='ZLIB'"),
        f"insert into {{t}} {into(1)} {selected([0, 1, 2, 3], is_new=False)}",
        f"insert into {{t}} {into(2)} {selected([10, 11, 12], is_new=False)}",
        "delete from {t} where id = 3",
        *evolved(cascade=False),
        f"insert into {{t}} {into(1)} {selected([20, 21], is_new=True)}",
        f"insert into {{t}} {into(3)} {selected([30], is_new=True)}",
        "update {t} set extra = concat('u', id), c2 = 5000000000 where id in (1, 10, 20)",
        "delete from {t} where id in (11, 21)",
    )


EVOLUTION: Final = (
    History(
        name="evolved",
        note="every change of a column that Hive allows, and two new ones, between deltas",
        steps=_life(parts=False),
    ),
    History(
        name="evolved_minor",
        note="the same after a minor compaction",
        steps=(*_life(parts=False), "!compact minor", "!clean"),
    ),
    History(
        name="evolved_major",
        note="the same after a major compaction",
        steps=(*_life(parts=False), "!compact major", "!clean"),
    ),
    History(
        name="evolved_partitions",
        note="the same below partitions that do not hear of it: no CASCADE",
        steps=_life(parts=True),
    ),
    History(
        name="evolved_partitions_major",
        note="the same after a major compaction of one of them",
        steps=(*_life(parts=True), "!compact major p=1", "!clean"),
    ),
)
