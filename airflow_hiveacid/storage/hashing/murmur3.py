"""Murmur3, 32 bits, as Hive computes it, over many values at once.

Takes bytes or words of many values; gives one hash each. Hive's variant sign-extends the one to
three bytes behind the last whole word (Murmur3.hash32), so that common libraries give other hashes
for text that is not ASCII. Must not know what the bytes mean.

Example:
    >>> data = np.frombuffer("é".encode(), np.uint8)
    >>> murmur3_bytes(data, np.array([0, 2])).view(np.int32).tolist()
    [-527561221]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """Hashes of values that are whole words: word i of every value in `words[i]`, little endian."""
    hashes = np.full(len(words[0]), SEED)
    for word in words:
        hashes = _mixed_in(hashes, word)
    return _finished(hashes, np.uint32(_WORD_BYTES * len(words)))


def murmur3_bytes(data: npt.NDArray[np.uint8], offsets: npt.NDArray[Any]) -> Words:
    """Hashes of the byte strings `data[offsets[i]:offsets[i + 1]]`.

    One step for each word of the longest value, over all values that are as long: the longer values
    come first, so that those still at work are a prefix.
    """
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets)
    word_counts = lengths // _WORD_BYTES
    by_length = np.argsort(-word_counts, kind="stable")
    sorted_counts = word_counts[by_length]
    hashes = np.full(len(lengths), SEED)
    # A word at every byte, aligned or not.
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
    """The bytes behind the last word, each sign-extended; 0, which changes nothing, without any."""
    signed = data.view(np.int8)
    tails = np.zeros(len(starts), np.uint32)
    for place in range(_WORD_BYTES - 1):
        has_one = counts > place
        found = signed[starts[has_one] + place].astype(np.int32).view(np.uint32)
        tails[has_one] ^= found << np.uint32(8 * place)
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
