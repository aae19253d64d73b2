"""DIGEST-MD5 without a server: which challenges are accepted, and the response to each."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from airflow_hiveacid.jobs.endpoint import Protection
from airflow_hiveacid.metastore.auth.sasl import DigestMd5, MechanismError
from airflow_hiveacid.metastore.auth.tokens import DelegationToken

TOKEN = DelegationToken(identifier=b"id", password=b"pw", kind="k", service="")


def login() -> DigestMd5:
    return DigestMd5(TOKEN, Protection.AUTHENTICATION)


def fields(answer: bytes) -> dict[bytes, bytes]:
    found = re.findall(rb'([\w-]+)=("(?:[^"\\]|\\.)*"|[^,]*)', answer)
    return dict(found)


def expected(answer: bytes, *, realm: bytes, nonce: bytes) -> bytes:
    """RFC 2831, 2.1.2.1, for auth, from the values as they are without quotes and escapes."""

    def md5(data: bytes) -> bytes:
        return hashlib.md5(data, usedforsecurity=False).digest()

    user, secret = base64.b64encode(b"id"), base64.b64encode(b"pw")
    cnonce = fields(answer)[b"cnonce"].strip(b'"')
    a1 = md5(user + b":" + realm + b":" + secret) + b":" + nonce + b":" + cnonce
    a2 = b"AUTHENTICATE:null/default"
    text = b":".join(
        (
            md5(a1).hex().encode(),
            nonce,
            b"00000001",
            cnonce,
            b"auth",
            md5(a2).hex().encode(),
        )
    )
    return md5(text).hex().encode()


@pytest.mark.parametrize(
    ("challenge", "realm", "nonce"),
    [
        (b'realm="default",nonce="n",qop="auth",algorithm=md5-sess', b"default", b"n"),
        (b'realm="a \\"b\\" \\\\ c",nonce="n\\"1",algorithm=md5-sess', b'a "b" \\ c', b'n"1'),
        (b'nonce="n",algorithm="MD5-sess"', b"", b"n"),
        (b'REALM="x", Nonce = "n" , QOP="auth" ,algorithm=md5-sess', b"x", b"n"),
        (b'realm="a,nonce=\\"z\\"",nonce="n",algorithm=md5-sess', b'a,nonce="z"', b"n"),
        (b'realm="first",realm="second",nonce="n",algorithm=md5-sess', b"first", b"n"),
    ],
)
def test_the_response_uses_the_unescaped_values_of_the_challenge(
    challenge: bytes, realm: bytes, nonce: bytes
) -> None:
    answer = login().answer(challenge)
    found = fields(answer)
    assert found[b"response"] == expected(answer, realm=realm, nonce=nonce)
    quoted = b'"' + realm.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
    assert (found[b"realm"], found[b"qop"], found[b"nc"]) == (quoted, b"auth", b"00000001")


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b'nonce="n"',
        b'nonce="n",algorithm=md5',
        b"algorithm=md5-sess",
        b'nonce="",algorithm=md5-sess',
        b'nonce="n,algorithm=md5-sess',
    ],
)
def test_an_invalid_challenge_is_refused(challenge: bytes) -> None:
    with pytest.raises(MechanismError, match="not valid DIGEST-MD5"):
        login().answer(challenge)


def test_each_login_has_its_own_client_nonce_and_refuses_a_second_challenge() -> None:
    challenge = b'nonce="n",algorithm=md5-sess'
    one, other = login(), login()
    assert fields(one.answer(challenge))[b"cnonce"] != fields(other.answer(challenge))[b"cnonce"]
    with pytest.raises(MechanismError, match="second challenge"):
        one.answer(challenge)


def test_a_login_cannot_finish_before_a_challenge() -> None:
    with pytest.raises(MechanismError, match="did not prove"):
        login().finish(b"rspauth=")
