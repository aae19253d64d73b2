"""The settings of a metastore for each kind of login, and for TLS.

Input is the locations of keys and users. Output is an `Access`. Hive 3.1 silently ignores unknown
settings and would accept every user. So an `Access` with settings of Hive 4 is limited to Hive 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from airflow_hiveacid.local.site import PLAIN, Access, Language
from tests.support.logins.directory import PEOPLE
from tests.support.logins.kdc import LocalKdc
from tests.support.logins.openssl import Certificates, Signer

LOCALHOST: Final = "localhost"
SERVICE: Final = f"hive/{LOCALHOST}"
_ONLY_4: Final = ("4",)
# By default, clients may announce a user (`set_ugi`). With this default, a server with a required
# login does not start.
_NO_ANNOUNCING: Final = {"metastore.execute.setugi": "false"}


def kerberos(
    kdc: LocalKdc,
    *,
    protections: str = "authentication,integrity,privacy",
    proxies: Mapping[str, str] | None = None,
) -> Access:
    """Return the access with Kerberos and delegation tokens.

    Args:
        kdc: The realm; the server's keytab is created if it is missing.
        protections: The protection levels that the server offers, as in hadoop.rpc.protection.
        proxies: Maps the short name of each proxy user to the users that it may represent. The
            names of these users are separated by commas.
    """
    keytab = kdc.keytab(SERVICE)
    allowed = {
        f"hadoop.proxyuser.{name}.{what}": value
        for name, users in (proxies or {}).items()
        for what, value in (("users", users), ("hosts", "*"))
    }
    return Access(
        language=Language.SASL,
        host=LOCALHOST,
        settings={
            "metastore.sasl.enabled": "true",
            "metastore.kerberos.principal": kdc.principal(SERVICE),
            "metastore.kerberos.keytab.file": str(keytab),
        },
        core_settings={
            # The server's own login reads only core-site.xml. Without this setting, every login
            # fails.
            "hadoop.security.authentication": "kerberos",
            "hadoop.rpc.protection": protections,
            **allowed,
        },
        jvm_flags=(f"-Djava.security.krb5.conf={kdc.configuration}",),
    )


def ldap(directory_uri: str, *, beside: Access = PLAIN) -> Access:
    """Return the access for users of an LDAP directory, and for Kerberos if `beside` allows it."""
    return _password(
        beside,
        {
            "metastore.authentication": "LDAP",
            "metastore.authentication.ldap.url": directory_uri,
            "metastore.authentication.ldap.baseDN": PEOPLE,
            "metastore.authentication.ldap.userDNPattern": f"uid=%s,{PEOPLE}",
        },
    )


def one_user(user: str, password: str, *, beside: Access = PLAIN) -> Access:
    """Return the access for one user; the server's settings contain the password."""
    return _password(
        beside,
        {
            "metastore.authentication": "CONFIG",
            "metastore.authentication.config.username": user,
            "metastore.authentication.config.password": password,
        },
    )


def custom(class_name: str, class_path: Path) -> Access:
    """Return the access for users whose passwords a custom class checks."""
    access = _password(
        PLAIN,
        {
            "metastore.authentication": "CUSTOM",
            "metastore.custom.authentication.class": class_name,
        },
    )
    return replace(access, class_path=(class_path,))


def http() -> Access:
    """Return the access by HTTP; a header has the user name, which the server does not check."""
    return Access(
        language=Language.HTTP,
        host=LOCALHOST,
        settings={"metastore.server.thrift.transport.mode": "http", **_NO_ANNOUNCING},
        releases=_ONLY_4,
    )


def bearer(signer: Signer) -> Access:
    """Return the access by HTTP, for users with a JSON Web Token from this signer."""
    keys = {
        "metastore.authentication": "JWT",
        "metastore.authentication.jwt.jwks.url": signer.key_list.as_uri(),
    }
    return replace(http(), settings={**http().settings, **keys})


def in_tls(access: Access, certificates: Certificates) -> Access:
    """Return the same access with TLS."""
    settings = {
        **access.settings,
        "metastore.use.SSL": "true",
        "metastore.keystore.path": str(certificates.server_store),
        "metastore.keystore.password": certificates.store_password(),
        "metastore.keystore.type": "PKCS12",
    }
    if access.language is Language.HTTP:
        # By default, this setting is empty. Jetty would then use the empty string as the name of an
        # algorithm.
        settings["metastore.keymanagerfactory.algorithm"] = "SunX509"
    return replace(access, host=LOCALHOST, settings=settings, authority=certificates.authority)


def _password(beside: Access, settings: Mapping[str, str]) -> Access:
    more = {} if "metastore.sasl.enabled" in beside.settings else _NO_ANNOUNCING
    return replace(
        beside,
        language=Language.SASL,
        host=LOCALHOST,
        settings={**beside.settings, **settings, **more},
        releases=_ONLY_4,
    )
