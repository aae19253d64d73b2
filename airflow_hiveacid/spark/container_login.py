"""How a driver in a container gets into a metastore behind Kerberos: by what Spark brings there.

A connection names a keytab, or the tickets, of Airflow's worker; a node of the cluster has neither.
Spark brings its own to a container of YARN, and to a driver's pod: the keytab of `--keytab`, as a
file of another name, or, for a ticket cache, a delegation token of the metastore. Takes an
endpoint, Spark's settings and the process's variables; gives the endpoint to use here. What the
connection names counts where it is there; nobody becomes another than whom it names.

Example:
    >>> from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    >>> endpoint_here(MetastoreEndpoint(uris=("thrift://h",)), {}.get, {}).uris
    ('thrift://h',)
"""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.logins import KerberosLogin, TokenLogin
from airflow_hiveacid.metastore.doors.tokens import CONTAINER_FILE, read_token
from airflow_hiveacid.spark.store_tokens import KEYTABS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.jobs.logins import Login

_CONTAINER: Final = "CONTAINER_ID"
"""The variable that YARN gives each container."""

_IN_POD: Final = "spark.kubernetes.submitInDriver"
"""The setting that Spark gives a driver that it has started in a pod."""

_PRINCIPAL: Final = ("spark.kerberos.principal", "spark.yarn.principal")

log = logging.getLogger("hiveacid")


def endpoint_here(
    endpoint: MetastoreEndpoint,
    setting: Callable[[str], str | None],
    environment: Mapping[str, str] = os.environ,
) -> MetastoreEndpoint:
    """The endpoint with a login that this machine has, if it is a container that lacks the given.

    Args:
        endpoint: as the connection says.
        setting: what Spark's settings say of a name, or None.
        environment: of this process.
    """
    login = endpoint.login
    is_sent = bool(environment.get(_CONTAINER)) or setting(_IN_POD) == "true"
    if not isinstance(login, KerberosLogin) or not is_sent:
        return endpoint
    if _is_there(login, environment):
        return endpoint
    found = _by_sparks_keytab(login, setting) or _by_token(login, environment)
    return endpoint if found is None else replace(endpoint, login=found)


def _is_there(login: KerberosLogin, environment: Mapping[str, str]) -> bool:
    if login.keytab:
        return _can_read(login.keytab)
    # By this one the library fills a cache that is not there yet.
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
            "Spark's keytab is of %s, the metastore's connection names %s: it is not used there",
            principal,
            login.client,
        )
        return None
    log.info("the metastore is entered by the keytab that Spark has brought, as %s", principal)
    return replace(login, client=principal, keytab=str(Path(keytab).absolute()), cache=None)


def _by_token(login: KerberosLogin, environment: Mapping[str, str]) -> Login | None:
    if not environment.get(CONTAINER_FILE):
        return None
    found = TokenLogin(protection=login.protection)
    try:
        token = read_token(found)
        owner = token.owner if login.client else None
    except (ConfigurationError, ValueError) as error:
        log.warning("there is no login for the metastore in this container: %s", error)
        return None
    if login.client and owner is not None and not _is_same(login.client, owner):
        log.warning(
            "Spark's token is of %s, the metastore's connection names %s: it is not used there",
            owner,
            login.client,
        )
        return None
    log.info("the metastore is entered by the token that Spark has brought")
    return found


def _is_same(client: str, owner: str) -> bool:
    """Whether a token's owner is whom a connection names, either of them perhaps without a realm.

    A server may know the owner by his short name alone, which lacks the host, too.
    """
    name = client.partition("@")[0]
    is_short = not set("/@") & set(owner)
    return (
        owner in (client, name)
        or owner.partition("@")[0] == client
        or (is_short and owner == name.partition("/")[0])
    )
