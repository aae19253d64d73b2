"""How sources, WHEN clauses and partitions become parts of a statement: mappings in, values out.

Like `arguments`, on which this stands: every complaint names the argument. Of a mapping that holds
templates, a constructor checks the keys and whatever else is settled.

Example:
    >>> merge_clause({"when": "matched", "action": "update"}, "clauses[0]").action
    <MergeAction.UPDATE: 'update'>
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial as bind
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.specs import (
    SOURCE_VIEW,
    MergeAction,
    MergeClause,
    MergeWhen,
    SourceSpec,
)
from airflow_hiveacid.plan.arguments import (
    LeftOut,
    assignments,
    choice,
    condition,
    is_settled,
    known_keys,
    names,
    table_name,
    text,
)
from airflow_hiveacid.plan.statements import check_source, clause_problem

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow_hiveacid.plan.arguments import EarlyChecks

_AS_OF: Final = ("version", "timestamp", "tag")
_SCALARS: Final = str | int | float | None  # truth values are whole numbers in Python
_LATER_SOURCE: Final = {
    "format": "later",
    "location": "later",
    "table": "later.on",
    "values": (),
    "tables": {},
    "query": "later",
}


def check_source_early(early: EarlyChecks, value: object) -> None:
    """Check the keys of a source, and the values that are settled.

    Raises:
        ConfigurationError: a key is unknown, a value has the wrong shape, or there is not exactly
            one place that rows come from.
    """
    early.check(source_spec, source=_settled_part(SourceSpec, value, _LATER_SOURCE))


def check_clauses_early(early: EarlyChecks, value: object) -> None:
    """Check the keys of WHEN clauses, and the values that are settled.

    Raises:
        ConfigurationError: see `merge_clause`.
    """
    if isinstance(value, list | tuple):
        value = [_settled_part(MergeClause, clause, _later_clause(clause)) for clause in value]
    early.check(merge_clauses, clauses=value)


def check_partition_early(early: EarlyChecks, value: object, nulls: Collection[str]) -> None:
    """Check the values of a static partition that are settled.

    Raises:
        ConfigurationError: see `partition_values`.
    """
    if isinstance(value, Mapping):
        value = {column: entry for column, entry in value.items() if is_settled(entry)}
    early.check(bind(partition_values, nulls=nulls), partition=value)


def source_spec(value: object, argument: str = "source") -> SourceSpec:
    """Where rows come from; the keys are those of `SourceSpec`.

    Beside `table`, one of `version`, `timestamp` and `tag` says as of when it is read.

    Raises:
        ConfigurationError: a key is unknown, a value has the wrong shape, or there is not exactly
            one place that rows come from.
        InvalidNameError: the table is not `db.table`.
    """
    given = known_keys(SourceSpec, _with_versions(value, argument), argument)
    for key in ("format", "location", "table", "query"):
        if given.get(key) is not None:
            text(given[key], f"{argument}[{key!r}]")
    if given.get("table") is not None:
        table_name(given["table"], f"{argument}['table']")
    if "columns" in given:
        given["columns"] = names(given["columns"], f"{argument}['columns']")
    if "options" in given:
        given["options"] = _options(given["options"], f"{argument}['options']")
    if given.get("values") is not None:
        given["values"] = _rows(given["values"], f"{argument}['values']")
    if given.get("tables") is not None:
        given["tables"] = _tables(given["tables"], f"{argument}['tables']")
    spec = SourceSpec(**given)
    check_source(spec)
    return spec


def key_names(value: Sequence[str] | str, argument: str = "keys") -> tuple[str, ...]:
    """The columns that match a source row with a target row.

    Raises:
        ConfigurationError: it is no list of names, or an empty one.
    """
    found = names(value, argument)
    if not found:
        raise ConfigurationError(f"{argument} is empty; name the columns that identify a row")
    return found


def merge_clauses(value: object, argument: str = "clauses") -> tuple[MergeClause, ...]:
    """WHEN clauses, in their order.

    Raises:
        ConfigurationError: it is no list of mappings, or an empty one, or see `merge_clause`.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ConfigurationError(f"{argument} must be a list of mappings, found {value!r}")
    if not value:
        raise ConfigurationError(f"{argument} is empty; give at least one WHEN")
    return tuple(merge_clause(clause, f"{argument}[{i}]") for i, clause in enumerate(value))


def merge_clause(value: object, argument: str) -> MergeClause:
    """One WHEN clause; the keys are those of `MergeClause`.

    Raises:
        ConfigurationError: a key is unknown or missing, a value has the wrong shape, or the action
            does not go with its WHEN.
    """
    given = known_keys(MergeClause, value, argument)
    for key in ("when", "action"):
        if key not in given:
            raise ConfigurationError(f"{argument} lacks {key!r}")
    given["when"] = choice(MergeWhen, given["when"], f"{argument}['when']")
    given["action"] = choice(MergeAction, given["action"], f"{argument}['action']")
    if "condition" in given:
        given["condition"] = condition(given["condition"], f"{argument}['condition']")
    if "set" in given:
        given["set"] = assignments(given["set"], f"{argument}['set']")
    if given.get("values") is not None:
        given["values"] = _expressions(given["values"], f"{argument}['values']")
    clause = MergeClause(**given)
    if (problem := clause_problem(clause)) is not None:
        raise ConfigurationError(f"{argument}: {problem}")
    return clause


