"""Conversion of the operators' rendered arguments to statement specs.

Input is a kind of statement and its arguments, by the argument names of the operator. Output is the
statement's spec. A missing argument gets the operator's default.

Example:
    >>> statement_spec("delete", {"table": "demo.t", "where": "id = 1"})
    DeleteSpec(target='demo.t', where='id = 1', tables={}, parameters={})
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial as bind
from typing import TYPE_CHECKING, Any, Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.specs.statements import (
    ColumnMatch,
    DeleteSpec,
    InsertMode,
    InsertSpec,
    LoadSpec,
    MergeSpec,
    StatementSpec,
    TruncateSpec,
    UpdateSpec,
)
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.statements import arguments as statements
from airflow_hiveacid.plan.statements.parameters import (
    check_all_used,
    check_early,
    read_parameters,
    texts_of,
    with_parameters,
)

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.parameters import Parameter
    from airflow_hiveacid.plan.arguments import EarlyChecks

ReadArgument = Callable[[Any, str], Any]
"""A function that reads a rendered value; its string is the argument's name for error messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """A kind of statement; for each operator argument, the spec's field and a reader function."""

    spec: type[StatementSpec]
    reads: Mapping[str, tuple[str, ReadArgument]]
    needs: frozenset[str]


_FORMS: Final[Mapping[str, _Form]] = {
    "insert": _Form(
        spec=InsertSpec,
        reads={
            "table": ("target", arguments.table_name),
            "source": ("source", statements.source_spec),
            "mode": ("mode", bind(arguments.choice, InsertMode)),
            "columns": ("columns", arguments.names),
            "partition": ("partition", statements.partition_values),
            "match": ("match", bind(arguments.choice, ColumnMatch)),
        },
        needs=frozenset({"table", "source"}),
    ),
    "update": _Form(
        spec=UpdateSpec,
        reads={
            "table": ("target", arguments.table_name),
            "assignments": ("set", arguments.assignments),
            "where": ("where", arguments.optional_condition),
        },
        needs=frozenset({"table", "assignments"}),
    ),
    "delete": _Form(
        spec=DeleteSpec,
        reads={
            "table": ("target", arguments.table_name),
            "where": ("where", arguments.optional_condition),
        },
        needs=frozenset({"table"}),
    ),
    "truncate": _Form(
        spec=TruncateSpec,
        reads={
            "table": ("target", arguments.table_name),
            "partition": ("partition", statements.truncated_partition),
        },
        needs=frozenset({"table"}),
    ),
    "load": _Form(
        spec=LoadSpec,
        reads={
            "table": ("target", arguments.table_name),
            "location": ("location", arguments.text),
            "partition": ("partition", statements.partition_values),
            "overwrite": ("overwrite", arguments.truth),
        },
        needs=frozenset({"table", "location"}),
    ),
    "merge": _Form(
        spec=MergeSpec,
        reads={
            "table": ("target", arguments.table_name),
            "source": ("source", statements.source_spec),
            "keys": ("keys", statements.key_names),
            "clauses": ("clauses", statements.merge_clauses),
            "condition": ("condition", arguments.optional_condition),
        },
        needs=frozenset({"table", "source", "keys", "clauses"}),
    ),
}
_PARTITION: Final = "partition"
PARAMETERS: Final = "parameters"
_NAMING: Final = frozenset({"insert", "update", "delete", "merge"})
"""The kinds of statement that have SQL arguments, where markers for parameters are allowed."""


def reads_of(kind: str, nulls: Collection[str] = ()) -> dict[str, ReadArgument]:
    """Return a reader for each argument of a kind of statement, by argument name.

    Args:
        kind: `insert`, `update`, `delete`, `truncate`, `load` or `merge`.
        nulls: the partition columns whose value in the DAG is a literal None.

    Raises:
        ConfigurationError: `kind` is unknown.
    """
    if kind not in _FORMS:
        raise ConfigurationError(f"unknown statement {kind!r}; use one of {', '.join(_FORMS)}")
    reads = {argument: read for argument, (_, read) in _FORMS[kind].reads.items()}
    if _PARTITION in reads:
        is_truncate = kind == "truncate"
        values = bind(statements.partition_values, nulls=nulls)
        reads[_PARTITION] = statements.truncated_partition if is_truncate else values
    if kind in _NAMING:
        reads[PARAMETERS] = read_parameters
    return reads


def check_parameters_early(
    early: EarlyChecks, values: Mapping[str, Any], where: str = "", others: object = None
) -> None:
    """Check the parameters of a statement, except those that contain a template.

    Args:
        early: the object that checks the task's arguments when the DAG is parsed.
        values: the statement's arguments.
        where: the name of the mapping that contains these arguments, for error messages; empty if
            no mapping contains them.
        others: the parameters of the whole task.

    Raises:
        ConfigurationError: a parameter is invalid or unused, or a marker has no parameter.
    """
    argument = f"{where}[{PARAMETERS!r}]" if where else PARAMETERS
    check_early(early, values.get(PARAMETERS, {}), texts_of(values), argument, others=others)


def check_names(kind: str, given: Collection[str], where: str) -> None:
    """Check that a statement has all required arguments of its kind, and no unknown ones.

    Raises:
        ConfigurationError: an argument is unknown or missing, or `kind` is unknown.
    """
    known = reads_of(kind)
    for name in given:
        if name not in known:
            raise ConfigurationError(
                f"{where} has no argument {name!r}; allowed are {', '.join(known)}"
            )
    for name in sorted(_FORMS[kind].needs - set(given)):
        raise ConfigurationError(f"{where} lacks {name!r}")


def statement_spec(
    kind: str, given: Mapping[str, Any], *, nulls: Collection[str] = ()
) -> StatementSpec:
    """Return the spec of one statement.

    Args:
        kind: `insert`, `update`, `delete`, `truncate`, `load` or `merge`.
        given: the statement's rendered arguments.
        nulls: see `reads_of`.

    Raises:
        InputError: an argument is invalid.
    """
    found, _ = one_of_several(kind, given, nulls=nulls)
    return found


def one_of_several(
    kind: str,
    given: Mapping[str, Any],
    *,
    where: str = "",
    nulls: Collection[str] = (),
    others: Mapping[str, Parameter] = {},
) -> tuple[StatementSpec, frozenset[str]]:
    """Return the spec of one statement of a task, and the names of the parameters in its SQL.

    Args:
        kind: as in `statement_spec`.
        given: the statement's rendered arguments.
        where: the name of the mapping that contains these arguments, for error messages; empty if
            no mapping contains them.
        nulls: see `reads_of`.
        others: the parameters of the whole task.

    Raises:
        InputError: an argument is invalid.
    """
    form, reads = _FORMS[kind], reads_of(kind, nulls)
    check_names(kind, given, where)
    values = {
        name: reads[name](value, f"{where}[{name!r}]" if where else name)
        for name, value in given.items()
    }
    own = values.pop(PARAMETERS, {})
    argument = f"{where}[{PARAMETERS!r}]" if where else PARAMETERS
    for name in own:
        if name in others:
            raise ConfigurationError(f"{argument}[{name!r}] is also a parameter of the whole task")
    spec = form.spec(**{form.reads[name][0]: value for name, value in values.items()})
    found, used = with_parameters(spec, {**others, **own}, argument)
    check_all_used(own, used, argument)
    return found, used
