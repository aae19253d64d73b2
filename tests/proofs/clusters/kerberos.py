"""HDFS behind Kerberos, and whole clusters behind it: logins admitted and refused, and leaks.

The same in a smaller form is in tests/spark/test_behind_kerberos.py.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.contract.stores.mini_hdfs import VERSION
from tests.proofs.clusters.cells import FAILED, REFUSED, Cell, Place, Trial, tried
from tests.proofs.clusters.lives import Lives
from tests.support.kerberos_lab import USER, Ended, KerberosLab
from tests.support.kubernetes_cluster import KubernetesCluster
from tests.support.spark_submit import SPARK_HOME

_FILES, _ALL = "HDFS logins by Kerberos", "Whole clusters behind Kerberos"
_PROTECTIONS: Final = ("authentication", "integrity", "privacy")
_LOCAL: Final = Place("local", "Kerberos", "HDFS behind Kerberos")
_STANDALONE: Final = _LOCAL._replace(spark="standalone, client")
# Write, rename a directory, list, read: as the product does, in a separate process.
_FILE_LIFE: Final = """
import sys
from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.storage.stores.filesystem import check_writable, write_bytes
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.locations import open_location
warehouse, location = sys.argv[1:]
try:
    check_writable(warehouse)
    fs, path = open_location(location)
    write_bytes(fs, f"{path}/_tmp/delta/f", b"x" * 3_000_000)
    fs.move(f"{path}/_tmp/delta", f"{path}/delta_0000001_0000001_0000")
    (file,) = [f for f in list_table(location).files if f.path.endswith("/f")]
    with fs.open_input_file(f"{path}/{file.path}") as stream:
        assert len(stream.read()) == 3_000_000
    print("ANSWER ran")
except HiveAcidError as error:
    print("ANSWER", type(error).__name__, "retryable" if error.retryable else "final", error)
