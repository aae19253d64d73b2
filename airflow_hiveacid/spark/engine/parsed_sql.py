"""Syntax trees of users' SQL, checked, and with each parameter replaced by its value.

Each `:name` in the tree of Spark's parser becomes a literal of the value's type; no value is
inserted into the string. SQL that calls Java, reads files of the driver or changes data is refused,
by its tree (docs/decisions/values.md). Spark's variables, such as `${env:HOME}`, are not
substituted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from py4j.java_gateway import JavaClass, JavaObject, is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_hiveacid.jobs.statements import Parameter, Value, ValueType
from airflow_hiveacid.spark.engine import JavaNames, each, holding, kind_of, module, nodes

# The tree nodes that a query may have; others are commands, scripts, or not yet reviewed.
_QUERY_NODES: Final = frozenset(
    {
        "Aggregate", "CTERelationDef", "CTERelationRef", "Deduplicate", "Distinct", "Except",
        "Filter", "Generate", "GlobalLimit", "Intersect", "Join", "LateralJoin", "LocalLimit",
        "LocalRelation", "Offset", "OneRowRelation", "PipeOperator", "Pivot", "Project", "Range",
        "RebalancePartitions", "RelationTimeTravel", "Repartition", "RepartitionByExpression",
        "ResolvedInlineTable",
        "Sample", "Sort", "SubqueryAlias", "Tail", "Union", "UnionLoop", "UnionLoopRef", "Unpivot",
        "UnresolvedHaving", "UnresolvedHint", "UnresolvedInlineTable", "UnresolvedRelation",
        "UnresolvedSubqueryColumnAliases", "UnresolvedTVFAliases", "UnresolvedTableValuedFunction",
        "UnresolvedWith", "Window", "WithCTE", "WithWindowDefinition",
    }
)  # fmt: skip
_TABLE_FUNCTIONS: Final = frozenset(
    {"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer"}
    | {"json_tuple", "range", "sql_keywords", "stack", "variant_explode", "variant_explode_outer"}
    | {"collations"}
)
_REFUSED_CALLS: Final = {
    "CallMethodViaReflection": "reflect and java_method call Java on the driver",
    "InputFileName": "input_file_name reveals files",
    "InputFileBlockStart": "input_file_block_start reveals files",
    "InputFileBlockLength": "input_file_block_length reveals files",
}
# Some options of these functions name a file. Spark opens the file while it analyses a call.
_WITH_OPTIONS: Final = frozenset(
    {"from_xml", "schema_of_xml", "to_xml", "from_avro", "to_avro", "schema_of_avro"}
)
_FILE_OPTIONS: Final = frozenset({"rowvalidationxsdpath", "avroschemaurl"})
_OF_CLASSES: Final = frozenset({"from_protobuf", "to_protobuf"})
_MAY_HOLD_FILES: Final = ("xml", "avro", "protobuf", "identifier")
_QUERY_CLASS: Final = "org.apache.spark.sql.catalyst.expressions.PlanExpression"
_LARGEST_BIGINT: Final = 2**63 - 1
_LONG_DIGITS: Final = re.compile(rf"[0-9]{{{len(str(_LARGEST_BIGINT))},}}")
_DECIMAL_POWER: Final = re.compile(r"[0-9.]E\+?[0-9]+BD\b", re.IGNORECASE)
_MARK: Final = ":"
_VARIABLE: Final = "${"
_SUBSTITUTES: Final = "spark.sql.variable.substitute"
OPENING: Final = "("
"""SQL without this character calls no function and has no subquery."""


class RefusedTextError(Exception):
    """The error for SQL that is not allowed; the message names the refused part."""


class UnboundParameterError(Exception):
    """The error for a parameter without a value, or in a position that allows no parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTerms:
    """The parameters of a statement's SQL, and whether the SQL may contain unsafe calls."""

    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    allows_unsafe: bool = False

    def values(self) -> Iterator[str]:
        """Yield each parameter's values, as text."""
        for parameter in self.parameters.values():
            for value in parameter.values:
                yield value.text


DEFAULT_TERMS: Final = TextTerms()


