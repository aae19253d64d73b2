"""Expressions resolved by Spark's analyser, and the current time of a statement.

The resolved form of an expression is its type, the frame's columns that it uses, whether it is
deterministic, and a column object. It refers to columns by ID, so it stays valid in frames that are
built on the same columns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from py4j.java_gateway import JavaClass, JavaObject
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.types import BooleanType, DataType, NullType

from airflow_hiveacid.format.errors import ExpressionError, UnknownColumnError, UnsafeTextError
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.spark.engine import (
    JavaNames,
    UnknownJavaCallError,
    current_time,
    each,
    jvm_of,
    kind_of,
    module,
    nodes,
    parsed_sql,
    unknown_calls,
)
from airflow_hiveacid.spark.engine.failures import condition_of, reason_of

_ADAPTIVE: Final = "spark.sql.adaptive.enabled"
_ALIAS: Final = "__hiveacid_expression_"
_OF_NESTED_FIELDS: Final = False
_SIMPLIFIERS: Final = (
    "ReplaceExpressions",
    "RewriteWithExpression",  # Spark 4 only
    "ConstantFolding",
    "UnwrapCastInBinaryComparison",
)
_REPEATABLE: Final = frozenset(
    {
        "Filter",
        "Join",
        "LocalRelation",
        "LogicalRDD",
        "LogicalRelation",
        "MapInArrow",
        "PythonMapInArrow",
        "Project",
        "Range",
        "ResolvedHint",
        "SubqueryAlias",
        "Union",
        "View",
    }
)

_OF_CODE: Final = frozenset({"LogicalRDD", "MapInArrow", "PythonMapInArrow"})
"""Plan nodes whose rows come from code; Spark cannot inspect this code."""


class NotOfOneRowError(Exception):
    """An expression that needs or returns more than one row: an aggregate, a window, explode."""


TEXT_ERRORS: Final = (
    AnalysisException,
    ParseException,
    NotOfOneRowError,
    parsed_sql.RefusedTextError,
    parsed_sql.UnboundParameterError,
    current_time.UnfixedTimeError,
)
"""The errors for SQL that cannot be parsed, resolved or used."""


@dataclass(frozen=True, kw_only=True)  # no slots: cached properties need a dict
class Resolved:
    """An expression resolved against a frame; its properties come from the JVM on first use."""

    column: Column
    type: DataType
    _expression: JavaObject
    _output: _Output

    @cached_property
    def uses(self) -> frozenset[int]:
        """The positions of the frame's columns that the expression uses."""
        return self._output.used_by(self._expression)

    @cached_property
    def is_deterministic(self) -> bool:
        """True if the expression returns the same value for a row every time."""
        return bool(self._expression.deterministic())

    @cached_property
    def is_constant(self) -> bool:
        """True if the value is the same for every row, and Spark can compute it without a row."""
        return bool(self._expression.foldable())

    @cached_property
    def has_subquery(self) -> bool:
        """True if the expression contains a subquery."""
        expressions = self._output.jvm.org.apache.spark.sql.catalyst.expressions
        return bool(expressions.SubqueryExpression.hasSubquery(self._expression))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A comparison of a column with constants; `position` is the column's position in a frame.

    `operator` is the class name of a Spark filter. `values` contains the constants as py4j returns
    them; an "In" may contain several constants.
    """

    position: int
    operator: str
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Moment:
    """The time of a statement: the value of `current_timestamp()` and similar functions.

    Spark would use a different time for each of a statement's queries. `terms` contains the
    parameters of the statement's SQL, and a flag that allows unsafe calls in this SQL.
    """

    instant: JavaObject
    terms: parsed_sql.TextTerms = parsed_sql.DEFAULT_TERMS

    @classmethod
    def now(
        cls, spark: SparkSession, terms: parsed_sql.TextTerms = parsed_sql.DEFAULT_TERMS
    ) -> Moment:
        """Return the current time, with the precision of Spark's timestamps."""
        time = jvm_of(spark).java.time
        return cls(time.Instant.now().truncatedTo(time.temporal.ChronoUnit.MICROS), terms)

    def fixed_in(self, frame: DataFrame) -> DataFrame:
        """Return a frame whose current time is fixed to this moment."""
        return DataFrame(dataset_of(frame.sparkSession, self.plan_of(frame)), frame.sparkSession)

    def plan_of(self, frame: DataFrame) -> JavaObject:
        """Return the analysed plan of a frame, with the current time fixed to this moment."""
        return current_time.fixed(jvm_of(frame.sparkSession), _analysed(frame), self.instant)


