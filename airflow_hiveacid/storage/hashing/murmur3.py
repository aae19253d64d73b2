"""Hive's variant of 32-bit Murmur3, computed over many values at once.

Hive's variant sign-extends the one to three bytes after the last whole word (Murmur3.hash32). So
common libraries compute different hashes for text that is not ASCII.

Example:
    >>> data = np.frombuffer("é".encode(), np.uint8)
    >>> murmur3_bytes(data, np.array([0, 2])).view(np.int32).tolist()
    [-527561221]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]

SEED: Final = np.uint32(104729)

_C1: Final = np.uint32(0xCC9E2D51)
_C2: Final = np.uint32(0x1B873593)
_M: Final = np.uint32(5)
_N: Final = np.uint32(0xE6546B64)
_F1: Final = np.uint32(0x85EBCA6B)
_F2: Final = np.uint32(0xC2B2AE35)
_WORD_BYTES: Final = 4


def murmur3_words(words: Sequence[Words]) -> Words:
    """Return a hash per value; `words[i]` has the i-th little-endian 32-bit word of each value."""
    hashes = np.full(len(words[0]), SEED)
    for word in words:
        hashes = _mixed_in(hashes, word)
    return _finished(hashes, np.uint32(_WORD_BYTES * len(words)))


def murmur3_bytes(data: npt.NDArray[np.uint8], offsets: npt.NDArray[Any]) -> Words:
    """Return the hash of each byte string `data[offsets[i]:offsets[i + 1]]`.

    Each step hashes one 32-bit word of every value that has such a word. Values are sorted by
    length, longest first. So the unfinished values are at the front.
    """
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets)
    word_counts = lengths // _WORD_BYTES
    by_length = np.argsort(-word_counts, kind="stable")
    sorted_counts = word_counts[by_length]
    hashes = np.full(len(lengths), SEED)
    # A view that holds the 32-bit word at every byte offset, aligned or not.
    windows = np.ndarray((max(0, len(data) - 3),), "<u4", np.ascontiguousarray(data), 0, (1,))
    for step in range(int(word_counts.max(initial=0))):
        at_work = by_length[: np.searchsorted(-sorted_counts, -step)]
        words = windows[starts[at_work] + _WORD_BYTES * step]
        hashes[at_work] = _mixed_in(hashes[at_work], words)
    hashes ^= _scrambled(_tails(data, starts + _WORD_BYTES * word_counts, lengths % _WORD_BYTES))
    return _finished(hashes, lengths.astype(np.uint32))


def _tails(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], counts: npt.NDArray[Any]
) -> Words:
    """Return the sign-extended bytes after each value's last whole word; 0 if there are none."""
    signed = data.view(np.int8)
    tails = np.zeros(len(starts), np.uint32)
    for byte in range(_WORD_BYTES - 1):
        has_one = counts > byte
        words = signed[starts[has_one] + byte].astype(np.int32).view(np.uint32)
        tails[has_one] ^= words << np.uint32(8 * byte)
    return tails


def _scrambled(words: Words) -> Words:
    return _rotated(words * _C1, 15) * _C2


def _mixed_in(hashes: Words, words: Words) -> Words:
    return _rotated(hashes ^ _scrambled(words), 13) * _M + _N


def _finished(hashes: Words, lengths: Words | np.uint32) -> Words:
    hashes = hashes ^ lengths
    hashes = (hashes ^ (hashes >> np.uint32(16))) * _F1
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _F2
    return hashes ^ (hashes >> np.uint32(16))


def _rotated(words: Words, bits: int) -> Words:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
