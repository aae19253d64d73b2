"""Check that this package does not force other packages of an environment to older versions.

    python tools/beside.py build/uv/bin/uv

uv resolves two environments, each without and with this package. The first environment is new and
gets many of Airflow's extras; this package must not lower any version there. The second environment
has the packages of Airflow's Docker image; this package must not change any version there. But this
package may add providers that it needs itself.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from packaging.version import Version

_ROOT: Final = Path(__file__).resolve().parents[1]
_FRESH: Final = (
    "amazon,google,snowflake,databricks,openlineage,cncf-kubernetes,celery,fab,postgres"
    ",microsoft-azure"
)
# AIRFLOW_EXTRAS of Airflow's Dockerfile, and Databricks.
_IMAGE: Final = (
    "aiobotocore,amazon,async,celery,cncf-kubernetes,common-io,common-messaging,docker"
    ",elasticsearch,fab,ftp,git,google,google-auth,graphviz,grpc,hashicorp,http,ldap"
    ",microsoft-azure,mysql,odbc,openlineage,opensearch,pandas,postgres,redis,sendgrid,sftp,slack"
    ",snowflake,ssh,statsd,uv,databricks"
)


def main() -> int:
    """Print the versions that become lower or change; fail if there are any."""
    uv = sys.argv[1]
    alone = _resolve(uv, _FRESH)
    with_us = _resolve(uv, _FRESH, str(_ROOT))
    fallen = {n for n, v in alone.items() if n in with_us and Version(with_us[n]) < Version(v)}
    image = _resolve(uv, _IMAGE)
    inside = _resolve(uv, _IMAGE, str(_ROOT), installed=image)
    changed = {name for name, version in image.items() if inside.get(name) != version}
    for name in sorted(fallen):
        print(f"fresh environment: {name} falls from {alone[name]} to {with_us[name]}")
    for name in sorted(changed):
        print(f"Airflow's image: {name} {image[name]} becomes {inside.get(name)}")
    if not fallen and not changed:
        print(f"no version falls of {len(alone)} packages, and none changes of {len(image)}")
    return 1 if fallen or changed else 0


def _resolve(
    uv: str, extras: str, *more: str, installed: dict[str, str] | None = None
) -> dict[str, str]:
    """Return uv's version of each package; uv keeps those in `installed` if nothing forbids it."""
    airflow = next(
        line
        for line in (_ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if line.startswith("apache-airflow==")
    )
    with tempfile.TemporaryDirectory() as folder:
        wanted, found = Path(folder, "wanted.in"), Path(folder, "found.txt")
        wanted.write_text("\n".join((airflow.replace("==", f"[{extras}]=="), *more)) + "\n")
        if installed is not None:  # uv keeps the versions in an existing output file
            found.write_text("".join(f"{n}=={v}\n" for n, v in installed.items()))
        compile_ = [uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
        subprocess.run(
            [*compile_, "--python-version", "3.11", "--output-file", str(found), str(wanted)],
            check=True,
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        pins = (line.partition("==") for line in found.read_text().splitlines() if "==" in line)
        return {name: version for name, _, version in pins}


if __name__ == "__main__":
    sys.exit(main())
