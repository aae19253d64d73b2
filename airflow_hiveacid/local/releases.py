"""The supported releases of the Hive metastore, and their differences.

All versions of Hive, Hadoop, the JDBC driver and the Maven plugin are in this module. Output is
`HiveRelease` values, and the pom for a release.

Example:
    >>> HiveRelease.of("4.0.1").artifact
    'hive-standalone-metastore-server'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

HADOOP_VERSION: Final = "3.3.6"
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
        jvm_flags: Flags that this release needs on Java 17.
        reaper_in_always_tasks: True for 3.1. The task that aborts timed-out transactions must then
            be added to the tasks that always run. In 4.x, the housekeeping setting starts this
            task.
        listeners: Artifacts with listeners that settings can register. Maven Central has none for
            4.x.
    """

    version: str
    artifact: str
    schema_tool: str
    jvm_flags: tuple[str, ...]
    reaper_in_always_tasks: bool
    listeners: tuple[str, ...] = ()

    @classmethod
    def of(cls, version: str) -> HiveRelease:
        """Return the release with this version.

        Raises:
            ValueError: This package does not support the version.
        """
        for release in RELEASES:
            if release.version == version:
                return release
        known = ", ".join(release.version for release in RELEASES)
        raise ValueError(f"Hive {version} cannot be started here; known releases: {known}")


HIVE_4: Final = HiveRelease(
    version="4.0.1",
    artifact="hive-standalone-metastore-server",
    schema_tool="org.apache.hadoop.hive.metastore.tools.schematool.MetastoreSchemaTool",
    jvm_flags=_OPEN_PACKAGES,
    reaper_in_always_tasks=False,
)
HIVE_3: Final = HiveRelease(
    version="3.1.3",
    artifact="hive-standalone-metastore",
    schema_tool="org.apache.hadoop.hive.metastore.tools.MetastoreSchemaTool",
    jvm_flags=_OPEN_PACKAGES,
    reaper_in_always_tasks=True,
    listeners=("hive-hcatalog-server-extensions",),
)
RELEASES: Final = (HIVE_4, HIVE_3)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Artifact:
    group: str
    name: str
    version: str
    exclusions: tuple[tuple[str, str], ...] = ()

    def to_xml(self) -> str:
        lines = [
            "    <dependency>",
            f"      <groupId>{escape(self.group)}</groupId>",
            f"      <artifactId>{escape(self.name)}</artifactId>",
            f"      <version>{escape(self.version)}</version>",
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


def _artifacts(release: HiveRelease) -> tuple[_Artifact, ...]:
    hive, hadoop = "org.apache.hive", "org.apache.hadoop"
    listeners = (
        _Artifact(
            group=f"{hive}.hcatalog", name=name, version=release.version, exclusions=_NOTHING_BELOW
        )
        for name in release.listeners
    )
    return (
        _Artifact(
            group=hive,
            name=release.artifact,
            version=release.version,
            # The shaded Hadoop client replaces Hadoop's jars. Only one logging backend is needed.
            exclusions=((hadoop, "*"), ("org.slf4j", "slf4j-log4j12"), ("log4j", "log4j")),
        ),
        # This jar contains ORC's SerDe and input format. To validate full-ACID DDL, the server
        # needs both the SerDe and the input format. The jar also contains the compaction threads.
        _Artifact(group=hive, name="hive-exec", version=release.version, exclusions=_NOTHING_BELOW),
        _Artifact(group=hadoop, name="hadoop-client-api", version=HADOOP_VERSION),
        _Artifact(group=hadoop, name="hadoop-client-runtime", version=HADOOP_VERSION),
        # Warehouse.mkdirs refers to an exception class in this jar.
        _Artifact(
            group=hadoop, name="hadoop-hdfs", version=HADOOP_VERSION, exclusions=_NOTHING_BELOW
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


def pom(release: HiveRelease) -> str:
    """Return the pom of a Maven project whose class path is the server's jars."""
    dependencies = "\n".join(artifact.to_xml() for artifact in _artifacts(release))
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
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
    return f"org.apache.hive:{release.artifact}:{release.version}:tar.gz:bin"
