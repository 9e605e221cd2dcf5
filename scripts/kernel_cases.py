# SPDX-License-Identifier: Apache-2.0
"""Cases of kernels for public_kernels.py: what unit tests in the form of ``op_test_frame`` record, and one run."""

from __future__ import annotations

import contextlib
import math
import re
import sys
import traceback
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import ms_custom_ops as mco
from ms_custom_ops import compat
from ms_custom_ops.errors import SocError, TikSupportError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import DTYPES, SIZE
from ms_custom_ops.soc import get_soc
from ms_custom_ops.tik.tensor import Tensor

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
    standard: tuple[float, ...] = (1e-3, 1e-3)
    more: dict = field(default_factory=dict)
    precise: bool = False  # its author runs it and compares; the others are compiled only, whatever golden they name

    @property
    def fails(self) -> bool:
        """Whether the case expects the operator to refuse its arguments."""
        return isinstance(self.expect, (str, type)) and self.expect != "success"


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
        self._add(chips, case, False)

    def add_precision_case(self, chips: Any = "all", case: Any = None, **_: Any) -> None:
        """A case that is run and compared with its golden."""
        self._add(chips, case, True)

    def _add(self, chips: Any, case: Any, precise: bool) -> None:
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
                precise,
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


def older_names() -> None:
    """Names of NumPy before 1.24, which unit tests of that time use."""
    for name, kind in (("int", int), ("float", float), ("bool", bool), ("object", object)):
        if name not in np.__dict__:
            setattr(np, name, kind)


def tensorflow_1() -> None:
    """``tensorflow`` as version 1 has it, if a version 2 is installed: names of ``compat.v1``, graphs and sessions."""
    with contextlib.suppress(ImportError):
        import tensorflow
        from tensorflow.compat import v1

        v1.disable_eager_execution()
        for name in set(dir(v1)) - set(dir(tensorflow)):
            setattr(tensorflow, name, getattr(v1, name))
        tensorflow.nn.dilation2d = v1.nn.dilation2d  # of other parameters since version 2


# ---- one case ----
def chip_of(chips: list, default: str) -> str | None:
    """The chip to run a case for: ``default`` if it is for that one too, else its first that is in the table."""
    found = []
    for chip in chips:
        name = default if chip == "all" else _CHIPS.get(chip, chip)
        with contextlib.suppress(SocError, AttributeError):
            found.append(get_soc(name).name)
    return default if default in found else found[0] if found else None


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


def parted(tensors: list[dict], program: Any) -> tuple[list[dict], list[dict]]:
    """Tensors of a case that are fed, and the others. Where none of them says what it is, inputs come first."""
    count = len(program.inputs)
    if not any("param_type" in t for t in tensors) and len(tensors) == count + len(program.outputs):
        return tensors[:count], tensors[count:]
    return [t for t in tensors if is_input(t)], [t for t in tensors if not is_input(t)]


@contextlib.contextmanager
def room_in_gm(room: int) -> Any:
    """Let ``room`` bytes lie behind every tensor in GM while a kernel is traced."""
    if not room:
        yield
        return
    real = Tensor.bytes_left

    def bytes_left(tensor: Tensor) -> int | None:
        left = real(tensor)
        return left if left is None or tensor.storage.buffer.scope != ir.GM else left + room

    Tensor.bytes_left = bytes_left  # type: ignore[method-assign]
    try:
        yield
    finally:
        Tensor.bytes_left = real  # type: ignore[method-assign]


