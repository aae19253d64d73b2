"""The command of the supported versions.

    python -m tests.proofs.versions [PART ...] [--only VERSION ...] --uv UV --tests FILE [FILE ...]
        --spark-tests FILE [FILE ...]

A part is `airflow`, `metastore` or `pyspark` (default: all). Each version of Airflow is installed
in build/versions, and this provider is tried there. Each metastore is started, and its tests run.
Each PySpark is installed in build, and runs Spark's tests; `4.3.0/25/local` is one of its runs. The
status is 1 if something failed. Without --only, the tables of the page of versions are written;
that of PySpark always, since its results are kept.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.proofs.programs import clocked, refuse_unknown
from tests.proofs.versions import airflow_releases, metastores, pysparks

_PARTS = ("airflow", "metastore", "pyspark")


def main(argv: Sequence[str] | None = None) -> int:
    """Try versions and return the exit status."""
    known = (*airflow_releases.RELEASES, *metastores.VERSIONS, *pysparks.NAMES)
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.versions")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(_PARTS))
    parser.add_argument(
        "--only", nargs="+", metavar="VERSION", default=known, help=", ".join(known)
    )
    parser.add_argument("--uv", required=True, help="the program uv")
    parser.add_argument("--tests", nargs="+", required=True, metavar="FILE", help="of Airflow")
    parser.add_argument("--spark-tests", nargs="+", required=True, metavar="FILE", help="a sample")
    asked = parser.parse_args(argv)
    refuse_unknown(parser, "part", asked.parts, _PARTS)
    refuse_unknown(parser, "version", asked.only, known)
    say = clocked()
    parts, is_whole = asked.parts or _PARTS, asked.only is known
    is_good = True
    if "airflow" in parts:
        releases = [
            airflow_releases.tried(version, uv=asked.uv, tests=asked.tests, say=say)
            for version in airflow_releases.RELEASES
            if version in asked.only
        ]
        is_good &= all(release.is_good for release in releases)
        if is_whole:
            airflow_releases.write(releases)
    if "metastore" in parts:
        servers = [metastores.tried(v, say) for v in metastores.VERSIONS if v in asked.only]
        is_good &= all(server.is_good for server in servers)
        if is_whole:
            metastores.write(servers)
    if "pyspark" in parts:
        for cell in pysparks.CELLS:
            if not {cell.version, cell.name}.isdisjoint(asked.only):
                is_good &= pysparks.tried(cell, asked.spark_tests, say)
                pysparks.write()
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
