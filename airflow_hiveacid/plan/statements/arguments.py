"""Checks sources, WHEN clauses and partitions, and converts them into parts of a statement.

Every error message contains the argument's name, as in `plan.arguments`. If a mapping contains
templates, an operator's constructor checks only the keys, and the values that contain no template.

Airflow stores rendered arguments, and job specs travel to the cluster as files. So if an option's
name suggests a secret, its value must be `env:NAME` or `file:/path`. The driver reads the secret
from there.

Example:
    >>> merge_clause({"when": "matched", "action": "update"}, "clauses[0]").action
    <MergeAction.UPDATE: 'update'>
    >>> secret_of("password", "env:ORDERS_PASSWORD"), secret_of("fetchsize", "1000")
    (SecretSource(file=None, variable='ORDERS_PASSWORD'), None)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from functools import partial as bind
from typing import Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.table import NULL_PARTITION
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.endpoint import SecretSource
from airflow_hiveacid.jobs.statements import (
    SOURCE_VIEW,
    MergeAction,
    MergeClause,
    MergeWhen,
    SourceSpec,
)
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.statements import dml

_WORDS: Final = (
    "passw(?:or)?d|pwd|passphrase|secret|token|credentials?|(?:access|account|api|private)[._-]?key"
    # `DB_PASS`, but not `bypass`; the tokens for `wasb`; and Kafka's login.
    r"|(?<![a-z])pass(?=$|=)|azure\.sas\.|sasl\.jaas\.config"
)
_NAME: Final = re.compile(_WORDS, re.IGNORECASE)
# Their values are a class, an address, and `true` or `false`.
_NO_SECRET: Final = re.compile(
    r"provider(?:fqcn)?$|token\.endpoint\.url$|^forward_spark_s3_credentials$", re.IGNORECASE
)
_ADDRESS: Final = re.compile(r"\s*(?:jdbc:|[\w+.-]+://)\S*", re.IGNORECASE)
_LOGIN: Final = "://[^/@:]+:[^/@]+@"
_IN_ADDRESS: Final = re.compile(rf"(?:{_WORDS})=[^&;]|{_LOGIN}", re.IGNORECASE)
# A partition's directory may be `token=a`.
_IN_LOCATION: Final = re.compile(rf"\S*?(?:{_LOGIN}|\?\S*(?:{_WORDS})=[^&;])", re.IGNORECASE)


def check_options(options: Mapping[str, str], argument: str) -> None:
    """Raise a ConfigurationError if an option contains a secret, or a value that looks like one.

    The error does not show the option's value.
    """
    for name, value in options.items():
        try:
            place = secret_of(name, value)
        except ConfigurationError:
            raise ConfigurationError(
                f"{argument}[{name!r}] must say where the driver finds the secret: 'env:NAME' or"
                " 'file:/path'. Airflow would store the secret itself"
            ) from None
        address = _ADDRESS.match(value)
        if place is None and address and _IN_ADDRESS.search(address[0]):
            raise ConfigurationError(
                f"{argument}[{name!r}] contains a password or another secret, which Airflow would"
                " store. Give it as an option of its own, with 'env:NAME' or 'file:/path' as value"
            )


def check_location(location: str | None, argument: str) -> None:
    """Raise a ConfigurationError if a location contains a login, or a parameter that seems secret.

    The message does not show the location.
    """
    if location is not None and _IN_LOCATION.match(location):
        raise ConfigurationError(
            f"{argument} contains a password or another secret, which Airflow would store. Remove"
            " it, and give Spark the login; docs/operations/secrets.md lists places for secrets"
        )


def secret_of(name: str, value: str) -> SecretSource | None:
    """Return the location of an option's secret; None if its name suggests no secret."""
    return SecretSource.parse(value) if suggests_secret(name) else None


def suggests_secret(name: str) -> bool:
    """Return whether the value of an option or setting with this name may be a secret."""
    return _NAME.search(name) is not None and _NO_SECRET.search(name) is None


_AS_OF: Final = ("version", "timestamp", "tag")
_SCALARS: Final = str | int | float | None  # bool is an int in Python
_LATER_SOURCE: Final = {
    "format": "later",
    "location": "later",
    "table": "later.on",
    "values": (),
    "query": "later",
}


def check_source_early(early: arguments.EarlyChecks, value: object) -> None:
    """Check the keys of a source, and the values without templates."""
    early.check(source_spec, source=_settled_part(SourceSpec, value, _later_source(value)))


def check_clauses_early(early: arguments.EarlyChecks, value: object) -> None:
    """Check the keys of WHEN clauses, and the values without templates."""
    later = set[int]()
    if isinstance(value, list | tuple):
        whens = [clause.get("when") if isinstance(clause, Mapping) else None for clause in value]
        later = {i for i, when in enumerate(whens) if not arguments.is_settled(when)}
        value = [_settled_part(MergeClause, clause, _later_clause(clause)) for clause in value]
    early.check(bind(merge_clauses, later=later), clauses=value)


