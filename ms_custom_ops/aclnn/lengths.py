# SPDX-License-Identifier: Apache-2.0
"""Sequence lengths of the two-phase interface: the two readings of TND lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ms_custom_ops.aclnn.status import StatusError
from ms_custom_ops.aclnn.tensors import Shaped, as_tensor
from ms_custom_ops.errors import describe
from ms_custom_ops.registry.public import Operand


def read_lengths(op: str, name: str, given: Any) -> np.ndarray:
    """int64 values (B,) of a list, array or tensor. StatusError (invalid_parameter) for anything else."""
    if isinstance(given, (list, tuple)):
        try:
            values = np.asarray(given)
        except ValueError:  # lists of unequal lengths
            raise StatusError("invalid_parameter", describe(op, name, given, "integers of shape (B,)")) from None
    else:
        values = as_tensor(op, name, given).array()
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
        raise StatusError(
            "invalid_parameter", describe(op, name, f"{values.dtype} of shape {values.shape}", "integers of shape (B,)")
        )
    return values.astype(np.int64)


def prefix_sums(op: str, name: str, values: np.ndarray, total: int, axis: str) -> np.ndarray:
    """Inclusive prefix sums int32 (B,) of TND lengths in either reading.

    Tokens of each batch: non-negative, the sum is ``total``. Inclusive prefix sums: non-negative, non-decreasing, the
    last is ``total``. If both hold, all but the last are 0 and both say the same.

    Raises:
        StatusError: tiling, for values that fit neither; the text names both readings.
    """
    if values.size and values.min() >= 0 and values.max() <= total:  # so that no sum overflows
        if values.sum() == total:
            return np.cumsum(values).astype(np.int32)
        if values[-1] == total and (np.diff(values) >= 0).all():
            return values.astype(np.int32)
    last = int(values[-1]) if values.size else None
    raise StatusError(
        "tiling",
        describe(
            op,
            name,
            f"{values.tolist()} (sum {int(values.sum())}, last {last})",
            f"tokens of each batch, whose sum is {axis} = {total}, or inclusive prefix sums, whose last is {axis} = "
            f"{total}",
        ),
    )


def counts(op: str, name: str, values: np.ndarray, batch: int, tokens: int, axis: str) -> np.ndarray:
    """Tokens of each sequence int32 (B,) for BSND. StatusError (tiling) unless there are B of them in 0..tokens."""
    if values.shape != (batch,) or (values.size and not (values.min() >= 0 and values.max() <= tokens)):
        raise StatusError(
            "tiling", describe(op, name, values.tolist(), f"{batch} counts (B) from 0 to {axis} = {tokens}")
        )
    return values.astype(np.int32)


def shaped_lengths(op: str, name: str, given: Shaped, names: Mapping[str, Any]) -> Operand:
    """Lengths whose values are read later, as int32 in the form that the kernel takes. StatusError as of the functions
    above, for shape and dtype."""
    if len(given.shape) != 1 or given.dtype not in ("int32", "int64"):
        raise StatusError(
            "invalid_parameter",
            describe(op, name, f"{given.dtype} of shape {given.shape}", "int32 or int64 of shape (B,)"),
        )
    if names["layout"] != "TND" and given.shape != (names["B"],):
        raise StatusError(
            "tiling", describe(op, name, f"{given.shape[0]} counts", f"{names['B']} counts (B), one of each sequence")
        )
    if names["layout"] == "TND" and given.shape[0] < 1:
        raise StatusError("tiling", describe(op, name, "no length", "at least one sequence"))
    return Operand(given.shape, "int32")
