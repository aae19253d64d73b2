"""SQL text from end to end: what Hive's dialect says is what the table holds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import Constraints
from airflow_hiveacid.jobs.job import JobResult
from airflow_hiveacid.jobs.statements import MergeAction, MergeClause, MergeWhen, TransactionSpec
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.sql.script import read_script
from tests.support.merge_clauses import INSERT_ALL, matched_update
from tests.support.spark_lab import Lab, Row, make_lab


def run(lab: Lab, text: str) -> list[JobResult]:
    return [lab.run(statement.job) for statement in read_script(text, lab.db)]


@pytest.fixture
def shop(lab4: Lab) -> Lab:
    """Customers by country and day, orders of theirs; the columns' orders differ on purpose."""
    return filled_shop(lab4)


@pytest.fixture(scope="module")
def unchanged_shop(spark: SparkSession, hive_metastore: LocalMetastore) -> Iterator[Lab]:
    """One for all tests of statements that are refused and change nothing."""
    for lab in make_lab(spark, hive_metastore):
        yield filled_shop(lab)


@pytest.fixture(scope="module")
def contents(unchanged_shop: Lab) -> dict[str, tuple[list[Row], list[str]]]:
    """The rows and directories of its tables."""
    return contents_of(unchanged_shop)


def contents_of(lab: Lab) -> dict[str, tuple[list[Row], list[str]]]:
    return {name: (lab.rows(name), lab.directories(name)) for name in ("customers", "orders")}


def filled_shop(lab: Lab) -> Lab:
    lab.table(
        "customers",
        {"id": "bigint", "name": "string", "spent": "decimal(10,2)"},
        partition={"country": "string", "day": "int"},
    )
    lab.table("orders", {"spent": "decimal(10,2)", "customer": "bigint", "id": "bigint"})
    lab.table("t", {"s": "struct<x:int,t:string>", "t": "struct<x:int>", "x": "int"})
    text = """
        INSERT INTO customers PARTITION (country = 'AT', day) VALUES
            (1, 'Ada', 10.50, 1), (2, 'Bo;b', 0, '2');  -- day is the last column
        INSERT INTO customers (day, id, country, name) VALUES (1, 3, 'DE', 'C\\'\\u00e9\\n');
        INSERT INTO TABLE orders VALUES (1.25, 1, 100), (2.5, 1, 101), (4, 9, 102);
    """
    # One job in place of three.
    inserts = tuple(statement.job for statement in read_script(text, lab.db))
    lab.run(TransactionSpec(statements=inserts))
    return lab


CUSTOMERS: list[Row] = [
    (1, "Ada", "10.50", "AT", 1),
    (2, "Bo;b", "0.00", "AT", 2),
    (3, "C'é\n", None, "DE", 1),
]


def customers(lab: Lab, name: str = "customers") -> list[Row]:
    return [
        (i, name, None if spent is None else str(spent), country, day)
        for i, name, spent, country, day in lab.rows(name)
    ]


def test_rows_are_inserted_by_position_with_dynamic_partitions_last(shop: Lab) -> None:
    assert customers(shop) == CUSTOMERS
    run(
        shop,
        """
        WITH big AS (SELECT o.customer, sum(o.spent) AS total FROM orders o GROUP BY o.customer)
        INSERT INTO customers
        SELECT b.customer + 10, c.name, b.total, c.country, c.day
        FROM big b LEFT JOIN customers c ON b.customer = c.id
        WHERE c.id IN (SELECT id FROM orders x WHERE x.id < 0) OR c.id IS NOT NULL
        """,
    )
    assert customers(shop) == [*CUSTOMERS, (11, "Ada", "3.75", "AT", 1)]
    # The same name twice, and names that are the table's in another order, mean nothing.
    run(
        shop,
        "INSERT INTO orders SELECT spent, id, id FROM (SELECT id AS spent, 5 id FROM orders) q",
    )
    doubled = [(int(str(a).split(".")[0]), b, c) for a, b, c in shop.rows("orders") if b == c == 5]
    assert doubled == [(100, 5, 5), (101, 5, 5), (102, 5, 5)]
    run(shop, "INSERT OVERWRITE TABLE orders SELECT * FROM orders WHERE id = 100")
    assert [row[1:] for row in shop.rows("orders")] == [(1, 100)]


def test_a_wrong_number_of_columns_or_a_wrong_partition_clause_is_refused(
    unchanged_shop: Lab,
) -> None:
    for text in (
        "INSERT INTO orders SELECT spent, id FROM orders",
        "INSERT INTO customers PARTITION (day, country) SELECT 1, 'x', 2, 3, 'AT'",
        "INSERT INTO customers PARTITION (country = 'AT') SELECT 1, 'x', 2, 3",
    ):
        with pytest.raises(errors.ConfigurationError):
            run(unchanged_shop, text)


