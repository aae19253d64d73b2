"""The current time of a plan, fixed to one moment.

Spark computes it for each query, and a statement has several.
"""

from __future__ import annotations

from typing import Final

from py4j.java_gateway import JavaObject

from airflow_hiveacid.spark.engine.java_names import JavaNames, each, holding, module

_DIGITS_OF_NANOSECONDS: Final = 9


def fixed(jvm: JavaNames, plan: JavaObject, instant: JavaObject) -> JavaObject:
    """Return an analysed plan whose calls of the current time are literals of an instant.

    Spark marks these calls, and those of the current user, database and time zone, which stay.
    """
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    current = patterns.CURRENT_LIKE()
    if not plan.containsPattern(current):
        return plan
    queries = patterns.PLAN_EXPRESSION()
    literals = jvm.java.util.HashMap()
    for call in holding(plan, current):
        is_outer = any(child.containsPattern(current) for child in each(call.children()))
        if not is_outer and not call.containsPattern(queries):
            literal = _literal(jvm, call, instant)
            if literal is not None:
                literals.put(call, literal)
    # Spark transforms its trees with a partial function, and a Scala map is a partial function.
    function = jvm.PythonUtils.toScalaMap(literals)
    return plan.transformAllExpressionsWithSubqueries(function)


def _literal(jvm: JavaNames, call: JavaObject, instant: JavaObject) -> JavaObject | None:
    """Return what a call returns at an instant; None for a call that returns no time."""
    literals = module(jvm.org.apache.spark.sql.catalyst.expressions, "Literal")
    type_ = call.dataType()
    kind = str(type_.typeName()).partition("(")[0]
    if kind == "timestamp":
        return literals.apply(instant)
    if kind not in {"date", "timestamp_ntz", "time"}:
        return None
    local = jvm.java.time.LocalDateTime.ofInstant(instant, call.zoneId())
    match kind:
        case "date":
            return literals.apply(local.toLocalDate())
        case "timestamp_ntz":
            return literals.apply(local)
        case _:  # Spark 4.1 and later
            nanos = local.toLocalTime().toNanoOfDay()
            unit = 10 ** (_DIGITS_OF_NANOSECONDS - type_.precision())
            time = jvm.java.time.LocalTime.ofNanoOfDay(nanos - nanos % unit)
            return literals.create(time, type_)
