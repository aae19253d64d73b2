"""Delegation tokens as Java writes and reads them, and as we do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_hiveacid.metastore.auth.tokens import named_tokens, print_credentials


def test_java_and_python_read_each_others_delegation_tokens(
    spark: SparkSession, tmp_path: Path
) -> None:
    jvm: Any = spark._jvm
    hadoop = jvm.org.apache.hadoop
    credentials = hadoop.security.Credentials()
    issued_ms = [1_800_000_000_123, 1_900_000_000_000, 90]
    for at, moment in enumerate(issued_ms):
        names = (hadoop.io.Text(name) for name in ("alice@R", "yarn", ""))
        identifier = hadoop.hdfs.security.token.delegation.DelegationTokenIdentifier(*names)
        identifier.setIssueDate(moment)
        identifier.setMaxDate(moment + 7)
        token = hadoop.security.token.Token(
            identifier.getBytes(), bytes([at] * 200), identifier.getKind(), hadoop.io.Text("ä:1")
        )
        credentials.addToken(hadoop.io.Text(f"alias {at}"), token)

    def written(found: Any, name: str) -> bytes:  # noqa: ANN401
        stream = jvm.java.io.DataOutputStream(jvm.java.io.FileOutputStream(str(tmp_path / name)))
        found.writeTokenStorageToStream(stream)
        stream.close()
        return (tmp_path / name).read_bytes()

    by_java = written(credentials, "java")
    tokens = named_tokens(by_java)
    assert {alias: token.issued_ms for alias, token in tokens.items()} == {
        f"alias {at}": moment for at, moment in enumerate(issued_ms)
    }
    assert {token.owner for token in tokens.values()} == {"alice@R"}
    assert {token.service for token in tokens.values()} == {"ä:1"}
    (tmp_path / "python").write_bytes(print_credentials(tokens))
    file = jvm.java.io.File(str(tmp_path / "python"))
    again = hadoop.security.Credentials.readTokenStorageFile(
        file, spark.sparkContext._jsc.hadoopConfiguration()
    )
    assert again.numberOfTokens() == len(issued_ms)
    assert sorted(written(again, "again")) == sorted(by_java)
    assert named_tokens(written(again, "again")) == tokens
