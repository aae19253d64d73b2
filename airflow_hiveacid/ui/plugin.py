"""The Airflow plugin that adds the page "Hive ACID tables" to the menu Browse.

Every Airflow component imports this module through the entry point `airflow.plugins`, but only the
API server uses the FastAPI applications. So their modules are imported on first use.
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin


class HiveAcidPlugin(AirflowPlugin):
    """The plugin with the page, the endpoints for the page's numbers, and the page's scripts."""

    name = "hiveacid"
    react_apps = [  # noqa: RUF012 - as Airflow declares it
        {
            "name": "Hive ACID tables",
            # A relative URL, so that the browser adds the path of `[api] base_url`.
            "bundle_url": "hiveacid-pages/main.js",
            "destination": "nav",
            "category": "browse",
            "url_route": "hiveacid",
        }
    ]

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The applications that the API server mounts."""
        from airflow_hiveacid.ui.web import app, scripts  # noqa: PLC0415 - brings FastAPI

        return [
            {"app": app, "url_prefix": "/hiveacid", "name": "Hive ACID tables"},
            {"app": scripts, "url_prefix": "/hiveacid-pages", "name": "Hive ACID pages"},
        ]
