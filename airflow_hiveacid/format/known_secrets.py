"""The secrets that this process has read, so that no message of ours shows one.

A server may quote a login in its error, and our errors quote the server. `HiveAcidError` therefore
hides known secrets, also those that a server has encoded. This module reads no secret itself.

Example:
    >>> _ = keep_secret("open sesame")
    >>> without_secrets("no user has the password open sesame (open%20sesame)")
    'no user has the password *** (***)'
"""

from __future__ import annotations

import base64
import json
from typing import Final
from urllib.parse import quote, quote_plus

_HIDDEN: Final = "***"
# A shorter secret would also hide parts of ordinary words. Airflow has the same limit.
_SHORTEST: Final = 5
# A process that runs for months reads a new token every hour.
_MOST: Final = 100
_known: dict[str, tuple[str, ...]] = {}


def keep_secret(secret: str) -> str:
    """Hide this secret in all later messages of this process, and return it."""
    if len(secret) >= _SHORTEST and secret not in _known:
        _known[secret] = _forms(secret)
        for older in list(_known)[:-_MOST]:
            _known.pop(older, None)
    return secret


def forget_secrets() -> None:
    """Forget all secrets; tests whose secrets are ordinary words need this."""
    _known.clear()


def without_secrets(text: str) -> str:
    """Return a text with `***` in place of each secret that this process has read."""
    for forms in tuple(_known.values()):
        for form in forms:
            text = text.replace(form, _HIDDEN)
    return text


def _forms(secret: str) -> tuple[str, ...]:
    """Return a secret as it is, and as URLs, JSON and headers contain it."""
    raw = secret.encode()
    forms = {
        secret,
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        base64.b64encode(raw).decode().rstrip("="),
        base64.urlsafe_b64encode(raw).decode().rstrip("="),
    }
    return tuple(sorted(forms, key=len, reverse=True))
