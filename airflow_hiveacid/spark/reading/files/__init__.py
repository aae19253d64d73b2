"""The files and rows of a table, and the choice of a reader for each file."""
