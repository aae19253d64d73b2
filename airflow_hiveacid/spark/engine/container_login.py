"""Kerberos login to a metastore from a driver in a container, with Spark's credentials.

A connection's keytab or ticket cache is on Airflow's worker, not on the cluster's nodes. Spark
ships its own credentials there: with `--keytab` the keytab under another file name, with a ticket
cache a delegation token of the metastore.

The input is an endpoint, Spark's settings and the environment variables; the output is the endpoint
to use in this process. If this process can read the files of the connection's login, the endpoint
stays unchanged. If the connection names a client, a keytab or token of a different client is
ignored.

Example:
    >>> from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    >>> endpoint_here(MetastoreEndpoint(uris=("thrift://h",)), {}.get, {}).uris
    ('thrift://h',)
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import KerberosLogin, Login, MetastoreEndpoint, TokenLogin
from airflow_hiveacid.metastore.auth.tokens import CONTAINER_FILE, read_token
from airflow_hiveacid.spark.engine.store_tokens import KEYTABS

_CONTAINER: Final = "CONTAINER_ID"
"""The variable that YARN sets in each container."""

_IN_POD: Final = "spark.kubernetes.submitInDriver"
"""The setting that Spark adds for a driver that runs in a pod."""

_PRINCIPAL: Final = ("spark.kerberos.principal", "spark.yarn.principal")

log = logging.getLogger("hiveacid")


def endpoint_here(
    endpoint: MetastoreEndpoint,
    setting: Callable[[str], str | None],
    environment: Mapping[str, str] = os.environ,
) -> MetastoreEndpoint:
    """Return the endpoint with a login that works here; `setting` returns Spark's settings."""
    login = endpoint.login
    is_sent = bool(environment.get(_CONTAINER)) or setting(_IN_POD) == "true"
    if not isinstance(login, KerberosLogin) or not is_sent:
        return endpoint
    if _is_there(login, environment):
        return endpoint
    new_login = _by_sparks_keytab(login, setting) or _by_token(login, environment)
    return endpoint if new_login is None else replace(endpoint, login=new_login)


def _is_there(login: KerberosLogin, environment: Mapping[str, str]) -> bool:
    if login.keytab:
        return _can_read(login.keytab)
    # The Kerberos library uses this keytab to fill a ticket cache that does not exist yet.
    if _can_read(environment.get("KRB5_CLIENT_KTNAME", "")):
        return True
    cache = login.cache or environment.get("KRB5CCNAME", "")
    return _can_read(cache) if cache.startswith(("FILE:", "/")) else bool(cache)


def _can_read(file: str) -> bool:
    return os.access(file.removeprefix("FILE:"), os.R_OK)


def _by_sparks_keytab(login: KerberosLogin, setting: Callable[[str], str | None]) -> Login | None:
    principal = next(filter(None, map(setting, _PRINCIPAL)), None)
    keytab = next(filter(None, map(setting, KEYTABS)), None)
    if principal is None or keytab is None or not os.access(keytab, os.R_OK):
        return None
    if login.client not in (None, principal, principal.partition("@")[0]):
        log.warning(
            "ignoring Spark's keytab for the metastore: it is for %s, the connection names %s",
            principal,
            login.client,
        )
        return None
    log.info("logging in to the metastore with Spark's keytab, as %s", principal)
    return replace(login, client=principal, keytab=str(Path(keytab).absolute()), cache=None)


def _by_token(login: KerberosLogin, environment: Mapping[str, str]) -> Login | None:
    if not environment.get(CONTAINER_FILE):
        return None
    token_login = TokenLogin(protection=login.protection)
    try:
        token = read_token(token_login)
        owner = token.owner if login.client else None
    except (ConfigurationError, ValueError) as error:
        log.warning("there is no login for the metastore in this container: %s", error)
        return None
    if login.client and owner is not None and not _is_same(login.client, owner):
        log.warning(
            "ignoring Spark's token for the metastore: it is for %s, the connection names %s",
            owner,
            login.client,
        )
        return None
    log.info("logging in to the metastore with Spark's delegation token")
    return token_login


def _is_same(client: str, owner: str) -> bool:
    """Return whether an owner is the connection's client; realm and host may be missing."""
    name = client.partition("@")[0]
    is_short = not set("/@") & set(owner)
    return (
        owner in (client, name)
        or owner.partition("@")[0] == client
        or (is_short and owner == name.partition("/")[0])
    )
