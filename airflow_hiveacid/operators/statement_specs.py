"""How an operator's rendered arguments become a statement: the names on both sides, in one place.

Takes a statement's kind and its arguments under the names that the operator for that kind has;
gives its spec. An argument that is not there means what leaving it out means to that operator.

Example:
    >>> statement_spec("delete", {"table": "demo.t", "where": "id = 1"})
    DeleteSpec(target='demo.t', where='id = 1', tables={})
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial as bind
from typing import Any, Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.loading import LoadSpec
from airflow_hiveacid.jobs.specs import (
    ColumnMatch,
    DeleteSpec,
    InsertMode,
    InsertSpec,
    MergeSpec,
    StatementSpec,
    TruncateSpec,
    UpdateSpec,
)
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan import statement_arguments as statements

Read = Callable[[Any, str], Any]
"""Reads a rendered argument's value; the text is what complaints call it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """A kind of statement: its arguments in the operator's words, with the spec's word for each."""

    spec: type[StatementSpec]
    reads: Mapping[str, tuple[str, Read]]
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


def reads_of(kind: str, nulls: Collection[str] = ()) -> dict[str, Read]:
    """How each argument of a kind of statement is read, by its name.

    Args:
        kind: `insert`, `update`, `delete`, `truncate`, `load` or `merge`.
        nulls: the partition columns for which None was written down in the DAG.

    Raises:
        ConfigurationError: there is no such kind.
    """
    if kind not in _FORMS:
        raise ConfigurationError(f"{kind!r} is no statement; it may be {', '.join(_FORMS)}")
    reads = {argument: read for argument, (_, read) in _FORMS[kind].reads.items()}
    if _PARTITION in reads:
        read = statements.partition_values if kind == "insert" else statements.truncated_partition
        reads[_PARTITION] = bind(read, nulls=nulls)
    return reads


def check_names(kind: str, given: Collection[str], where: str) -> None:
    """Refuse arguments that a kind of statement does not have, and missing ones.

    Raises:
        ConfigurationError: there is one; or there is no such kind.
    """
    known = reads_of(kind)
    for name in given:
        if name not in known:
            raise ConfigurationError(
                f"{where} has no argument {name!r}; it may have {', '.join(known)}"
            )
    for name in sorted(_FORMS[kind].needs - set(given)):
        raise ConfigurationError(f"{where} lacks {name!r}")


def statement_spec(
    kind: str, given: Mapping[str, Any], *, where: str = "", nulls: Collection[str] = ()
) -> StatementSpec:
    """One statement.

    Args:
        kind: `insert`, `update`, `delete`, `truncate`, `load` or `merge`.
        given: its arguments, rendered.
        where: what complaints say of the mapping that holds them, if one does.
        nulls: see `reads_of`.

    Raises:
        InputError: an argument is wrong.
    """
    form, reads = _FORMS[kind], reads_of(kind, nulls)
    check_names(kind, given, where)
    values = {
        form.reads[name][0]: reads[name](value, f"{where}[{name!r}]" if where else name)
        for name, value in given.items()
    }
    return form.spec(**values)
