"""The command of the supported versions.

    python -m tests.proofs.versions [VERSION ...] --uv UV --tests FILE [FILE ...]

It installs each version of Airflow (default: all) in build/versions, tries this provider there, and
exits with 1 if something failed. If it tried all, it writes the table of the page of versions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.proofs.programs import clocked, refuse_unknown
from tests.proofs.versions.airflow_releases import RELEASES, tried, write


def main(argv: Sequence[str] | None = None) -> int:
    """Try versions and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.versions")
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=", ".join(RELEASES))
    parser.add_argument("--uv", required=True, help="the program uv")
    parser.add_argument("--tests", nargs="+", required=True, metavar="FILE")
    asked = parser.parse_args(argv)
    refuse_unknown(parser, "version", asked.versions, RELEASES)
    say = clocked()
    outcomes = [
        tried(version, uv=asked.uv, tests=asked.tests, say=say)
        for version in asked.versions or RELEASES
    ]
    if not asked.versions:
        write(outcomes)
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