def run_case(
    function: Any, case: Case, soc: str, run: bool = True, room: int = 0, zeros: bool = False, both: bool = False
) -> str:
    """Trace, run (unless ``run`` is False) and compare; the text of what is wrong, or "". Errors pass through. ``room``
    bytes of unspecified content lie behind every argument: a kernel that reaches beyond them is then judged by its
    results. ``zeros``: integers that the case has no values for are 0. ``both``: the reference engine gives the same
    bits."""
    rng = np.random.default_rng(7)
    with room_in_gm(room):
        program = mco.trace(function, *case.params, soc=soc, **case.more)
    if not run:
        return ""
    fed, results = parted(tensors_of(case.params), program)
    for tensor in fed:
        given = tensor.get("value") is not None
        tensor["value"] = values_of(tensor, rng)
        if zeros and not given and tensor["value"].dtype.kind in "iu":
            tensor["value"] = np.zeros_like(tensor["value"])
    if len(program.inputs) != len(fed) or program.input_scalars:
        wanted = [program.buffers[i].name for i in program.inputs] + [f"scalar {i}" for i in program.input_scalars]
        raise HostError(f"{len(fed)} tensors are given, the kernel takes {', '.join(wanted)}")
    feed = []
    for index, tensor in zip(program.inputs, fed, strict=True):
        held(program.buffers[index], tensor, tensor["value"].shape, room)
        feed.append(fed_value(program.buffers[index], tensor["value"], room))
    for index, tensor in zip(program.outputs, results, strict=False):
        if index not in program.inputs:
            held(program.buffers[index], tensor, tuple(tensor["shape"]), room)
    before = [value.copy() for value in feed] if both else []  # a kernel may write its inputs
    got = mco.run(program, feed)
    if both:
        defined = mco.run(program, before, engine="reference")
        for index, a, b in zip(program.outputs, got, defined, strict=True):
            if a.tobytes() != b.tobytes():
                return f"output {program.buffers[index].name}: the engines differ"
    if case.golden is None:
        return ""
    if room:
        got = [g[: g.size - room // g.itemsize] for g in got]
    try:
        want = case.golden(*case.params)
    except Exception as error:
        raise GoldenError(f"the golden of the case: {type(error).__name__}: {error}") from error
    want = list(want) if isinstance(want, (list, tuple)) else [want]
    return compare(got, want, case.standard)


def fed_value(buffer: Any, value: np.ndarray, room: int) -> np.ndarray:
    """Data as the kernel declares them, with ``room`` bytes behind."""
    raw = np.frombuffer(value.tobytes(), np.uint8)
    if raw.size % SIZE[buffer.dtype]:
        raise FormError(f"{raw.size} bytes are given for {buffer.name}, a tensor of {buffer.dtype}")
    dtype = DTYPES[buffer.dtype].numpy
    if room:
        return np.concatenate([raw, np.full(room, 255, np.uint8)]).view(dtype)
    return raw.view(dtype).reshape(value.shape if value.size * SIZE[buffer.dtype] == raw.size else -1)


def held(buffer: Any, tensor: dict, shape: tuple, room: int = 0) -> None:
    """Let an argument have the memory of the case's tensor, and ``room`` bytes. A device passes addresses: kernels
    declare arguments of other sizes than they get, and reach what is really there."""
    count = math.prod(tensor.get("run_shape") or tensor["shape"])
    size = np.dtype(DTYPES[DTYPE_NAMES.get(tensor["dtype"], tensor["dtype"])].numpy).itemsize
    if count * size % SIZE[buffer.dtype]:
        what = f"{tensor['dtype']} {tuple(tensor['shape'])}"
        raise FormError(f"{buffer.name} is {what} in the case, {buffer.dtype} in the kernel")
    if math.prod(shape) != count:
        raise FormError(f"{buffer.name} has shape {tuple(tensor['shape'])} and {math.prod(shape)} values")
    buffer.size_bytes = count * size + room
    same = math.prod(shape) * SIZE[buffer.dtype] == buffer.size_bytes
    buffer.shape = shape if same else (buffer.size_bytes // SIZE[buffer.dtype],)


class GoldenError(Exception):
    """A golden that cannot be computed."""


class FormError(Exception):
    """Tensors that cannot be what the kernel takes."""


class HostError(Exception):
    """The kernel takes more than the tensors of the case: tiling data of a host function."""


def compare(got: list, want: list, standard: tuple[float, ...]) -> str:
    """Text of the first output with too large a share of deviating elements. The deviation is relative; a third number
    of the standard is the least magnitude it is relative to (1e-3)."""
    deviation, share, least = (*standard, 1e-3)[:3]
    for k, (a, b) in enumerate(zip(got, want, strict=False)):
        b = np.asarray(b).astype(np.float64).reshape(-1)
        a = np.asarray(a).astype(np.float64).reshape(-1)
        if a.size != b.size:
            return f"output {k} has {a.size} elements, its golden {b.size}"
        bad = ~(np.abs(a - b) <= deviation * np.maximum(np.abs(b), least)) & (a != b) & ~(np.isnan(a) & np.isnan(b))
        if bad.sum() > share * max(b.size, 1):
            at = int(np.argmax(bad))
            return (
                f"output {k}: {int(bad.sum())} of {b.size} elements deviate, first [{at}] {a[at]:g}, golden {b[at]:g}"
            )
    return ""


_DSL = re.compile(r"built no kernel|: call_module: |has no attribute '(tag|op)'$")
_CHIP = re.compile(r" is \w+ on Ascend\w+;| does not have this instruction")


def blame(error: BaseException, tree: str = "") -> tuple[str, str]:
    """(whose fault, one line) of an error; ``tree`` is the folder of the kernels: what they raise is theirs."""
    text = " ".join((str(error) or type(error).__name__).strip().split("\n")[0].split())
    line = f"{type(error).__name__}: {text}"[:300]
    if isinstance(error, compat.CannMissingError) or _DSL.search(line):
        return "dsl", line
    if isinstance(error, ModuleNotFoundError) and (error.name or "te").partition(".")[0] not in ("te", "tbe", "impl"):
        return "tool", line
    missing = isinstance(error, AttributeError) or isinstance(error.__cause__, AttributeError)
    if missing and re.search(r"module '(numpy|tensorflow|torch)", line):
        return "tool", line
    if isinstance(error, TimeoutError):
        return "slow", line
    faults = {HostError: "host", GoldenError: "test", FormError: "form"}
    if type(error) in faults:
        return faults[type(error)], line
    if isinstance(error, TikSupportError) and _CHIP.search(line):
        return "chip", line
    raised = raised_by(error, tree) if tree else ""
    return ("kernel", f"{line} [raised by the kernel, {raised}]") if raised else ("here", line)


def raised_by(error: BaseException, tree: str) -> str:
    """file:line of the kernel code that raised an error itself or by a ``raise_err_...`` helper, else ""."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.endswith("op_errors.py")]
    last = frames[-1] if frames else None
    if last is None or not last.filename.startswith(tree) or not re.match(r"raise\b|.*raise_err", last.line or ""):
        return ""
    return f"{Path(last.filename).name}:{last.lineno}"


def described(tensor: dict) -> dict:
    """A tensor dict with every key that operators read; a ``value`` that is text is a .npy file."""
    if isinstance(tensor.get("value"), str):
        tensor = {**tensor, "value": np.load(tensor["value"])}
    shape = tuple(tensor["shape"])
    forms = {"format": "ND", "ori_format": "ND", "ori_shape": shape, "param_type": "input"}
    return {**forms, **tensor, "shape": shape}
