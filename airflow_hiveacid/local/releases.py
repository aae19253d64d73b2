"""The supported releases of the Hive metastore, and their differences.

All versions of Hive, Hadoop, the JDBC driver and the Maven plugin are in this module.

Since 4.1, Maven Central has neither the standalone server nor an archive with its schema scripts.
So this module lists the server's libraries, and the statements that change the schema of 4.0.0:
column statistics no longer repeat the names of their table, because its ID is enough, and in 4.2 a
catalog has parameters.

Example:
    >>> HiveRelease.of("4.0.1").artifact
    'hive-standalone-metastore-server'
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from xml.sax.saxutils import escape

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


HADOOP_VERSION: Final = "3.3.6"
HADOOP_OF_4_1: Final = "3.4.1"
POSTGRESQL_DRIVER_VERSION: Final = "42.7.8"
DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0"

# Java 17 forbids reflection on these packages by default. Metastores of both releases need
# reflection for Kryo. Kryo decodes partition filters of Hive queries. The 3.1 server also needs
# reflection for DataNucleus.
_OPEN_PACKAGES: Final = (
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveRelease:
    """One release of the standalone metastore.

    Attributes:
        version: The version as on Maven Central.
        artifact: The artifact name of the server and of the archive with the schema scripts.
        schema_tool: Main class that creates the schema.
        jvm_flags: Flags that this release needs on Java 17 and newer.
        java: The oldest and the newest version of Java that run the server.
        reaper_in_always_tasks: True for 3.1. The task that aborts timed-out transactions must then
            be added to the tasks that always run. In 4.x, the housekeeping setting starts this
            task.
        listeners: Artifacts with listeners that settings can register. Maven Central has none for
            4.x.
        newer_schema: The statements that make this release's schema of that of 4.0.0, by the
            database's name in Hive. Since 4.1, Maven Central has no archive with schema scripts,
            and the server is only part of hive-exec.
    """

    version: str
    artifact: str
    schema_tool: str
    jvm_flags: tuple[str, ...]
    java: tuple[int, int]
    reaper_in_always_tasks: bool = False
    listeners: tuple[str, ...] = ()
    newer_schema: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, version: str) -> HiveRelease:
        """Return the release with this version; raise a ValueError if it is not supported."""
        for release in RELEASES:
            if release.version == version:
                return release
        versions = ", ".join(release.version for release in RELEASES)
        raise ValueError(f"Hive {version} cannot be started here; known releases: {versions}")


HIVE_4: Final = HiveRelease(
    version="4.0.1",
    artifact="hive-standalone-metastore-server",
    schema_tool="org.apache.hadoop.hive.metastore.tools.schematool.MetastoreSchemaTool",
    jvm_flags=_OPEN_PACKAGES,
    java=(11, 23),
)
HIVE_4_1: Final = replace(HIVE_4, version="4.1.0", java=(17, 23), newer_schema=SCHEMA_OF_4_1)
HIVE_4_2: Final = replace(HIVE_4, version="4.2.0", java=(21, 23), newer_schema=SCHEMA_OF_4_2)
HIVE_3: Final = HiveRelease(
    version="3.1.3",
    artifact="hive-standalone-metastore",
    schema_tool="org.apache.hadoop.hive.metastore.tools.MetastoreSchemaTool",
    jvm_flags=_OPEN_PACKAGES,
    java=(11, 23),
    reaper_in_always_tasks=True,
    listeners=("hive-hcatalog-server-extensions",),
)
HIVE_3_1_2: Final = replace(HIVE_3, version="3.1.2")
RELEASES: Final = (HIVE_4, HIVE_3, HIVE_4_2, HIVE_4_1, HIVE_3_1_2)

RELEASES_VARIABLE: Final = "HIVEACID_METASTORES"


def release_for_tests(default: HiveRelease) -> HiveRelease:
    """Return $HIVEACID_METASTORES's release of the default's major version, or the default."""
    versions = os.environ.get(RELEASES_VARIABLE, "").replace(",", " ").split()
    releases = [HiveRelease.of(version) for version in versions]
    major = default.version[:2]
    return next((release for release in releases if release.version.startswith(major)), default)


def _dependency(coordinates: str, *exclusions: str) -> str:
    """Return a dependency as XML; without a version, the parent pom's applies."""
    group, name, *version = coordinates.split(":")
    lines = [
        "    <dependency>",
        f"      <groupId>{escape(group)}</groupId>",
        f"      <artifactId>{escape(name)}</artifactId>",
        *(f"      <version>{number}</version>" for number in version),
    ]
    if exclusions:
        lines.append("      <exclusions>")
        for group, name in (exclusion.split(":") for exclusion in exclusions):
            ids = f"<groupId>{group}</groupId><artifactId>{name}</artifactId>"
            lines.append(f"        <exclusion>{ids}</exclusion>")
        lines.append("      </exclusions>")
    return "\n".join((*lines, "    </dependency>"))


