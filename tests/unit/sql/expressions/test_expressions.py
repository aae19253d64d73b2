from __future__ import annotations

import re

import pytest

from airflow_hiveacid.format.errors import SqlTextError
from airflow_hiveacid.jobs.specs.statements import MultiInsertSpec, TransactionSpec
from airflow_hiveacid.plan.statements.parameters import read_parameters, stand_ins
from airflow_hiveacid.sql.expressions.expressions import NameScope, expression
from airflow_hiveacid.sql.expressions.queries import parsed_query, source_of
from airflow_hiveacid.sql.statements.multi_inserts import multi_insert_of
from airflow_hiveacid.sql.text.bare_names import column_changes
from airflow_hiveacid.sql.text.text import statements_of
from airflow_hiveacid.sql.text.views import Views

ONE = NameScope(qualifiers={"c": "t", "db.c": "t"}, sides=frozenset("t"))
# The user calls the source as we call the target, and the reverse.
TWO = NameScope(qualifiers={"s": "t", "t": "s"}, sides=frozenset("ts"))


def read(text: str, names: NameScope = ONE) -> str:
    (span,) = statements_of(text)
    return expression(span, names)


@pytest.mark.parametrize(
    "text",
    [
        "a = 1",
        "a == 1L",
        "a <=> b",
        "a <> b",
        "a != -1.5",
        "NOT a = b",
        "a AND b OR NOT c",
        "a IS NULL",
        "a IS NOT NULL",
        "a IS DISTINCT FROM b",
        "a IS NOT DISTINCT FROM b",
        "a BETWEEN 1 AND 2 AND b NOT BETWEEN c AND d + 1",
        "a IN (1, 2) OR a NOT IN ('x')",
        "a IN (b, c + 1)",
        "concat(a, 'NaN') = b AND c = 5 - cast('NaN' AS double) + d",
        "a LIKE 'x%' AND b NOT LIKE '\\\\_y' AND c RLIKE '^a\\\\d$' AND d REGEXP 'x'",
        "a LIKE ANY ('x', 'y')",
        "a LIKE concat('10\\\\%', b) AND c = 'x\\\\y'",
        "a LIKE regexp_replace(b, '\\\\s', '') AND concat(a LIKE 'x', 'x\\\\y') = b",
        "a LIKE CASE WHEN b = 'x\\\\y' THEN 'x' END OR a RLIKE 'x\\\\y'",
        "substr(a, 1, (2)) = substr(a, 2, 3 - 1) OR substr(a, 1, b - 9) = substr(a, 3, NULL)",
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
        "lpad(a, 3, 'x') = '' OR trunc(d, 'MM') = trunc(e, \"YEAR\") OR rand() < 1",
        "from_utc_timestamp(c, 'UTC') = c AND a + 1 = b || 'x' AND d = '\\\\U0001F642'",
        "a RLIKE nullif(b, '') AND log(2, a) = locate(b, nullif(a, ''))",
        "count(*) = 1",
        "percentile(a, 0.5) = 1",
        "a = 1 /* b */ AND c = '/* d */'",
    ],
)
def test_expressions_with_the_same_meaning_in_spark_are_kept_unchanged(text: str) -> None:
    assert read(text) == text.replace(" /* b */", "")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("substr(c.a, b) = 'x'", "__hiveacid_substr(t.a, b) = 'x'"),
        ("Substring (a, length(a) - 5, 2)", "__hiveacid_substr (a, length(a) - 5, 2)"),
        ("`substr`(a, b)", "__hiveacid_substr(a, b)"),
        ("a < substr(b, c)", "a < __hiveacid_substr(b, c)"),
        ("a IS DISTINCT FROM substr(b, c)", "a IS DISTINCT FROM __hiveacid_substr(b, c)"),
        (
            "extract(year FROM add_months(a, 1)) = 1",
            "extract(year FROM __hiveacid_add_months(cast(a AS date), 1)) = 1",
        ),
        ("(a) = substr(b, c) AND (x) > substr(b, c)", None),
        ("CASE WHEN (a) THEN substr(b, c) ELSE substr(b, d) END = x", None),
        ("replace(a, '', split(b, c)[0])", "__hiveacid_replace(a, '', __hiveacid_split(b, c)[0])"),
        ("add_months(a, 1) = b", "__hiveacid_add_months(cast(a AS date), 1) = b"),
        ("concat(a, 'x') = b", "concat(a, 'x') = b"),
        ("concat(a, upper(b)) = c", "concat('', a, upper(b)) = c"),
        ("concat_ws(',', a) = printf('%s', b)", None),
        ("get_json_object(a, '$.b[-1]') = initcap(b)", None),
        ("size(a) = array_contains(b, 1)", None),
        ("regexp_extract(a, '(x)?y', 1) = regexp_extract(a, b, 1)", None),
        (
            "regexp_extract(a, 'x(b){0,1}', 1) = regexp_extract(a, 'x(b){1,2}', 1)",
            "__hiveacid_regexp_extract(a, 'x(b){0,1}', 1) = regexp_extract(a, 'x(b){1,2}', 1)",
        ),
        (
            "regexp_extract(a, 'x(b)*', 1) = regexp_extract(a, 'x|(b)', 1)",
            "__hiveacid_regexp_extract(a, 'x(b)*', 1) = __hiveacid_regexp_extract(a, 'x|(b)', 1)",
        ),
        ("`user` = a AND c.user = `current_user`", "t.`user` = a AND t.user = t.`current_user`"),
        ("conv(a, 10, -2) = sha2(b, 0)", "conv(a, 10, -2) = sha2(b, 0)"),
        ("a LIKE ('x') AND b LIKE ANY ('y', 'z')", "a LIKE ('x') AND b LIKE ANY ('y', 'z')"),
        ("a < cast(b AS decimal(5,2))", "a < cast(b AS decimal(5,2))"),
        ("lpad(a, 3, '') = rpad(a, 3, b)", None),
        (
            "split(a, nullif(b, 'x')) = replace(a, nullif(b, '') || c, d)",
            "__hiveacid_split(a, nullif(b, 'x')) = __hiveacid_replace(a, nullif(b, '') || c, d)",
        ),
        ("locate(a, b, 2) = locate(a, b, c)", None),
        (
            "pmod(c.a, -3) = 1",
            (
                "transform(array(named_struct('a', t.a, 'b', -3)), __hiveacid_x ->"
                " (__hiveacid_x.a % __hiveacid_x.b + __hiveacid_x.b) % __hiveacid_x.b)[0] = 1"
            ),
        ),
        (
            "substr(a, -3) = substring(b, -3, 2)",  # the whole of a text of three letters
            (
                "transform(array(named_struct('a', a, 'b', -3)), __hiveacid_x -> CASE WHEN"
                " length(__hiveacid_x.a) < -__hiveacid_x.b THEN substr(__hiveacid_x.a, 1, 0) ELSE"
                " substr(__hiveacid_x.a, __hiveacid_x.b) END)[0] ="
                " transform(array(named_struct('a', b, 'b', -3, 'c', 2)), __hiveacid_x -> CASE WHEN"
                " length(__hiveacid_x.a) < -__hiveacid_x.b THEN substr(__hiveacid_x.a, 1,"
                " __hiveacid_x.c * 0) ELSE"
                " substr(__hiveacid_x.a, __hiveacid_x.b, __hiveacid_x.c) END)[0]"
            ),
        ),
        (
            "greatest(a, least(b, 1)) = 1",
            (
                "transform(array(array(a, transform(array(array(b, 1)), __hiveacid_x -> CASE WHEN"
                " exists(__hiveacid_x, __hiveacid_x_one -> __hiveacid_x_one IS NULL) THEN NULL ELSE"
                " array_min(__hiveacid_x) END)[0])), __hiveacid_x -> CASE WHEN exists(__hiveacid_x,"
                " __hiveacid_x_one -> __hiveacid_x_one IS NULL) THEN NULL ELSE"
                " array_max(__hiveacid_x) END)[0] = 1"
            ),
        ),
        (
            "cast(c.a AS int) = cast(abs(a) AS int) + cast(1.5 AS int) + cast(a + 1 AS bigint)",
            (
                "transform(array(t.a ), __hiveacid_x -> CASE WHEN cast(__hiveacid_x AS string)"
                r" RLIKE '^[\\p{Cntrl}\\s]|[\\p{Cntrl}\\s]$' THEN raise_error('Hive tasks do"
                " not read a string with blanks around a number as a number: remove blanks with"
                ' trim(x), tabs and line ends with regexp_replace(x, "[^0-9-]", "")\') ELSE'
                " cast(__hiveacid_x AS int) END)[0] = cast(abs(a) AS int) + cast(1.5 AS int)"
                " + cast(a + 1 AS bigint)"
            ),
        ),
        ("a / 1.10 + 7.000 * .50 - 0.00", "a / 1.1 + 7. * .5 - 0."),
        ("a = 1.10D AND b = '1.10' AND c = 10", "a = 1.10D AND b = '1.10' AND c = 10"),
        ("a = 1.10BD + 110.00BD * 10BD", "a = 1.1BD + 110.BD * 10BD"),
        (
            "base64(c.a) = b",
            (
                "transform(array(named_struct('a', t.a)), __hiveacid_x ->"
                r" replace(base64(__hiveacid_x.a), '\r\n', ''))[0] = b"
            ),
        ),
        (
            "int(2) = tinyint('7') + smallint(length(a)) + bigint(NULL)",
            "int(2) = tinyint('7') + smallint(length(a)) + bigint(NULL)",
        ),
        ("concat(1.50, '') = b", "concat(1.5, '') = b"),
        ("array(a, b)[-1] + 1 = a", "get(array(a, b), -1) + 1 = a"),
        (
            "array(array(a)[0], b)[a] = array(b)[1]",
            "get(array(get(array(a), 0), b), a) = get(array(b), 1)",
        ),
        ("(array(a, b))[5] IS NULL", "get((array(a, b)), 5) IS NULL"),
        ("((array(a)))[size(x)] = 1", "get(((array(a))), __hiveacid_size(x)) = 1"),
        (
            "concat((array(a))[0], b) = coalesce(array(a))[0]",
            "concat('', get((array(a)), 0), b) = coalesce(array(a))[0]",
        ),
    ],
)
def test_expressions_with_a_different_result_in_spark_are_rewritten_to_hives_result(
    text: str, written: str | None
) -> None:
    expected = written or re.sub(r"\b([a-z_]+)\(", r"__hiveacid_\1(", text)
    assert read(text) == expected