def test_aliases_that_equal_column_names_are_resolved_correctly(shop: Lab) -> None:
    run(
        shop,
        """
        INSERT INTO t SELECT named_struct('x', 1, 't', 'one'), named_struct('x', 2), 3;
        INSERT INTO t SELECT named_struct('x', 4, 't', 'two'), named_struct('x', 5), 6;
        UPDATE t s SET x = s.s.x + s.t.x + s.x WHERE s.s.t = 'one' AND t.x = 2;
        DELETE FROM t WHERE t.s.x = 4 AND t.t.x = 5 AND t.x = 6;
        """,
    )
    assert [tuple(map(str, row)) for row in shop.rows("t")] == [
        ("Row(x=1, t='one')", "Row(x=2)", "6")
    ]


def test_a_merge_as_sql_text_and_a_merge_as_a_spec_leave_the_same_rows(shop: Lab) -> None:
    types = {"id": "bigint", "name": "string", "spent": "decimal(10,2)"}
    partition = {"country": "string", "day": "int"}
    for name in ("one", "other"):
        shop.table(name, types, partition=partition)
        run(shop, f"INSERT INTO {name} SELECT * FROM customers")
    run(
        shop,
        """
        MERGE INTO one AS s USING (SELECT customer, id, spent FROM orders) t
        ON (s.id = t.customer AND t.id <> 101 AND s.day = 1)
        WHEN MATCHED AND t.spent > 100 THEN DELETE
        WHEN MATCHED THEN UPDATE SET spent = s.spent + t.spent, name = concat('s.', s.name, 't.')
        WHEN NOT MATCHED AND t.id = 102 THEN INSERT VALUES (t.customer, 'new', t.spent, 'FR', 3)
        WHEN NOT MATCHED BY SOURCE AND s.country = 'DE' THEN DELETE
        """,
    )
    clauses = (
        matched_update({"spent": "t.spent + s.spent", "name": "concat('s.', t.name, 't.')"}),
        MergeClause(
            when=MergeWhen.NOT_MATCHED,
            action=MergeAction.INSERT,
            condition="s.order = 102",
            set={"id": "s.id", "name": "'new'", "spent": "s.spent", "country": "'FR'", "day": "3"},
        ),
        MergeClause(
            when=MergeWhen.NOT_MATCHED_BY_SOURCE,
            action=MergeAction.DELETE,
            condition="t.country = 'DE'",
        ),
    )
    shop.merge(
        "other",
        [("1.25", 1, 100), ("2.5", 1, 101), (4, 9, 102)],
        ["spent", "id", "order"],
        ["id"],
        clauses,
        "s.order <> 101 AND t.day = 1",
    )
    assert customers(shop, "one") == customers(shop, "other")
    assert customers(shop, "one") == [
        (1, "s.Adat.", "11.75", "AT", 1),
        (2, "Bo;b", "0.00", "AT", 2),
        (9, "new", "4.00", "FR", 3),
    ]


def locked_beside(shop: Lab, text: str, late: str) -> list[set[str]]:
    """Run a statement, and another that is too late for its snapshot; return what it has locked."""
    seen: list[set[str]] = []

    def on_step(step: str) -> None:
        locks = shop.client.show_locks()
        seen.append({str(lock.table) for lock in locks if lock.db == shop.db})
        if step == "snapshot":
            run(shop, late)

    (statement,) = read_script(text, shop.db)
    shop.run(statement.job, on_step=on_step)
    return seen


def test_every_table_of_a_query_is_locked_and_read_in_one_snapshot(shop: Lab) -> None:
    seen = locked_beside(
        shop,
        "INSERT INTO t SELECT null, null, count(*) FROM orders o, customers c, orders p"
        " WHERE o.customer = c.id AND p.id = o.id",
        "INSERT INTO orders VALUES (1, 3, 200)",
    )
    assert any(tables >= {"orders", "customers", "t"} for tables in seen), seen
    assert [row[2] for row in shop.rows("t")] == [2]


