"""A DAG bundle with this provider's example DAGs; one setting of Airflow adds it.

    export AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST='[
      {"name": "dags-folder", "kwargs": {},
       "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle"},
      {"name": "hiveacid-examples", "kwargs": {},
       "classpath": "airflow_hiveacid.bundles.HiveAcidExampleDagBundle"}]'

The DAG processor and each worker read the examples from the package on their own machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from airflow.dag_processing.bundles.local import LocalDagBundle

_PACKAGE: Final = Path(__file__).resolve().parent


class HiveAcidExampleDagBundle(LocalDagBundle):
    """The example DAGs of the installed package, or of the checkout that Airflow runs from.

    Args:
        **kwargs: Airflow's own arguments, such as the bundle's name and `refresh_interval`.
    """

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - Airflow's own
        shipped = _PACKAGE / "example_dags"
        path = shipped if shipped.is_dir() else _PACKAGE.parent / "dags"
        super().__init__(path=str(path), **kwargs)