def test_sqlglots_warning_about_an_unreadable_json_path_is_suppressed(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read("get_json_object(a, '$.') = 'x'") == "__hiveacid_get_json_object(a, '$.') = 'x'"
    assert (caplog.text, capsys.readouterr().err) == ("", "")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("c.a = 1", "t.a = 1"),
        ("C.A = `c`.b", "t.A = t.b"),
        ("db.c.a = 1", "t.a = 1"),
        ("`DB` . c . a = 1", "t   . a = 1"),
        ("c.c.c = 'c.c' AND c = 1", "t.c.c = 'c.c' AND c = 1"),
        ("abs(c.a) + c.m['c.a'] = 1", "abs(t.a) + t.m['c.a'] = 1"),
        ("c.a.b.c.d.e = 1", "t.a.b.c.d.e = 1"),
        # A struct that is called as we call the table.
        ("t.x = 1", "t.t.x = 1"),
        ("c.t.x = 1 AND t = 2", "t.t.x = 1 AND t = 2"),
        ("s.x = a.b.c", "s.x = a.b.c"),
        ("CASE WHEN c.a = 1 THEN c.b END = 2", "CASE WHEN t.a = 1 THEN t.b END = 2"),
    ],
)
def test_names_of_the_target_are_replaced_by_the_internal_alias(text: str, written: str) -> None:
    assert read(text) == written


