"""Philox, a generator of random bits whose blocks are functions of a key and a counter."""

from __future__ import annotations

#: The bits of a word.
WORD = 2**64 - 1


def philox(key: int, counter: int) -> tuple[int, int, int, int]:
    """One block of Philox 4x64-10 (Salmon et al., 2011): four words of 64 bits."""
    a, b, c, d = ((counter >> shift) & WORD for shift in (0, 64, 128, 192))
    left, right = key & WORD, key >> 64
    for _ in range(10):
        first, second = a * 0xD2E7470EE14C6C93, c * 0xCA5A826395121157
        a, b, c, d = (
            (second >> 64) ^ b ^ left,
            second & WORD,
            (first >> 64) ^ d ^ right,
            first & WORD,
        )
        left = (left + 0x9E3779B97F4A7C15) & WORD
        right = (right + 0xBB67AE8584CAA73B) & WORD
    return a, b, c, d