def check_partition_early(
    early: arguments.EarlyChecks, value: object, nulls: Collection[str]
) -> None:
    """Check the values of a static partition that contain no templates."""
    if isinstance(value, Mapping):
        value = {column: entry for column, entry in value.items() if arguments.is_settled(entry)}
    early.check(bind(partition_values, nulls=nulls), partition=value)


def source_spec(value: object, argument: str = "source") -> SourceSpec:
    """Convert a mapping to a `SourceSpec`; its keys are the fields of the spec.

    Beside `table`, one of the keys `version`, `timestamp` and `tag` may select the version to read.
    """
    _check_no_none(value, argument)
    entries = arguments.known_keys(SourceSpec, _with_versions(value, argument), argument)
    for key in ("format", "location", "table", "query"):
        if entries.get(key) is not None:
            arguments.text(entries[key], f"{argument}[{key!r}]")
    check_location(entries.get("location"), f"{argument}['location']")
    if entries.get("table") is not None:
        arguments.table_name(entries["table"], f"{argument}['table']")
    if "columns" in entries:
        entries["columns"] = arguments.names(entries["columns"], f"{argument}['columns']")
    if "options" in entries:
        entries["options"] = _options(entries["options"], f"{argument}['options']")
    if entries.get("values") is not None:
        entries["values"] = _rows(entries["values"], f"{argument}['values']")
    if entries.get("tables") is not None:
        entries["tables"] = _tables(entries["tables"], f"{argument}['tables']")
    spec = SourceSpec(**entries)
    dml.check_source(spec)
    return spec


def key_names(value: Sequence[str] | str, argument: str = "keys") -> tuple[str, ...]:
    """Return the key columns, by which a MERGE matches source rows with target rows."""
    keys = arguments.names(value, argument)
    if not keys:
        raise ConfigurationError(f"{argument} is empty; list the columns that identify a row")
    return keys


def merge_clauses(
    value: object, argument: str = "clauses", *, later: Collection[int] = ()
) -> tuple[MergeClause, ...]:
    """Return the WHEN clauses in the given order; a row must be able to reach each of them.

    `later` are the positions of clauses whose WHEN is not known yet, so that rows may reach them.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ConfigurationError(f"{argument} must be a list of mappings, found {value!r}")
    if not value:
        raise ConfigurationError(f"{argument} is empty; give at least one WHEN")
    clauses = tuple(merge_clause(clause, f"{argument}[{i}]") for i, clause in enumerate(value))
    whens = (i if i in later else clause.when for i, clause in enumerate(clauses))
    conditions = (clause.condition for clause in clauses)
    if (index := dml.unreachable_clause(zip(whens, conditions, strict=True))) is not None:
        raise ConfigurationError(
            f"{argument}: no row reaches {dml.CLAUSE_WITHOUT_ROWS.format(number=index + 1)}"
        )
    return clauses


def merge_clause(value: object, argument: str) -> MergeClause:
    """Convert a mapping to a `MergeClause`; its keys are the fields of the clause."""
    entries = arguments.known_keys(MergeClause, value, argument)
    _check_no_none(entries, argument)
    for key in ("when", "action"):
        if key not in entries:
            raise ConfigurationError(f"{argument} lacks {key!r}")
    entries["when"] = arguments.choice(MergeWhen, entries["when"], f"{argument}['when']")
    entries["action"] = arguments.choice(MergeAction, entries["action"], f"{argument}['action']")
    if "condition" in entries:
        entries["condition"] = arguments.condition(entries["condition"], f"{argument}['condition']")
    if "set" in entries:
        entries["set"] = arguments.assignments(entries["set"], f"{argument}['set']")
    if entries.get("values") is not None:
        entries["values"] = _expressions(entries["values"], f"{argument}['values']")
    clause = MergeClause(**entries)
    if (problem := dml.clause_problem(clause)) is not None:
        raise ConfigurationError(f"{argument}: {problem}")
    return clause


def null_columns(value: object) -> frozenset[str]:
    """Return the partition columns that the DAG file sets to None."""
    values = value if isinstance(value, Mapping) else {}
    return frozenset(str(column) for column, entry in values.items() if entry is None)


def partition_values(
    value: object, argument: str = "partition", *, nulls: Collection[str] = ()
) -> dict[str, str | None]:
    """Return the values of partition columns as strings.

    `nulls` are the columns that the DAG file sets to None. In any other column, None and Hive's
    name for the partition of NULL come from a template or a different task, and are errors.

    Example:
        >>> partition_values({"month": 1, "day": "01"})
        {'month': '1', 'day': '01'}
    """
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"{argument} must map partition columns to values, such as {{'month': 1}}, found"
            f" {value!r}; omit it if the rows contain their partition values"
        )
    texts: dict[str, str | None] = {}
    for column, entry in value.items():
        name = arguments.plain_name(column, argument)
        if entry is None and name in nulls:
            texts[name] = None
            continue
        is_number = isinstance(entry, int) and not isinstance(entry, bool)
        is_text = isinstance(entry, str) and entry.strip() and entry != NULL_PARTITION
        if not (is_number or is_text):
            raise ConfigurationError(
                f"{argument}[{name!r}] must be a non-blank string or a whole number, found"
                f" {entry!r}"
            )
        texts[name] = str(entry)
    return texts


def truncated_partition(value: object, argument: str = "partition") -> dict[str, str | None]:
    """Return a TRUNCATE's partition; empty if omitted. An empty mapping and None are errors."""
    if isinstance(value, arguments.LeftOut):
        return {}
    values = partition_values(value, argument)
    if not values:
        raise ConfigurationError(
            f"{argument} is empty; name a partition column, or omit it to truncate every partition"
        )
    return values