def test_subqueries_in_conditions_and_expressions_can_read_acid_tables(shop: Lab) -> None:
    run(
        shop,
        """
        UPDATE customers c SET spent = (SELECT sum(o.spent) FROM orders o WHERE o.customer = c.id)
        WHERE c.id IN (SELECT customer FROM orders) AND c.day = 1;
        DELETE FROM customers WHERE NOT EXISTS (
            SELECT * FROM orders AS t2 WHERE t2.customer = customers.id OR customers.id = 3
        );
        """,
    )
    assert customers(shop) == [(1, "Ada", "3.75", "AT", 1), CUSTOMERS[2]]
    # What the target itself holds more than once; NULL is in no list.
    run(
        shop,
        """
        INSERT INTO orders VALUES (1, 1, 100), (2, null, 103), (3, 5, null);
        DELETE FROM orders WHERE id IN (SELECT id FROM orders GROUP BY id HAVING count(*) > 1);
        """,
    )
    assert sorted(str(row[2]) for row in shop.rows("orders")) == ["101", "102", "103", "None"]
    run(shop, "DELETE FROM orders WHERE id NOT IN (SELECT x.id FROM orders x WHERE x.id > 101)")
    assert sorted(str(row[2]) for row in shop.rows("orders")) == ["102", "103", "None"]
    run(shop, "DELETE FROM orders WHERE id NOT IN (SELECT customer FROM orders)")
    assert len(shop.rows("orders")) == 3


@pytest.mark.parametrize("in_partitions", [False, True])
@pytest.mark.long_cases("False")
def test_subqueries_in_the_clauses_of_a_merge_can_read_acid_tables(
    shop: Lab, in_partitions: bool
) -> None:
    """Also where the source would tell which partitions are touched: it is not asked then."""
    on = "c.id = n.id AND c.day = n.day" if in_partitions else "c.id = n.id"
    run(
        shop,
        f"""
        MERGE INTO customers c USING (
            SELECT 1 AS id, 1 AS day, 'x' AS name UNION ALL SELECT 2, 2, 'y'
            UNION ALL SELECT 3, 1, 'z' UNION ALL SELECT 9, 5, 'n' UNION ALL SELECT 8, 6, 'm') n
        ON {on}
        WHEN MATCHED AND n.id IN (SELECT customer FROM orders) THEN UPDATE SET
            name = n.name, spent = (SELECT max(o.spent) FROM orders o WHERE o.customer = c.id)
        WHEN MATCHED AND NOT EXISTS (SELECT 1 FROM customers x WHERE x.id > c.id) THEN DELETE
        WHEN NOT MATCHED AND n.id IN (SELECT o.customer FROM orders o) THEN INSERT VALUES
            (n.id, n.name, NULL, 'FR', (SELECT max(x.day) + 5 FROM customers x));
        """,
    )
    assert customers(shop) == [(1, "x", "2.50", "AT", 1), CUSTOMERS[1], (9, "n", None, "FR", 7)]


DEMANDS = Constraints(
    defaults={"name": "'none'", "spent": "1.5", "day": "9"},
    not_null={"id": "nn"},
    checks={"ck": "spent < 100 AND (day>0)"},
)


def test_columns_without_a_value_get_their_default(
    shop: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MetastoreClient, "constraints", lambda *_: DEMANDS)
    run(
        shop,
        """
        INSERT INTO customers (id, country) VALUES (10, 'X'), (11, 'Y');
        INSERT INTO customers VALUES (12, DEFAULT, 2, 'X', DEFAULT);
        INSERT INTO customers VALUES (13, 'n', DEFAULT, 'X', 4), (14, DEFAULT, 2.5, 'X', DEFAULT);
        INSERT INTO customers VALUES (15, upper('n'), '3', DEFAULT, 4),
            (16, DEFAULT, DEFAULT, concat('X'), DEFAULT);
        UPDATE customers SET spent = '4.5' WHERE id = 3;
        INSERT INTO customers PARTITION (country = 'Z', day) (id, day) SELECT id, 3 FROM orders
            WHERE id = 100;
        UPDATE customers SET name = DEFAULT, spent = NULL WHERE id = 1;
        MERGE INTO customers c USING (SELECT 2 AS id UNION ALL SELECT 20) n ON c.id = n.id
            WHEN MATCHED THEN UPDATE SET spent = DEFAULT
            WHEN NOT MATCHED THEN INSERT (id, name) VALUES (n.id, DEFAULT);
        """,
    )
    shop.insert("customers", [(30,)], ["id"])
    shop.merge(
        "customers",
        [(31,)],
        ["id"],
        ["id"],
        [INSERT_ALL],
    )
    assert customers(shop) == [
        (1, "none", None, "AT", 1),
        (2, "Bo;b", "1.50", "AT", 2),
        (3, "C'é\n", "4.50", "DE", 1),
        (10, "none", "1.50", "X", 9),
        (11, "none", "1.50", "Y", 9),
        (12, "none", "2.00", "X", 9),
        (13, "n", "1.50", "X", 4),
        (14, "none", "2.50", "X", 9),
        (15, "N", "3.00", None, 4),
        (16, "none", "1.50", "X", 9),
        (20, "none", "1.50", None, 9),
        (30, "none", "1.50", None, 9),
        (31, "none", "1.50", None, 9),
        (100, "none", "1.50", "Z", 3),
    ]


