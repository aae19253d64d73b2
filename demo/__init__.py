"""The demonstration: real flights through metastore, Airflow and Spark, judged by the source.

Not part of the wheel. `python -m demo run` in a checkout; `make demo` does the same.
"""