@pytest.mark.parametrize(
    "text",
    [
        "TIMESTAMP '2020-01-01 10:00:00.123456000' = a",
        "cast('2020-01-01 10:00:00.5' AS timestamp) = a",
        "a = '2020-01-01 10:00:00.1234560'",
        "a = concat('2020-01-01 10:00:00.123456', '7')",
        "concat('2020-01-01 10:00:00.1234567', a) = 'at 10:00:00.1234567'",
        "if(a, '2020-01-01 10:00:00.1234567', b) = c",
    ],
)
def test_timestamps_of_six_significant_digits_and_other_strings_are_accepted(text: str) -> None:
    assert read(text) == text


def test_swapped_aliases_of_target_and_source_are_replaced_simultaneously() -> None:
    assert read("t.a = s.t AND s.s = 't.a'", TWO) == "s.a = t.t AND t.s = 't.a'"


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("a = DEFAULT", 5, "DEFAULT replaces a column"),
        ("DEFAULT", 1, "DEFAULT replaces a column"),
        ("c.* = 1", 1, "a star is not a single value"),
        ("a = TIMESTAMP '2020-01-01 10:00:00.1234567'", 15, "more than six decimal digits"),
        (
            "a > cast('2020-01-01 10:00:00.00000001' AS timestamp)",
            10,
            "more than six decimal digits",
        ),
        (
            "a > cast(('2020-01-01 10:00:00.0000001') AS timestamp)",
            11,
            "more than six decimal digits",
        ),
        (
            "a > cast('2020-01-01 10:' '00:00.0000001' AS timestamp)",
            10,
            "more than six decimal digits",
        ),
        ("a = timestamp('2020-01-01 10:00:00.1234567')", 15, "more than six decimal digits"),
        ("a = timestamp(('2020-01-01 10:00:00.1234567'))", 16, "more than six decimal digits"),
        (
            "a = to_utc_timestamp('2020-01-01 10:00:00.1234567', 'UTC')",
            22,
            "more than six decimal digits",
        ),
        ("a = date_format('2020-01-01 10:00:00.1234567', 'S')", 17, "more than six decimal digits"),
        ("a = '2020-01-01 10:00:00.1234567'", 5, "more than six decimal digits"),
        ("a IN (b, ('2020-01-01 10:00:00.1234567'))", 11, "more than six decimal digits"),
        ("a BETWEEN b AND '2020-01-01 10:00:00.1234567'", 17, "more than six decimal digits"),
        (
            "CASE a WHEN '2020-01-01 10:00:00.1234567' THEN b END",
            13,
            "more than six decimal digits",
        ),
        ("a = 1.1F", 5, "a number followed by F"),
        ("a = 1e0f + b", 5, "a number followed by F"),
        ("a = 1.10e1BD", 5, "trailing zeros"),
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
        ("f(x -> x + 1)", 5, "do not allow '->'"),
        ("a::int = 1", 2, "do not allow '::'"),
        ("a && b", 3, "do not allow '&&'"),
        ("a = :x", 5, "there is no value for :x"),
        ("a = @x", 5, "do not allow '@'"),
        ("a = $x", 5, "do not allow '$'"),
        ("a = ?", 5, "do not allow '?'"),
        ("a = {x: 1}", 5, "do not allow '{'"),
        ("!a", 1, "do not allow '!'"),
        ("a b", 3, "cannot be read at 'b'"),
        ("a AS b", 3, "cannot be read at 'AS'"),
        ("a =", 3, "cannot be read"),
        ("= a", 3, "cannot be read"),
        ("a LIMIT 1", 3, "cannot be read at 'LIMIT'"),
        ("__hiveacid_1.a = 1", 1, "are reserved"),
        ("ROW__ID.writeid = 1", 1, "exists only in Hive"),
        ("c.NULL = 1", 1, "NULL is not a name"),
        ("c.a.b.c.d.NULL = 1", 1, "NULL is not a name"),
        ("trunc(d, c.fmt) = 1 AND trunc(d, fmt) = 1", 10, "accepts only these units"),
        ("array_remove(a, b, c) = d", 20, "not recognized as a column"),
        ("input__file__name = 'x'", 1, "exists only in Hive"),
    ],
)
def test_an_unsupported_expression_is_refused_with_its_line_and_column(
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
def test_operators_with_a_different_precedence_in_spark_need_parentheses(
    text: str, column: int
) -> None:
    with pytest.raises(SqlTextError, match="parentheses") as raised:
        read(text)
    assert raised.value.column == column


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("stddev(a) = std(a)", 1),
        ("hash(a) = 1", 1),
        ("variance(a) = 1", 1),
        ("extract(second FROM ts) = 1", 1),
        ("cast(a AS varchar(2)) = 'x'", 11),
        ("cast(a AS char(2)) = 'x'", 11),
        ("cast(a AS boolean)", 11),
        ("boolean(a)", 1),
        ("grouping__id = 1", 1),
        ("(a, b) NOT IN ((1, 2), (3, 4))", 2),
        ("a = trunc(d, 'Q')", 14),
        ("a = trunc(d, 'week')", 14),
        ("a = substr(b, 1, -1)", 18),
        ("a = substr(b, 1, (-1))", 18),
        ("a = substring(b, 1, -(1))", 21),
        ("a = substr(b, 1, 1 - 2)", 18),
        ("a = substr(b, 1, int(-1))", 18),
        ("a = substr(b, 1, cast('-1' AS int))", 18),
        ("a = substr(b, 1, if(true, -1, 2))", 18),
        ("lpad(a, 3) = b", 1),
        ("nvl2(a, b, c) = 1", 1),
        ("a = trunc(d, 'mm')", 14),
        ("a = trunc(d, b)", 14),
        ("from_utc_timestamp(a, 'UTC+3') = b", 23),
        ("from_utc_timestamp(a, b) = c", 23),
        ("log(0.5, a) = 1", 5),
        ("log(1, a) = log(1.0, b)", 5),
        ("log(b, a) = 1", 5),
        ("current_schema() = a", 1),
        ("current_catalog() = a", 1),
        ("typeof(a) = 'int'", 1),
        ("a = 'NaN'", 5),
        ("'nan' < a", 1),
        ("a <> cast('NaN' AS double)", 11),
        ("a > double('NaN')", 12),
        ("a IN (1, 'NaN')", 10),
        ("a = ('NaN')", 6),
        ("(cast('NaN' AS double)) > a", 7),
        ("a IN (1, -(double('NaN')))", 19),
        ("a = -cast('NaN' AS double)", 11),
        ("a = '__HIVE_DEFAULT_PARTITION__'", 5),
        ("a IN ('x', '__HIVE_DEFAULT_PARTITION__')", 12),
        ("date_trunc('MM', a) = b", 1),
        ("try_divide(a, b) = 1", 1),
        ("round(a, 1, 2) = 1", 1),
        ("reflect('java.lang.Math', 'abs', a) = 1", 1),
        ("from_utc_timestamp(a, '+02:00') = b", 23),
        ("to_utc_timestamp(a, '-01:00') = b", 21),
        ("rand(1) < 0.5", 6),
        ("a RLIKE ''", 3),
        ("a RLIKE b", 3),
        ("a REGEXP concat(b, 'x')", 3),
        ("a RLIKE nullif(b, 'x')", 3),
        ("percentile_approx(a, 0.5) = histogram_numeric(a, 2)", 1),
        ("xpath(a, 'b') = c", 1),
        ("aes_encrypt(a, 'k') = b", 1),
        ("sha2(a, 1) = b", 9),
        ("sha2(a, b) = b", 9),
        ("conv(a, 10, -1) = b", 13),
        ("conv(a, -10, 2) = b", 9),
        ("conv(a, 10, 37) = b", 13),
        ("conv(a, 10, 2 - 4) = b", 13),
        ("conv(a, 1, 10) = b", 9),
        ("conv(a, b, 10) = b", 9),
        ("like(a, 'x')", 1),
        ("NOT rlike(a, 'x')", 5),
        ("a = decimal(b)", 5),
        ("a < decimal(b)", 5),
        ("dec(a) = 1", 1),
        ("a AND numeric(b, 2) = 1", 7),
        ("any(a)", 1),
        ("a = any(b)", 5),
        ("a AND some(b)", 7),
        ("exists(a, b)", 1),
        ("a = current_user", 5),
        ("a IS DISTINCT FROM user", 20),
        ("extract(hour FROM current_time) = 1", 19),
        ("conv(a, 10, " + "9" * 5000 + ") = b", 13),
        ("SESSION_USER = a", 1),
        ("a IN (user, 'x')", 7),
        ("current_time > a", 1),
        ("session_user() = user()", 1),
        ("current_user() = a", 1),
        ("a = 1 DAY", 7),
        ("d + (1) day > e", 9),
        ("a LIKE 'x\\\\\\\\y'", 8),
        ("a LIKE 'x' 'y\\\\\\\\z'", 12),
        ("a NOT LIKE ANY ('x', 'y\\\\\\\\z')", 22),
        ("a LIKE ANY (b, 'y\\\\z')", 16),
        ("a LIKE ALL ('x', upper('y\\\\z'))", 24),
        ("a LIKE concat('x\\\\y', b)", 15),
        ("a LIKE concat(b, '%') || '\\\\'", 26),
        ("a LIKE CASE b WHEN 1 THEN 'x\\\\y' ELSE c END", 27),
        ("a LIKE CASE WHEN b = 'x' THEN c ELSE 'x\\\\y' END", 38),
        ("a = '\\U0001F642'", 5),
    ],
)
def test_functions_and_constants_with_a_different_meaning_in_spark_are_refused(
    text: str, column: int
) -> None:
    with pytest.raises(SqlTextError) as raised:
        read(text)
    assert raised.value.column == column
    assert raised.value.remedy


