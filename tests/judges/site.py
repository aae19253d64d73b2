"""Knows the settings under which Hive's engine runs in one process on local files.

Takes a folder for everything temporary and what differs from one use to the next, gives the text of
hive-site.xml.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

CONF: Final = Path(__file__).resolve().parent / "conf"  # how it logs: to stderr, errors alone
QUERY_BASED_COMPACTION: Final = {
    "hive.execution.engine": "tez",
    "hive.compactor.crud.query.based": "true",
}

_FIXED: Final = dict(
    line.split("=", 1)
    for line in Path(__file__).with_name("hive-site.properties").read_text().splitlines()
    if not line.startswith("#")
)


def hive_site(work_dir: Path, settings: Mapping[str, str]) -> str:
    """Returns hive-site.xml; the given settings win.

    Everything temporary goes below `work_dir`. `hive.metastore.uris` is among the settings.
    """
    values = {
        **_FIXED,
        "hadoop.tmp.dir": f"{work_dir}/hadoop",
        "mapreduce.cluster.local.dir": f"{work_dir}/mapred",
        "mapreduce.jobtracker.staging.root.dir": f"{work_dir}/staging",
        "hive.exec.scratchdir": f"file:{work_dir}/scratch",
        "hive.exec.local.scratchdir": f"{work_dir}/local",
        "hive.downloaded.resources.dir": f"{work_dir}/resources",
        "hive.querylog.location": f"{work_dir}/querylog",
        "tez.staging-dir": f"{work_dir}/tez",
        "hive.user.install.directory": f"file:{work_dir}/install",
        "hive.jar.directory": f"file:{work_dir}/install",
        **settings,
    }
    properties = "".join(
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in values.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{properties}</configuration>\n'
