"""The jars that Hadoop needs to access S3 (S3A), fetched with Maven.

Metastore and Spark use different Hadoop versions, and these versions need different jars. AWS's
bundles are large (641 MB for Spark). So this module fetches only the modules that S3A uses (11 and
13 MB).

Example:
    >>> "aws-java-sdk-bundle" in METASTORE_S3A.pom
    True
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_hiveacid.local.metastore.distribution import cache_dir, fetch_class_path
from airflow_hiveacid.local.process import Progress, log_progress
from airflow_hiveacid.local.releases import HADOOP_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class S3aJars:
    """The S3A jars for one Hadoop version.

    Attributes:
        group: The Maven group of AWS's modules.
        bundle: AWS's jar with all modules. It is excluded.
        version: The version of AWS's modules with which this Hadoop version was built.
        left_to_host: Substrings of jar paths. Jars with such paths are excluded, because the host
            program brings its own versions of these jars.
    """

    hadoop: str
    group: str
    bundle: str
    modules: tuple[str, ...]
    version: str
    left_to_host: tuple[str, ...] = ()

    @property
    def pom(self) -> str:
        """The pom of a Maven project whose class path is these jars."""
        modules = "\n".join(
            f"    <dependency><groupId>{self.group}</groupId><artifactId>{name}</artifactId>"
            f"<version>{self.version}</version></dependency>"
            for name in self.modules
        )
        return f"""<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>airflow-hiveacid.local</groupId>
  <artifactId>s3a</artifactId>
  <version>{self.hadoop}</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-aws</artifactId>
      <version>{self.hadoop}</version>
      <exclusions>
        <exclusion><groupId>org.apache.hadoop</groupId><artifactId>*</artifactId></exclusion>
        <exclusion><groupId>{self.group}</groupId><artifactId>{self.bundle}</artifactId></exclusion>
      </exclusions>
    </dependency>
{modules}
  </dependencies>
</project>
"""

    def fetch(
        self, *, cache: Path | None = None, progress: Progress = log_progress
    ) -> tuple[Path, ...]:
        """Return the jars; download missing jars, as `fetch_class_path` does."""
        digest = hashlib.sha256(self.pom.encode()).hexdigest()[:12]
        folder = (cache or cache_dir()) / f"s3a-{self.hadoop}-{digest}"
        jar_names = f"the S3A jars of Hadoop {self.hadoop}"
        jars = fetch_class_path(folder, self.pom, jar_names, progress=progress)
        return tuple(j for j in jars if not any(part in str(j) for part in self.left_to_host))


METASTORE_S3A: Final = S3aJars(
    hadoop=HADOOP_VERSION,
    group="com.amazonaws",
    bundle="aws-java-sdk-bundle",
    # The third module of the list is needed, because S3A refers to one of its classes.
    modules=("aws-java-sdk-s3", "aws-java-sdk-sts", "aws-java-sdk-dynamodb"),
    version="1.12.367",
)
SPARK_S3A: Final = S3aJars(
    hadoop="3.4.2",
    group="software.amazon.awssdk",
    bundle="bundle",
    modules=("s3", "s3-transfer-manager", "sts"),
    version="2.29.52",
    # Spark would load this netty instead of its own, but this netty lacks methods.
    left_to_host=("/io/netty/", "/slf4j/", "commons-logging", "commons-codec", "/httpcomponents/"),
)
