"""The supported releases of the Hive metastore, and their differences.

All versions of Hive, Hadoop, the JDBC driver and the Maven plugin are in this module. Output is
`HiveRelease` values, and the pom for a release.

Example:
    >>> HiveRelease.of("4.0.1").artifact
    'hive-standalone-metastore-server'
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from xml.sax.saxutils import escape

from airflow_hiveacid.local.newer_releases import LIBRARIES, SCHEMA_OF_4_1, SCHEMA_OF_4_2

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
        """Return the release with this version.

        Raises:
            ValueError: This package does not support the version.
        """
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
"""The environment variable that names the releases of test servers, such as `4.2.0,3.1.2`."""


def release_for_tests(default: HiveRelease) -> HiveRelease:
    """Return the release of $HIVEACID_METASTORES with the default's major version, or the default.

    Raises:
        ValueError: This package does not support a version in the variable.
    """
    versions = os.environ.get(RELEASES_VARIABLE, "").replace(",", " ").split()
    releases = [HiveRelease.of(version) for version in versions]
    major = default.version[:2]
    return next((release for release in releases if release.version.startswith(major)), default)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Artifact:
    group: str
    name: str
    version: str | None = None  # None: the parent's
    exclusions: tuple[tuple[str, str], ...] = ()

    def to_xml(self) -> str:
        lines = [
            "    <dependency>",
            f"      <groupId>{escape(self.group)}</groupId>",
            f"      <artifactId>{escape(self.name)}</artifactId>",
            *([] if self.version is None else [f"      <version>{self.version}</version>"]),
        ]
        if self.exclusions:
            lines.append("      <exclusions>")
            lines += [
                f"        <exclusion><groupId>{group}</groupId>"
                f"<artifactId>{name}</artifactId></exclusion>"
                for group, name in self.exclusions
            ]
            lines.append("      </exclusions>")
        lines.append("    </dependency>")
        return "\n".join(lines)


_NOTHING_BELOW: Final = (("*", "*"),)
_OTHER_BACKENDS: Final = (
    ("org.apache.hadoop", "*"),
    ("org.slf4j", "slf4j-log4j12"),
    ("log4j", "log4j"),
)


def _artifacts(release: HiveRelease) -> tuple[_Artifact, ...]:
    hive, hadoop = "org.apache.hive", "org.apache.hadoop"
    listeners = (
        _Artifact(
            group=f"{hive}.hcatalog", name=name, version=release.version, exclusions=_NOTHING_BELOW
        )
        for name in release.listeners
    )
    hadoop_version = HADOOP_OF_4_1 if release.newer_schema else HADOOP_VERSION
    return (
        *(_in_engine(release) if release.newer_schema else _standalone(release)),
        # This jar contains ORC's SerDe and input format. To validate full-ACID DDL, the server
        # needs both the SerDe and the input format. The jar also contains the compaction threads.
        _Artifact(group=hive, name="hive-exec", version=release.version, exclusions=_NOTHING_BELOW),
        _Artifact(group=hadoop, name="hadoop-client-api", version=hadoop_version),
        _Artifact(group=hadoop, name="hadoop-client-runtime", version=hadoop_version),
        # Warehouse.mkdirs refers to an exception class in this jar.
        _Artifact(
            group=hadoop, name="hadoop-hdfs", version=hadoop_version, exclusions=_NOTHING_BELOW
        ),
        _Artifact(group="commons-cli", name="commons-cli", version="1.5.0"),
        _Artifact(group="commons-io", name="commons-io", version="2.14.0"),
        _Artifact(group="commons-collections", name="commons-collections", version="3.2.2"),
        # Hive's function registry refers to this jar. Partition filters of queries use the
        # registry.
        _Artifact(
            group="org.apache.commons",
            name="commons-math3",
            version="3.6.1",
            exclusions=_NOTHING_BELOW,
        ),
        *listeners,
        _Artifact(group="org.postgresql", name="postgresql", version=POSTGRESQL_DRIVER_VERSION),
    )


def _standalone(release: HiveRelease) -> tuple[_Artifact, ...]:
    return (
        _Artifact(
            group="org.apache.hive",
            name=release.artifact,
            version=release.version,
            # The shaded Hadoop client replaces Hadoop's jars. Only one logging backend is needed.
            exclusions=_OTHER_BACKENDS,
        ),
    )


def _in_engine(release: HiveRelease) -> tuple[_Artifact, ...]:
    """Return the libraries of a server that Maven Central has only inside of hive-exec.

    The parent pom of the release manages the versions that are not named here.
    """
    common = _Artifact(
        group="org.apache.hive",
        name="hive-standalone-metastore-common",
        version=release.version,
        exclusions=_OTHER_BACKENDS,
    )
    libraries = (line.split(":") for line in LIBRARIES)
    return (
        common,
        *(
            _Artifact(
                group=group,
                name=name,
                version=version[0] if version else None,
                exclusions=(*_OTHER_BACKENDS, ("ch.qos.logback", "*")),
            )
            for group, name, *version in libraries
        ),
    )


def pom(release: HiveRelease) -> str:
    """Return the pom of a Maven project whose class path is the server's jars."""
    dependencies = "\n".join(artifact.to_xml() for artifact in _artifacts(release))
    parent = (
        ""
        if not release.newer_schema
        else f"""
  <parent>
    <groupId>org.apache.hive</groupId>
    <artifactId>hive-standalone-metastore</artifactId>
    <version>{release.version}</version>
    <relativePath/>
  </parent>"""
    )
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>{parent}
  <groupId>airflow-hiveacid.local</groupId>
  <artifactId>metastore</artifactId>
  <version>{release.version}</version>
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
