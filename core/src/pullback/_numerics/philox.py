"""Philox, a generator of random bits whose blocks are functions of a key and a counter."""

from __future__ import annotations

from typing import Any

from pullback._numerics import ArrayNamespace

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


def philox_words(xp: ArrayNamespace, key: Any, counter: Any, blocks: int) -> Any:
    """The words of the blocks after a counter, computed by an array API namespace.

    Args:
        xp: the namespace, with uint64.
        key: an array of two words, the low one first.
        counter: an array of four words.
        blocks: the number of blocks, of four words each.
    """

    def word(value: int) -> Any:
        return xp.asarray(value, dtype=xp.uint64)

    half, low = word(32), word(0xFFFFFFFF)

    def product(x: Any, factor: int) -> tuple[Any, Any]:
        """The upper and the lower word of a product."""
        small, large = word(factor & 0xFFFFFFFF), word(factor >> 32)
        x_small, x_large = x & low, x >> half
        first, second = x_small * large, x_large * small
        middle = ((x_small * small) >> half) + (first & low) + (second & low)
        upper = x_large * large + (first >> half) + (second >> half) + (middle >> half)
        return upper, x * word(factor)

    carry = xp.arange(1, blocks + 1, dtype=xp.uint64)
    parts = []
    for i in range(4):
        part = counter[i : i + 1] + carry
        carry = xp.astype(part < carry, xp.uint64)
        parts.append(part)
    a, b, c, d = parts
    left, right = key[0:1], key[1:2]
    for _ in range(10):
        upper, lower = product(a, 0xD2E7470EE14C6C93)
        upper2, lower2 = product(c, 0xCA5A826395121157)
        a, b, c, d = upper2 ^ b ^ left, lower2, upper ^ d ^ right, lower
        left, right = left + word(0x9E3779B97F4A7C15), right + word(0xBB67AE8584CAA73B)
    return xp.reshape(xp.stack([a, b, c, d], axis=1), (-1,))
