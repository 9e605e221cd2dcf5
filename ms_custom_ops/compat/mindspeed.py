# SPDX-License-Identifier: Apache-2.0
"""The segment-sum functions under the names of ``mindspeed_ops.api.triton``, on torch CPU tensors: our kernels.

Torch is imported when a function is called.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ms_custom_ops.errors import OpDtypeError, describe
from ms_custom_ops.soc import current_soc

if TYPE_CHECKING:
    import torch

_BFLOAT16_SOC = "Ascend910B1"
_SUMS = ("ddA_cs", "ddA_cs_rev", "dA_cs", "dA_cs_rev")


def to_numpy(op: str, name: str, tensor: torch.Tensor) -> np.ndarray:
    """Content of a CPU tensor, C-contiguous; bfloat16 as ml_dtypes.bfloat16.

    Raises:
        OpDtypeError: ``tensor`` is no torch tensor, or not on the CPU.
    """
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise OpDtypeError(describe(op, name, type(tensor).__name__, "a torch.Tensor"))
    if tensor.device.type != "cpu":
        raise OpDtypeError(describe(op, f"device of {name}", tensor.device, "cpu"))
    plain = tensor.detach().contiguous()
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return plain.numpy()


def to_torch(array: np.ndarray) -> torch.Tensor:
    """A tensor of its own with the content of ``array``."""
    import torch

    plain = np.array(array, order="C")
    if plain.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(plain.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(plain)


def _call(op: str, tensors: dict[str, Any], **attrs: Any) -> tuple[torch.Tensor, ...]:
    """Results of our public function ``op``, run for the chip in force; for Ascend910B1 where bfloat16 is given and
    the chip in force has none."""
    import torch

    from ms_custom_ops.lower.run import run_public
    from ms_custom_ops.registry import get_op
    from ms_custom_ops.registry.call_values import match_soc

    arrays = {
        n: to_numpy(op, n, x) if isinstance(x, torch.Tensor) or n != "cu_seqlens" else [int(v) for v in x]
        for n, x in tensors.items()
        if x is not None
    }
    soc, chips = current_soc().name, get_op(op).target.soc
    key = match_soc(soc, list(chips))
    half = any(isinstance(x, np.ndarray) and x.dtype == ml_dtypes.bfloat16 for x in arrays.values())
    if half and (key is None or "BF16" not in chips[key]):
        soc = _BFLOAT16_SOC
    return tuple(map(to_torch, run_public(op, arrays, attrs, soc).values()))


def bwd_segsum_dadt(
    dSSdA: torch.Tensor, SSdA: torch.Tensor, ddt_out: torch.Tensor, chunk_size: int, cu_seqlens: Any = None
) -> torch.Tensor:
    """ddt_out plus the gradient of da through exp(SSdA). A contiguous ``ddt_out`` is updated in place and returned; of
    another one a copy is, as in the original."""
    tensors = {"dSSdA": dSSdA, "SSdA": SSdA, "ddt_out": ddt_out, "cu_seqlens": cu_seqlens}
    (ddt,) = _call("bwd_segsum_dadt", tensors, chunk_size=chunk_size)
    if not ddt_out.is_contiguous():
        return ddt
    ddt_out.detach().copy_(ddt)
    return ddt_out


def dacs_segsum(da: torch.Tensor, chunk_size: int, cu_seqlens: Any = None) -> tuple[torch.Tensor, ...]:
    """(da_cs, da_cs_rev, segsum): sums of da inside chunks, clamped at 0 from above."""
    return _call("dacs_segsum", {"da": da, "cu_seqlens": cu_seqlens}, chunk_size=chunk_size)


def segsum_decay(da: torch.Tensor, chunk_size: int, cu_seqlens: Any = None) -> torch.Tensor:
    """exp of the segment sums below the diagonal, 0 elsewhere."""
    return _call("segsum_decay", {"da": da, "cu_seqlens": cu_seqlens}, chunk_size=chunk_size)[0]


def bwd_dadt_cumsum(
    ddA_cs: torch.Tensor, ddA_cs_rev: torch.Tensor, dA_cs: torch.Tensor, dA_cs_rev: torch.Tensor, chunk_size: int,
    cu_seqlens: Any = None,
) -> torch.Tensor:  # fmt: skip
    """Gradient of da through exp(dA_cs) and exp(dA_cs_rev)."""
    given = dict(zip(_SUMS, (ddA_cs, ddA_cs_rev, dA_cs, dA_cs_rev), strict=True))
    return _call("bwd_dadt_cumsum", {**given, "cu_seqlens": cu_seqlens}, chunk_size=chunk_size)[0]


def bwd_dadt_fused(
    dSSdA: torch.Tensor, SSdA: torch.Tensor, ddA_cs: torch.Tensor, ddA_cs_rev: torch.Tensor, dA_cs: torch.Tensor,
    dA_cs_rev: torch.Tensor, chunk_size: int, cu_seqlens: Any = None,
) -> torch.Tensor:  # fmt: skip
    """bwd_dadt_cumsum plus bwd_segsum_dadt."""
    given = dict(zip(_SUMS, (ddA_cs, ddA_cs_rev, dA_cs, dA_cs_rev), strict=True))
    tensors = {"dSSdA": dSSdA, "SSdA": SSdA, **given, "cu_seqlens": cu_seqlens}
    return _call("bwd_dadt_fused", tensors, chunk_size=chunk_size)[0]


def bwd_dtrap_ddt(
    trap: torch.Tensor, dt: torch.Tensor, dfactor: torch.Tensor, dgamma_diag: torch.Tensor,
    chunk_size: int | None = None, cu_seqlens: Any = None,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """(ddt, dtrap). ``chunk_size`` is how the original divides its work; the result does not depend on it."""
    tensors = {"trap": trap, "dt": dt, "dfactor": dfactor, "dgamma_diag": dgamma_diag, "cu_seqlens": cu_seqlens}
    return _call("bwd_dtrap_ddt", tensors)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (bwd_segsum_dadt, dacs_segsum, segsum_decay, bwd_dadt_cumsum, bwd_dadt_fused, bwd_dtrap_ddt)
}
#: Other names that the originals have for the same functions.
NAMES = {
    **{name: name for name in FUNCTIONS},
    "bwd_dadt_cumsum_fused": "bwd_dadt_cumsum",
    "compute_dacs_segsum": "dacs_segsum",
}


def get_available_device() -> str:
    """Where the functions take their tensors: "cpu"."""
    return "cpu"


def is_arch35() -> bool:
    """Whether the chip in force is one of the register-vector generation (Ascend950): none of ours is."""
    return current_soc().name.startswith("Ascend950")


class FunctionModule(types.ModuleType):
    """A module with one function, which can be called in its stead: ``from mindspeed_ops.api.triton import name`` gives
    the module in some releases and the function in others."""

    def __init__(self, name: str, function: Callable[..., Any]):
        super().__init__(name, function.__doc__)
        self.__path__: list[str] = []
        self._function = function
        self.__signature__ = inspect.signature(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def function_modules(package: str) -> dict[str, types.ModuleType]:
    """``package.<op>`` with the function under its name, ``<name>_triton``, and ``_triton_varlen`` where it takes
    ``cu_seqlens``."""
    modules: dict[str, types.ModuleType] = {}
    for name, function_name in NAMES.items():
        function = FUNCTIONS[function_name]
        module = FunctionModule(f"{package}.{name}", function)
        for alias in [name, *(other for other, target in NAMES.items() if target == function_name)]:
            for suffix in ("", "_triton", "_triton_varlen"):
                setattr(module, alias + suffix, function)
        modules[module.__name__] = module
    return modules
