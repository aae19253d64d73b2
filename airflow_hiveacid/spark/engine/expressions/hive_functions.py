"""Registration of SQL functions of Hive's own classes (`plan.statements.hive_functions`).

A separate Spark catalog, which shares the session's function registry, registers them without
Hive's catalog. The classes are in Spark's jars hive-exec and spark-hive, on executors, too.
"""

from __future__ import annotations

import logging

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession

from airflow_hiveacid.plan.statements.hive_functions import CLASSES, called
from airflow_hiveacid.spark.engine.java_names import UnknownJavaCallError, jvm_of, unknown_calls

log = logging.getLogger("hiveacid")


def give_hive_functions(spark: SparkSession) -> None:
    """Register Hive's functions under our names, if Spark has its Hive module of this release."""
    try:
        _register(spark)
    except UnknownJavaCallError as error:
        log.warning(
            "%s: statements that call Hive's own functions, such as add_months, will fail", error
        )


@unknown_calls()
def _register(spark: SparkSession) -> None:
    jvm = jvm_of(spark)
    sql = jvm.org.apache.spark.sql
    if not isinstance(sql.hive.HiveUDFExpressionBuilder, JavaClass):
        raise UnknownJavaCallError("Spark's Hive module (spark-hive, hive-exec) is missing")
    maker = getattr(getattr(sql.hive, "HiveUDFExpressionBuilder$"), "MODULE$")
    none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
    no_files = jvm.PythonUtils.toSeq([])
    state = spark._jsparkSession.sessionState()  # noqa: SLF001 - there is no public way
    # This catalog only registers functions, so it needs no tables, files or parser.
    catalog = sql.catalyst.catalog.SessionCatalog(
        None,
        None,
        state.functionRegistry(),
        state.tableFunctionRegistry(),
        None,
        None,
        None,
        maker,
        0,
        0,
        "default",
    )
    for name, class_name in CLASSES.items():
        identifier = sql.catalyst.FunctionIdentifier(called(name))
        function = sql.catalyst.catalog.CatalogFunction(identifier, class_name, no_files)
        catalog.registerFunction(function, True, none)  # noqa: FBT003 - py4j has no keywords
