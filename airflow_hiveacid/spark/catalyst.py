"""What Spark's analyser found out about expressions, and the one time of a statement.

Spark says these things on the JVM side only; this module is where we ask for them. Takes a frame
and expressions as text; gives each as the analyser resolved it: its type, the columns of the frame
that it uses, whether it is deterministic, and a column that holds for every frame which has the
same columns below it. Such a column names nothing any more: what else a frame carries beside the
columns that the expression was resolved against, no `*` and no name in it can mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from py4j.java_gateway import JavaClass
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from py4j.java_gateway import JavaObject, JVMView
    from pyspark.sql.types import DataType

_NOW: Final = ("current_timestamp()", "now()", "current_date()", "localtimestamp()")
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
"""Rows that code makes which Spark cannot look into."""


class NotOfOneRowError(Exception):
    """An expression needs more than one row, or makes several: an aggregate, a window, explode."""


@dataclass(frozen=True, kw_only=True)  # no slots: what is asked for is kept
class Resolved:
    """One expression over one frame.

    What it uses is asked of the JVM when somebody wants to know: there may be thousands of them.
    """

    column: Column
    type: DataType
    _expression: JavaObject
    _seen: _Output

    @cached_property
    def uses(self) -> frozenset[int]:
        """The positions of the frame's columns in it."""
        return self._seen.used_by(self._expression)

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether it says the same of a row every time."""
        return bool(self._expression.deterministic())

    @cached_property
    def is_constant(self) -> bool:
        """Whether it is the same for every row, and known without one."""
        return bool(self._expression.foldable())

    @cached_property
    def has_subquery(self) -> bool:
        """Whether it asks another query."""
        expressions = self._seen.jvm.org.apache.spark.sql.catalyst.expressions
        return bool(expressions.SubqueryExpression.hasSubquery(self._expression))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One column, by its position in a frame, compared with constants.

    `operator` is the name of Spark's filter; `values` are as py4j gives them, of "In" several.
    """

    position: int
    operator: str
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Moment:
    """The one time of a statement: what `current_timestamp()` and its like say in all of it.

    Spark would fix them for each of its own queries, of which a statement has several.
    """

    literals: JavaObject

    @classmethod
    def now(cls, spark: SparkSession) -> Moment:
        """This moment, in the session's time zone."""
        jvm = jvm_of(spark)
        asked = _analysed(spark.range(1).select(*[F.expr(text) for text in _NOW]))
        told = jvm.org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime.apply(asked)
        literals = jvm.java.util.HashMap()
        for call, literal in zip(
            _each(asked.expressions()), _each(told.expressions()), strict=True
        ):
            literals.put(call.child(), literal.child())
        # A map is a partial function, which is what Spark's trees are transformed with.
        return cls(jvm.PythonUtils.toScalaMap(literals))

    def fixed_in(self, frame: DataFrame) -> DataFrame:
        """The same frame, in which it is this moment."""
        return DataFrame(dataset_of(frame.sparkSession, self.plan_of(frame)), frame.sparkSession)

    def plan_of(self, frame: DataFrame) -> JavaObject:
        """The analysed plan of a frame, in which it is this moment."""
        return _analysed(frame).transformAllExpressionsWithSubqueries(self.literals)


def jvm_of(spark: SparkSession) -> JVMView:
    """The JVM behind a session.

    Raises:
        TypeError: the session is a client of Spark Connect, which has none.
    """
    jvm = spark._jvm  # noqa: SLF001 - there is no public way
    if jvm is None:
        raise TypeError("a classic Spark session is needed")
    return jvm


