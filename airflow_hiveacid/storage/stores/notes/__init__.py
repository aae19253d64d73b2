"""Small JSON files in a table's hidden directory, `_hiveacid`."""