def test_an_ambiguous_column_in_backticks_needs_its_tables_alias() -> None:
    names = NameScope(qualifiers={"a": "t", "b": "s"}, sides=frozenset("ts"))
    with pytest.raises(SqlTextError, match="may be a column of either table"):
        read("`user` = b.y", names)
    assert read("a.`user` = b.session_user", names) == "t.`user` = s.session_user"


@pytest.mark.parametrize(
    ("query", "written"),
    [
        ("SELECT `user` FROM s", "SELECT `s`.`user` FROM s"),
        ("SELECT q.user FROM s q WHERE `user` = 1", "SELECT q.user FROM s q WHERE `q`.`user` = 1"),
        (
            "SELECT a AS user, max(b) FROM (SELECT `User` FROM s) q GROUP BY a ORDER BY `user`",
            (
                "SELECT a AS user, max(b) FROM (SELECT `s`.`User` FROM s) q GROUP BY a"
                " ORDER BY `user`"
            ),
        ),
        ("SELECT user.a FROM `user`", "SELECT user.a FROM `user`"),
        ("SELECT `user` FROM s JOIN r ON s.a = r.a", None),
        ("SELECT 1, `user`", None),
    ],
)
def test_a_column_in_backticks_gets_the_alias_of_its_table(query: str, written: str | None) -> None:
    (span,) = statements_of(query)
    tree = parsed_query(span)
    if written is None:
        with pytest.raises(SqlTextError, match="write the table's alias before it"):
            column_changes(span, tree)
    else:
        assert span.written(column_changes(span, tree)) == written


