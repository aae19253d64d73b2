"""Measures full-ACID tables against plain ORC files: `python -m bench`."""
