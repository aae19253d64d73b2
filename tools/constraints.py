"""Merge the pins of both environments into one constraints file.

    python tools/constraints.py .venv/bin/python .venv-spark/bin/python > constraints.txt

The program fails if the environments contain different versions of a package, because the file must
be valid for both environments.
"""

from __future__ import annotations

import subprocess
import sys

_OWN = "airflow-provider-hiveacid"
_HEAD = """\
# Every package of both environments, pinned: .venv (Airflow) and .venv-spark (Spark).
# No environment has both pyspark and pyspark-client; a line applies where its package is installed.
# Written by `make constraints`.
"""


def main() -> int:
    """Print the merged pins of the interpreters named on the command line."""
    merged: dict[str, str] = {}
    clashes: list[str] = []
    for interpreter in sys.argv[1:]:
        for name, version in _pins(interpreter).items():
            if merged.setdefault(name, version) != version:
                clashes.append(f"{name}: {merged[name]} and {version}")
    if clashes:
        sys.stderr.write("the environments differ:\n" + "\n".join(clashes) + "\n")
        return 1
    lines = (f"{name}=={version}\n" for name, version in sorted(merged.items()))
    sys.stdout.write(_HEAD + "".join(lines))
    return 0


def _pins(interpreter: str) -> dict[str, str]:
    freeze = [interpreter, "-m", "pip", "freeze", "--all", "--exclude", _OWN]
    listing = subprocess.run(freeze, check=True, capture_output=True, text=True).stdout
    pairs = (line.strip().partition("==") for line in listing.splitlines() if "==" in line)
    return {
        name.lower().replace("_", "-"): version
        for name, _, version in pairs
        if name not in {"setuptools", "wheel"}
    }


if __name__ == "__main__":
    sys.exit(main())
