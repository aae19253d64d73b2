from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import SqlTextError
from airflow_hiveacid.sql.expressions import Names, expression
from airflow_hiveacid.sql.text import statements_of

ONE = Names(qualifiers={"c": "t", "db.c": "t"}, sides=frozenset("t"))
# The user calls the source as we call the target, and the reverse.
TWO = Names(qualifiers={"s": "t", "t": "s"}, sides=frozenset("ts"))


def read(text: str, names: Names = ONE) -> str:
    (piece,) = statements_of(text)
    return expression(piece, names)


@pytest.mark.parametrize(
    "text",
    [
        "a = 1",
        "a == 1L",
        "a <=> b",
        "a <> b",
        "a != -1.50",
        "NOT a = b",
        "a AND b OR NOT c",
        "a IS NULL",
        "a IS NOT NULL",
        "a IS DISTINCT FROM b",
        "a IS NOT DISTINCT FROM b",
        "a BETWEEN 1 AND 2 AND b NOT BETWEEN c AND d + 1",
        "a IN (1, 2) OR a NOT IN ('x')",
        "a IN (b, c + 1)",
        "a LIKE 'x%' AND b NOT LIKE '\\\\_y' AND c RLIKE '^a\\\\d$' AND d REGEXP 'x'",
        "a LIKE ANY ('x', 'y')",
        "CASE a WHEN 1 THEN 'x' ELSE b END = 'x'",
        "CASE WHEN a = 1 THEN b = 2 WHEN c IS NULL THEN false END",
        "if(a, b, c)",
        "coalesce(a, nvl(b, 0))",
        "cast(a AS decimal(10, 2)) > 1.5",
        "CAST(a AS struct<x: int, y: array<map<string, bigint>>>).x = 1",
        "a[1].b = m['k']",
        "named_struct('a', 1).a = 1",
        "a || 'x' || b = 'y'",
        "(a + 1) || 'x' = 'y'",
        "-a || -1 || +b = CASE WHEN c THEN -1 END",
        "a + 1 - b * 2 / 3 % 4 DIV 5 > 0",
        "(a ^ b) * 2 = 1",
        "a & 1 + 2 = 0",
        "~a = -b",
        "date '2020-01-01' + interval '1' month = d",
        "d > DATE '2020-01-01' - INTERVAL 1 DAY",
        "ts = TIMESTAMP '2020-01-01 00:00:00.5'",
        "ts < current_timestamp AND d = current_date()",
        "extract(year FROM d) = 2020",
        "a = \"d\\\"q\" AND b = 'it\\'s' AND c = '\\u00e9'",
        "a = 'x' 'y'",
        "`c d`.`e``f` = 1",
        "comment = 'x' AND `select` = 1 AND year = 2020",
        "upper(trim(a)) = 'X'",
        "substring(a, 1, 2) = substr(b, 2)",
        "split(a, ',') = split(b, 'x*') AND lpad(a, 3, ' ') = replace(b, 'x', '')",
        "lpad(a, 3) = '' OR trunc(d, 'MM') = trunc(e, \"year\") OR rand() < 1",
        "from_utc_timestamp(c, 'UTC') = c AND a + 1 = b || 'x' AND d = '\\\\U0001F642'",
        "get_json_object(a, '$.b[*]') = concat_ws(',', collect_set(b)) || concat_ws(a, 'x', b)",
        "coalesce(regexp_extract(a, '(x)?y', 1), '') = regexp_extract(b, '(x)y', 1)",
        "nullif(regexp_extract(a, 'x|(y)', 1), '') RLIKE 'x'",
        "coalesce(size(a), -1) = coalesce(array_contains(b, 1), false)",
        "count(*) = 1",
        "percentile(a, 0.5) = 1",
        "get_json_object(a, '$.b[0].c') = '1'",
        "a = 1 /* b */ AND c = '/* d */'",
    ],
)
def test_what_the_user_wrote_goes_on_letter_by_letter(text: str) -> None:
    assert read(text) == text.replace(" /* b */", "")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("c.a = 1", "t.a = 1"),
        ("C.A = `c`.b", "t.A = t.b"),
        ("db.c.a = 1", "t.a = 1"),
        ("`DB` . c . a = 1", "t   . a = 1"),
        ("c.c.c = 'c.c' AND c = 1", "t.c.c = 'c.c' AND c = 1"),
        ("f(c.a) + c.m['c.a'] = 1", "f(t.a) + t.m['c.a'] = 1"),
        ("c.a.b.c.d.e = 1", "t.a.b.c.d.e = 1"),
        # A struct that is called as we call the table.
        ("t.x = 1", "t.t.x = 1"),
        ("c.t.x = 1 AND t = 2", "t.t.x = 1 AND t = 2"),
        ("s.x = a.b.c", "s.x = a.b.c"),
        ("CASE WHEN c.a = 1 THEN c.b END = 2", "CASE WHEN t.a = 1 THEN t.b END = 2"),
    ],
)
def test_names_of_the_target_become_ours(text: str, written: str) -> None:
    assert read(text) == written