def dataset_of(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """Return Spark's dataset for an analysed plan; if the plan is a command, Spark runs it."""
    sql = jvm_of(spark).org.apache.spark.sql
    # In Spark 4, sql.Dataset is only the superclass of the classic and Connect classes.
    dataset = sql.classic.Dataset if isinstance(sql.classic.Dataset, JavaClass) else sql.Dataset
    return dataset.ofRows(spark._jsparkSession, plan)  # noqa: SLF001 - there is no public way


def resolve(frame: DataFrame, texts: Sequence[str], moment: Moment) -> tuple[Resolved, ...]:
    """Resolve expressions that can use only the columns of a frame.

    Raises AnalysisException or ParseException if Spark cannot parse or resolve an expression. For
    NotOfOneRowError, RefusedTextError, UnboundParameterError and UnfixedTimeError, see these
    classes.
    """
    output = _Output.of(frame)
    return _resolved(output, _found(frame, texts, moment))


def conjuncts(frame: DataFrame, condition: str, moment: Moment) -> tuple[Resolved, ...]:
    """Return the parts of a condition that are joined by AND, in order."""
    output = _Output.of(frame)
    ((whole, type_),) = _found(frame, [condition], moment)
    return _resolved(output, [(part, type_) for part in _parts(whole)])


def comparisons(frame: DataFrame, condition: str, moment: Moment) -> Iterator[Comparison]:
    """Split a condition at each AND, and yield the parts that compare a column with constants."""
    jvm = jvm_of(frame.sparkSession)
    sql = jvm.org.apache.spark.sql
    output = _Output.of(frame)
    _, plan, _ = _asked(frame, [condition], moment)
    rules = sql.catalyst.optimizer
    # These rules turn BETWEEN into two comparisons, and move casts from columns to constants.
    for name in _SIMPLIFIERS:
        if isinstance(rule := getattr(rules, name), JavaClass):
            plan = rule.apply(plan)
    (alias,) = each(plan.expressions())
    strategy = module(sql.execution.datasources, "DataSourceStrategy")
    for part in _parts(alias.child()):
        positions = output.used_by(part)
        translated = strategy.translateFilter(part, _OF_NESTED_FIELDS)
        if len(positions) != 1 or translated.isEmpty():
            continue
        (position,) = positions
        predicate = translated.get()
        match operator := kind_of(predicate):
            case "EqualTo" | "GreaterThan" | "GreaterThanOrEqual" | "LessThan" | "LessThanOrEqual":
                yield Comparison(position=position, operator=operator, values=(predicate.value(),))
            case "In":
                yield Comparison(
                    position=position, operator=operator, values=tuple(predicate.values())
                )
            case _:
                pass


def over_values(
    frame: DataFrame, text: str, moment: Moment, values: Mapping[int, Column]
) -> Column:
    """Return an expression with new values, by position, for the columns that it uses."""
    output = _Output.of(frame)
    ((expression, _),) = _found(frame, [text], moment)
    instead = output.jvm.java.util.HashMap()
    for attribute in each(expression.references().toSeq()):
        position = int(output.columns.indexOf(attribute.exprId()))
        instead.put(attribute, _expression_of(output.jvm, values[position]))
    # Transform bottom-up, so that columns inside a new value are not replaced again.
    whole = expression.transformUp(output.jvm.PythonUtils.toScalaMap(instead))
    return Column(_columns(output.jvm)(whole))


def _found(
    frame: DataFrame, texts: Sequence[str], moment: Moment
) -> list[tuple[JavaObject, DataType]]:
    if not texts:
        return []
    projection, _, aliases = _asked(frame, texts, moment)
    return [
        (alias.child(), field.dataType)
        for alias, field in zip(aliases, projection.schema, strict=True)
    ]


def _asked(
    frame: DataFrame, texts: Sequence[str], moment: Moment
) -> tuple[DataFrame, JavaObject, list[JavaObject]]:
    """Return a frame with a column for each expression, its analysed plan, and its columns."""
    spark = frame.sparkSession
    jvm = jvm_of(spark)
    column_of = _columns(jvm)
    trees = parsed_sql.parsed_expressions(spark, jvm, texts, moment.terms)
    projection = frame.select(
        *[Column(column_of(tree)).alias(f"{_ALIAS}{i}") for i, tree in enumerate(trees)]
    )
    plan = moment.plan_of(projection)
    aliases = each(plan.expressions())
    if not moment.terms.allows_unsafe:
        calls = parsed_sql.CallCheck.of(jvm)
        for text, alias in zip(texts, aliases, strict=False):
            if parsed_sql.OPENING in text:
                calls.expression(alias)
    # The analyser moves an aggregate, window or generator below the projection.
    names = ["Alias"] * len(texts)
    if kind_of(plan) != "Project" or [node.nodeName() for node in aliases] != names:
        raise NotOfOneRowError
    if not plan.references().subsetOf(_analysed(frame).outputSet()):
        raise NotOfOneRowError
    current_time.check(jvm, plan, texts, moment.terms.values())
    return projection, plan, aliases


def query(spark: SparkSession, text: str, terms: parsed_sql.TextTerms) -> DataFrame:
    """Return the rows of a query.

    Errors are those of `parsed_query` and of its analysis, and UnfixedTimeError.
    """
    jvm = jvm_of(spark)
    frame = DataFrame(dataset_of(spark, parsed_sql.parsed_query(spark, jvm, text, terms)), spark)
    plan = _analysed(frame)
    current_time.check_calls(jvm, plan)
    current_time.check(jvm, plan, [text], terms.values())
    if not terms.allows_unsafe:
        parsed_sql.CallCheck.of(jvm).query(plan)
    return frame


def is_repeatable(frame: DataFrame, *, is_ours: bool = True) -> bool:
    """Return whether each task of a frame returns the same rows if the task runs again.

    The order of the rows may change. A frame is repeatable if its plan only reads files, and
    filters, maps and joins rows. Aggregates are not (sums of floating-point numbers depend on the
    order), nor are limits, samples, windows, and other sources. Rows that code produces count only
    in frames that we build.
    """
    try:
        with unknown_calls():
            plan = _analysed(frame)
            if not is_ours and any(kind_of(node) in _OF_CODE for node in nodes(plan)):
                return False
            return plan.subqueriesAll().isEmpty() and all(_repeats(node) for node in nodes(plan))
    except UnknownJavaCallError:
        return False


def _repeats(node: JavaObject) -> bool:
    if kind_of(node) == "LogicalRelation" and kind_of(node.relation()) != "HadoopFsRelation":
        return False
    return kind_of(node) in _REPEATABLE and all(e.deterministic() for e in each(node.expressions()))


def expected_bytes(frame: DataFrame) -> int:
    """Return Spark's estimate of a frame's size in bytes; it is often too high.

    A release of Spark that does not say it may have any size.
    """
    try:
        with unknown_calls():
            execution = frame._jdf.queryExecution()  # noqa: SLF001 - only the JVM has it
            return int(str(execution.optimizedPlan().stats().sizeInBytes()))
    except UnknownJavaCallError:
        return sys.maxsize


def cast_in_utc(spark: SparkSession, value: Column, data_type: DataType) -> Column:
    """Cast between instants and wall-clock times, using UTC instead of the session's time zone."""
    jvm = jvm_of(spark)
    sql = jvm.org.apache.spark.sql
    child = _expression_of(jvm, value)  # a cast in Spark's SQL cannot name a zone
    target_type = sql.types.DataType.fromJson(data_type.json())
    zone = jvm.scala.Option.apply("UTC")
    return Column(_columns(jvm)(sql.catalyst.expressions.Cast(child, target_type, zone)))


def opaque(spark: SparkSession, value: Column) -> Column:
    """Return the same value, in a form whose conditions Spark does not push down to files."""
    jvm = jvm_of(spark)
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    return Column(_columns(jvm)(expressions.KnownNullable(_expression_of(jvm, value))))


def tried_cast(spark: SparkSession, value: Column, data_type: DataType) -> Column:
    """Cast a value to a type; the result is NULL if the value cannot be cast."""
    jvm = jvm_of(spark)
    sql = jvm.org.apache.spark.sql
    target_type = sql.types.DataType.fromJson(data_type.json())
    expressions = sql.catalyst.expressions
    tries = expressions.EvalMode.TRY()  # PySpark 3.5 has no name for this mode
    no_zone = jvm.scala.Option.empty()
    cast = expressions.Cast(_expression_of(jvm, value), target_type, no_zone, tries)
    return Column(_columns(jvm)(cast))


def _expression_of(jvm: JavaNames, value: Column) -> JavaObject:
    column: JavaObject = value._jc  # noqa: SLF001 - there is no public way
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    return utils.expression(column) if isinstance(utils, JavaClass) else column.expr()


def rebalanced(frame: DataFrame, column: str, tasks: int | None = None) -> DataFrame:
    """Rebalance rows by a column, so that equal values are together in tasks of suitable size.

    Without adaptive execution, which the hint needs, the rows are repartitioned into `tasks` tasks,
    or kept where they are if it is None. A release of Spark that takes no such hint repartitions
    them as well, by default into its number of shuffle partitions.
    """
    numbers = [] if tasks is None else [tasks]
    is_heard = str(frame.sparkSession.conf.get(_ADAPTIVE)).lower() == "true"
    try:
        if is_heard or not numbers:
            return _hinted(frame, column, numbers)
    except UnknownJavaCallError:
        pass
    return frame.repartition(*numbers, column)  # type: ignore[arg-type]


@unknown_calls()
def _hinted(frame: DataFrame, column: str, numbers: Sequence[int]) -> DataFrame:
    key: JavaObject = F.col(column)._jc  # noqa: SLF001 - Python's own hint takes no columns
    sql = jvm_of(frame.sparkSession).org.apache.spark.sql
    if not isinstance(sql.classic.Dataset, JavaClass):
        key = key.expr()  # Spark 3.5 requires an expression, not a column
    wish = frame._jseq([*numbers, key])  # type: ignore[operator]  # noqa: SLF001
    return DataFrame(frame._jdf.hint("rebalance", wish), frame.sparkSession)  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class _Output:
    """A frame's columns by Spark's expression ID."""

    columns: JavaObject
    jvm: JavaNames

    @classmethod
    def of(cls, frame: DataFrame) -> _Output:
        jvm = jvm_of(frame.sparkSession)
        expressions = jvm.org.apache.spark.sql.catalyst.expressions
        sequence = getattr(expressions, "package$AttributeSeq")
        return cls(sequence(_analysed(frame).output()), jvm)

    def used_by(self, expression: JavaObject) -> frozenset[int]:
        uses = each(expression.references().toSeq())
        positions = frozenset(int(self.columns.indexOf(use.exprId())) for use in uses)
        if min(positions, default=0) < 0:
            raise NotOfOneRowError
        return positions


def _resolved(
    output: _Output, trees: Sequence[tuple[JavaObject, DataType]]
) -> tuple[Resolved, ...]:
    column_of = _columns(output.jvm)
    return tuple(
        Resolved(column=Column(column_of(tree)), type=type_, _expression=tree, _output=output)
        for tree, type_ in trees
    )


def _columns(jvm: JavaNames) -> Callable[[JavaObject], JavaObject]:
    """Return the function that turns a JVM expression into a column; look it up once."""
    sql = jvm.org.apache.spark.sql
    utils = sql.classic.ExpressionUtils
    to_column: Callable[[JavaObject], JavaObject] = (
        utils.column if isinstance(utils, JavaClass) else sql.Column
    )
    return to_column


def _parts(condition: JavaObject) -> Iterator[JavaObject]:
    if kind_of(condition) == "And":
        yield from _parts(condition.left())
        yield from _parts(condition.right())
    else:
        yield condition


def _analysed(frame: DataFrame) -> JavaObject:
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - only the JVM has it


_UNRESOLVED = "UNRESOLVED_COLUMN"
_MANY_ROWS = "it needs or returns more than one row: omit aggregates, windows and explode here"


def resolved(
    table: TableInfo, frame: DataFrame, texts: Sequence[str], moment: Moment
) -> tuple[Resolved, ...]:
    """Resolve expressions that can use only the columns of a frame.

    Raises UnknownColumnError if an expression uses a column that the frame does not have. Raises
    ExpressionError if an expression cannot be resolved for a different reason, or needs or returns
    more than one row. Raises UnsafeTextError if an expression contains a call that is not allowed.
    """
    try:
        return resolve(frame, texts, moment)
    except TEXT_ERRORS as error:
        if len(texts) > 1:
            # Analysed together, which is much cheaper, one has failed: find it.
            for text in texts:
                resolved(table, frame, [text], moment)
        raise _in_our_words(table, texts[0], error) from error


def _in_our_words(table: TableInfo, text: str, error: Exception) -> Exception:
    if isinstance(error, AnalysisException) and condition_of(error).startswith(_UNRESOLVED):
        name = (error.getMessageParameters() or {}).get("objectName", text)
        return UnknownColumnError(
            table=table.ref, column=name.replace("`", ""), known=table.column_names
        )
    if isinstance(error, parsed_sql.RefusedTextError):
        return UnsafeTextError(of=table.ref, text=text, what=str(error))
    reason = _MANY_ROWS if isinstance(error, NotOfOneRowError) else reason_of(error)
    return ExpressionError(table=table.ref, expression=text, reason=reason)


def condition(table: TableInfo, text: str, value: Resolved) -> Column:
    """Return a resolved expression as a condition; refuse it if its type is not boolean."""
    if not isinstance(value.type, BooleanType | NullType):
        raise ExpressionError(
            table=table.ref,
            expression=text,
            reason=f"a condition must be boolean, but this one is {value.type.simpleString()}",
        )
    return F.lit(None).cast("boolean") if isinstance(value.type, NullType) else value.column
