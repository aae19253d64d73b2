"""Checks of a job before `spark-submit` starts, to save a Spark start if the job must fail.

The option `check_before_submit` of section `[hiveacid]` turns all checks off, for workers that may
not reach the metastore.
"""

from __future__ import annotations

import logging

from airflow_hiveacid.airflow_names import conf
from airflow_hiveacid.format import errors
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.job import ProgramSpec
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.operators.submission.java_check import check_java
from airflow_hiveacid.operators.submission.submission import Submission
from airflow_hiveacid.operators.submission.table_checks import check_tables
from airflow_hiveacid.plan import arguments

log = logging.getLogger(__name__)


def check_before_submit(submission: Submission, hook: HiveAcidHook) -> None:
    """Raise an error if the driver would refuse the job, or this worker cannot submit the job."""
    if not may_ask_metastore():
        return
    _ask_metastore(submission, hook)
    check_java(submission.binary, submission.environment)


def may_ask_metastore() -> bool:
    """Return whether workers may use the metastore: the option `check_before_submit`."""
    option = str(conf.get("hiveacid", "check_before_submit", fallback="True"))
    return arguments.truth(option, "option check_before_submit of section [hiveacid]")


def _ask_metastore(submission: Submission, hook: HiveAcidHook) -> None:
    if isinstance(submission.spec.job, ProgramSpec):
        return  # check no table: the driver may reach a metastore that this worker cannot reach
    try:
        with hook.metastore() as client:
            if _can_ask(client, submission):
                check_tables(client, submission.spec.job)
    except (errors.TableNotFoundError, errors.PartitionNotFoundError) as error:
        # With authorisation, a metastore reports a table as missing if the user may not read it.
        if not submission.may_change_user:
            raise
        log.warning("the driver must check the job's tables, maybe as a different user: %s", error)
    except (errors.MetastoreUnavailableError, errors.MetastoreLoginError) as error:
        error.add_note(
            f"This worker asked through connection {hook.hive_acid_conn_id!r}, before it started"
            " Spark. If only Spark drivers may use the metastore, set check_before_submit=False in"
            " section [hiveacid]"
        )
        raise
    except errors.MetastoreCallError as error:
        # The metastore may refuse a call from this worker's user, but not from the driver's user.
        log.warning("the driver must check the job's tables: %s", error)


def _can_ask(client: MetastorePort, submission: Submission) -> bool:
    """Log in to the metastore; return false if only the driver may be able to log in."""
    try:
        _ = client.generation
    except (errors.ConfigurationError, errors.MetastoreLoginError) as error:
        if not submission.may_change_user:
            raise
        log.warning("the driver must check the job's tables: %s", error)
        return False
    return True
