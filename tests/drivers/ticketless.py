"""Python workers without the tickets of the JVM beside them, as in a pod that has none."""

from __future__ import annotations

import os

from pyspark.daemon import manager

if __name__ == "__main__":
    os.environ["KRB5CCNAME"] = "FILE:/nowhere/cache"
    manager()