def _check_no_none(value: object, argument: str) -> None:
    """Raise an error for None: a template may give it by mistake, such as for a version."""
    for name, entry in value.items() if isinstance(value, Mapping) else ():
        if entry is None:
            raise ConfigurationError(f"{argument}[{name!r}] is None; give a value, or remove it")


def _options(value: object, argument: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{argument} must be a mapping, found {value!r}")
    _check_no_none(value, argument)  # its text would be None
    options = {str(k): str(v) for k, v in value.items()}
    check_options(options, argument)
    return options


def _expressions(value: object, argument: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigurationError(f"{argument} must be a list of SQL expressions, found {value!r}")
    return tuple(arguments.text(entry, f"{argument}[{i}]") for i, entry in enumerate(value))


def _tables(value: object, argument: str) -> dict[str, str]:
    names = arguments.mapped_texts(value, argument, "views to tables")
    return {
        view: arguments.table_name(name, f"{argument}[{view!r}]") for view, name in names.items()
    }


def _with_versions(value: object, argument: str) -> object:
    """Return a copy of a source mapping with the version of `table` moved into `versions`."""
    if not isinstance(value, Mapping):
        return value
    if "parameters" in value:
        raise ConfigurationError(
            f"{argument} has no key 'parameters': give parameters as a separate argument"
        )
    selection = {key: value[key] for key in _AS_OF if key in value}
    rest = {key: entry for key, entry in value.items() if key not in _AS_OF}
    if rest.get("versions") is not None:
        rest["versions"] = arguments.mapped_texts(
            rest["versions"], f"{argument}['versions']", "views to versions"
        )
    if selection:
        if rest.get("table") is None or rest.get("versions"):
            raise ConfigurationError(
                f"{argument}: {' and '.join(selection)} set the version of 'table'; for 'tables',"
                " give 'versions' by view"
            )
        rest["versions"] = {SOURCE_VIEW: VersionSpec.of(**selection).text()}
    return rest


def _rows(value: object, argument: str) -> tuple[tuple[str | int | float | None, ...], ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(r, list | tuple) for r in value):
        raise ConfigurationError(f"{argument} must be a list of rows, each a list; found {value!r}")
    for number, row in enumerate(value):
        for entry in row:
            if not isinstance(entry, _SCALARS):
                raise ConfigurationError(
                    f"{argument}[{number}] contains a {type(entry).__name__}; values are strings,"
                    " numbers, true, false or None, and a string is cast to its column's type"
                )
    return tuple(tuple(row) for row in value)


def _settled_part(cls: type, value: object, stand_ins: Mapping[str, object]) -> object:
    """Return a mapping with valid placeholders instead of the values that contain templates.

    Without a placeholder, the key is left out; an unknown key stays, and causes an error.
    """
    if not isinstance(value, Mapping):
        return value
    keys = {*_AS_OF, *(f.name for f in fields(cls))}
    return {
        key: entry if arguments.is_settled(entry) else stand_ins.get(key)
        for key, entry in value.items()
        if arguments.is_settled(entry) or key in stand_ins or key not in keys
    }


def _later_source(source: object) -> Mapping[str, object]:
    """Return placeholders with which a source is valid if its parts without templates are valid."""
    parts = source if isinstance(source, Mapping) else {}
    # Its versions need its views.
    views = next((v for k in ("tables", "versions") if isinstance(v := parts.get(k), Mapping)), ())
    return {**_LATER_SOURCE, "tables": dict.fromkeys(views, "later.on")}


def _later_clause(clause: object) -> Mapping[str, object]:
    """Return placeholders with which a clause is valid if its parts without templates are valid."""
    parts = clause if isinstance(clause, Mapping) else {}
    when, action = str(parts.get("when")).lower(), str(parts.get("action")).lower()
    inserts = when == "not_matched" or action == "insert" or "values" in parts
    changes = "update" if "set" in parts else "delete"
    return {
        "when": "not_matched" if inserts else "matched",
        "action": "insert" if inserts else changes,
        "condition": "later",
        "set": {"later": "later"},
    }
