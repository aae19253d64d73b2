"""The play `warehouse`: many tables are written, read and compacted for an hour, by Hive, too."""
