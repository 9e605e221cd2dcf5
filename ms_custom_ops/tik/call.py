# SPDX-License-Identifier: Apache-2.0
"""What a kernel is built for: one call of an op, as the compiler hands it to the kernel's entry."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from ms_custom_ops.errors import OpArgumentError, describe
from ms_custom_ops.soc.table import Soc


@dataclass(frozen=True)
class TensorInfo:
    """Shape and full dtype name of a tensor of the call."""

    shape: tuple[int, ...]
    dtype: str


class KernelCall:
    """One checked call of an op on one chip.

    ``inputs`` and ``outputs`` map the names of the op_info file to the tensors that are there, in its order; ``attrs``
    has a value for every attribute, defaults included. ``call["query"]`` is the tensor, ``"attn_mask" in call`` says
    whether an optional one is given. ``soc`` is the chip, ``kernel_name`` what the kernel is to be called.
    """

    def __init__(
        self,
        op: str,
        kernel_name: str,
        soc: Soc,
        inputs: Mapping[str, TensorInfo],
        outputs: Mapping[str, TensorInfo],
        attrs: Mapping[str, Any],
    ):
        self.op = op
        self.kernel_name = kernel_name
        self.soc = soc
        self.inputs = dict(inputs)
        self.outputs = dict(outputs)
        self.attrs: Mapping[str, Any] = _Attributes(op, attrs)

    def __contains__(self, name: str) -> bool:
        return name in self.inputs or name in self.outputs

    def __getitem__(self, name: str) -> TensorInfo:
        """The tensor; OpArgumentError when the call has none of that name."""
        found = self.inputs.get(name) or self.outputs.get(name)
        return found if found is not None else _unknown(self.op, "tensor", name, (*self.inputs, *self.outputs))


class _Attributes(dict[str, Any]):
    def __init__(self, op: str, attrs: Mapping[str, Any]):
        super().__init__(attrs)
        self._op = op

    def __missing__(self, name: str) -> NoReturn:
        _unknown(self._op, "attribute", name, self)


def _unknown(op: str, what: str, name: str, known: Iterable[str]) -> NoReturn:
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    accepted = f"one of the call: {', '.join(names) or '(none)'}" + (f"; nearest: {close[0]}" if close else "")
    raise OpArgumentError(describe(op, f"{what} that the kernel asks for", repr(name), accepted))