def dataset_of(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """What Spark makes of an analysed plan; a plan that is a command has been run."""
    sql = jvm_of(spark).org.apache.spark.sql
    # Spark 3.5 has its only kind where Spark 4 has what both of its kinds are.
    dataset = sql.classic.Dataset if isinstance(sql.classic.Dataset, JavaClass) else sql.Dataset
    return dataset.ofRows(spark._jsparkSession, plan)  # noqa: SLF001 - there is no public way


def resolve(frame: DataFrame, texts: Sequence[str], moment: Moment) -> tuple[Resolved, ...]:
    """Resolve some expressions over a frame, which is all that they see.

    Raises:
        AnalysisException, ParseException: Spark cannot resolve or read one of them.
        NotOfOneRowError: as it says.
    """
    seen = _Output.of(frame)
    return _resolved(seen, _found(frame, texts, moment))


def conjuncts(frame: DataFrame, condition: str, moment: Moment) -> tuple[Resolved, ...]:
    """The parts of a condition that are joined by AND, in order.

    Raises:
        AnalysisException, ParseException, NotOfOneRowError: see `resolve`.
    """
    seen = _Output.of(frame)
    ((whole, type_),) = _found(frame, [condition], moment)
    return _resolved(seen, [(part, type_) for part in _parts(whole)])


def comparisons(frame: DataFrame, condition: str, moment: Moment) -> Iterator[Comparison]:
    """The parts of a condition, joined by AND, that compare a column with constants.

    Raises:
        AnalysisException, ParseException, NotOfOneRowError: see `resolve`.
    """
    jvm = jvm_of(frame.sparkSession)
    sql = jvm.org.apache.spark.sql
    seen = _Output.of(frame)
    _, plan, _ = _asked(frame, [condition], moment)
    rules = sql.catalyst.optimizer
    # BETWEEN becomes two comparisons, and constants are cast rather than columns.
    for name in _SIMPLIFIERS:
        if isinstance(rule := getattr(rules, name), JavaClass):
            plan = rule.apply(plan)
    (named,) = _each(plan.expressions())
    companion = getattr(sql.execution.datasources, "DataSourceStrategy$")
    strategy = getattr(companion, "MODULE$")
    for part in _parts(named.child()):
        used = seen.used_by(part)
        translated = strategy.translateFilter(part, _OF_NESTED_FIELDS)
        if len(used) != 1 or translated.isEmpty():
            continue
        (position,) = used
        one = translated.get()
        match operator := _kind(one):
            case "EqualTo" | "GreaterThan" | "GreaterThanOrEqual" | "LessThan" | "LessThanOrEqual":
                yield Comparison(position=position, operator=operator, values=(one.value(),))
            case "In":
                yield Comparison(position=position, operator=operator, values=tuple(one.values()))
            case _:
                pass


def over_values(
    frame: DataFrame, text: str, moment: Moment, values: Mapping[int, Column]
) -> Column:
    """An expression over a frame's columns, in which other values stand for them.

    Args:
        frame: it.
        text: the expression.
        moment: the one time.
        values: by the position of the column for which each stands; all that it uses.

    Raises:
        AnalysisException, ParseException, NotOfOneRowError: see `resolve`.
    """
    seen = _Output.of(frame)
    ((expression, _),) = _found(frame, [text], moment)
    instead = seen.jvm.java.util.HashMap()
    for one in _each(expression.references().toSeq()):
        position = int(seen.columns.indexOf(one.exprId()))
        instead.put(one, _expression_of(seen.jvm, values[position]))
    # From below, so that what a value names is not taken for the frame's.
    whole = expression.transformUp(seen.jvm.PythonUtils.toScalaMap(instead))
    return Column(_columns(seen.jvm)(whole))


def _found(
    frame: DataFrame, texts: Sequence[str], moment: Moment
) -> list[tuple[JavaObject, DataType]]:
    """What the analyser makes of each text, and the type of it."""
    if not texts:
        return []
    asked, _, named = _asked(frame, texts, moment)
    return [(one.child(), field.dataType) for one, field in zip(named, asked.schema, strict=True)]


def _asked(
    frame: DataFrame, texts: Sequence[str], moment: Moment
) -> tuple[DataFrame, JavaObject, list[JavaObject]]:
    """A frame of the texts, each in a column; the analyser's plan of it, and the columns there."""
    asked = frame.select(*[F.expr(text).alias(f"{_ALIAS}{i}") for i, text in enumerate(texts)])
    plan = moment.plan_of(asked)
    named = _each(plan.expressions())
    # Aggregates, windows and generators are taken out of the list of columns into plans below it.
    if _kind(plan) != "Project" or [one.nodeName() for one in named] != ["Alias"] * len(texts):
        raise NotOfOneRowError
    if not plan.references().subsetOf(_analysed(frame).outputSet()):
        raise NotOfOneRowError
    return asked, plan, named


def is_repeatable(frame: DataFrame, *, is_ours: bool = True) -> bool:
    """Whether every task of a frame makes the same rows when it runs again, in whatever order.

    Files are read, rows are picked, changed one by one and joined: then it does. Aggregates are not
    trusted (sums of floating numbers depend on the order), nor limits, samples, windows, and what
    is not a file; nor, unless the frame is ours, what code makes: an RDD may be any of these.
    """
    plan = _analysed(frame)
    if not is_ours and any(_kind(node) in _OF_CODE for node in _nodes(plan)):
        return False
    return plan.subqueriesAll().isEmpty() and all(_repeats(node) for node in _nodes(plan))


def _repeats(node: JavaObject) -> bool:
    if _kind(node) == "LogicalRelation" and _kind(node.relation()) != "HadoopFsRelation":
        return False
    return _kind(node) in _REPEATABLE and all(e.deterministic() for e in _each(node.expressions()))


def expected_bytes(frame: DataFrame) -> int:
    """The size that Spark expects of a frame; often too high."""
    execution = frame._jdf.queryExecution()  # noqa: SLF001 - Spark says it here only
    return int(str(execution.optimizedPlan().stats().sizeInBytes()))


def cast_in_utc(spark: SparkSession, value: Column, data_type: DataType) -> Column:
    """A cast between moments and wall-clock times as UTC has them, whatever the session's zone."""
    jvm = jvm_of(spark)
    sql = jvm.org.apache.spark.sql
    child = _expression_of(jvm, value)  # Spark's SQL can name no zone in a cast
    wanted = sql.types.DataType.fromJson(data_type.json())
    zone = jvm.scala.Option.apply("UTC")
    return Column(_columns(jvm)(sql.catalyst.expressions.Cast(child, wanted, zone)))


def _expression_of(jvm: JVMView, value: Column) -> JavaObject:
    column: JavaObject = value._jc  # noqa: SLF001 - there is no public way
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    return utils.expression(column) if isinstance(utils, JavaClass) else column.expr()


def rebalanced(frame: DataFrame, column: str, tasks: int | None = None) -> DataFrame:
    """Rows of one value of a column together, in as many tasks as their bytes deserve.

    Where Spark does not adapt its plans, it does not hear this wish: then they are in as many tasks
    as are given, else they stay where they are.

    Args:
        frame: the rows.
        column: what keeps them together.
        tasks: how many there are, unless Spark finds that they have too few bytes, or too many; by
            default as many as in any shuffle, less what Spark puts together, if it may.
    """
    is_heard = str(frame.sparkSession.conf.get(_ADAPTIVE)).lower() == "true"
    if tasks is not None and not is_heard:
        return frame.repartition(tasks, column)
    by: JavaObject = F.col(column)._jc  # noqa: SLF001 - Python's own hint takes no columns
    sql = jvm_of(frame.sparkSession).org.apache.spark.sql
    if not isinstance(sql.classic.Dataset, JavaClass):
        by = by.expr()  # Spark 3.5 wants what the analyser sees
    wish = frame._jseq([by] if tasks is None else [tasks, by])  # type: ignore[operator]  # noqa: SLF001
    return DataFrame(frame._jdf.hint("rebalance", wish), frame.sparkSession)  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class _Output:
    """The columns of a frame, which Spark looks up by its numbers for them: there may be many."""

    columns: JavaObject
    jvm: JVMView

    @classmethod
    def of(cls, frame: DataFrame) -> _Output:
        jvm = jvm_of(frame.sparkSession)
        expressions = jvm.org.apache.spark.sql.catalyst.expressions
        sequence = getattr(expressions, "package$AttributeSeq")
        return cls(sequence(_analysed(frame).output()), jvm)

    def used_by(self, expression: JavaObject) -> frozenset[int]:
        """The positions of those that an expression uses.

        Raises:
            NotOfOneRowError: it uses something else.
        """
        used = _each(expression.references().toSeq())
        found = frozenset(int(self.columns.indexOf(one.exprId())) for one in used)
        if min(found, default=0) < 0:
            raise NotOfOneRowError
        return found


def _resolved(seen: _Output, found: Sequence[tuple[JavaObject, DataType]]) -> tuple[Resolved, ...]:
    column_of = _columns(seen.jvm)
    return tuple(
        Resolved(column=Column(column_of(one)), type=type_, _expression=one, _seen=seen)
        for one, type_ in found
    )


def _columns(jvm: JVMView) -> Callable[[JavaObject], JavaObject]:
    """What makes a column of an expression. Looked up once: each name in it is a call."""
    sql = jvm.org.apache.spark.sql
    utils = sql.classic.ExpressionUtils
    found: Callable[[JavaObject], JavaObject] = (
        utils.column if isinstance(utils, JavaClass) else sql.Column
    )
    return found


def _parts(condition: JavaObject) -> Iterator[JavaObject]:
    if _kind(condition) == "And":
        yield from _parts(condition.left())
        yield from _parts(condition.right())
    else:
        yield condition


def _nodes(tree: JavaObject) -> Iterator[JavaObject]:
    yield tree
    for child in _each(tree.children()):
        yield from _nodes(child)


def _analysed(frame: DataFrame) -> JavaObject:
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - Spark says it here only


def _kind(node: JavaObject) -> str:
    return str(node.getClass().getSimpleName())


def _each(seq: JavaObject) -> list[JavaObject]:
    return [seq.apply(i) for i in range(seq.size())]
