"""Records of runs that nobody ran."""

from __future__ import annotations

from tests.proofs.bench.machine import Setting
from tests.proofs.bench.records import OURS, Record

SETTING = Setting(
    cores=2,
    memory_gib=24,
    kernel="Linux 6.1",
    python="3.11.2",
    java="17.0.15",
    spark="4.1.4",
    pyarrow="26.0.1",
    metastore="4.0.1",
    workload="a base of 4 rows",
    repeats=3,
    threads=2,
    driver_memory="3g",
)


def record(
    case: str, system: str, cpu: float, *, wall: float = 1.0, run: int = 0, process: str = OURS
) -> Record:
    return Record(
        case=case,
        system=system,
        process=process,
        run=run,
        seconds=wall,
        cpu_seconds=cpu,
        other_cpu_seconds=1.0,
        bytes=3 << 20,
        rows=10,
        driver_peak_bytes=200 << 20,
        jvm_peak_bytes=500 << 20,
        worker_peak_bytes=(100 + run) << 20,
    )
