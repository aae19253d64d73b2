"""SQL text for every input: never an error but the typed one; what a job says can be written."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hypothesis import example, given, settings, strategies as st

from airflow_hiveacid.format.errors import SqlTextError
from airflow_hiveacid.jobs import statements
from airflow_hiveacid.sql.script import read_script

_WORDS: Final = """\
SELECT FROM WHERE INSERT INTO OVERWRITE TABLE VALUES UPDATE SET DELETE MERGE USING ON WHEN MATCHED
NOT THEN BY SOURCE AND OR CASE END ELSE IN IS NULL BETWEEN LIKE AS JOIN LEFT GROUP ORDER LIMIT UNION
ALL WITH PARTITION ALTER COMPACT DISTINCT OVER EXISTS INTERVAL DAY CAST int struct array DEFAULT
CREATE DATABASE DROP IF PURGE ADD COLUMNS CHANGE RENAME TO TBLPROPERTIES UNSET STORED ORC
PARTITIONED CLUSTERED INTO BUCKETS COMMENT LOCATION CASCADE SHOW LOCKS COMPACTIONS ABORT
TRANSACTIONS EXPLAIN LATERAL VIEW explode t s db a b db.t db.s t.a s.b ( ) ( ) [ ] , , . ; = ==
<=> <> < > + - *
/ % ^ | & || ~ ! : ? @ $ # { } -> :: 1 2.5 .5 1L 1e3 'x' 'y\\'' "z" `q`` ' " ` -- /* */ /*+ \\ ${x}
'major' é 🙂"""
WORDS: Final = (*_WORDS.split(), "\n")
STATEMENTS: Final = Path(__file__).with_name("statements.txt").read_text().splitlines()


def read(text: str) -> object:
    """The jobs of a text, or the error; nothing else may come."""
    try:
        return [statement.job for statement in read_script(text)]
    except SqlTextError as error:
        check(error, text)
        return error


def check(error: SqlTextError, text: str) -> None:
    """That the error points into the text, and says what is wrong and what to do."""
    lines = text.split("\n")
    assert 1 <= error.line <= len(lines)
    assert 1 <= error.column <= len(lines[error.line - 1]) + 1
    assert error.statement >= 1
    assert error.problem
    assert error.remedy


@given(st.text())
@example("'\\")
@example("/*+ */")
@example("\x1c;")
@example("DELETE FROM db.t WHERE " + "(" * 5000 + "1" + ")" * 5000)
@example("INSERT INTO db.t VALUES (" + "9" * 5000 + ")")
@example("UPDATE db.t SET a = 1 WHERE " + " AND ".join(["b = 1"] * 2000))
def test_any_text_is_parsed_into_jobs_or_raises_the_typed_error(text: str) -> None:
    read(text)


@settings(max_examples=settings.default.max_examples * 4)
@given(st.lists(st.sampled_from(WORDS), max_size=25), st.sampled_from(STATEMENTS))
def test_any_words_are_parsed_into_jobs_or_raise_the_typed_error(
    words: list[str], statement: str
) -> None:
    read(" ".join(words))
    read("DELETE FROM db.t WHERE " + " ".join(words))
    read(statement + " " + " ".join(words))


@settings(max_examples=settings.default.max_examples * 4)
@given(
    st.sampled_from(STATEMENTS),
    st.integers(0, 200),
    st.integers(0, 3),
    st.sampled_from(WORDS),
)
def test_a_damaged_statement_is_parsed_into_jobs_or_raises_the_typed_error(
    statement: str, at: int, gone: int, word: str
) -> None:
    parts = statement.split(" ")
    at %= len(parts)
    read(" ".join([*parts[:at], word, *parts[at + gone :]]))


NAMES = st.sampled_from(["a", "b", "Id", "t", "s", "c d", "e`f", "select", "x1", "é"])
# A comparison with 'NaN' is refused, in any case of letters.
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00$"), max_size=8
).filter(lambda text: text.strip().lower() != "nan")


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@st.composite
def expressions(draw: st.DrawFn, sides: str) -> str:
    """Expressions over our names, as a job says them."""
    side, column = draw(st.sampled_from(list(sides))), quoted(draw(NAMES))
    reference = f"{side}.{column}"
    other = draw(
        st.one_of(
            st.integers(0, 10**20).map(str),
            TEXTS.map(literal),
            st.just(f"{side}.{quoted('s')}.{quoted('t')}"),
            st.just("NULL"),
        )
    )
    form = draw(
        st.sampled_from(
            [
                "{0}",
                "{1}",
                "{0} + 1",
                "coalesce({0}, {1})",
                "({0})",
                "CASE WHEN {0} = {1} THEN {0} END",
            ]
        )
    )
    return form.format(reference, other)


def conditions(sides: str) -> st.SearchStrategy[str]:
    def compare(pair: tuple[str, str]) -> str:
        return f"({pair[0]}) = ({pair[1]})"

    one = st.tuples(expressions(sides), expressions(sides)).map(compare)
    return st.lists(one, min_size=1, max_size=3).map(" AND ".join)


def assignments(sides: str) -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(NAMES.map(str.lower), expressions(sides), min_size=1, max_size=3)


def set_text(given: dict[str, str]) -> str:
    return ", ".join(f"{quoted(column)} = {value}" for column, value in given.items())


@given(assignments("t"), st.none() | conditions("t"))
def test_an_update_can_be_written_as_sql_text(given: dict[str, str], where: str | None) -> None:
    text = f"UPDATE db.x AS t SET {set_text(given)}" + (f" WHERE {where}" if where else "")
    assert read(text) == [statements.UpdateSpec(target="db.x", set=given, where=where)]


@given(conditions("t"), st.sampled_from(["-- ' x\n", '/* " ; */', " ", "\n\t"]))
def test_one_or_several_deletes_can_be_written_as_sql_text(where: str, gap: str) -> None:
    text = f"{gap}DELETE{gap}FROM db.x t{gap}WHERE {where}{gap}"
    expected = statements.DeleteSpec(target="db.x", where=where)
    assert read(text) == [expected]
    assert read(f"{text};{text};{gap};") == [expected, expected]


@given(
    st.lists(
        st.lists(st.none() | st.booleans() | st.integers() | TEXTS, min_size=2, max_size=2),
        min_size=1,
        max_size=4,
    )
)
def test_inserted_rows_can_be_written_as_sql_text(rows: list[list[str | int | None]]) -> None:
    def cell(value: str | int | None) -> str:
        return literal(value) if isinstance(value, str) else "NULL" if value is None else str(value)

    def told(value: str | int | None) -> str | int | None:
        if isinstance(value, bool):
            return str(value).upper()
        is_longer_than_a_decimal = isinstance(value, int) and abs(value) >= 10**38
        return str(value) if is_longer_than_a_decimal else value

    text = ", ".join(f"({cell(a)}, {cell(b)})" for a, b in rows)
    assert read(f"INSERT INTO db.x VALUES {text}") == [
        statements.InsertSpec(
            target="db.x",
            source=statements.SourceSpec(values=tuple(tuple(map(told, row)) for row in rows)),
            match=statements.ColumnMatch.POSITION,
        )
    ]


@given(
    conditions("ts"),
    st.lists(st.tuples(conditions("ts"), st.none() | assignments("ts")), max_size=2),
    assignments("s"),
    conditions("t"),
)
def test_a_merge_with_any_column_names_can_be_written_as_sql_text(
    condition: str,
    matched: list[tuple[str, dict[str, str] | None]],
    new: dict[str, str],
    missing: str,
) -> None:
    clauses = [
        statements.MergeClause(
            when=statements.MergeWhen.MATCHED,
            action=statements.MergeAction.DELETE
            if given is None
            else statements.MergeAction.UPDATE,
            condition=holds,
            set=given,
        )
        for holds, given in matched
    ]
    clauses += [
        statements.MergeClause(
            when=statements.MergeWhen.NOT_MATCHED, action=statements.MergeAction.INSERT, set=new
        ),
        statements.MergeClause(
            when=statements.MergeWhen.NOT_MATCHED_BY_SOURCE,
            action=statements.MergeAction.DELETE,
            condition=missing,
        ),
    ]
    texts = [
        f"WHEN MATCHED AND {holds} THEN "
        + ("DELETE" if given is None else f"UPDATE SET {set_text(given)}")
        for holds, given in matched
    ]
    names, values = ", ".join(map(quoted, new)), ", ".join(new.values())
    texts += [
        f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})",
        f"WHEN NOT MATCHED BY SOURCE AND {missing} THEN DELETE",
    ]
    spec = statements.MergeSpec(
        target="db.x",
        source=statements.SourceSpec(table="db.y"),
        keys=("k",),
        clauses=tuple(clauses),
        condition=condition,
    )
    head = "MERGE INTO db.x AS t USING db.y AS s ON t.k = s.k"
    assert read(f"{head} AND {condition} {' '.join(texts)}") == [spec]
