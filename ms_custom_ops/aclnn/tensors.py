# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays and MindSpore tensors as operands, without importing MindSpore.

``asnumpy()`` of a MindSpore tensor on CPU is a view of the tensor's own memory, so outputs are written through it.
Where it is not (a tensor on a device), the tensor is refused as an output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ms_custom_ops.aclnn.status import StatusError
from ms_custom_ops.errors import describe
from ms_custom_ops.registry.dtypes import NAME_TO_CODE


@dataclass(frozen=True)
class Shaped:
    """A tensor of which only this is known: of a call from C, whose memory Python does not see."""

    shape: tuple[int, ...]
    dtype: str
    contiguous: bool = True


@dataclass(frozen=True)
class Tensor:
    """One operand of ``op``. ``source`` is what the caller passed; its content is read or written when the op runs."""

    op: str
    name: str
    source: Any
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    def array(self) -> np.ndarray:
        """A view of the content; bfloat16 as ml_dtypes has it. StatusError (runtime) if the caller changed shape or
        dtype since the first phase."""
        view = _view(self.source)
        if view.shape != self.shape or view.dtype.name != self.dtype or not view.dtype.isnative:
            given = f"{view.dtype} of shape {view.shape} in the second phase"
            accepted = f"{self.dtype} of shape {self.shape}, as in the first one"
            raise StatusError("runtime", describe(self.op, self.name, given, accepted))
        return view

    def write(self, value: np.ndarray) -> None:
        """Puts ``value``, rounded to the dtype, into the caller's memory."""
        view = self.array()
        if not view.flags.writeable:
            raise StatusError("runtime", describe(self.op, self.name, "read-only", "a writeable tensor"))
        with np.errstate(over="ignore"):  # beyond float16 the result is inf
            view[...] = value.astype(view.dtype)


def _is_mindspore(x: Any) -> bool:
    return hasattr(x, "asnumpy") and any(kind.__module__.partition(".")[0] == "mindspore" for kind in type(x).__mro__)


def _view(x: Any) -> np.ndarray:
    if isinstance(x, np.ndarray):
        return np.asarray(x)  # of a subclass, its data
    view = x.asnumpy()
    if view.dtype.name == "bfloat16" and view.dtype != np.dtype(ml_dtypes.bfloat16):
        return view.view(np.uint16).view(ml_dtypes.bfloat16)  # MindSpore has a NumPy type of its own
    return view


def as_tensor(op: str, name: str, x: Any, *, strided: bool = False) -> Tensor:
    """Operand of an array or tensor; ``strided`` inputs may have any strides.

    Raises:
        StatusError: invalid_parameter for anything else, for an unknown dtype, or for strides.
    """
    if isinstance(x, Shaped):
        dtype, contiguous = x.dtype, x.contiguous
    elif isinstance(x, np.ndarray):
        dtype = x.dtype.name if x.dtype.isnative else f"{x.dtype.name} of foreign byte order"
        contiguous = x.flags.c_contiguous
    elif _is_mindspore(x):
        dtype, contiguous = str(x.dtype).lower(), bool(x.is_contiguous())
    else:
        refuse(op, name, f"a {type(x).__name__}", "a NumPy array or a MindSpore tensor")
    if dtype not in NAME_TO_CODE:
        refuse(op, f"dtype of {name}", dtype, ", ".join(NAME_TO_CODE))
    if not contiguous and not strided:
        refuse(op, name, "not contiguous", "a contiguous tensor (np.ascontiguousarray, Tensor.contiguous)")
    return Tensor(op, name, x, tuple(int(n) for n in x.shape), dtype)


def as_output(op: str, name: str, x: Any) -> Tensor:
    """Operand that the op will write.

    Raises:
        StatusError: as for :func:`as_tensor`, and for memory that cannot be written from here.
    """
    tensor = as_tensor(op, name, x, strided=isinstance(x, Shaped))
    if isinstance(x, Shaped):
        return tensor
    view = tensor.array()
    shared = isinstance(x, np.ndarray) or not view.size or view.ctypes.data == x.data_ptr()
    if not shared or not view.flags.writeable:
        what = "read-only" if shared else "a tensor whose memory this process cannot write"
        refuse(op, name, what, "a writeable NumPy array or a MindSpore tensor on CPU")
    return tensor


def refuse(op: str, name: str, given: object, accepted: object) -> Any:
    """Raises StatusError of the kind invalid_parameter."""
    raise StatusError("invalid_parameter", describe(op, name, given, accepted))
