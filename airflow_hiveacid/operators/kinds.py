"""The arguments that several operators have, as types for the signatures of constructors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.operators.declaration import Argument, one_of, setting
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.statements import arguments as statements
from airflow_hiveacid.plan.statements.parameters import read_parameters


def _check_partition_early(early: arguments.EarlyChecks, value: object) -> None:
    statements.check_partition_early(early, value, statements.null_columns(value))


def checked_with_sql(_early: arguments.EarlyChecks, _value: object) -> None:
    """Check nothing, because parameters are checked together with the SQL that uses them."""


NO_VALUES: Final[Mapping[str, Any]] = {}
Table = Annotated[str, Argument(arguments.table_name, field="target")]
Tables = Annotated[Sequence[str] | str, Argument(arguments.table_patterns)]
PartitionName = Annotated[str | None, Argument(arguments.partition_name)]
PartitionValues = Annotated[
    Mapping[str, str | int | None],
    Argument(statements.partition_values, check=_check_partition_early),
]
Source = Annotated[
    Mapping[str, Any],
    Argument(statements.source_spec, check=statements.check_source_early, shown_as="json"),
]
Condition = Annotated[
    str | arguments.LeftOut, Argument(arguments.or_left_out(arguments.condition), shown_as="sql")
]
Parameters = Annotated[
    Mapping[str, Any], setting(read_parameters, check=checked_with_sql, shown_as="json")
]
Names = Annotated[Sequence[str] | str, Argument(arguments.names)]
OptionalNames = Annotated[Sequence[str] | str | None, Argument(arguments.or_none(arguments.names))]
Text = Annotated[str, Argument(arguments.text)]
Switch = Annotated[bool | str, Argument(arguments.truth)]
Seconds = Annotated[float | str, Argument(arguments.number)]
DeltaCount = Annotated[int | str | None, Argument(arguments.delta_count)]
DeltaRatio = Annotated[float | str | None, Argument(arguments.delta_ratio)]
AlsoWhen = Annotated[Mapping[str, float | str] | str | None, Argument(arguments.also_when)]
Choice = Annotated[str, one_of(CompactionChoice)]
UnknownAge = Annotated[str | None, Argument(arguments.unknown_age, field="unknown_age_s")]
Moment = Annotated[
    datetime | str | arguments.LeftOut, setting(arguments.or_left_out(arguments.moment))
]
Version = Annotated[
    int | str | arguments.LeftOut, setting(arguments.or_left_out(arguments.version))
]
ConnectionId = Annotated[str, setting()]