def null_columns(value: object) -> frozenset[str]:
    """The partition columns for which None is written down in the DAG."""
    given = value if isinstance(value, Mapping) else {}
    return frozenset(str(column) for column, entry in given.items() if entry is None)


def partition_values(
    value: object, argument: str = "partition", *, nulls: Collection[str] = ()
) -> dict[str, str | None]:
    """The values that partition columns get, as texts.

    Args:
        value: what was given.
        argument: its name.
        nulls: the columns for which None was written down; elsewhere it is what a template or
            another task has left.

    Raises:
        ConfigurationError: it is no mapping, or a value is neither text nor whole number.

    Example:
        >>> partition_values({"month": 1, "day": "01"})
        {'month': '1', 'day': '01'}
    """
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"{argument} must map partition columns to values, such as {{'month': 1}}, found"
            f" {value!r}; leave it out if the rows say their partitions themselves"
        )
    found: dict[str, str | None] = {}
    for column, given in value.items():
        name = text(column, argument)
        if given is None and name in nulls:
            found[name] = None
            continue
        is_number = isinstance(given, int) and not isinstance(given, bool)
        if not (is_number or (isinstance(given, str) and given.strip())):
            raise ConfigurationError(
                f"{argument}[{name!r}] must be text or a whole number, and not blank, found"
                f" {given!r}"
            )
        found[name] = str(given)
    return found


def truncated_partition(
    value: object, argument: str = "partition", *, nulls: Collection[str] = ()
) -> dict[str, str | None]:
    """The same of a TRUNCATE; nothing, for all partitions, only where it was left out.

    Raises:
        ConfigurationError: as `partition_values`; or it was given, and names no column.
    """
    if isinstance(value, LeftOut):
        return {}
    found = partition_values(value, argument, nulls=nulls)
    if not found:
        raise ConfigurationError(
            f"{argument} is empty; name a partition column, or leave it out to truncate every"
            " partition"
        )
    return found


def _options(value: object, argument: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{argument} must be a mapping, found {value!r}")
    return {str(k): str(v) for k, v in value.items()}


def _expressions(value: object, argument: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigurationError(f"{argument} must be a list of SQL expressions, found {value!r}")
    return tuple(text(entry, f"{argument}[{i}]") for i, entry in enumerate(value))


def _tables(value: object, argument: str) -> dict[str, str]:
    """ACID tables by the names of the views that they are to the query."""
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{argument} must map views to tables, found {value!r}")
    return {
        text(view, argument): table_name(name, f"{argument}[{view!r}]")
        for view, name in value.items()
    }


def _with_versions(value: object, argument: str) -> object:
    """A source in which what is said beside `table` of its version has become `versions`."""
    if not isinstance(value, Mapping):
        return value
    asked = {key: value[key] for key in _AS_OF if value.get(key) is not None}
    rest = {key: one for key, one in value.items() if key not in _AS_OF}
    if rest.get("versions") is not None:
        rest["versions"] = _versions(rest["versions"], f"{argument}['versions']")
    if asked:
        if rest.get("table") is None or rest.get("versions"):
            raise ConfigurationError(
                f"{argument}: {' and '.join(asked)} say as of when 'table' is read; for 'tables'"
                " write 'versions', by their views"
            )
        rest["versions"] = {SOURCE_VIEW: VersionSpec.of(**asked).text()}
    return rest


def _versions(value: object, argument: str) -> dict[str, str]:
    """Versions (`VersionSpec.text`) by the names of the views that are read as of them."""
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{argument} must map views to versions, found {value!r}")
    return {
        text(view, argument): text(version, f"{argument}[{view!r}]")
        for view, version in value.items()
    }


def _rows(value: object, argument: str) -> tuple[tuple[str | int | float | None, ...], ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(r, list | tuple) for r in value):
        raise ConfigurationError(f"{argument} must be a list of rows, each a list; found {value!r}")
    for number, row in enumerate(value):
        for entry in row:
            if not isinstance(entry, _SCALARS):
                raise ConfigurationError(
                    f"{argument}[{number}] holds a {type(entry).__name__}; values are texts,"
                    " numbers, true, false or None, and a text is cast to its column's type"
                )
    return tuple(tuple(row) for row in value)


def _settled_part(cls: type, value: object, stand_ins: Mapping[str, object]) -> object:
    """A mapping in which stand-ins that pass take the place of templates; its keys never are any.

    A template without a stand-in is left out, except under an unknown key, to be complained about.
    """
    if not isinstance(value, Mapping):
        return value
    known = {f.name for f in fields(cls)}
    return {
        key: entry if is_settled(entry) else stand_ins.get(key)
        for key, entry in value.items()
        if is_settled(entry) or key in stand_ins or key not in known
    }


def _later_clause(clause: object) -> Mapping[str, object]:
    """Stand-ins with which a clause makes sense if what is settled of it does."""
    given = clause if isinstance(clause, Mapping) else {}
    when, action = str(given.get("when")).lower(), str(given.get("action")).lower()
    changes = "update" if "set" in given else "delete"
    return {
        "when": "not_matched" if action == "insert" else "matched",
        "action": "insert" if when == "not_matched" else changes,
        "set": {"later": "later"},
    }
