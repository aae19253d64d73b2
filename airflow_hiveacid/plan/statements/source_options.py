"""Source options for secrets: a job spec contains the location of a secret, never the secret.

Airflow stores rendered arguments, and job specs travel to the cluster as files. So if an option's
name suggests a secret, its value must be `env:NAME` or `file:/path`. The driver reads the secret
from there.

Example:
    >>> secret_of("password", "env:ORDERS_PASSWORD"), secret_of("fetchsize", "1000")
    (SecretSource(file=None, variable='ORDERS_PASSWORD'), None)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import SecretSource

_WORDS: Final = (
    "passw(?:or)?d|pwd|passphrase|secret|token|credentials?|(?:access|account|api|private)[._-]?key"
    # `DB_PASS`, but not `bypass`; the tokens for `wasb`; and Kafka's login.
    r"|(?<![a-z])pass(?=$|=)|azure\.sas\.|sasl\.jaas\.config"
)
_NAME: Final = re.compile(_WORDS, re.IGNORECASE)
# Their values are a class, an address, and `true` or `false`.
_NO_SECRET: Final = re.compile(
    r"provider(?:fqcn)?$|token\.endpoint\.url$|^forward_spark_s3_credentials$", re.IGNORECASE
)
_ADDRESS: Final = re.compile(r"\s*(?:jdbc:|[\w+.-]+://)\S*", re.IGNORECASE)
_LOGIN: Final = "://[^/@:]+:[^/@]+@"
_IN_ADDRESS: Final = re.compile(rf"(?:{_WORDS})=[^&;]|{_LOGIN}", re.IGNORECASE)
# A partition's directory may be `token=a`.
_IN_LOCATION: Final = re.compile(rf"\S*?(?:{_LOGIN}|\?\S*(?:{_WORDS})=[^&;])", re.IGNORECASE)


def check_options(options: Mapping[str, str], argument: str) -> None:
    """Raise a ConfigurationError if an option contains a secret, or a value that looks like one.

    The error does not show the option's value.
    """
    for name, value in options.items():
        try:
            place = secret_of(name, value)
        except ConfigurationError:
            raise ConfigurationError(
                f"{argument}[{name!r}] must say where the driver finds the secret: 'env:NAME' or"
                " 'file:/path'. Airflow would store the secret itself"
            ) from None
        address = _ADDRESS.match(value)
        if place is None and address and _IN_ADDRESS.search(address[0]):
            raise ConfigurationError(
                f"{argument}[{name!r}] contains a password or another secret, which Airflow would"
                " store. Give it as an option of its own, with 'env:NAME' or 'file:/path' as value"
            )


def check_location(location: str | None, argument: str) -> None:
    """Raise a ConfigurationError if a location contains a login, or a parameter that seems secret.

    The message does not show the location.
    """
    if location is not None and _IN_LOCATION.match(location):
        raise ConfigurationError(
            f"{argument} contains a password or another secret, which Airflow would store. Remove"
            " it, and give Spark the login; docs/operations/secrets.md lists places for secrets"
        )


def secret_of(name: str, value: str) -> SecretSource | None:
    """Return the location of an option's secret; None if its name suggests no secret."""
    return SecretSource.parse(value) if suggests_secret(name) else None


def suggests_secret(name: str) -> bool:
    """Return whether the value of an option or setting with this name may be a secret."""
    return _NAME.search(name) is not None and _NO_SECRET.search(name) is None
