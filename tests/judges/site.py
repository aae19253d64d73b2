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

_FIXED: Final = {
    "fs.defaultFS": "file:///",
    "fs.file.impl": "judge.LocalFs",  # leaves no .crc files beside the data
    "hive.execution.engine": "mr",
    "mapreduce.framework.name": "local",
    # Two tasks at a time in one process lose rows and report success, in both local modes.
    "mapreduce.local.map.tasks.maximum": "1",
    "tez.am.inline.task.execution.max-tasks": "1",
    "mapreduce.task.io.sort.mb": "32",
    # Local jobs take milliseconds; the defaults ask every second or five whether they ended.
    "hive.exec.counters.pull.interval": "50",
    "mapreduce.client.completion.pollinterval": "50",
    "mapreduce.client.progressmonitor.pollinterval": "50",
    "hive.exec.submit.local.task.via.child": "false",
    "tez.local.mode": "true",
    "tez.local.mode.without.network": "true",
    "tez.ignore.lib.uris": "true",
    "tez.runtime.optimize.local.fetch": "true",
    "tez.runtime.io.sort.mb": "32",
    "tez.am.resource.memory.mb": "512",
    "hive.tez.container.size": "512",
    "hive.tez.exec.print.summary": "false",
    "hive.llap.io.enabled": "false",
    "hive.llap.execution.mode": "none",
    # Transactions.
    "hive.support.concurrency": "true",
    "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
    "hive.txn.heartbeat.threadpool.size": "2",
    # Hive sends a heartbeat at half of this; servers of the tests abort a transaction without one
    # after 60 s.
    "hive.txn.timeout": "10s",
    "hive.lock.numretries": "20",
    "hive.exec.dynamic.partition.mode": "nonstrict",
    # A table is transactional when the statement says so, and compacted as the request says.
    "hive.create.as.acid": "false",
    "hive.create.as.insert.only": "false",
    "hive.compactor.crud.query.based": "false",
    # Every answer comes from the files: a plain SELECT through a fetch, whose values are exact (a
    # task's go through a text format that confuses nested nulls); anything with a join or an
    # aggregate through a task with the vectorised reader.
    "hive.query.results.cache.enabled": "false",
    "hive.compute.query.using.stats": "false",
    "hive.fetch.task.conversion": "more",
    "hive.fetch.task.conversion.threshold": "-1",
    "hive.vectorized.execution.enabled": "true",
    "hive.auto.convert.join": "false",
    # Nothing that starts threads or servers beside the statement.
    "hive.server2.logging.operation.enabled": "false",
    "hive.scheduled.queries.executor.enabled": "false",
    "hive.notification.event.poll.interval": "0s",
    "hive.security.authorization.enabled": "false",
    "hive.metastore.client.socket.timeout": "300s",
    "hive.stats.column.autogather": "false",
}


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