@pytest.mark.parametrize(
    ("text", "column", "value"),
    [
        ("INSERT INTO orders VALUES (1, 1.5, 200)", "'customer' is bigint", "'1.5'"),
        ("INSERT INTO orders VALUES (1, 2, 3), ('a\"b\\n', 1, 4)", "'spent' is decimal", "'a\"b"),
        ("INSERT INTO orders VALUES (1.5, cast(1 AS bigint), 'x')", "'id' is bigint", "'x'"),
        ("INSERT INTO customers VALUES (1, 'n', 1, 'X', 1.5)", "'day' is int", "'1.5'"),
        ("INSERT INTO customers PARTITION (country = 'X', day = 1.5) VALUES (1, 'n', 1)",
         "'day' is int", "'1.5'"),
        ("INSERT INTO customers PARTITION (country = 'X', day = 'x') SELECT 1, 'n', 1",
         "'day' is int", "'x'"),
        ("UPDATE orders SET customer = '1.5' WHERE id = 100", "'customer' is bigint", "'1.5'"),
        (("MERGE INTO orders o USING (SELECT 100 AS id) n ON o.id = n.id"
         " WHEN MATCHED THEN UPDATE SET customer = 'x'"), "'customer' is bigint", "'x'"),
    ],
)  # fmt: skip
def test_the_error_quotes_a_text_that_does_not_fit_its_column_and_nothing_changes(
    unchanged_shop: Lab,
    contents: dict[str, tuple[list[Row], list[str]]],
    text: str,
    column: str,
    value: str,
) -> None:
    with pytest.raises(
        errors.TypeMismatchError, match=r"(?s)but the value is .*; give a value of this type"
    ) as refused:
        run(unchanged_shop, text)
    message = str(refused.value)
    assert f"column {column}" in message
    assert f"the value is {value}" in message
    assert contents_of(unchanged_shop) == contents


def test_a_text_that_fits_its_column_is_converted(shop: Lab) -> None:
    shop.table("kinds", {"i": "int", "d": "date", "ts": "timestamp", "b": "boolean", "f": "double"})
    run(
        shop,
        """
        INSERT INTO kinds VALUES ('7', '2026-01-31', '2026-01-31 02:03:04.5', 'true', '1e3'),
            (8, date '2026-02-01', NULL, FALSE, 1.5), (NULL, NULL, NULL, NULL, NULL)
        """,
    )
    found = [tuple(str(value) for value in row) for row in shop.rows("kinds")]
    assert found == [
        ("None",) * 5,
        ("7", "2026-01-31", "2026-01-31 02:03:04.500000", "True", "1000.0"),
        ("8", "2026-02-01", "None", "False", "1.5"),
    ]


def test_a_column_named_like_a_spark_function_is_resolved_as_the_column(shop: Lab) -> None:
    shop.table("logins", {"user": "string", "n": "int"})
    run(
        shop,
        """
        INSERT INTO logins VALUES ('ada', 1), ('bo', 2);
        INSERT INTO logins SELECT `user`, n + 10 FROM logins WHERE `user` = 'ada' ORDER BY `user`;
        UPDATE logins SET `user` = concat(`user`, '!') WHERE `user` = 'bo';
        DELETE FROM logins l WHERE l.user = 'ada' AND n = 1;
        """,
    )
    assert shop.rows("logins") == [("ada", 11), ("bo!", 2)]
    with pytest.raises(errors.UnknownColumnError, match="user"):
        run(shop, "DELETE FROM orders WHERE `user` <> 'x'")
    with pytest.raises(errors.SourceUnreadableError, match="user"):
        run(shop, "INSERT INTO logins SELECT `user`, 1 FROM orders")
    assert len(shop.rows("orders")) == 3


