# SPDX-License-Identifier: Apache-2.0
"""Cases of kernels for public_kernels.py: what unit tests in the form of ``op_test_frame`` record, and one run."""

from __future__ import annotations

import contextlib
import math
import re
import sys
import types
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import ms_custom_ops as mco
from ms_custom_ops import compat
from ms_custom_ops.errors import SocError
from ms_custom_ops.program.dtypes import DTYPES, SIZE
from ms_custom_ops.soc import get_soc

_CHIPS = {"all": "Ascend910A", "Ascend910": "Ascend910A", "Ascend710": "Ascend310P3", "Ascend310P": "Ascend310P3"}
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
DTYPE_NAMES = {"float": "float32", "double": "float64"}


@dataclass
class Case:
    """One call of an operator with dicts for tensors; ``golden`` is None where nothing is compared."""

    name: str
    params: list
    chips: list
    expect: Any = "success"
    golden: Any = None
    standard: tuple[float, float] = (1e-3, 1e-3)
    more: dict = field(default_factory=dict)


# ---- op_test_frame: what its names record ----
class OpUT:
    """Cases that a unit-test file adds."""

    made: list[OpUT] = []

    def __init__(self, op_type: str, module: str | None = None, function: str | None = None, **more: Any):
        self.op_type = op_type
        snake = CAMEL.sub("_", op_type).lower()
        self.module = module or f"impl.{snake}"
        self.function = function or more.get("op_func_name") or self.module.rpartition(".")[2]
        self.cases: list[Case] = []
        OpUT.made.append(self)

    def add_case(self, chips: Any = "all", case: Any = None, **_: Any) -> None:
        """A case that is compiled only."""
        self._add(chips, case)

    add_precision_case = add_case

    def _add(self, chips: Any, case: Any) -> None:
        if not isinstance(case, dict) or "params" not in case:
            return
        standard = case.get("precision_standard")
        self.cases.append(
            Case(
                str(case.get("case_name") or f"case_{len(self.cases) + 1}"),
                list(case["params"]),
                [chips] if isinstance(chips, str) else list(chips),
                case.get("expect", "success"),
                case.get("calc_expect_func"),
                getattr(standard, "limits", (1e-3, 1e-3)),
                case.get("addition_params") or {},
            )
        )

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


class PrecisionStandard:
    """Relative deviation, and the share of elements that may exceed it."""

    def __init__(self, deviation: float = 1e-3, share: float = 1e-3, *_: Any):
        self.limits = (float(deviation), float(share))


