"""The stream cipher RC4; Java servers require RC4 for tokens with privacy.

Example:
    >>> Rc4(b"Key").update(b"Plaintext").hex()
    'bbf316e8d940af0ad3'
"""

from __future__ import annotations


class Rc4:
    """The cipher for one direction of one connection.

    Mutable: it keeps the position in the key stream. The cipher encrypts a few megabytes per
    second. This speed is sufficient for metastore calls. The module is in Python because the
    libraries of some hosts no longer include RC4.
    """

    def __init__(self, key: bytes) -> None:
        state, j = list(range(256)), 0
        for i in range(256):
            j = (j + state[i] + key[i % len(key)]) & 255
            state[i], state[j] = state[j], state[i]
        self._state, self._i, self._j = state, 0, 0

    def update(self, data: bytes) -> bytes:
        """Encrypt or decrypt the next bytes; both are the same operation in RC4."""
        state, i, j = self._state, self._i, self._j
        stream = bytearray(len(data))
        for index in range(len(data)):
            i = (i + 1) & 255
            x = state[i]
            j = (j + x) & 255
            y = state[j]
            state[i], state[j] = y, x
            stream[index] = state[(x + y) & 255]
        self._i, self._j = i, j
        mixed = int.from_bytes(stream, "big") ^ int.from_bytes(data, "big")
        return mixed.to_bytes(len(data), "big")
