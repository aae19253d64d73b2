"""The operator that spreads a table's rows evenly over files.

Example:
    HiveAcidRebalanceOperator(task_id="spread", table="demo.orders", order_by=["customer"])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.specs.maintenance import RebalanceSpec
from airflow_hiveacid.operators import kinds
from airflow_hiveacid.operators.declaration import Argument, declaration
from airflow_hiveacid.operators.row_change import HiveAcidRowChangeOperator
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.rebalancing import MOST_FILES


def _buckets(value: int | str, argument: str) -> int:
    number = arguments.whole_number(value, argument)
    if not 1 <= number <= MOST_FILES:
        raise ConfigurationError(f"{argument} must be from 1 to {MOST_FILES}, found {number}")
    return number


def _lower_names(value: Sequence[str] | str, argument: str) -> tuple[str, ...]:
    return tuple(name.lower() for name in arguments.names(value, argument))


class HiveAcidRebalanceOperator(HiveAcidRowChangeOperator):
    """Spread the rows of a full-ACID table or one of its partitions evenly over files.

    The task serves the same purpose as `ALTER TABLE ... COMPACT 'rebalance'` in Hive 4, but works
    with every supported metastore. Each partition is overwritten with its own rows: all files of a
    partition have the same number of rows, except for one row. All partitions are overwritten in
    one transaction, which counts the rows before it commits.

    Rows get new row IDs. So the task takes an exclusive lock on the partition, or without
    `partition` on the table, and waits for readers and writers. The overwrite creates a new
    version, and ends the readability of earlier versions, unless versions are kept.

    If the rows of a partition are already spread evenly over the files of a base, and no order is
    requested, the partition is not rewritten. A partition without rows is not rewritten, either. If
    file names and footers show that no partition must be rewritten, the task takes no exclusive
    lock. In a bucketed table, a hash determines each row's file, so the task fails.

    In the result's details, `rebalance` has an entry for each partition.

    Args:
        table: `db.table`, full ACID and not bucketed.
        partition: `month=1`, or None for every partition.
        buckets: the number of files of each partition. By default (None), one file for each 256 MiB
            of the partition's data files.
        order_by: columns by which the rows of each partition are sorted, ascending and with NULL
            first. The first file has the lowest values. So a query that selects a range of values
            reads fewer files and stripes.
        plan_only: report what would be changed, and change nothing.
    """

    does = "Spreads the rows of {table} evenly over files; its rows do not change."
    returns = "the status, the write ID, and the numbers of files and rows of each partition"
    shows_statement = True
    spec_type = RebalanceSpec

    @declaration
    def __init__(
        self,
        *,
        table: kinds.Table,
        partition: kinds.PartitionName = None,
        buckets: Annotated[int | str | None, Argument(arguments.or_none(_buckets))] = None,
        order_by: Annotated[Sequence[str] | str, Argument(_lower_names)] = (),
        plan_only: kinds.Switch = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())