_EVERYTHING: Final = "*:*"
_OTHER_BACKENDS: Final = ("org.apache.hadoop:*", "org.slf4j:slf4j-log4j12", "log4j:log4j")


def _dependencies(release: HiveRelease) -> Iterator[str]:
    hive, version = "org.apache.hive", release.version
    hadoop_version = HADOOP_OF_4_1 if release.newer_schema else HADOOP_VERSION
    # The shaded Hadoop client replaces Hadoop's jars. Only one logging backend is needed.
    if release.newer_schema:
        yield _dependency(f"{hive}:hive-standalone-metastore-common:{version}", *_OTHER_BACKENDS)
        for library in LIBRARIES:
            yield _dependency(library, *_OTHER_BACKENDS, "ch.qos.logback:*")
    else:
        yield _dependency(f"{hive}:{release.artifact}:{version}", *_OTHER_BACKENDS)
    # This jar contains ORC's SerDe and input format. To validate full-ACID DDL, the server needs
    # both the SerDe and the input format. The jar also contains the compaction threads.
    yield _dependency(f"{hive}:hive-exec:{version}", _EVERYTHING)
    yield _dependency(f"org.apache.hadoop:hadoop-client-api:{hadoop_version}")
    yield _dependency(f"org.apache.hadoop:hadoop-client-runtime:{hadoop_version}")
    # Warehouse.mkdirs refers to an exception class in this jar.
    yield _dependency(f"org.apache.hadoop:hadoop-hdfs:{hadoop_version}", _EVERYTHING)
    yield _dependency("commons-cli:commons-cli:1.5.0")
    yield _dependency("commons-io:commons-io:2.14.0")
    yield _dependency("commons-collections:commons-collections:3.2.2")
    # Hive's function registry refers to this jar. Partition filters of queries use the registry.
    yield _dependency("org.apache.commons:commons-math3:3.6.1", _EVERYTHING)
    for name in release.listeners:
        yield _dependency(f"{hive}.hcatalog:{name}:{version}", _EVERYTHING)
    yield _dependency(f"org.postgresql:postgresql:{POSTGRESQL_DRIVER_VERSION}")


def pom(release: HiveRelease) -> str:
    """Return the pom of a Maven project whose class path is the server's jars."""
    parent = ""
    if release.newer_schema:
        parent = f"""
  <parent>
    <groupId>org.apache.hive</groupId>
    <artifactId>hive-standalone-metastore</artifactId>
    <version>{release.version}</version>
    <relativePath/>
  </parent>"""
    return project("metastore", release.version, "\n".join(_dependencies(release)), parent)


def project(name: str, version: str, dependencies: str, parent: str = "") -> str:
    """Return the pom of a Maven project of ours with these dependencies, as XML."""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>{parent}
  <groupId>airflow-hiveacid.local</groupId>
  <artifactId>{name}</artifactId>
  <version>{version}</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


def scripts_coordinates(release: HiveRelease) -> str:
    """Return the Maven coordinates of the archive with the schema scripts."""
    version = HIVE_4.version if release.newer_schema else release.version
    return f"org.apache.hive:{release.artifact}:{version}:tar.gz:bin"
