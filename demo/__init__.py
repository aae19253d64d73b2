"""The demonstration: real flight data, loaded by Airflow and Spark, compared with its source.

Not part of the wheel. `python -m demo run` in a checkout; `make demo` does the same.
"""
