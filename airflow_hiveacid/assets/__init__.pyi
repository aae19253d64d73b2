# Made by `python -m tools.face_stubs`.
from airflow_hiveacid.assets.tables import compaction_asset as compaction_asset
from airflow_hiveacid.assets.tables import hive_asset as hive_asset
from airflow_hiveacid.assets.tables import partitions_asset as partitions_asset
