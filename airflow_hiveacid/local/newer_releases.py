"""What servers of Hive 4.1 and 4.2 need beside hive-exec, which contains them.

Since 4.1, Maven Central has neither the standalone server nor an archive with its schema scripts.
The output is the names of libraries, and the statements that change the schema of 4.0.0.

Statistics of columns no longer repeat the names of their table: a table's ID is enough. From 4.2
on, a catalog has parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LIBRARIES: Final = (
    "com.cronutils:cron-utils",
    "com.fasterxml.jackson.core:jackson-databind",
    "com.github.ben-manes.caffeine:caffeine",
    "com.google.guava:guava",
    "com.google.protobuf:protobuf-java",
    "com.nimbusds:nimbus-jose-jwt:9.37.4",
    "com.zaxxer:HikariCP",
    "commons-beanutils:commons-beanutils:1.9.4",
    "commons-logging:commons-logging:1.2",
    "io.dropwizard.metrics:metrics-core",
    "io.dropwizard.metrics:metrics-json",
    "io.dropwizard.metrics:metrics-jvm",
    "javolution:javolution",
    "jline:jline:2.14.6",
    "org.antlr:antlr4-runtime",
    "org.apache.commons:commons-collections4:4.4",
    "org.apache.commons:commons-dbcp2",
    "org.apache.commons:commons-lang3",
    "org.apache.curator:curator-framework:${curator.version}",
    "org.apache.curator:curator-recipes:${curator.version}",
    "org.apache.datasketches:datasketches-hive",
    "org.apache.derby:derby",
    "org.apache.httpcomponents:httpclient:4.5.13",
    "org.apache.logging.log4j:log4j-1.2-api",
    "org.apache.logging.log4j:log4j-core:${log4j2.version}",
    "org.apache.logging.log4j:log4j-slf4j-impl",
    "org.apache.thrift:libfb303",
    "org.apache.thrift:libthrift",
    "org.apache.zookeeper:zookeeper:${zookeeper.version}",
    "org.datanucleus:datanucleus-api-jdo",
    "org.datanucleus:datanucleus-core",
    "org.datanucleus:datanucleus-rdbms",
    "org.datanucleus:javax.jdo",
    "org.eclipse.jetty:jetty-server",
    "org.eclipse.jetty:jetty-servlet",
    "org.eclipse.jetty:jetty-util",
    "org.jline:jline:3.25.0",
    "org.pac4j:pac4j-core:${pac4j-core.version}",
    "org.springframework:spring-core",
    "org.springframework:spring-jdbc",
    "sqlline:sqlline",
)
"""Group, name and version; the release's parent pom manages versions that are missing here."""


_NAMES: Final = {
    "TAB_COL_STATS": ("CAT_NAME", "DB_NAME", "TABLE_NAME"),
    "PART_COL_STATS": ("CAT_NAME", "DB_NAME", "TABLE_NAME", "PARTITION_NAME"),
}


def _without_names(schema: str) -> tuple[str, ...]:
    return tuple(
        f'ALTER TABLE {schema}"{table}" DROP COLUMN "{column}"'
        for table, columns in _NAMES.items()
        for column in columns
    )


_DERBY_4_1: Final = (
    'DROP INDEX "APP"."TAB_COL_STATS_IDX"',
    'DROP INDEX "APP"."PCS_STATS_IDX"',
    'CREATE INDEX "APP"."TAB_COL_STATS_IDX" ON "APP"."TAB_COL_STATS" ("TBL_ID", "COLUMN_NAME")',
    'CREATE INDEX "APP"."PCS_STATS_IDX" ON "APP"."PART_COL_STATS" ("PART_ID", "COLUMN_NAME")',
    *_without_names('"APP".'),
)
_POSTGRES_4_1: Final = (
    'DROP INDEX "TAB_COL_STATS_IDX"',
    'DROP INDEX "TAB_COL_STATS_N49"',
    'DROP INDEX "PCS_STATS_IDX"',
    'DROP INDEX "PART_COL_STATS_N49"',
    'CREATE INDEX "TAB_COL_STATS_IDX" ON "TAB_COL_STATS" ("TBL_ID", "COLUMN_NAME")',
    'CREATE INDEX "PCS_STATS_IDX" ON "PART_COL_STATS" ("PART_ID", "COLUMN_NAME")',
    *_without_names(""),
    'ALTER TABLE "TBLS" DROP CONSTRAINT "UNIQUETABLE"',
    'ALTER TABLE "TBLS" ADD CONSTRAINT "UNIQUETABLE" UNIQUE ("DB_ID", "TBL_NAME")',
    'DROP INDEX "TBLS_N49"',
    'CREATE UNIQUE INDEX "TXN_STATE_IDX" ON "TXNS" ("TXN_STATE", "TXN_ID")',
)


def _catalog_parameters(schema: str) -> str:
    return (
        f'CREATE TABLE {schema}"CATALOG_PARAMS" ("CTLG_ID" BIGINT NOT NULL,'
        ' "PARAM_KEY" VARCHAR(180) NOT NULL, "PARAM_VALUE" VARCHAR(4000),'
        ' PRIMARY KEY ("CTLG_ID", "PARAM_KEY"))'
    )


SCHEMA_OF_4_1: Final[Mapping[str, tuple[str, ...]]] = {
    "derby": _DERBY_4_1,
    "postgres": _POSTGRES_4_1,
}
SCHEMA_OF_4_2: Final[Mapping[str, tuple[str, ...]]] = {
    "derby": (*_DERBY_4_1, _catalog_parameters('"APP".')),
    "postgres": (*_POSTGRES_4_1, _catalog_parameters("")),
}


def newer_script(script: str, version: str, statements: tuple[str, ...]) -> str:
    """Return the schema script of a release, given the script of 4.0.0."""
    lines = "".join(f"{statement};\n" for statement in statements)
    return f"{script.replace('4.0.0', version)}\n{lines}"
