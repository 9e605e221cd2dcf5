# SPDX-License-Identifier: Apache-2.0
"""Slopes of ALiBi (Press, Smith, Lewis: Train Short, Test Long, ICLR 2022)."""

from __future__ import annotations

import numpy as np
from mindspore import Tensor

from ms_custom_ops.errors import OpArgumentError, describe


def _geometric(count: int) -> list[float]:
    """2^(-8/count), 2^(-16/count), ..., 2^-8."""
    return [2.0 ** (-8.0 * (head + 1) / count) for head in range(count)]


def alibi_slopes(head_num: int) -> Tensor:
    """ALiBi slope of each head, float32 (head_num,).

    For a power of two n the slopes are ``2^(-8 (h+1) / n)``; otherwise those of the next smaller power of
    two, followed by every second slope of twice that power (the rule of the authors' released code). The bias
    of query i and key j is ``-slope * (i - j)``; softmax does not see a shift of a whole row, so ``slope *
    j`` with shape (1, N1, 1, S2) as ``real_shift`` is the same thing.

    Raises:
        OpArgumentError: head_num is no positive integer.
    """
    if isinstance(head_num, bool) or not isinstance(head_num, int) or head_num < 1:
        raise OpArgumentError(describe("alibi_slopes", "head_num", repr(head_num), "an int of at least 1"))
    power = 1 << (head_num.bit_length() - 1)
    slopes = _geometric(power) + _geometric(2 * power)[0::2][: head_num - power]
    return Tensor(np.array(slopes, np.float32))