@pytest.mark.parametrize(
    "text",
    [
        "TIMESTAMP '2020-01-01 10:00:00.123456000' = a",
        "cast('2020-01-01 10:00:00.5' AS timestamp) = a",
        "a = '2020-01-01 10:00:00.1234567'",
    ],
)
def test_a_time_of_six_digits_and_a_text_are_taken(text: str) -> None:
    assert read(text) == text


def test_swapped_names_are_swapped_at_once() -> None:
    assert read("t.a = s.t AND s.s = 't.a'", TWO) == "s.a = t.t AND t.s = 't.a'"


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("a = DEFAULT", 5, "DEFAULT stands for"),
        ("DEFAULT", 1, "DEFAULT stands for"),
        ("c.* = 1", 1, "a star stands for no single value"),
        ("a = TIMESTAMP '2020-01-01 10:00:00.1234567'", 15, "more than six digits"),
        ("a > cast('2020-01-01 10:00:00.00000001' AS timestamp)", 10, "more than six digits"),
        ("a IN (SELECT b FROM db.x)", 7, "a query within"),
        ("a = (SELECT max(b) FROM db.x)", 6, "a query within"),
        ("EXISTS (SELECT 1)", 9, "a query within"),
        ("a = ANY (SELECT 1)", 10, "a query within"),
        ("x.f(a) = 1", 1, "functions of a database"),
        ("a ILIKE 'x'", 1, "ILIKE is not supported"),
        ("a COLLATE x = 1", 1, "COLLATE is not supported"),
        ("a AT TIME ZONE 'x' = 1", 1, "is not supported"),
        ("sum(a) OVER (PARTITION BY b) = 1", 1, "WINDOW is not supported"),
        ("a LIKE 'x' ESCAPE '!'", 1, "ESCAPE is not supported"),
        ("f(x -> x + 1)", 5, "'->' is no part"),
        ("a::int = 1", 2, "'::' is no part"),
        ("a && b", 3, "'&&' is no part"),
        ("a = :x", 5, "':' is no part"),
        ("a = @x", 5, "'@' is no part"),
        ("a = $x", 5, "'$' is no part"),
        ("a = ?", 5, "'?' is no part"),
        ("a = {x: 1}", 5, "'{' is no part"),
        ("!a", 1, "'!' is no part"),
        ("a b", 3, "cannot be read at 'b'"),
        ("a AS b", 3, "cannot be read at 'AS'"),
        ("a =", 3, "cannot be read"),
        ("= a", 3, "cannot be read"),
        ("a LIMIT 1", 3, "cannot be read at 'LIMIT'"),
        ("__hiveacid_1.a = 1", 1, "are ours"),
        ("ROW__ID.writeid = 1", 1, "only Hive has"),
        ("c.NULL = 1", 1, "NULL is no name"),
        ("c.a.b.c.d.NULL = 1", 1, "NULL is no name"),
        ("trunc(d, c.fmt) = 1 AND trunc(d, fmt) = 1", 34, "not known to be a column"),
        ("array_remove(a, b, c) = d", 20, "not known to be a column"),
        ("input__file__name = 'x'", 1, "only Hive has"),
    ],
)
def test_what_is_not_understood_is_refused_where_it_stands(
    text: str, column: int, problem: str
) -> None:
    with pytest.raises(SqlTextError) as raised:
        read(text)
    assert problem in str(raised.value)
    assert (raised.value.line, raised.value.column) == (1, column)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        # Each means one thing in Hive 4.0.1's engine and another in Spark, as its grammar says too.
        ("a = b IS NULL", 7),
        ("a = b IN (1)", 7),
        ("a = b LIKE 'x'", 7),
        ("true = a < 2", 10),
        ("a BETWEEN 1 AND 2 = true", 19),
        ("a + 1 IS NULL", 7),
        ("'a' || 1 + 2 = 'a3'", 10),
        ("2 ^ 3 * 2 = 4", 7),
        ("2 * 3 ^ 1 = 4", 7),
        ("CASE WHEN a = b IS NULL THEN c END", 17),
        ("CASE WHEN a THEN b END = c LIKE 'x'", 28),
        ("a = CASE WHEN a THEN b END LIKE 'x'", 28),
        ("f(a = b IS NULL)", 9),
        ("a IS DISTINCT FROM b = c", 22),
    ],
)
def test_operators_that_bind_differently_need_parentheses(text: str, column: int) -> None:
    with pytest.raises(SqlTextError, match="parentheses") as raised:
        read(text)
    assert raised.value.column == column


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("sqrt(a) = 1", 1),
        ("greatest(a, b) = least(1, 2)", 1),
        ("a = Least (1, 2)", 5),
        ("`greatest`(a, b) = 1", 1),
        ("add_months(d, 1) = e", 1),
        ("size(a) = 0", 1),
        ("array_contains(a, 1)", 1),
        ("stddev(a) = std(a)", 1),
        ("variance(a) = 1", 1),
        ("hash(a) = 1", 1),
        ("ascii(a) = 1", 1),
        ("pmod(a, -3) = 1", 9),
        ("substr(a, -3) = 'x'", 11),
        ("substring(a, - 3, 2) = 'x'", 14),
        ("extract(second FROM ts) = 1", 1),
        ("cast(a AS varchar(2)) = 'x'", 11),
        ("cast(a AS char(2)) = 'x'", 11),
        ("cast(a AS boolean)", 11),
        ("boolean(a)", 1),
        ("grouping__id = 1", 1),
        ("(a, b) NOT IN ((1, 2), (3, 4))", 2),
        ("rpad(a, 3, '') = lpad(a, 3, 'x')", 12),
        ('a = split(b, "")[0]', 14),
        ("replace(a, '', 'x') = b", 12),
        ("instr(a, '') = 1", 10),
        ("a = trunc(d, 'Q')", 14),
        ("a = trunc(d, 'week')", 14),
        ("from_utc_timestamp(a, '+02:00') = b", 23),
        ("to_utc_timestamp(a, '-01:00') = b", 21),
        ("rand(1) < 0.5", 6),
        ("get_json_object(a, '$.b[*].c') = 'x'", 20),
        ("regexp_extract(a, '(x)?y', 1) = ''", 1),
        ("regexp_extract(a, '(x)|(y)', 1) = ''", 1),
        ("concat_ws('-', a) = b", 1),
        ("a RLIKE ''", 9),
        ("size(map_keys(a)) = 1", 1),
        ("coalesce(map_keys(a), b) = map_values(a)", 28),
        ("str_to_map(a)['x'] = 1", 1),
        ("percentile_approx(a, 0.5) = histogram_numeric(a, 2)", 1),
        ("asin(a) = acos(b)", 1),
        ("soundex(a) = 'X'", 1),
        ("xpath(a, 'b') = c", 1),
        ("aes_encrypt(a, 'k') = b", 1),
        ("current_user() = a", 1),
        ("a = 1 DAY", 7),
        ("d + (1) day > e", 9),
        ("a LIKE 'x\\\\\\\\y'", 8),
        ("a LIKE 'x' 'y\\\\\\\\z'", 12),
        ("a NOT LIKE ANY ('x', 'y\\\\\\\\z')", 22),
        ("a = '\\U0001F642'", 5),
    ],
)
def test_functions_and_constants_with_another_meaning_in_spark_are_refused(
    text: str, column: int
) -> None:
    with pytest.raises(SqlTextError) as raised:
        read(text)
    assert raised.value.column == column
    assert raised.value.remedy


def test_a_struct_that_may_be_of_either_table_needs_its_alias() -> None:
    names = Names(qualifiers={"a": "t", "b": "s"}, sides=frozenset("ts"))
    with pytest.raises(SqlTextError, match="may be a column of either table"):
        read("t.x = b.y", names)
    assert read("a.t.x = b.s.y", names) == "t.t.x = s.s.y"


def test_a_name_that_is_table_and_database_is_refused() -> None:
    names = Names(qualifiers={"c": "t", "c.c": "t"}, sides=frozenset("t"))
    with pytest.raises(SqlTextError, match="a table and the database of one"):
        read("c.c.x = 1", names)