def test_columns_in_backticks_get_an_alias_in_single_and_multiple_inserts() -> None:
    (span,) = statements_of("SELECT `user` FROM db.s")
    assert source_of(span, Views(None)).query == "SELECT `s`.`user` FROM `__hiveacid_1` AS `s`"
    text = (
        "FROM (SELECT `user` FROM db.s) q INSERT INTO db.t SELECT `user` INSERT INTO db.u SELECT 1"
    )
    job = multi_insert_of(statements_of(text)[0], None)
    assert isinstance(job, TransactionSpec)
    (several,) = job.statements
    assert isinstance(several, MultiInsertSpec)
    assert list(several.shared.values()) == ["SELECT `s`.`user` FROM `__hiveacid_1` AS `s`"]
    assert several.inserts[0].source.query == "SELECT `q`.`user` FROM `__hiveacid_shared_1` q"


def test_a_parameter_for_a_length_or_base_is_checked_like_a_literal() -> None:
    def reads(text: str, value: object) -> str:
        (span,) = statements_of(text, read_parameters({"n": value}))
        return expression(span, NameScope(qualifiers={}, sides=frozenset("t")))

    assert reads("sha2(a, :n) = b", 512) == "sha2(a, :n) = b"
    assert reads("conv(a, :n, 10) = b", 36) == "conv(a, :n, 10) = b"
    for text, value in (
        ("sha2(a, :n) = b", 1),
        ("conv(a, 10, :n) = b", -1),
        ("sha2(a, :n) = b", "256"),
    ):
        with pytest.raises(SqlTextError, match="write"):
            reads(text, value)
    (span,) = statements_of("sha2(a, :n) = b", stand_ins({"n": "{{ n }}"}))
    assert expression(span, NameScope(qualifiers={}, sides=frozenset("t"))) == "sha2(a, :n) = b"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a = substr(b, 1, (:x))", -1),
        ("a = substr(b, 1, -:x)", 1),
        ("a = substr(b, 1, :x - 3)", 2),
        ("a = substr(b, 1, :x)", "2"),
        ("a LIKE ANY ('x', :x)", r"\d"),
        ("a LIKE ANY (:x)", ["x", r"\d"]),
        ("a LIKE concat(b, :x)", r"\d"),
        ("a = cast(:x AS timestamp)", "2020-01-01 10:00:00.1234567"),
        ("a = timestamp(:x)", "2020-01-01 10:00:00.1234567"),
        ("a < :x", "2020-01-01 10:00:00.1234567"),
        ("a IN (:x)", ["2020-01-01", "2020-01-01 10:00:00.1234567"]),
        ("a + :x MONTH = b", 1),
        ("a + (:x) MONTHS = b", 1),
        ("a - :x DAY = b", "1"),
    ],
)
def test_a_marker_is_refused_wherever_its_literal_would_be(text: str, value: object) -> None:
    (span,) = statements_of(text, read_parameters({"x": value}))
    with pytest.raises(SqlTextError, match=r"in Hive|Hive 4\.0\.1") as refused:
        expression(span, ONE)
    assert refused.value.remedy


