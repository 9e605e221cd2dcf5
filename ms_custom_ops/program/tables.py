# SPDX-License-Identifier: Apache-2.0
"""Tables: the values that a GM buffer starts with, as the bytes of its elements, and their text."""

from __future__ import annotations

import re

import numpy as np

from ms_custom_ops.program.dtypes import DTYPES, FLOATS, SIZE

_BITS = re.compile(r"bits<0x([0-9a-f]+)>")


def elements(raw: bytes, dtype: str) -> np.ndarray:
    """The elements of a table."""
    return np.frombuffer(raw, DTYPES[dtype].numpy)


def write(raw: bytes, dtype: str) -> str:
    """``[1,2,3]``; a float that its digits do not give back (a NaN with a payload) is written ``bits<0x7e01>``."""
    bits = np.frombuffer(raw, f"<u{SIZE[dtype]}")
    if dtype not in FLOATS:
        numbers = bits if dtype == "bool" else elements(raw, dtype)
        return "[" + ",".join(map(str, numbers.tolist())) + "]"
    digits = [repr(v) for v in elements(raw, dtype).astype(np.float64).tolist()]
    back = _floats(digits, dtype).view(bits.dtype)
    for k in np.flatnonzero(back != bits):
        digits[k] = f"bits<0x{int(bits[k]):0{2 * SIZE[dtype]}x}>"
    return "[" + ",".join(digits) + "]"


def read(text: str, dtype: str) -> bytes:
    """The bytes of a text of :func:`write`; ValueError when it is none."""
    words = text.removeprefix("[").removesuffix("]").split(",")
    if dtype not in FLOATS:
        kind = np.dtype(np.uint8) if dtype == "bool" else DTYPES[dtype].numpy
        try:
            return np.array([int(w) for w in words], kind).tobytes()
        except OverflowError as error:
            raise ValueError(f"{error} ({dtype})") from None
    given = [_BITS.fullmatch(w) for w in words]
    floats = _floats(["0" if found else w for w, found in zip(words, given, strict=True)], dtype)
    bits = floats.view(f"<u{SIZE[dtype]}")
    for k, found in enumerate(given):
        if found:
            bits[k] = int(found[1], 16) & (256 ** SIZE[dtype] - 1)
    return bits.tobytes()


def _floats(digits: list[str], dtype: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.array([float(d) for d in digits], np.float64).astype(DTYPES[dtype].numpy)
