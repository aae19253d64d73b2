"""Statements that the metastore does itself: changes of definitions, and questions.

Takes a client and a statement; compares what is there with what was asked for, locks, compares
again, and changes. So a repetition changes nothing, and passes over nothing that somebody else has
done with another shape. What an earlier try of the same statement found right before a change that
may have happened (`Before`) lets a state count as done that would else be an error, such as a table
that is there already. See docs/adr/0026.

Example:
    outcome = run_statement(client, DropTable(target="db.t"), LockTerms(lock_timeout_s=60))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.metastore.definition_lock import locked
from airflow_hiveacid.metastore.definition_work import Outcome
from airflow_hiveacid.metastore.locks import components_to_define
from airflow_hiveacid.metastore.partition_definitions import add_partitions, drop_partitions
from airflow_hiveacid.metastore.questions import answer
from airflow_hiveacid.metastore.table_definitions import (
    add_columns,
    change_column,
    create_database,
    create_table,
    drop_table,
    rename_table,
    set_properties,
    unset_properties,
)
from airflow_hiveacid.plan import metastore_statements as statements

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hiveacid.metastore.definition_lock import LockTerms
    from airflow_hiveacid.metastore.definition_work import Before, Work
    from airflow_hiveacid.metastore.port import MetastorePort


def run_statement(
    client: MetastorePort,
    statement: statements.MetastoreStatement,
    terms: LockTerms,
    *,
    before: Before | None = None,
    on_begin: Callable[[Before], None] = lambda _: None,
) -> Outcome:
    """Make, change or remove what a statement says, or answer what it asks.

    Args:
        client: used by this thread alone.
        statement: what is asked for.
        terms: for the locks.
        before: what `on_begin` was told in an earlier try, whose change may have happened.
        on_begin: told right before the one call that changes something.

    Raises:
        InputError: what is there does not let it be done; nothing was changed.
        LockNotAcquiredError: somebody reads or writes the table for longer than the terms allow.
        MetastoreUnavailableError: the answer was lost; it may have been done.
        MetastoreCallError: the server refuses.
    """
    if statement.asks_only:
        return Outcome(rows=answer(client, statement))
    work = _work(client, statement, before)
    if work is None:
        return Outcome()
    if work.ref is None:
        _do(work, on_begin)
        return Outcome(has_changed=True, partitions=work.partitions)
    components = components_to_define(
        work.ref, work.locked_partitions, work.lock_type, client.generation
    )
    with locked(client, components, terms) as txn_id:
        # Whoever held the lock before may have changed it meanwhile.
        work = _work(client, statement, before)
        if work is None:
            return Outcome(txn_id=txn_id)
        _do(work, on_begin)
    return Outcome(has_changed=True, txn_id=txn_id, partitions=work.partitions)


def _do(work: Work, on_begin: Callable[[Before], None]) -> None:
    on_begin(work.before)
    work.do()


def _work(  # noqa: C901, PLR0911 - one line for each kind of statement
    client: MetastorePort, statement: statements.MetastoreStatement, before: Before | None
) -> Work | None:
    """What is to be done; None where all is as asked for."""
    match statement:
        case statements.CreateDatabase():
            return create_database(client, statement, before)
        case statements.CreateTable():
            return create_table(client, statement, before)
        case statements.DropTable():
            return drop_table(client, statement, before)
        case statements.AddColumns():
            return add_columns(client, statement, before)
        case statements.ChangeColumn():
            return change_column(client, statement)
        case statements.RenameTable():
            return rename_table(client, statement, before)
        case statements.SetProperties():
            return set_properties(client, statement)
        case statements.UnsetProperties():
            return unset_properties(client, statement, before)
        case statements.AddPartitions():
            return add_partitions(client, statement, before)
        case statements.DropPartitions():
            return drop_partitions(client, statement, before)
        case _:
            raise ConfigurationError(f"{statement.kind} defines nothing")
