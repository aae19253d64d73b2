"""Statements over generated tables: queries with all their parts, and changes of rows.

Dice go in; a statement's text comes out with its marks, which name known differences in it (NaN,
NULL of a partition and others). Table names have no database. `t` is changed, `u` is read.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

COLUMNS: Final = {
    "id": "int",
    "k": "int",
    "b": "bigint",
    "de": "decimal(10,2)",
    "wn": "decimal(38,0)",
    "wf": "decimal(20,15)",
    "s": "string",
    "c": "char(4)",
    "dt": "date",
    "x": "double",
}
PARTITION: Final = {"p": "string"}
TABLES: Final = ("t", "u")
COUNT: Final = 12
_WIDE: Final = {"wn": "wf", "wf": "wn"}  # their common type would need more than 38 digits
_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "k": ("1", "2", "2", "3", "NULL", "-1", "0", "7"),
    "b": ("10", "9007199254740993", "NULL", "-5", "0", "3"),
    "de": ("1.50", "0", "-0.05", "NULL", "123.45", "2.00", "99999999.99"),
    "wn": ("1", "0", "-1", "NULL", "12345678901234567890"),
    "wf": ("1.1", "1", "0", "-1.000000000000001", "NULL"),
    "s": ("'a'", "'b'", "''", "NULL", "'a '", "'abc'", "'12'", "'A'"),
    "c": ("'a'", "'b'", "''", "NULL", "'abcd'", "'12'"),
    "dt": ("'2020-01-31'", "'2020-02-29'", "NULL", "'1969-12-31'", "'2021-06-15'"),
    "x": ("0.5", "1.5", "NULL", "-2.5", "'NaN'", "0.1", "1e300", "3"),
    "p": ("'x'", "'y'", "NULL"),
}
NAN: Final = "NaN"
NULL_PARTITION: Final = "NULL of a partition"
MERGE_OF_NULL: Final = "a condition of MERGE that may be NULL"
TOTALS: Final = "totals"
DISTINCT_IN_TOTALS: Final = "DISTINCT of a grouped column in totals"
FIXED_IN_TOTALS: Final = "a grouped column in totals that WHERE fixes"
NOT_NULL_SAFE: Final = "NOT of a comparison by <=>"
COMMON_DECIMALS: Final = "decimals whose common type rounds"
BETWEEN_NULL: Final = "BETWEEN with a column as a bound"
CHAR_OF_OUTER: Final = "BETWEEN of a char below LATERAL VIEW OUTER"


@dataclass(frozen=True, slots=True)
class Written:
    """A statement: its text and kind, whether it is a query, and its possible differences."""

    text: str
    kind: str
    is_query: bool
    marks: frozenset[str]

    @property
    def all_marks(self) -> frozenset[str]:
        """The marks, including the marks that the text shows."""
        is_outer = "LATERAL VIEW OUTER" in self.text
        return (
            self.marks
            | ({NOT_NULL_SAFE} if "<=>" in self.text and "NOT (" in self.text else set())
            | ({CHAR_OF_OUTER} if is_outer and "x.c BETWEEN" in self.text else set())
        )


def create_table(name: str) -> str:
    """Return a definition in Hive's SQL."""
    columns = ", ".join(f"{column} {kind}" for column, kind in COLUMNS.items())
    return (
        f"CREATE TABLE {name} ({columns}) PARTITIONED BY (p string) STORED AS ORC"
        " TBLPROPERTIES ('transactional'='true')"
    )


def select_rows(dice: random.Random) -> str:
    """Return rows of one table as a query in Hive's SQL."""
    lines = []
    for number in range(COUNT):
        values = [str(number + 1)]
        for name, kind in (*list(COLUMNS.items())[1:], *PARTITION.items()):
            values.append(f"cast({dice.choice(_VALUES[name])} AS {kind})")
        lines.append("SELECT " + ", ".join(values))
    return " UNION ALL ".join(lines)