"""
_SHORT_TOKENS: Final = {
    "dfs.namenode.delegation.token.renew-interval": "8000",
    # Otherwise a name node that was busy accepts an expired token for another minute.
    "dfs.namenode.delegation.key.update-interval": "3600000",
}
_OVER_S: Final = 12.0


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """Yield a cell for each combination with the words in its name, after running it."""
    for group in (_of_files, _of_four, _of_three, _of_short_tokens):
        yield from group(folder, only)
    in_small = ("tests/spark/test_behind_kerberos.py",)
    yield from Lives(area=_ALL, version="4.0.1", tests=in_small).cells(folder, only)


# ---- files ---------------------------------------------------------------------------------------


def _of_files(folder: Path, only: str) -> Iterator[Cell]:
    for protection in _PROTECTIONS:
        with KerberosLab(folder / protection, protection=protection) as lab:
            trial = partial(Trial, area=_FILES, version=VERSION)
            trials = [
                trial(name=f"{protection}: {name}", do=partial(_answer, lab, environment, "ran"))
                for name, environment in _logins(lab).items()
            ]
            yield from tried(trials, only)
            if protection == "privacy":
                trials = [
                    trial(
                        name=name,
                        do=partial(_answer, lab, environment, expected),
                        outcome=REFUSED,
                    )
                    for name, (environment, expected) in _strangers(lab).items()
                ]
                yield from tried(trials, only)
                # This is the last, since afterwards no client can get a ticket.
                away = trial(
                    name="an unavailable KDC",
                    do=partial(_without_kdc, lab),
                    outcome=REFUSED,
                )
                yield from tried([away], only)


def _logins(lab: KerberosLab) -> dict[str, dict[str, str]]:
    return {
        "ticket cache": {"KRB5CCNAME": lab.cache()},
        "keytab": {"KRB5_CLIENT_KTNAME": str(lab.kdc.keytab(USER))},
    }


def _strangers(lab: KerberosLab) -> dict[str, tuple[dict[str, str], str]]:
    """Return logins that must be refused, each with the start of the error."""
    stale = lab.folder / "stale.keytab"
    stale.write_bytes(lab.kdc.keytab("dora").read_bytes())
    lab.kdc.administer("change_password -randkey dora")
    expired = lab.cache(life="1s")
    time.sleep(2.0)
    away, later = "StoreUnavailableError retryable", "LocationPermissionError final"
    return {
        "no ticket": ({}, away),
        "an expired ticket": ({"KRB5CCNAME": expired}, away),
        "an outdated keytab": ({"KRB5_CLIENT_KTNAME": str(stale)}, away),
        "a keytab file that is not a keytab": ({"KRB5_CLIENT_KTNAME": str(lab.hdfs.conf)}, away),
        "a user without permission": (
            {"KRB5_CLIENT_KTNAME": str(lab.kdc.keytab("bob"))},
            later,
        ),
    }


def _answer(lab: KerberosLab, environment: dict[str, str], expected: str) -> str:
    warehouse = f"{lab.hdfs.uri}/warehouse"
    table = f"{warehouse}/{time.monotonic_ns()}"
    said = lab.python(_FILE_LIFE, warehouse, table, **environment)
    answer = said.rpartition("ANSWER ")[2].strip()
    if not answer.startswith(expected):
        raise AssertionError(f"expected {expected}: {said}")
    return "" if expected == "ran" else answer.replace(lab.hdfs.uri, "hdfs://nn")[:220]


def _without_kdc(lab: KerberosLab) -> str:
    lab.kdc.stop()
    keytab = {"KRB5_CLIENT_KTNAME": str(lab.kdc.keytab(USER))}
    return _answer(lab, keytab, "StoreUnavailableError retryable")


# ---- whole clusters ------------------------------------------------------------------------------


def _of_four(folder: Path, only: str) -> Iterator[Cell]:
    with KerberosLab(folder / "four") as lab:
        trial = partial(Trial, area=_ALL, version="4.0.1")
        trials = [
            trial(
                name="local, keytab given to Spark",
                do=partial(_life, lab, *lab.by_keytab),
                place=_LOCAL,
            ),
            trial(
                name="local, ticket cache",
                do=lambda: _life(lab, KRB5CCNAME=lab.cache()),
                place=_LOCAL,
            ),
            trial(
                name="standalone, token file on each machine",
                do=partial(_token_files, lab),
                place=_STANDALONE,
            ),
            trial(
                name="standalone, the driver sends its tokens to Python",
                do=partial(_shipped, lab, is_encrypted=True),
                place=_STANDALONE,
            ),
            trial(
                name="Kubernetes, the driver sends its tokens to Python",
                do=partial(_in_pods, lab, is_encrypted=True),
                place=_LOCAL._replace(spark="Kubernetes, client"),
            ),
            trial(
                name="Kubernetes without encryption and without a ticket for Python",
                do=partial(_in_pods, lab, is_encrypted=False),
                outcome=REFUSED,
            ),
            trial(
                name="standalone, the driver sends the tokens that it received to Python",
                do=partial(_shipped, lab, is_encrypted=True, is_given=True),
            ),
            trial(
                name="standalone without encryption and without a ticket for Python",
                do=partial(_shipped, lab, is_encrypted=False),
                outcome=REFUSED,
            ),
            trial(
                name="the KDC becomes unavailable during a transaction", do=partial(_kdc_away, lab)
            ),
        ]
        yield from tried(trials, only)
        yield from _searched(lab, "4.0.1")


def _of_three(folder: Path, only: str) -> Iterator[Cell]:
    with KerberosLab(folder / "three", version="3.1.3") as lab:
        name = "local, keytab given to Spark"
        do = partial(_life, lab, *lab.by_keytab)
        yield from tried([Trial(area=_ALL, version="3.1.3", name=name, do=do)], only)


def _of_short_tokens(folder: Path, only: str) -> Iterator[Cell]:
    with KerberosLab(folder / "short", settings=_SHORT_TOKENS) as lab:
        trials = [
            Trial(
                area=_ALL,
                version="4.0.1",
                name="a job that outlives its HDFS tokens",
                do=partial(_outlived, lab),
            ),
            Trial(
                area=_ALL,
                version="4.0.1",
                name="a job that outlives its HDFS tokens while the KDC is unavailable",
                do=partial(_outlived_without_kdc, lab),
                outcome=REFUSED,
            ),
        ]
        yield from tried(trials, only)


def _searched(lab: KerberosLab, version: str) -> Iterator[Cell]:
    """Yield the last cell of a lab: a search of everything that its drivers have left."""
    if not list(lab.folder.glob("driver-*")):
        return
    found = lab.leaks()
    files = "logs, event logs, spill files and command lines"
    yield Cell(
        area=_ALL,
        combination=f"a search for keys and tokens in {files}",
        version=version,
        outcome=FAILED if found else "none found",
        note="; ".join(found),
    )


def _life(lab: KerberosLab, *options: str, **more: Any) -> str:  # noqa: ANN401 - as `run`
    ended = lab.run("life", *options, **more)
    _check(ended.code == 0, ended)
    names = [name for name in ended.notes["directories"] if not name.startswith("_")]
    _check(len(names) == 2, ended)
    return ""


def _token_files(lab: KerberosLab) -> str:
    tokens = _tokens_of_executors(lab)
    with lab.cluster() as url:
        return _life(lab, *tokens, master=url, KRB5CCNAME=lab.cache())


def _tokens_of_executors(lab: KerberosLab) -> tuple[str, str]:
    # An executor runs as a remote user, so it cannot use tickets.
    return "--conf", f"spark.executorEnv.HADOOP_TOKEN_FILE_LOCATION={lab.token_file()}"


def _shipped(lab: KerberosLab, *, is_encrypted: bool, is_given: bool = False) -> str:
    """Run with executors whose JVMs have tokens and whose Python has none.

    The driver has only a ticket, or only tokens that were given to it.
    """
    options, servers = lab.encrypted if is_encrypted else ([], {})
    hidden = ("--conf", "spark.python.daemon.module=drivers.ticketless")
    options = [*options, *_tokens_of_executors(lab), *hidden]
    login = {"KRB5CCNAME": lab.cache()}
    if is_given:
        nowhere = f"FILE:{lab.folder / 'cache-none'}"
        login = {"HADOOP_TOKEN_FILE_LOCATION": str(lab.token_file()), "KRB5CCNAME": nowhere}
    with lab.cluster(**servers) as url:
        ended = lab.run("life", *options, master=url, **login)
    return _judged(ended, is_encrypted=is_encrypted)


def _in_pods(lab: KerberosLab, *, is_encrypted: bool) -> str:
    """Run with executors in pods of a simulated API server: Spark sends tokens to their JVMs."""
    options, _ = lab.encrypted if is_encrypted else ([], {})
    folder = lab.folder / f"kubernetes-{is_encrypted}"
    with KubernetesCluster.started(folder, SPARK_HOME, Path(sys.executable)) as cluster:
        # As in an image: addresses of HDFS and Kerberos, and no login.
        cluster.kubelet.environment |= lab.hdfs.environment
        given = {**cluster.settings(), "spark.executor.instances": "2"}
        told = [word for name in given for word in ("--conf", f"{name}={given[name]}")]
        login = {"KRB5CCNAME": lab.cache()}
        ended = lab.run("life", *options, *told, master=cluster.master, **login)
    return _judged(ended, is_encrypted=is_encrypted)


def _judged(ended: Ended, *, is_encrypted: bool) -> str:
    if is_encrypted:
        _check(ended.code == 0, ended)
        return ""
    _check(ended.code != 0 and "StoreUnavailableError" in ended.said, ended)
    _check("HDFS tokens stay on the driver" in ended.said, ended)
    return "StoreUnavailableError, retryable; a warning names the settings"


def _kdc_away(lab: KerberosLab) -> str:
    with lab.begun("held", *lab.by_keytab) as driver:
        _wait(lab, driver, "waits")
        lab.kdc.stop()
        lab.go_on(driver, "over")
        notes = _wait(lab, driver, "rewrites")
        lab.kdc.start()
        lab.go_on(driver, "back")
        notes = _wait(lab, driver, "rows")
        error = notes["error"]
    rows = [row[0] for row in notes["rows"]]
    if rows != ([1, 2] if error is None else [1]) or (error and not error[1]):
        raise AssertionError(f"{rows} after {error}")
    return f"rows {rows} after {error[0] + ', retryable' if error else 'a commit'}"


def _outlived(lab: KerberosLab) -> str:
    with lab.begun("outlive", *lab.by_keytab) as driver:
        _wait(lab, driver, "waits")
        time.sleep(_OVER_S)
        lab.go_on(driver, "over", "back")
        notes = _wait(lab, driver, "rows")
    if notes["error"] is not None or [row[0] for row in notes["rows"]] != [1, 2]:
        raise AssertionError(str(notes))
    return "the tokens were replaced meanwhile"


def _outlived_without_kdc(lab: KerberosLab) -> str:
    with lab.begun("outlive", *lab.by_keytab) as driver:
        _wait(lab, driver, "waits")
        lab.kdc.stop()
        time.sleep(_OVER_S)
        lab.go_on(driver, "over")
        notes = _wait(lab, driver, "rewrites")
        lab.kdc.start()
        lab.go_on(driver, "back")
        notes = _wait(lab, driver, "rows")
    error = notes["error"]
    rows = [row[0] for row in notes["rows"]]
    if error is None or not error[1] or rows != [1]:
        raise AssertionError(f"{rows} after {error}")
    return f"{error[0]}, retryable; no row of it is seen"


def _wait(lab: KerberosLab, driver: subprocess.Popen[bytes], name: str) -> dict[str, Any]:
    until = time.monotonic() + 300
    while name not in (notes := lab.notes(driver)):
        if driver.poll() is not None:
            raise AssertionError(lab.said(driver)[-2000:])
        if time.monotonic() > until:
            raise AssertionError(f"{name} was never noted: {notes}")
        time.sleep(0.2)
    return notes


def _check(is_so: bool, ended: Ended) -> None:
    if not is_so:
        lines = [line for line in ended.said.splitlines() if "Error" in line and "py4j" not in line]
        raise AssertionError("\n".join(lines[-8:]) or ended.said[-600:])
