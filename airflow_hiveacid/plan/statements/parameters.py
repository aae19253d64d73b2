"""Convert the `parameters` of a task or call to typed values, and find their markers in SQL.

A mapping such as `{"type": "date", "value": "{{ ds }}"}` sets the type of a rendered template. A
statement's spec contains only the parameters that its SQL uses.
`spark.engine.parsed_sql` turns them into literals.

Example:
    >>> read_parameters({"day": {"type": "date", "value": "2026-01-31"}})["day"].said
    "date '2026-01-31'"
    >>> sorted(markers("day = :day AND v::int > ':no' -- :neither"))
    ['day']
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.maintenance import ChangeFeedSpec, ProveErasureSpec
from airflow_hiveacid.jobs.statements import (
    CreateAsSpec,
    DeleteSpec,
    InsertSpec,
    MergeSpec,
    MultiInsertSpec,
    Parameter,
    SourceSpec,
    TransactionSpec,
    UpdateSpec,
    Value,
    ValueType,
)
from airflow_hiveacid.plan.arguments import EarlyChecks, is_settled
from airflow_hiveacid.plan.statements.parameter_values import parameter_of

_J = TypeVar("_J")

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# Match quotes, comments and casts first, because a colon inside them does not begin a marker. A
# colon directly after a name, value or bracket begins a path or a field's type.
_LEXEME: Final = re.compile(
    r"""(?<!\w)[rR](?:'[^']*'|"[^"]*") | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `(?:[^`]|``)*`
    | --(?:\\\r?\n|[^\r\n])* | (?P<block>/\*) | ::
    | (?<![\w)\]'"`:]):(?P<name>[A-Za-z_][A-Za-z0-9_]*)""",
    re.DOTALL | re.VERBOSE,
)
_BLOCK_EDGE: Final = re.compile(r"/\*|\*/")
_RESERVED_PREFIX: Final = "__hiveacid"


class Later(Parameter):
    """A placeholder for a parameter whose value is not known yet."""

    __slots__ = ()


def read_parameters(value: object, argument: str = "parameters") -> dict[str, Parameter]:
    """Convert a mapping from names to values into typed parameters by name."""
    return {
        name: parameter_of(entry, f"{argument}[{name!r}]")
        for name, entry in _by_name(value, argument).items()
    }


def markers(text: str) -> frozenset[str]:
    """Return the parameter names in the markers of a Spark SQL string.

    Quotes, comments, casts (`a::int`) and paths (`a:b`) contain no markers.
    """
    return frozenset(_markers(text))


def with_parameters(
    job: _J, given: Mapping[str, Parameter], argument: str | None = "parameters"
) -> tuple[_J, frozenset[str]]:
    """Return a copy of a job with the parameters that its SQL uses, and their names.

    `argument` is for error messages; None if the parser has checked that each marker has a value.
    """
    bound, names = _bound(job, given, argument)
    return bound, names  # type: ignore[return-value]  # of the same kind


def check_all_used(given: Iterable[str], used: Collection[str], argument: str) -> None:
    """Raise a ConfigurationError if the SQL does not use every parameter."""
    for name in given:
        if name not in used:
            raise ConfigurationError(
                f"{argument}[{name!r}] is not used in any SQL text: write :{name} where its value"
                " belongs, outside quotes, or remove the parameter"
            )


def job_with(job: _J, value: object) -> _J:
    """Return a copy of a job with these parameters; its SQL must use all of them."""
    parameters = read_parameters(value)
    bound, names = with_parameters(job, parameters)
    check_all_used(parameters, names, "parameters")
    return bound


def where_parameters(where: str | None, value: object) -> dict[str, Parameter]:
    """Return the parameters for one condition; the condition must use all of them."""
    parameters = read_parameters({} if value is None else value)
    chosen = _chosen([where], parameters, "parameters")
    check_all_used(parameters, chosen, "parameters")
    return chosen


def check_early(
    early: EarlyChecks,
    value: object,
    texts: Iterable[object],
    argument: str = "parameters",
    *,
    others: object = None,
) -> None:
    """Check the values that are known before the task runs; check the names if all SQL is known.

    `texts` are the SQL strings, which may also use the parameters in `others`.
    """
    check_values_early(early, value, argument)
    if not isinstance(value, Mapping):
        return
    every = list(texts)
    shared = {} if others is None else others
    if all(is_settled(text) for text in every) and isinstance(shared, Mapping):
        marked = frozenset[str]().union(*[markers(text) for text in every if isinstance(text, str)])

        def fit(given: Mapping[str, object], where: str) -> None:
            _check_given(marked, {**shared, **given}, where)
            check_all_used(given, marked, where)

        # Without the values, because `check` leaves out a mapping with a template.
        early.check(fit, **{argument: dict.fromkeys(value, 0)})


def check_values_early(early: EarlyChecks, value: object, argument: str = "parameters") -> None:
    """Check the names of parameters, and the values that are known before the task runs."""
    if isinstance(value, Mapping):
        early.check(_by_name, **{argument: dict.fromkeys(value, 0)})
        value = {name: entry for name, entry in value.items() if is_settled(entry)}
    early.check(read_parameters, **{argument: value})


