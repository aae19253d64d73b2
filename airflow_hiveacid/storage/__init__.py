"""Files of tables: stores, ORC, values, hashes, ACID files and plain files.

Docstrings here do not repeat these errors. A store that denies access raises
LocationPermissionError, and StorageError for any other reason (`storage_errors` lists subclasses).
A damaged file raises CorruptFileError. A file with a type or value that no reader here can
represent raises UnsupportedFileError. A column's type raises InvalidNameError if Hive does not have
it, and UnsupportedTableError if it is a union. In `stores.hdfs` and `stores.s3`, all failures are
OSErrors.
"""