class _Anything(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


def install_test_frame() -> None:
    """Serve ``op_test_frame`` from sys.modules."""
    for name in ("", ".ut", ".common", ".common.precision_info", ".common.op_status", ".utils", ".utils.op_param_util"):
        module = sys.modules[f"op_test_frame{name}"] = _Anything(f"op_test_frame{name}")
        module.__path__ = []
        if name:
            setattr(sys.modules[f"op_test_frame{name.rpartition('.')[0]}"], name.rpartition(".")[2], module)
    for name in ("OpUT", "BroadcastOpUT", "ElementwiseOpUT", "ReduceOpUT"):
        setattr(sys.modules["op_test_frame.ut"], name, OpUT)
    sys.modules["op_test_frame.common.precision_info"].PrecisionStandard = PrecisionStandard  # type: ignore[attr-defined]


# ---- one case ----
def chip_of(chips: list, default: str) -> str | None:
    """The first chip of a case that is in the table."""
    for chip in chips:
        name = default if chip == "all" else _CHIPS.get(chip, chip)
        with contextlib.suppress(SocError, AttributeError):
            return get_soc(name).name
    return None


def values_of(param: dict, rng: np.random.Generator) -> np.ndarray:
    """Data of an input: its ``value``, else uniform in its ``value_range`` (0.1 to 1)."""
    dtype = DTYPES[DTYPE_NAMES.get(param["dtype"], param["dtype"])].numpy
    shape = tuple(param.get("run_shape") or param["shape"])
    if any(size < 0 for size in shape):
        raise HostError(f"an input of shape {shape}, which its host function learns at run time")
    if param.get("value") is not None:
        return np.ascontiguousarray(np.asarray(param["value"]).astype(dtype))
    low, high = param.get("value_range") or param.get("range_value") or (0.1, 1.0)
    return np.ascontiguousarray(rng.uniform(low, high, shape).astype(dtype))


def is_input(param: Any) -> bool:
    """Whether a parameter is a tensor that is fed."""
    return isinstance(param, dict) and "shape" in param and param.get("param_type", "input") != "output"


def tensors_of(params: list) -> list[dict]:
    """Tensor dicts, those in lists (dynamic inputs) in place."""
    flat = [t for p in params for t in (p if isinstance(p, (list, tuple)) else [p])]
    return [t for t in flat if isinstance(t, dict) and "shape" in t]


def run_case(function: Any, case: Case, soc: str) -> str:
    """Trace, run and compare; the text of what is wrong, or "". Errors pass through."""
    rng = np.random.default_rng(7)
    program = mco.trace(function, *case.params, soc=soc, **case.more)
    if case.golden is None and case.standard != (0, 0):
        return ""
    fed = [t for t in tensors_of(case.params) if is_input(t)]
    for tensor in fed:
        tensor["value"] = values_of(tensor, rng)
    if len(program.inputs) != len(fed) or program.input_scalars:
        wanted = [program.buffers[i].name for i in program.inputs] + [f"scalar {i}" for i in program.input_scalars]
        raise HostError(f"{len(fed)} tensors are given, the kernel takes {', '.join(wanted)}")
    feed = []
    for index, tensor in zip(program.inputs, fed, strict=True):
        held(program.buffers[index], tensor, tensor["value"].shape)
        feed.append(tensor["value"].view(DTYPES[program.buffers[index].dtype].numpy))
    results = [t for t in tensors_of(case.params) if not is_input(t)]
    for index, tensor in zip(program.outputs, results, strict=False):
        if index not in program.inputs:
            held(program.buffers[index], tensor, tuple(tensor["shape"]))
    got = mco.run(program, feed)
    if case.golden is None:
        return ""
    want = case.golden(*case.params)
    want = list(want) if isinstance(want, (list, tuple)) else [want]
    return compare(got, want, case.standard)


def held(buffer: Any, tensor: dict, shape: tuple) -> None:
    """Let an argument have the memory of the case's tensor. A device passes addresses: kernels declare arguments of
    other sizes than they get, and reach what is really there."""
    count = math.prod(tensor.get("run_shape") or tensor["shape"])
    size = np.dtype(DTYPES[DTYPE_NAMES.get(tensor["dtype"], tensor["dtype"])].numpy).itemsize
    buffer.size_bytes = count * size
    same = math.prod(shape) * SIZE[buffer.dtype] == buffer.size_bytes
    buffer.shape = shape if same else (buffer.size_bytes // SIZE[buffer.dtype],)


class HostError(Exception):
    """The kernel takes more than the tensors of the case: tiling data of a host function."""


def compare(got: list, want: list, standard: tuple[float, float]) -> str:
    """Text of the first output with too large a share of deviating elements."""
    deviation, share = standard
    for k, (a, b) in enumerate(zip(got, want, strict=False)):
        b = np.asarray(b).astype(np.float64).reshape(-1)
        a = np.asarray(a).astype(np.float64).reshape(-1)
        if a.size != b.size:
            return f"output {k} has {a.size} elements, its golden {b.size}"
        bad = ~(np.abs(a - b) <= deviation * np.maximum(np.abs(b), 1e-3)) & (a != b) & ~(np.isnan(a) & np.isnan(b))
        if bad.sum() > share * max(b.size, 1):
            at = int(np.argmax(bad))
            return (
                f"output {k}: {int(bad.sum())} of {b.size} elements deviate, first [{at}] {a[at]:g}, golden {b[at]:g}"
            )
    return ""


def blame(error: BaseException) -> tuple[str, str]:
    """(whose fault, one line) of an error."""
    text = (str(error) or type(error).__name__).strip().splitlines()
    line = f"{type(error).__name__}: {text[0] if text else ''}"[:300]
    if isinstance(error, compat.CannMissingError) or "built no kernel" in line or ": call_module: " in line:
        return "dsl", line
    if (
        isinstance(error, ModuleNotFoundError)
        and error.name
        and error.name.partition(".")[0] not in ("te", "tbe", "impl")
    ):
        return "tool", line
    if isinstance(error, AttributeError) and re.search(r"module '(numpy|tensorflow|torch)", line):
        return "tool", line
    if isinstance(error, TimeoutError):
        return "slow", line
    if isinstance(error, HostError):
        return "host", line
    return "here", line


def described(tensor: dict) -> dict:
    """A tensor dict with every key that operators read."""
    shape = tuple(tensor["shape"])
    forms = {"format": "ND", "ori_format": "ND", "ori_shape": shape, "param_type": "input"}
    return {**forms, **tensor, "shape": shape}