def test_a_marker_with_a_valid_length_or_a_template_is_accepted() -> None:
    for value, text in ((5, "substr(a, 1, :x - 3) = b"), ("{{ x }}", "substr(a, 1, (:x)) = b")):
        given = read_parameters({"x": value}) if value == 5 else stand_ins({"x": value})
        assert expression(statements_of(text, given)[0], ONE) == text


@pytest.mark.parametrize(
    "text", ["a || '1'", "concat(a, b)", "a", "(a + 1)", "CASE b WHEN 1 THEN a END"]
)
def test_a_cast_of_a_string_to_a_number_is_rewritten_to_raise_if_it_has_blanks(text: str) -> None:
    assert "raise_error('Hive tasks do not read a string with blanks" in read(
        f"cast({text} AS int) = b"
    )


@pytest.mark.parametrize("name", ["tinyint", "smallint", "int", "bigint", "`Int`"])
def test_a_type_function_such_as_int_is_rewritten_like_a_cast(name: str) -> None:
    type_ = name.strip("`").lower()
    as_cast = read(f"cast(c.a AS {type_}) = b")
    assert read(f"{name}(c.a) = b") == as_cast.replace("array(t.a )", "array(t.a)")


def test_an_ambiguous_struct_needs_its_tables_alias() -> None:
    names = NameScope(qualifiers={"a": "t", "b": "s"}, sides=frozenset("ts"))
    with pytest.raises(SqlTextError, match="may be a column of either table"):
        read("t.x = b.y", names)
    assert read("a.t.x = b.s.y", names) == "t.t.x = s.s.y"


def test_a_name_that_is_both_a_table_and_a_database_is_refused() -> None:
    names = NameScope(qualifiers={"c": "t", "c.c": "t"}, sides=frozenset("t"))
    with pytest.raises(SqlTextError, match="is both a table and a database"):
        read("c.c.x = 1", names)
