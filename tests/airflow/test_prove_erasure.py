"""The task that proves an erasure: its document is kept and is in XCom, even if the task fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.errors import ErasureNotProvedError
from airflow_hiveacid.operators import HiveAcidProveErasureOperator
from airflow_hiveacid.storage.stores.filesystem import read_bytes
from airflow_hiveacid.storage.stores.locations import open_location
from tests.support.airflow_support import FakeSpark, context_of, run_task

ERASED: dict[str, Any] = {"proved": True, "files": 2, "left": [], "looked_at": [{"path": "/t/a"}]}
LEFT: dict[str, Any] = {
    "proved": False,
    "files": 5000,
    "left": [
        {"path": f"/t/{n}", "rows": n, "why": "cleaning keeps it: tag 'x' needs it"}
        for n in range(5)
    ],
    "looked_at": [{"path": f"/t/{n}", "size_bytes": 1, "how": "scan"} for n in range(5000)],
}


def _task(tmp_path: Path) -> HiveAcidProveErasureOperator:
    return HiveAcidProveErasureOperator(
        task_id="prove",
        table="db.t",
        where="name = :name",
        parameters={"name": "Zoe"},
        result_dir=f"file:{tmp_path}/results",
    )


def _kept(result: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read_bytes(*open_location(result["result_uri"])))
    return found["details"]["erasure"]  # type: ignore[no-any-return]


@pytest.mark.promise("K10")
@pytest.mark.usefixtures("connections")
def test_a_proof_is_returned_and_always_kept_in_the_result_directory(
    spark: FakeSpark, tmp_path: Path
) -> None:
    spark.tell(status="nothing_to_do", details={"erasure": ERASED})
    result = run_task(_task(tmp_path))
    assert result["details"]["erasure"] == ERASED | {"left_omitted": 0, "looked_at_omitted": 0}
    assert _kept(result) == ERASED


@pytest.mark.promise("K10")
@pytest.mark.usefixtures("connections")
def test_a_failed_proof_fails_the_task_but_its_document_is_in_xcom_and_kept_whole(
    spark: FakeSpark, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spark.tell(status="nothing_to_do", details={"erasure": LEFT})
    context = context_of("prove")
    with pytest.raises(ErasureNotProvedError) as caught:
        run_task(_task(tmp_path), context)
    assert caught.value.retryable
    assert "table db.t" in str(caught.value)
    assert "/t/2: 2 rows: cleaning keeps it: tag 'x' needs it" in str(caught.value)
    assert "... and 2 more" in str(caught.value)
    pushed = context["ti"].xcoms["return_value"]
    assert len(json.dumps(pushed)) <= 16 * 1024
    assert pushed["details"]["erasure"]["looked_at_omitted"] > 4000
    assert _kept(pushed) == LEFT
    assert "Zoe" not in caplog.text
    assert "Zoe" not in str(caught.value)


@pytest.mark.promise("K10")
@pytest.mark.usefixtures("connections", "spark")
def test_a_result_without_a_document_proves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ErasureNotProvedError):
        run_task(_task(tmp_path))
