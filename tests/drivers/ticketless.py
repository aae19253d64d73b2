"""Python workers without the tokens of the JVM beside them, as in a pod of Kubernetes."""

from __future__ import annotations

import os

from pyspark.daemon import manager

if __name__ == "__main__":
    del os.environ["HADOOP_TOKEN_FILE_LOCATION"]
    manager()
