"""What the combinations with short names check, in words for the readers of docs/clusters.md.

Takes the name of a combination, which may be the name of a test with its parameters, and returns
the text of its row.
"""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"(?P<name>.*?)(?:\[(?P<parameters>.*)\])?(?P<suffix>, PySpark .*)?")

TITLES: Final = {
    # Guides
    "the guide for hdfs behind kerberos runs as written": "every command of the guide for HDFS "
    "with Kerberos",
    "the guide for ldap runs as written": "every command of the guide for LDAP",
    "the guide for s3 runs as written": "every command of the guide for S3",
    "the guide for yarn behind kerberos runs as written": "every command of the guide for YARN "
    "with Kerberos",
    # HDFS
    "a kms that is away may be back later": "an unreachable KMS causes a retryable error",
    "a table lives its whole life on hdfs": "all kinds of statements on a table on HDFS",
    "a table of an old metastore lives on hdfs": "all kinds of statements on a table on HDFS, "
    "metastore 3.1.3",
    "python and java read what the other has written and the disk has neither": "Python and Java "
    "read each other's files in an encryption zone, and the disk has only encrypted bytes",
    "who is not told of the kms hears it before anything is begun": "a missing KMS setting causes "
    "an error before the job starts",
    "workers know what only spark knows but no secret": "Python workers get Spark's HDFS settings, "
    "but no secrets",
    # HDFS logins by Kerberos
    "access denied: a file that is no keytab": "a keytab file that is not a keytab",
    "access denied: a keytab of before the key was changed": "an outdated keytab",
    "access denied: a user without permission": "a user without permission",
    "access denied: an expired ticket": "an expired ticket",
    "access denied: no ticket": "no ticket",
    "access denied: the KDC is unavailable": "an unavailable KDC",
    # Kubernetes
    "a driver that is killed by its node says so and the retry writes once": "if the node kills "
    "the driver, the error says so, and the retry applies the change once",
    "a killed task leaves no pod": "a killed task leaves no pods",
    "a retry finds the pod of a lost worker and its kill ends it": "a retry finds the driver's pod "
    "of a lost worker, and a kill of the retry deletes the pod",
    "a table lives by pods where all is behind kerberos": "all kinds of statements, with Kerberos "
    "on every server",
    "a table on hdfs lives by pods": "all kinds of statements on a table on HDFS",
    "a table on s3 lives by pods": "all kinds of statements on a table on S3",
    "killed executors are replaced": "Spark replaces killed executors",
    "no secret of these runs is found where it must not be": "a search for leaked secrets",
    "rows are inserted by pods": "an INSERT",
    "what is never started is told bounded and deleted": "if pods do not start, the log gives the "
    "reason, the wait ends after a limit, and the pods are deleted",
    # Metastore logins
    "Kerberos at a metastore of auth-conf only": "Kerberos, metastore that requires auth-conf",
    "Kerberos in TLS": "Kerberos within TLS",
    "Kerberos in TLS beside LDAP": "Kerberos within TLS, metastore that also allows LDAP",
    "Kerberos, a whole principal": "Kerberos, complete principal instead of _HOST",
    "chain of tokens": "token from a token",
    "chain that is older than a token may become": "token from a token, after the maximum "
    "lifetime of the first token",
    "password of LDAP in TLS": "LDAP password within TLS",
    "password of LDAP in TLS, no Kerberos": "LDAP password within TLS, metastore without Kerberos",
    "password of the settings beside Kerberos": "password from the metastore's settings, metastore "
    "that also allows Kerberos",
    "password of the settings in TLS": "password from the metastore's settings, within TLS",
    "password that a class knows, in TLS": "password that a Java class of the metastore checks, "
    "within TLS",
    "token in TLS": "token within TLS",
    "HTTP at a plain metastore": "HTTP to a metastore that expects Thrift",
    "HTTP where HTTPS is spoken": "HTTP to a metastore that expects HTTPS",
    "JWT of a stranger": "JWT with an unknown signer",
    "Kerberos where no login is required": "Kerberos to a metastore without logins",
    "Thrift where HTTPS is spoken": "Thrift to a metastore that expects HTTPS",
    "a name where a JWT is wanted": "user name to a metastore that requires a JWT",
    "clock that is off": "clock difference",
    "keytab of another": "keytab of a different principal",
    "lapsed token": "expired token",
    "no TLS where it is wanted": "plain connection to a metastore that requires TLS",
    "no login where Kerberos is required": "no login to a metastore that requires Kerberos",
    "password at a plain metastore": "password to a metastore without logins",
    "password where Kerberos is wanted": "password to a metastore that requires Kerberos",
    "protection that is too weak": "protection below the connection's minimum",
    "secrets in logs and command lines of all these runs": "a search for leaked secrets in logs "
    "and command lines",
    "service that the metastore is not": "service name of a different server",
    "silent KDC": "KDC that does not respond",
    "stale keytab": "outdated keytab",
    "token of another metastore": "token of a different metastore",
    # S3
    "a bucket of another region is said to be one": "an error says that the bucket is in a "
    "different region",
    "a bucket that is not there is never an empty table": "a missing bucket is an error, not an "
    "empty table",
    "a client never travels": "a client cannot be pickled",
    "a commit whose answer is lost is left as it is and found by its successor": "after a commit "
    "with a lost reply, the retry finds that the job is done",
    "a completion whose effect comes after the abort is never seen and is cleaned": "if S3 "
    "completes an upload after its transaction's abort, no reader sees the file, and cleaning "
    "removes it",
    "a damaged note is an error": "a damaged upload note causes an error",
    "a deletion has one digest also when it is sent again": "a repeated deletion has exactly one "
    "checksum header",
    "a file has one time however it is looked at": "all calls return the same modification time",
    "a file that came between a look and the upload stays": "a file that another client creates "
    "right before the upload is completed is not overwritten",
    "a file that is given up is gone": "an abandoned file leaves nothing",
    "a late attempt is never published and goes with the staging": "a late task's file is not "
    "published, and is removed with the staged files",
    "a list that lags loses no row": "an outdated listing loses no rows",
    "a loaded file is looked at before it is sent": "LOAD DATA checks its copy of a file before "
    "the upload",
    "a lost answer harms nothing": "a lost reply has no effect",
    "a partition of a table is staged below the table": "a partition's files are staged below the "
    "table",
    "a refusal to delete one of many is an error": "an error if S3 refuses to delete one of many "
    "objects",
    "a selector gives what lies in it": "a listing returns the files of a directory",
    "a server that wants md5 of who deletes gets it": "deletions send Content-MD5",
    "a small file appears whole and nothing is renamed": "a small file is written with one PUT",
    "a store that is down is unavailable": "an unreachable store causes a retryable error",
    "a store that is overloaded for a moment is waited for": "the client waits for an overloaded "
    "store",
    "a stream that is dropped or failed completes nothing": "a failed or abandoned stream "
    "completes no upload",
    "a table is listed by its prefix": "a table is listed by its prefix",
    "a table lives its whole life on s3": "all kinds of statements on a table on S3",
    "a table without files is empty and a file is none": "a table without files is empty; a file "
    "is not a table",
    "a task that cannot write says why and leaves no upload": "a failed write gives the reason and "
    "leaves no upload",
    "a write that fails at a border leaves nothing": "a write that fails at this step leaves no "
    "files",
    "an aborted upload is not published and can be tried again": "an upload that was aborted is "
    "not published, and the job can be retried",
    "an error in the middle is taken back": "a failed publication is undone",
    "an upload whose every answer is lost is in doubt and taken back": "an upload without any "
    "reply is undone",
    "another attempts file under the name is refused and stays": "a file of a different attempt "
    "is not overwritten",
    "another conditional write of the name is waited for": "the client waits for another "
    "conditional write of the same name",
    "another object under the name is not read as the one that was opened": "a reader notices "
    "that an open file was replaced",
    "each refusal says which store which path whose keys and what to do": "errors name the store, "
    "the path, the source of the keys and a remedy",
    "files of any size come back whole": "files of this size are read back unchanged",
    "giving up what is gone is no error": "the abort of a missing upload is not an error",
    "keys that only the jvm has are an error that says what to set": "if only the JVM has keys, "
    "the error says what to set",
    "more objects than a page holds are listed and deleted": "listings and deletions of several "
    "pages",
    "nothing is there before it is published and all of it behind": "no file exists before the "
    "publication, and all files exist after it",
    "on 3 1 a result of one file is made and no other": "on 3.1, only compactions with a single "
    "result file run",
    "rows come before what a compactor says of them": "a compaction's rows appear before its "
    "metadata file",
    "rows of each format come back": "rows of this format are read back unchanged",
    "the whole of a bucket is never deleted": "a whole bucket is never deleted",
    "uploads of a dead attempt go with its files": "uploads of a dead attempt are removed with its "
    "files",
    "what a dead attempt may still complete is given up also where no list has it": "uploads of a "
    "dead attempt are aborted even if the store does not list them",
    "what a dead worker left is found and what a live one writes stays": "cleaning aborts uploads "
    "of dead workers, but not of live workers",
    "what a task told of is compared with what it left": "the driver compares each file with the "
    "task's report",
    "what is taken back leaves nothing": "an undone publication leaves no objects",
    "what s3 does not say to head is said to be one of a few things": "if S3 gives no reason, the "
    "error lists the possible reasons",
    "what was done before its answer was lost is known by its mark": "after a lost reply, the "
    "object's metadata shows who wrote it",
    "where no uploads are known there are none": "a store without uploads has nothing to abort",
    "who may not list uploads runs again all the same": "a retry also works without permission to "
    "list uploads",
    "whoever dies while he publishes leaves nothing that a sweep cannot remove": "cleaning removes "
    "all files of a process that died while it published",
    "whoever is killed at a border is never seen and his successor does the work once": "a process "
    "killed at this step leaves no visible rows, and the retry applies the change once",
    "whoever may not write hears of it before the work": "missing write permission is reported "
    "before the job starts",
    # Whole clusters behind Kerberos
    "Kubernetes, nothing is encrypted, Python has no ticket": "Kubernetes without encryption and "
    "without a ticket for Python",
    "Kubernetes, tokens from the driver for Python": "Kubernetes, the driver sends its tokens to "
    "Python",
    "a job that outlives its HDFS tokens while the KDC is away": "a job that outlives its HDFS "
    "tokens while the KDC is unavailable",
    "a table works where every server requires a login": "all kinds of statements, with Kerberos "
    "on every server",
    "keys and tokens in logs, event logs, spilled files and command lines": "a search for keys and "
    "tokens in logs, event logs, spill files and command lines",
    "local, --keytab": "local, keytab given to Spark",
    "standalone, a file of tokens on each machine": "standalone, token file on each machine",
    "standalone, nothing is encrypted, Python has no ticket": "standalone without encryption and "
    "without a ticket for Python",
    "standalone, tokens from the driver for Python": "standalone, the driver sends its tokens to "
    "Python",
    "standalone, tokens that the driver was given, from it for Python": "standalone, the driver "
    "sends the tokens that it received to Python",
    "the KDC goes away while a transaction lasts": "the KDC becomes unavailable during a "
    "transaction",
    # YARN
    "a driver that dies is not started again by yarn": "YARN does not restart a driver that died",
    "a driver that is killed in mid job is done again by the retry": "a retry repeats the job of a "
    "killed driver",
    "a kill at the first statement ends the earlier tries driver of the second": "a kill during "
    "the first statement ends the earlier try's driver, which runs the second statement",
    "a retry finds the driver of a lost worker and its kill ends it": "a retry finds the driver of "
    "a lost worker, and a kill of the retry ends this driver",
    "a table on a disk that all nodes share lives on yarn": "all kinds of statements on a table "
    "on a shared disk",
    "a table on s3 lives on yarn": "all kinds of statements on a table on S3",
    "an executor that is killed in mid job leaves each row once": "after the kill of an executor, "
    "the table has each row once",
    "nodes get their libraries by the archive of one command": "nodes get Python's libraries from "
    "the archive of `spark-environment`",
    "rows are inserted by a driver on yarn": "an INSERT",
    "what stands in a queue is told bounded and ended": "if an application waits in the queue, the "
    "log gives the reason, and the wait ends after a limit",
    "what yarn has forgotten the metastore still knows": "if YARN has forgotten the application, "
    "the retry finds the commit in the metastore",
    "a kill ends the application and its transaction": "a kill ends the application and aborts its "
    "transaction",
    "a table lives on a yarn where all is behind kerberos": "all kinds of statements, with "
    "Kerberos on every server",
    "a transaction outlives the tokens that its containers were started with": "a transaction that "
    "outlives the first tokens of its containers",
    "no secret of all these runs is found where it must not be": "a search for leaked secrets",
    "who has no ticket hears why yarn is not asked": "without a ticket, an error explains why YARN "
    "cannot be queried",
    "with tickets alone a drivers container goes by the token that spark brings": "with tickets "
    "and no keytab, a driver in a container uses the token that Spark fetched",
}


def title_of(combination: str) -> str:
    """Return the text of a combination's row: its title and parameters, or else its name.

    >>> title_of("a killed task leaves no pod[client]")
    'a killed task leaves no pods (client)'
    >>> title_of("wrong password")
    'wrong password'
    """
    found = _NAME.fullmatch(combination)
    if found is None or found["name"] not in TITLES:
        return combination
    parameters = f" ({found['parameters']})" if found["parameters"] is not None else ""
    return TITLES[found["name"]] + parameters + (found["suffix"] or "")