class Writer:
    """A writer of statements. Mutable: it has a random generator, and the marks of one text."""

    def __init__(self, dice: random.Random) -> None:
        """Set the random generator."""
        self._dice = dice
        self._marks: set[str] = set()
        self._added = 0

    def statement(self) -> Written:
        """Return a statement of any kind."""
        makers = (
            *(self._join, self._join, self._subquery, self._subquery, self._window, self._window),
            *(self._set_operation, self._groups, self._groups, self._lateral, self._with),
            *(self._update, self._delete, self._merge, self._merge, self._insert, self._overwrite),
        )
        self._marks = set()
        made = self._dice.choice(makers)
        text = made()
        kind = made.__name__.strip("_").replace("_", " ")
        is_query = text.startswith(("SELECT", "WITH"))
        return Written(text, kind, is_query, frozenset(self._marks))

    # Pieces of conditions and values.

    def _column(self, kinds: str = "kbdsctnf") -> str:
        names = {"k": "k", "b": "b", "d": "de", "s": "s", "c": "c", "t": "dt", "x": "x", "p": "p"}
        names |= {"n": "wn", "f": "wf"}
        if self._rolls(0.03):
            kinds = "xp"
        name = names[self._dice.choice(kinds)]
        self._marks |= {NAN} if name == "x" else set()
        self._marks |= {NULL_PARTITION} if name == "p" else set()
        return name

    def _rolls(self, share: float) -> bool:
        return self._dice.random() < share

    def _literal(self, column: str) -> str:
        values = [v for v in _VALUES[column] if v not in {"NULL", "'NaN'", "1e300"}]
        text = self._dice.choice(values)
        return f"date {text}" if column == "dt" else text

    def _condition(self, of: str, depth: int = 1) -> str:
        if depth and self._rolls(0.35):
            word = self._dice.choice(("AND", "OR"))
            return f"({self._condition(of, depth - 1)} {word} {self._condition(of, depth - 1)})"
        if depth and self._rolls(0.15):
            return f"NOT ({self._condition(of, depth - 1)})"
        column = self._column()
        name, one, two = f"{of}.{column}", self._literal(column), self._literal(column)
        if column in _WIDE:
            other = _WIDE[column]
            one, two = self._literal(other), f"{of}.{other}"
        text = self._dice.choice(
            (
                *(f"{name} = {one}", f"{name} <> {one}", f"{name} > {one}", f"{name} <= {one}"),
                *(f"{name} IS NULL", f"{name} IS NOT NULL", f"{name} IN ({one}, {two})"),
                *(f"{name} NOT IN ({one}, {two})", f"{name} BETWEEN {one} AND {two}"),
                *(f"{name} <=> {one}", f"{of}.id % 3 = 1", f"{of}.s LIKE 'a%'"),
                f"coalesce({of}.k, 0) > 1",
                f"CASE WHEN {name} = {one} THEN true ELSE {of}.id > 6 END",
            )
        )
        if column in _WIDE:
            self._marks |= {COMMON_DECIMALS} if " IN (" in text else set()
            self._marks |= {BETWEEN_NULL} if " BETWEEN " in text else set()
        return text

    def _value(self, column: str, of: str) -> str:
        name = f"{of}.{column}"
        common = (self._literal(column), "NULL", name, f"coalesce({name}, {self._literal(column)})")
        more = {
            "k": (f"{name} + 1", f"{of}.id * 2", f"{name} % 3"),
            "b": (f"{name} - 1", f"cast({of}.k AS bigint)"),
            "de": (f"{name} + 1", f"cast({of}.id AS decimal(10,2)) / 4", f"-{name}"),
            "wn": (f"-{name}",),
            "wf": (f"{name} / 2",),
            "s": (f"concat({name}, '!')", f"upper({name})", f"cast({of}.k AS string)"),
            "c": (f"lower({name})", "'zz  '"),
            "dt": (f"date_add({name}, 3)", f"last_day({name})"),
            "x": (f"{name} * 2",),
        }
        condition = self._condition(of, 0)
        case = f"CASE WHEN {condition} THEN {name} ELSE {self._literal(column)} END"
        return self._dice.choice((*common, *more[column], case))

    def _listed(self, columns: Sequence[str]) -> str:
        return ", ".join(f"{text} AS q{number}" for number, text in enumerate(columns))

    def _where(self, of: str) -> str:
        return f" WHERE {self._condition(of)}" if self._rolls(0.6) else ""

    # Queries.

    def _join(self) -> str:
        how = self._dice.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"))
        key = self._column("kkbdsctnf")
        other = _WIDE.get(key, key)
        also = f" AND {self._condition('y', 0)}" if self._rolls(0.3) else ""
        on = "" if how == "CROSS JOIN" else f" ON x.{key} = y.{other}{also}"
        if how == "LEFT JOIN" and self._rolls(0.3):
            return f"SELECT {self._listed(['x.id', 'x.s'])} FROM t x LEFT SEMI JOIN u y{on}"
        listed = self._listed(["x.id", "y.id", f"x.{key}", "y.s", "y.de"])
        is_outer = how not in ("JOIN", "CROSS JOIN")
        self._marks |= {COMMON_DECIMALS} if is_outer and key in _WIDE else set()
        return f"SELECT {listed} FROM t x {how} u y{on}{self._where('x')}"

    def _subquery(self) -> str:
        key = self._column("kbsdcnf")
        other = _WIDE.get(key, key)
        inner = f"SELECT y.{other} FROM u y WHERE {self._condition('y')}"
        condition = self._dice.choice(
            (
                f"x.{key} IN ({inner})",
                f"x.{key} NOT IN ({inner})",
                f"x.{key} NOT IN ({inner} AND y.{other} IS NOT NULL)",
                f"EXISTS ({inner} AND y.{other} = x.{key})",
                f"NOT EXISTS (SELECT 1 FROM u y WHERE y.{other} = x.{key})",
                "x.b > (SELECT min(y.b) FROM u y)",
                "x.id = (SELECT count(*) FROM u y WHERE y.k = 2)",
            )
        )
        return f"SELECT {self._listed(['x.id', 'x.k', 'x.s'])} FROM t x WHERE {condition}"

    def _window(self) -> str:
        by = self._column("ksc")
        way = self._dice.choice(("ASC", "DESC"))
        order = f"x.{self._column('kbdst')} {way} NULLS LAST, x.id NULLS LAST"
        frame = self._dice.choice(
            ("", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " ROWS UNBOUNDED PRECEDING")
        )
        call = self._dice.choice(
            ("sum(x.k)", "count(x.b)", "max(x.dt)", "min(x.s)", "avg(x.de)", "first_value(x.c)")
        )
        ranked = self._dice.choice(
            ("row_number()", "rank()", "dense_rank()", "lag(x.s, 1)", "lead(x.k)")
        )
        over = f"PARTITION BY x.{by} ORDER BY {order}"
        listed = self._listed(["x.id", f"{call} OVER ({over}{frame})", f"{ranked} OVER ({over})"])
        query = f"SELECT {listed} FROM t x{self._where('x')}"
        if ranked == "row_number()" and self._rolls(0.5):
            return f"SELECT z.q0, z.q1 FROM ({query}) z WHERE z.q2 = 1"
        return query

    def _set_operation(self) -> str:
        word = self._dice.choice(
            ("UNION ALL", "UNION", "INTERSECT", "EXCEPT", "UNION DISTINCT", "MINUS")
        )
        names = ["k", self._column("sbdct")]
        left = self._listed([f"x.{name}" for name in names])
        right = self._listed([f"y.{name}" for name in names])
        one = f"SELECT {left} FROM t x{self._where('x')}"
        return f"{one} {word} SELECT {right} FROM u y{self._where('y')}"

    def _groups(self) -> str:
        one, two = self._column("kcs"), self._column("bdt")
        calls = self._dice.sample(
            [
                *("count(*)", "sum(x.k)", "sum(x.de)", "avg(x.b)", "min(x.s)", "max(x.dt)"),
                *("count(DISTINCT x.k)", "avg(x.de)", "max(x.c)", "sum(DISTINCT x.k)"),
                *("count(x.dt)", "stddev_pop(x.k)", "min(x.de)"),
            ],
            3,
        )
        names = f"x.{one}, x.{two}"
        how = self._dice.choice(
            (
                *(names, names, f"{names} WITH ROLLUP", f"{names} WITH CUBE", f"ROLLUP ({names})"),
                *(f"{names} GROUPING SETS ((x.{one}), (x.{two}), ())", f"CUBE ({names})"),
            )
        )
        having = " HAVING count(*) > 1" if self._rolls(0.3) else ""
        listed = self._listed([f"x.{one}", f"x.{two}", *calls])
        where = self._where("x")
        if how != names:
            column = f"x\\.({one}|{two})\\b"
            self._marks.add(TOTALS)
            self._marks |= (
                {DISTINCT_IN_TOTALS} if re.search(f"DISTINCT {column}", listed) else set()
            )
            fixed = rf"{column} (<?=>? |IN \(([^,)]+)(, \3)*\))"
            self._marks |= {FIXED_IN_TOTALS} if re.search(fixed, where) else set()
        return f"SELECT {listed} FROM t x{where} GROUP BY {how}{having}"

    def _lateral(self) -> str:
        outer = self._dice.choice(("", "OUTER "))
        view = self._dice.choice(
            (
                "explode(split(x.s, 'b')) e AS a",
                "explode(array(x.k, x.id)) e AS a",
                "explode(if(x.k > 1, array(x.k), array())) e AS a",
                "posexplode(array(x.s, 'z')) e AS n, a",
                "explode(map('k', x.k)) e AS n, a",
            )
        )
        listed = self._listed(["x.id", "e.a"])
        return f"SELECT {listed} FROM t x LATERAL VIEW {outer}{view}{self._where('x')}"

    def _with(self) -> str:
        key = self._column("ksc")
        return (
            f"WITH g AS (SELECT y.{key} AS g1, count(*) AS g2, max(y.de) AS g3 FROM u y"
            f" GROUP BY y.{key}) SELECT {self._listed(['x.id', 'g.g2', 'g.g3'])} FROM t x"
            f" {self._dice.choice(('JOIN', 'LEFT JOIN'))} g ON x.{key} = g.g1{self._where('x')}"
        )

    # Changes.

    def _new_id(self, of: str) -> str:
        """Return an ID that no other row has, so that windows have one order."""
        self._added += 100
        return f"{of}.id + {self._added}"

    def _set(self, of: str) -> str:
        names = self._dice.sample(
            ["k", "b", "de", "wn", "wf", "s", "c", "dt"], self._dice.randint(1, 3)
        )
        return ", ".join(f"{name} = {self._value(name, of)}" for name in names)

    def _update(self) -> str:
        return f"UPDATE t SET {self._set('t')} WHERE {self._condition('t')}"

    def _delete(self) -> str:
        key = self._column("kbs")
        more = self._dice.choice(
            ("", "", f" AND t.{key} IN (SELECT y.{key} FROM u y WHERE {self._condition('y', 0)})")
        )
        part = f"t.id % 2 = {self._dice.randint(0, 1)}"
        return f"DELETE FROM t WHERE {part} AND {self._condition('t')}{more}"

    def _merge(self) -> str:
        keys = (
            "SELECT y.k AS k, max(y.id) AS id, max(y.b) AS b, max(y.de) AS de, max(y.wn) AS wn,"
            " max(y.wf) AS wf, max(y.s) AS s, max(y.c) AS c, max(y.dt) AS dt FROM u y GROUP BY y.k"
        )
        source, key = self._dice.choice((("u", "id"), (f"({keys})", "k")))
        clauses = []
        matched = self._dice.sample(["UPDATE", "DELETE"], self._dice.randint(0, 2))
        for number, action in enumerate(matched):
            is_last = number == len(matched) - 1
            condition = "" if is_last and self._rolls(0.5) else f" AND {self._condition('s', 0)}"
            if not is_last and self._rolls(0.1):
                self._marks.add(MERGE_OF_NULL)
            elif not is_last:
                condition = f" AND coalesce({condition.removeprefix(' AND ')}, false)"
            done = "DELETE" if action == "DELETE" else f"UPDATE SET {self._set('s')}"
            clauses.append(f"WHEN MATCHED{condition} THEN {done}")
        if not matched or self._rolls(0.6):
            condition = "" if self._rolls(0.5) else f" AND {self._condition('s', 0)}"
            values = f"{self._new_id('s')}, s.k, s.b, s.de, s.wn, s.wf, s.s, s.c, s.dt, 1.5D, 'm'"
            clauses.append(f"WHEN NOT MATCHED{condition} THEN INSERT VALUES ({values})")
        return f"MERGE INTO t USING {source} s ON t.{key} = s.{key} {' '.join(clauses)}"

    def _insert(self) -> str:
        values = [
            self._new_id("x"),
            *(self._value(name, "x") for name in list(COLUMNS)[1:-1]),
            "x.x",
            "'n'",
        ]
        return (
            f"INSERT INTO t SELECT {self._listed(_cast_nulls(values))} FROM u x{self._where('x')}"
        )

    def _overwrite(self) -> str:
        values = [
            self._new_id("x"),
            *(self._value(name, "x") for name in list(COLUMNS)[1:-1]),
            "x.x",
        ]
        listed = self._listed(_cast_nulls(values))
        query = f"SELECT {listed} FROM u x{self._where('x')}"
        return f"INSERT OVERWRITE TABLE t PARTITION (p = 'x') {query}"


def _cast_nulls(values: Sequence[str]) -> list[str]:
    # A string fits a char, while a cast to char is refused.
    kinds = ["string" if "char" in kind else kind for kind in (*COLUMNS.values(), "string")]
    return [
        f"cast(NULL AS {kind})" if v == "NULL" else v
        for v, kind in zip(values, kinds, strict=False)
    ]
