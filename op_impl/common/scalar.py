# SPDX-License-Identifier: Apache-2.0
"""Scalar arithmetic that stays in Python while everything is known and becomes scalar instructions otherwise."""

from __future__ import annotations

from typing import Any


class ScalarUnit:
    """Minimum, maximum and conversions of integers that are Python ints, loop variables or expressions."""

    def __init__(self, tik_instance: Any):
        self._tik = tik_instance

    def hold(self, value: Any) -> Any:
        """A Python int as it is, anything else in an int64 register."""
        return value if isinstance(value, int) else self._tik.Scalar("int64", init_value=value)

    def minimum(self, a: Any, b: Any) -> Any:
        """min(a, b)."""
        return self._select(min, self._tik.scalar_min, a, b)

    def maximum(self, a: Any, b: Any) -> Any:
        """max(a, b)."""
        return self._select(max, self._tik.scalar_max, a, b)

    @staticmethod
    def surely_empty(begin: Any, end: Any) -> bool:
        """The range is known to be empty while tracing (``for_range`` refuses an immediate end below begin)."""
        return isinstance(begin, int) and isinstance(end, int) and begin >= end

    def _select(self, known: Any, call: Any, a: Any, b: Any) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return known(a, b)
        out = self._tik.Scalar("int64")
        call(out, self.hold(a), self.hold(b))
        return out

    def to_float(self, value: Any) -> Any:
        """The integer as float32."""
        if isinstance(value, int):
            return float(value)
        whole = self._tik.Scalar("int32", init_value=value)
        out = self._tik.Scalar("float32")
        self._tik.scalar_conv("", out, whole)
        return out
