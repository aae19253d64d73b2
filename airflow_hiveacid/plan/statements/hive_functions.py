"""Hive functions that Spark executes with Hive's classes, and their names in Spark SQL.

Spark includes the classes of Hive 2.3. The functions in this module return the same results as in
Hive 4.0.1; tests compare the results (tests/interop/test_functions.py). The package `sql` uses the
names, and the package `spark` registers the functions in a session. `sql.expressions.functions`
decides which functions are allowed.

Example:
    >>> called("substr")
    '__hiveacid_substr'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_PACKAGE: Final = "org.apache.hadoop.hive.ql.udf."
_PREFIX: Final = "__hiveacid_"

CLASSES: Final[Mapping[str, str]] = {
    name: f"{_PACKAGE}{short}"
    for name, short in {
        "add_months": "generic.GenericUDFAddMonths",
        "array_contains": "generic.GenericUDFArrayContains",
        "ascii": "UDFAscii",
        "chr": "UDFChr",
        "concat_ws": "generic.GenericUDFConcatWS",
        "get_json_object": "UDFJson",
        "initcap": "generic.GenericUDFInitCap",
        "locate": "generic.GenericUDFLocate",
        "lpad": "generic.GenericUDFLpad",
        "map_keys": "generic.GenericUDFMapKeys",
        "map_values": "generic.GenericUDFMapValues",
        "printf": "generic.GenericUDFPrintf",
        "regexp_extract": "UDFRegExpExtract",
        "replace": "UDFReplace",
        "rpad": "generic.GenericUDFRpad",
        "size": "generic.GenericUDFSize",
        "soundex": "generic.GenericUDFSoundex",
        "split": "generic.GenericUDFSplit",
        "str_to_map": "generic.GenericUDFStringToMap",
        "substr": "UDFSubstr",
    }.items()
}


def called(name: str) -> str:
    """Return a function's name in Spark SQL, given its name in Hive."""
    return f"{_PREFIX}{name}"