def test_rows_that_violate_a_constraint_are_refused_and_change_nothing(
    shop: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MetastoreClient, "constraints", lambda *_: DEMANDS)
    merge = "MERGE INTO customers c USING (SELECT 1 AS id, 99 AS s) n ON c.id = n.id "
    for text, constraint in (
        ("INSERT INTO customers VALUES (NULL, 'x', 1, 'X', 1)", "id NOT NULL (constraint nn)"),
        (
            (
                "INSERT INTO customers SELECT customer, 'x', 1, 'X', 1 FROM orders UNION ALL"
                " SELECT NULL, 'x', 1, 'X', 1"
            ),
            "id NOT NULL",
        ),
        ("INSERT INTO customers (name) VALUES ('x')", "id NOT NULL"),
        ("INSERT INTO customers (id, name) VALUES (DEFAULT, DEFAULT)", "id NOT NULL"),
        ("INSERT INTO customers VALUES (5, 'x', 100, 'X', 1)", "CHECK (`spent` < 100"),
        ("INSERT INTO customers VALUES (5, 'x', 1, 'X', 0)", "(constraint ck)"),
        ("UPDATE customers SET spent = 200 WHERE id = 1", "(constraint ck)"),
        ("UPDATE customers SET id = NULL", "id NOT NULL"),
        (merge + "WHEN MATCHED THEN UPDATE SET spent = n.s + 1", "(constraint ck)"),
        (
            merge
            + "WHEN MATCHED AND c.id > 1 THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET"
            " id = NULL",
            "id NOT NULL",
        ),
        (
            (
                "MERGE INTO customers c USING orders n ON c.id = n.id WHEN NOT MATCHED THEN INSERT"
                " VALUES (n.id, 'x', n.spent * 50, 'AT', 1)"
            ),
            "(constraint ck)",
        ),
    ):
        with pytest.raises(errors.ConstraintViolationError) as caught:
            run(shop, text)
        assert constraint in str(caught.value), text
    assert customers(shop) == CUSTOMERS
    run(shop, "INSERT INTO customers PARTITION (country = 'AT', day = 5) SELECT 50, 'x', 1")
    shop.delete("customers", "id = 50")
    # What no clause writes is not asked; NULL is allowed by CHECK; columns that stay count.
    run(
        shop,
        merge + "WHEN MATCHED AND n.s > 99 THEN UPDATE SET spent = 1000"
        " WHEN MATCHED THEN UPDATE SET spent = NULL",
    )
    run(shop, "UPDATE customers SET spent = 99 WHERE day = 2")
    assert [row[2] for row in customers(shop)] == [None, "99.00", None]
    with pytest.raises(errors.UnsupportedTableError, match="non-deterministic expression"):
        run(shop, "UPDATE customers SET spent = rand()")


def test_constraints_are_checked_for_the_whole_row_whichever_columns_change(
    shop: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Constraints(not_null={"spent": "nn"})
    low = Constraints(checks={"low": "spent < 5"})
    merge = "MERGE INTO customers c USING (SELECT {} AS id) n ON c.id = n.id WHEN MATCHED THEN "
    for text, demands in (
        ("UPDATE customers SET name = 'x' WHERE id = 1", low),
        ("UPDATE customers SET name = 'x' WHERE id = 3", there),
        (merge.format(1) + "UPDATE SET name = 'x'", low),
        (merge.format(3) + "UPDATE SET name = 'x'", there),
    ):
        monkeypatch.setattr(MetastoreClient, "constraints", lambda *_, found=demands: found)
        with pytest.raises(errors.ConstraintViolationError):
            run(shop, text)
    run(shop, "UPDATE customers SET name = 'x' WHERE id = 2")
    run(shop, merge.format(3) + "DELETE")
    assert customers(shop) == [CUSTOMERS[0], (2, "x", "0.00", "AT", 2)]


def test_a_column_missing_in_a_subquery_is_not_resolved_from_the_outer_statement(
    unchanged_shop: Lab,
) -> None:
    with pytest.raises(errors.UnknownColumnError, match="name"):
        run(unchanged_shop, "DELETE FROM customers WHERE name IN (SELECT name FROM orders)")
    assert customers(unchanged_shop) == CUSTOMERS


def test_tables_of_a_subquery_in_a_condition_are_locked_and_read_in_one_snapshot(shop: Lab) -> None:
    seen = locked_beside(
        shop,
        "DELETE FROM customers WHERE id IN (SELECT customer FROM orders)",
        "INSERT INTO orders VALUES (1, 2, 200)",
    )
    assert any(tables >= {"orders", "customers"} for tables in seen), seen
    assert customers(shop) == CUSTOMERS[1:]


@pytest.mark.long
def test_a_compaction_can_be_requested_by_sql_text(shop: Lab) -> None:
    (result,) = run(
        shop, "ALTER TABLE customers PARTITION (country = 'AT', day = 1) COMPACT 'major' AND WAIT"
    )
    assert result.partitions == ("country=AT/day=1",)
    assert customers(shop) == CUSTOMERS