def stand_ins(value: object) -> dict[str, Parameter]:
    """Return parameters for parsing SQL, with a placeholder for each value that is yet unknown."""
    later = Later(values=(Value(type=ValueType.STRING, text="later"),))
    return {
        str(name): _settled(entry, later)
        for name, entry in (value.items() if isinstance(value, Mapping) else ())
    }


def texts_of(given: Mapping[str, Any]) -> list[object]:
    """Return the parts of an operator's arguments that may contain SQL or a template of SQL."""
    source = given.get("source")
    texts = [given.get("where"), given.get("condition"), *_inner(given.get("assignments"))]
    texts.append(source.get("query") if isinstance(source, Mapping) else source)
    for clause in _inner(given.get("clauses")):
        if isinstance(clause, Mapping):
            texts += [clause.get("condition"), *_inner(clause.get("set"))]
            texts += _inner(clause.get("values"))
        else:
            texts.append(clause)
    return texts


def said(where: str | None, parameters: Mapping[str, Parameter]) -> str:
    """Return a condition and the values of its parameters as text, for messages and comparisons."""
    text = where or ""
    if not parameters:
        return text
    values = ", ".join(
        f":{name} = {parameter.said}" for name, parameter in sorted(parameters.items())
    )
    return f"{text} [{values}]"


def _inner(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else [value]


def _settled(given: object, later: Parameter) -> Parameter:
    if is_settled(given):
        try:
            return parameter_of(given, "")
        except ConfigurationError:
            return later  # `read_parameters` raises the error
    is_list = isinstance(given, list | tuple) or (
        isinstance(given, Mapping) and isinstance(given.get("value"), list | tuple)
    )
    return replace(later, is_list=is_list)


def _check_given(named: Iterable[str], given: Collection[str], argument: str) -> None:
    for name in sorted(named):
        if name not in given:
            hint = f"; given are {', '.join(given)}" if given else ""
            raise ConfigurationError(
                f"{argument} has no value for :{name}, which the SQL uses{hint}"
            )


def _by_name(value: object, argument: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{argument} must map names to values, found {value!r}")
    for name in value:
        if not isinstance(name, str) or not _NAME.match(name):
            raise ConfigurationError(
                f"{argument}: {name!r} is not a valid parameter name; use letters, digits and _"
            )
        if name.lower().startswith(_RESERVED_PREFIX):
            raise ConfigurationError(
                f"{argument}: {name!r} cannot be used: names that begin with {_RESERVED_PREFIX} are"
                " reserved; choose another"
            )
    return value


def _markers(text: str) -> Iterator[str]:
    position = 0
    while (lexeme := _LEXEME.search(text, position)) is not None:
        position = lexeme.end()
        if lexeme["block"]:
            position = _block_end(text, position)
        elif lexeme["name"]:
            yield lexeme["name"]


def _block_end(text: str, at: int) -> int:
    """Return the position after a block comment; Spark allows nested comments."""
    nested = 1
    while nested and (edge := _BLOCK_EDGE.search(text, at)) is not None:
        nested += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return len(text) if nested else at


def _bound(
    job: object, given: Mapping[str, Parameter], argument: str | None
) -> tuple[object, frozenset[str]]:
    bound: object = job
    own: Mapping[str, Parameter] = {}
    names: frozenset[str] = frozenset()
    match job:
        case InsertSpec() | CreateAsSpec():
            source, names = _of_source(job.source, given, argument)
            bound = replace(job, source=source)
        case MergeSpec():
            source, names = _of_source(job.source, given, argument)
            texts = [job.condition]
            for clause in job.clauses:
                texts += [clause.condition, *(clause.set or {}).values(), *(clause.values or ())]
            own = _chosen(texts, given, argument)
            bound = replace(job, source=source, parameters=own)
        case UpdateSpec():
            own = _chosen([job.where, *job.set.values()], given, argument)
            bound = replace(job, parameters=own)
        case DeleteSpec() | ChangeFeedSpec() | ProveErasureSpec():
            own = _chosen([job.where], given, argument)
            bound = replace(job, parameters=own)
        case MultiInsertSpec():
            own = _chosen(job.shared.values(), given, argument)
            inserts, names = _each(job.inserts, given, argument)
            bound = replace(job, inserts=inserts, parameters=own)
        case TransactionSpec():
            statements, names = _each(job.statements, given, argument)
            bound = replace(job, statements=statements)
        case _:
            pass
    return bound, names.union(own)


def _each(
    parts: tuple[_J, ...], given: Mapping[str, Parameter], argument: str | None
) -> tuple[tuple[_J, ...], frozenset[str]]:
    bound = [with_parameters(part, given, argument) for part in parts]
    return tuple(part for part, _ in bound), frozenset[str]().union(*[names for _, names in bound])


def _of_source(
    source: SourceSpec, given: Mapping[str, Parameter], argument: str | None
) -> tuple[SourceSpec, frozenset[str]]:
    # The SQL parser may already have set some parameters.
    rest = {name: parameter for name, parameter in source.parameters.items() if name not in given}
    own = _chosen([source.query], {**given, **rest}, argument)
    return replace(source, parameters=own), frozenset(own).difference(rest)


def _chosen(
    texts: Iterable[str | None], given: Mapping[str, Parameter], argument: str | None
) -> dict[str, Parameter]:
    marked = frozenset[str]().union(*[markers(text) for text in texts if text])
    if argument is not None:
        _check_given(marked, given, argument)
    return {name: given[name] for name in sorted(marked.intersection(given))}
