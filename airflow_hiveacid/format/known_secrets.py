"""Hide secrets that this process has read from all error messages.

`HiveAcidError` hides them, in plain text and in encoded forms: a server may quote a password or
token in its error, and our errors quote the server.

Example:
    >>> _ = keep_secret("open sesame")
    >>> without_secrets("no user has the password open sesame (open%20sesame)")
    'no user has the password *** (***)'
"""

from __future__ import annotations

import base64
import json
import re
from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain
from typing import Final
from urllib.parse import quote, quote_plus

_HIDDEN: Final = "***"
# Shorter secrets may also be part of ordinary words. Airflow has the same limit.
_SHORTEST: Final = 5
# Longer than a text that is shown and the longest token together.
_LOOKED_AT: Final = 1 << 16
# A process that runs for months reads a new token every hour.
_MOST: Final = 100
_known: OrderedDict[str, frozenset[str]] = OrderedDict()


def keep_secret(secret: str) -> str:
    """Hide this secret in all later messages of this process, and return it."""
    if len(secret) >= _SHORTEST:
        if secret not in _known:
            _known[secret] = frozenset(_forms(secret))
        # A secret that is read again moves to the end, so that older secrets are forgotten first.
        _known.move_to_end(secret)
        while len(_known) > _MOST:
            _known.popitem(last=False)
    return secret


def forget_secrets() -> None:
    """Forget all secrets; tests with ordinary words as secrets need this."""
    _known.clear()


def without_secrets(text: str) -> str:
    """Return a text with `***` in place of each secret that this process has read."""
    forms = chain.from_iterable(tuple(_known.values()))
    # Longer secrets first: the rest of one that contains another would remain visible.
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, _HIDDEN)
    return text


def uncut(text: str) -> tuple[int, int]:
    """Return the bounds of the part of a text that is left without parts of cut secrets.

    A text of whole lines may begin with the last lines of a secret, and end with the first lines.
    """
    begin, end = 0, len(text)
    for form in chain.from_iterable(tuple(_known.values())):
        for cut in (newline.end() for newline in re.finditer("\n", form)):
            if text.startswith(form[cut:]):
                begin = max(begin, len(form) - cut)
            if text.endswith(form[:cut]):
                end = min(end, len(text) - cut)
    return begin, end


def beginning_of(text: str, length: int) -> str:
    """Return the first characters of a server's text, without secrets and parts of a secret."""
    return without_secrets(text[:_LOOKED_AT])[:length]


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret in plain text, and as URLs, JSON, `repr` and headers encode it."""
    yield secret
    yield repr(secret)[1:-1]
    for in_json in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield from (in_json, in_json.replace("/", r"\/"))  # YARN's JSON escapes slashes
    in_java = quote_plus(secret, safe="*").replace("~", "%7E")
    for in_url in (quote(secret, safe=""), quote(secret), quote_plus(secret), in_java):
        yield from (in_url, re.sub("%..", lambda code: code[0].lower(), in_url))
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        raw = secret.encode()
        yield encode(raw).decode().rstrip("=")
        # A header may encode user and secret together, and base64 takes three bytes at a time, so
        # the forms contain only characters that do not depend on the user.
        for offset in range(3):
            whole = encode(bytes(offset) + raw).decode()
            yield whole[-(-offset * 4 // 3) : (offset + len(raw)) * 4 // 3]