def parsed_expressions(
    spark: SparkSession, jvm: JavaNames, texts: Sequence[str], terms: TextTerms
) -> list[JavaObject]:
    """Parse expressions with Spark's parser, and bind the values of their parameters.

    Raises ParseException if Spark cannot parse an expression. For RefusedTextError and
    UnboundParameterError, see these classes.
    """
    binder = _Binder.of(spark, jvm, terms)
    parser = _parser(spark, jvm)
    with _verbatim(spark, texts):
        parsed = [parser.parseExpression(text) for text in texts]
    return [binder.expression(text, tree) for text, tree in zip(texts, parsed, strict=True)]


def parsed_query(spark: SparkSession, jvm: JavaNames, text: str, terms: TextTerms) -> JavaObject:
    """Parse a query, and bind its parameters' values; see `parsed_expressions` for errors."""
    binder = _Binder.of(spark, jvm, terms)
    with _verbatim(spark, [text]):
        parsed = _parser(spark, jvm).parsePlan(text)
    return binder.query(text, parsed)


@dataclass(frozen=True, slots=True)
class CallCheck:
    """A check that refuses forbidden calls in analysed expressions and queries.

    Spark marks all forbidden calls as non-deterministic, so this check finds them quickly. Java's
    names are looked up once.
    """

    logical: Any
    queries: JavaObject

    @classmethod
    def of(cls, jvm: JavaNames) -> CallCheck:
        """Return the check for a JVM."""
        catalyst = jvm.org.apache.spark.sql.catalyst
        patterns = catalyst.trees.TreePattern
        return cls(logical=catalyst.plans.logical, queries=patterns.PLAN_EXPRESSION())

    def expression(self, expression: JavaObject) -> None:
        """Raise RefusedTextError if an expression or its subqueries contain a forbidden call."""
        self._calls(expression)
        if expression.containsPattern(self.queries):
            for plan in each(_as_plan(self.logical, expression).subqueriesAll()):
                self.query(plan)

    def query(self, plan: JavaObject) -> None:
        """Raise RefusedTextError if a query has a forbidden call; its views are not searched."""
        if plan.deterministic() and not plan.containsPattern(self.queries):
            return
        for node in _nodes_above_views(plan):
            for expression in each(node.expressions()):
                self.expression(expression)

    def _calls(self, expression: JavaObject) -> None:
        if expression.deterministic():
            return
        if (kind := kind_of(expression)) in _REFUSED_CALLS:
            raise RefusedTextError(_REFUSED_CALLS[kind])
        for child in each(expression.children()):
            self._calls(child)


def _check_options(name: str, argument: JavaObject, position: int) -> None:
    """Refuse an argument that may be a map of options with the name of a file.

    The argument at position 0 is the data, unless it is a named argument.
    """
    kind = kind_of(argument)
    if position == 0 and kind != "NamedArgumentExpression":
        return
    called = ""
    if kind == "UnresolvedFunction":
        called = str(each(argument.nameParts())[-1]).lower()
    if called == "map":
        for key in each(argument.arguments())[::2]:
            option = str(key.value()) if kind_of(key) == "Literal" else None
            if option is None:
                raise RefusedTextError(f"an option of {name} is not a literal and may name files")
            if option.lower() in _FILE_OPTIONS:
                raise RefusedTextError(f"the option {option} of {name} opens files of the driver")
        return
    is_schema = called.startswith("schema_of_")  # this nested call is checked separately
    # A parameter's value is never a map, and is bound only after this check.
    if not (is_schema or kind in {"Literal", "NamedParameter"}):
        raise RefusedTextError(
            f"argument {position + 1} of {name} may name files: it is neither a literal, a"
            " parameter nor map(...) with literals as keys"
        )


def _parser(spark: SparkSession, jvm: JavaNames) -> JavaObject:
    """Return Spark's parser; some of its trees depend on the active session's settings."""
    sql = jvm.org.apache.spark.sql
    # In Spark 4, sql.SparkSession is only the superclass of the classic and Connect classes.
    classic = sql.classic.SparkSession
    sessions = classic if isinstance(classic, JavaClass) else sql.SparkSession
    sessions.setActiveSession(spark._jsparkSession)  # noqa: SLF001 - there is no public way
    parser: JavaObject = sql.execution.SparkSqlParser()
    return parser


