"""Files of tables: stores, ORC, values, hashes, ACID files and plain files.

Docstrings here do not repeat these errors. A store that denies access raises
LocationPermissionError; each other failure of a store is a StorageError (`filesystem.storage_errors`
lists them). A damaged file raises CorruptFileError; a file or a value in it that no reader here can
represent, UnsupportedFileError. A column's type raises InvalidNameError if it is no type of Hive,
UnsupportedTableError if it is a union. In `stores.hdfs` and `stores.s3`, every failure is an OSError
with an errno.
"""