@contextmanager
def _verbatim(spark: SparkSession, texts: Sequence[str]) -> Iterator[None]:
    """Run a block without Spark's variable substitution, so that SQL is parsed unchanged."""
    if not any(_VARIABLE in text for text in texts):
        yield
        return
    previous = spark.conf.get(_SUBSTITUTES, "true") or "true"
    spark.conf.set(_SUBSTITUTES, "false")
    try:
        yield
    finally:
        spark.conf.set(_SUBSTITUTES, previous)


def _as_plan(logical: Any, expression: JavaObject) -> JavaObject:  # noqa: ANN401 - a package
    """Wrap an expression in a plan, because some of Spark's rules apply only to whole plans."""
    plan: JavaObject = logical.Filter(expression, logical.OneRowRelation())
    return plan


def _may_hold_files(text: str) -> bool:
    """Return whether SQL may contain a call for which Spark opens a file during analysis."""
    lower = text.lower()
    return OPENING in text and any(name in lower for name in _MAY_HOLD_FILES)


def _may_exceed_bigint(text: str) -> bool:
    """Return whether SQL may contain a number beyond bigint; the exact search is slow."""
    digits = any(Decimal(number) >= _LARGEST_BIGINT for number in _LONG_DIGITS.findall(text))
    return digits or _DECIMAL_POWER.search(text) is not None


def _nodes_above_views(plan: JavaObject) -> Iterator[JavaObject]:
    if kind_of(plan) == "View":
        return
    yield plan
    for child in each(plan.children()):
        yield from _nodes_above_views(child)


@dataclass(frozen=True, slots=True)
class _Binder:
    """Checks parsed SQL and binds its parameters, by Spark's tree patterns."""

    spark: SparkSession
    jvm: JavaNames
    terms: TextTerms
    catalyst: Any
    markers: JavaObject
    queries: JavaObject

    @classmethod
    def of(cls, spark: SparkSession, jvm: JavaNames, terms: TextTerms) -> _Binder:
        catalyst = jvm.org.apache.spark.sql.catalyst
        patterns = catalyst.trees.TreePattern
        return cls(spark, jvm, terms, catalyst, patterns.PARAMETER(), patterns.PLAN_EXPRESSION())

    def expression(self, text: str, parsed: JavaObject) -> JavaObject:
        if OPENING in text and parsed.containsPattern(self.queries):
            plan = self._substituted(self._as_plan(parsed))
            parsed = plan.condition()
            if not self.terms.allows_unsafe:
                self._check_queries(plan)
        if _may_hold_files(text) and not self.terms.allows_unsafe:
            self._check_calls(self._as_plan(parsed))
        if not _may_exceed_bigint(text) and not self._has_markers(text, parsed):
            return parsed
        return self._with_numbers_and_values(text, self._as_plan(parsed)).condition()

    def query(self, text: str, parsed: JavaObject) -> JavaObject:
        plan = self._substituted(parsed)
        if not self.terms.allows_unsafe:
            self._check_queries(plan)
            if _may_hold_files(text):
                self._check_calls(plan)
        return self._with_numbers_and_values(text, plan)

    def _with_numbers_and_values(self, text: str, plan: JavaObject) -> JavaObject:
        if _may_exceed_bigint(text):
            plan = self._with_large_numbers(plan)
        return self._bound(plan) if self._has_markers(text, plan) else plan

    def _as_plan(self, expression: JavaObject) -> JavaObject:
        return _as_plan(self.catalyst.plans.logical, expression)

    def _has_markers(self, text: str, tree: JavaObject) -> bool:
        return _MARK in text and bool(tree.containsPattern(self.markers))

    def _substituted(self, plan: JavaObject) -> JavaObject:
        """Return a plan in which each use of a WITH or WINDOW name is replaced by its definition.

        So the check sees the definitions. Unlike Spark's rule for WITH, that for WINDOW does not
        cover queries within expressions, and a substituted WINDOW may contain further queries.
        """
        patterns = self.catalyst.trees.TreePattern
        ctes = module(self.catalyst.analysis, "CTESubstitution")
        analyzer = self.spark._jsparkSession.sessionState().analyzer()  # noqa: SLF001 - as above
        windows = analyzer.WindowsSubstitution()
        new_plan: JavaObject = windows.apply(ctes.apply(plan))
        while new_plan.containsPattern(patterns.WITH_WINDOW_DEFINITION()):
            changes = self.jvm.java.util.HashMap()
            for query in self._queries_with(new_plan, patterns.WITH_WINDOW_DEFINITION()):
                changes.put(query, query.withNewPlan(windows.apply(query.plan())))
            function = self.jvm.PythonUtils.toScalaMap(changes)
            new_plan = ctes.apply(new_plan.transformAllExpressionsWithSubqueries(function))
        return new_plan

    def _queries_with(self, plan: JavaObject, pattern: JavaObject) -> Iterator[JavaObject]:
        gateway = self.spark.sparkContext._gateway  # noqa: SLF001 - as above
        for expression in holding(plan, pattern):
            if is_instance_of(gateway, expression, _QUERY_CLASS):
                yield expression

    def _check_queries(self, plan: JavaObject) -> None:
        for query in (plan, *each(plan.subqueriesAll())):
            for node in nodes(query):
                self._check_node(node)

    def _check_node(self, node: JavaObject) -> None:
        match kind := kind_of(node):
            case "RelationTimeTravel":
                self._check_node(node.relation())
            case "UnresolvedRelation":
                if not node.options().isEmpty():
                    raise RefusedTextError("options of a table may name files")
                self._check_relation([str(part) for part in each(node.multipartIdentifier())])
            case "UnresolvedTableValuedFunction":
                name = ".".join(str(part) for part in each(node.name()))
                if name.lower() not in _TABLE_FUNCTIONS:
                    raise RefusedTextError(f"the table function {name} may read anything")
            case "ScriptTransformation":
                raise RefusedTextError("TRANSFORM runs a program")
            case _:
                if kind not in _QUERY_NODES:
                    raise RefusedTextError(f"it contains more than a query ({kind})")

    def _check_calls(self, plan: JavaObject) -> None:
        """Refuse calls that read files during Spark's analysis, or compute a function's name."""
        patterns = self.catalyst.trees.TreePattern
        for kind in (patterns.UNRESOLVED_FUNCTION(), patterns.UNRESOLVED_IDENTIFIER()):
            for expression in holding(plan, kind):
                self._check_call(expression)

    def _check_call(self, call: JavaObject) -> None:
        match kind_of(call):
            case "ExpressionWithUnresolvedIdentifier" if len(each(call.children())) > 1:
                raise RefusedTextError("IDENTIFIER(...) may be the name of any function")
            case "UnresolvedFunction":
                name = str(each(call.nameParts())[-1]).lower()
                if name in _OF_CLASSES:
                    raise RefusedTextError(f"{name} reads files and classes of the driver")
                if name in _WITH_OPTIONS:
                    for position, argument in enumerate(each(call.arguments())):
                        _check_options(name, argument, position)
            case _:
                pass

    def _check_relation(self, name: list[str]) -> None:
        """Refuse `format.path`: if no such table exists, Spark reads files at that path."""
        if len(name) != 2:  # noqa: PLR2004 - database and table, or format and path
            return
        quoted = ".".join("`" + part.replace("`", "``") + "`" for part in name)
        catalog = self.spark._jsparkSession.catalog()  # noqa: SLF001 - as above
        try:
            is_there = catalog.tableExists(quoted)
        except (PySparkException, Py4JJavaError):
            is_there = False  # no catalog accepts this name
        if not is_there:
            raise RefusedTextError(
                f"{quoted} is not a table that Spark knows; Spark would read files of the format"
                f" {name[0]} at {name[1]}"
            )

    def _with_large_numbers(self, plan: JavaObject) -> JavaObject:
        """Return the plan with each decimal literal beyond bigint replaced by a cast.

        For an integer n, Spark's analyser replaces `n < 99999999999999999999` with true, even for
        NULL (DecimalPrecision). If the literal is inside a cast, the analyser keeps the comparison.
        """
        changes = self.jvm.java.util.HashMap()
        for literal in holding(plan, self.catalyst.trees.TreePattern.LITERAL()):
            cast = self._cast_of(literal)
            if cast is not None:
                changes.put(literal, cast)
        return plan.transformAllExpressionsWithSubqueries(self.jvm.PythonUtils.toScalaMap(changes))

    def _cast_of(self, node: JavaObject) -> JavaObject | None:
        """Return a cast that replaces a decimal literal beyond bigint; None for other nodes."""
        if kind_of(node) != "Literal" or not node.dataType().typeName().startswith("decimal"):
            return None
        number = node.value().toString()
        if -_LARGEST_BIGINT <= Decimal(number) <= _LARGEST_BIGINT:  # abs() would round
            return None
        text = f"CAST('{number}' AS {node.dataType().sql()})"
        cast = _parser(self.spark, self.jvm).parseExpression(text)
        # A column's name includes casts with the tag of a user's cast: remove the tag.
        cast.unsetTagValue(self.catalyst.expressions.Cast.USER_SPECIFIED_CAST())
        return cast

    def _bound(self, plan: JavaObject) -> JavaObject:
        plan = self._with_lists(plan)
        literals = self.jvm.java.util.HashMap()
        marker = self.catalyst.analysis.NamedParameter
        for name, parameter in self.terms.parameters.items():
            if not parameter.is_list:
                literals.put(marker(name), self._literal(parameter.values[0]))
        # Spark transforms its trees with a partial function, and a Scala map is a partial function.
        function = self.jvm.PythonUtils.toScalaMap(literals)
        bound = plan.transformAllExpressionsWithSubqueries(function)
        if bound.containsPattern(self.markers):
            raise UnboundParameterError(self._unbound(bound))
        return bound

    def _with_lists(self, plan: JavaObject) -> JavaObject:
        if not any(parameter.is_list for parameter in self.terms.parameters.values()):
            return plan
        changes = self.jvm.java.util.HashMap()
        for node in holding(plan, self.markers):
            if kind_of(node) == "In":
                changes.put(node, self.catalyst.expressions.In(node.value(), self._listed(node)))
        return plan.transformAllExpressionsWithSubqueries(self.jvm.PythonUtils.toScalaMap(changes))

    def _listed(self, node: JavaObject) -> JavaObject:
        entries = self.jvm.java.util.ArrayList()
        for entry in each(node.list()):
            name = str(entry.name()) if kind_of(entry) == "NamedParameter" else ""
            parameter = self.terms.parameters.get(name)
            if parameter is not None and parameter.is_list:
                for value in parameter.values:
                    entries.add(self._literal(value))
            else:
                entries.add(entry)
        return self.jvm.PythonUtils.toSeq(entries)

    def _unbound(self, plan: JavaObject) -> str:
        for node in holding(plan, self.markers):
            if kind_of(node) == "NamedParameter":
                name = str(node.name())
                if name in self.terms.parameters:
                    return f":{name} is a list, and a list is allowed only in IN (:{name})"
                return f"parameters contain no value for :{name}"
        return "only markers of the form :name can be bound; write :name for each value"

    def _literal(self, value: Value) -> JavaObject:
        literals = module(self.catalyst.expressions, "Literal")
        literal = literals.apply(self._java(value))
        if value.type not in {ValueType.INT, ValueType.DECIMAL}:
            return literal
        cast = self._cast_of(literal) if _may_exceed_bigint(value.text) else None
        return literal if cast is None else cast

    def _java(self, value: Value) -> Any:  # noqa: ANN401, C901, PLR0911 - any value that py4j takes
        java, text = self.jvm.java, value.text
        match value.type:
            case ValueType.NULL:
                return None
            case ValueType.STRING:
                return text
            case ValueType.INT if -(2**63) <= int(text) < 2**63:
                return int(text)  # the literal is an int or a bigint, depending on its size
            case ValueType.INT | ValueType.DECIMAL:
                return java.math.BigDecimal(text)
            case ValueType.DOUBLE:
                return float(text)
            case ValueType.BOOLEAN:
                return text == "true"
            case ValueType.DATE:
                return java.time.LocalDate.parse(text)
            case ValueType.TIMESTAMP:
                return java.time.LocalDateTime.parse(text.replace(" ", "T"))
            case ValueType.MOMENT:
                return java.time.Instant.parse(text.replace(" ", "T"))
