# SPDX-License-Identifier: Apache-2.0
"""What the op_info files do not say about an op's data: sensible values of its tensors, how its golden is called, and
how its public function comes to the primitive.

It stands in ``cases.py`` beside the op's golden, as ``CASES``: op -> :class:`CaseData`, one entry for every op whose
golden lives in that folder. An op without such a file gets plain numbers, and its golden is called by name.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ms_custom_ops.cases.model import PlannedCase
from ms_custom_ops.errors import OpInfoError, SignatureError, describe
from ms_custom_ops.registry import resolve
from ms_custom_ops.registry.spec import OpSpec

Arrays = dict[str, np.ndarray]
Symbols = Mapping[str, int]
Maker = Callable[[np.random.Generator, tuple[int, ...], Symbols, Mapping[str, Any]], np.ndarray]


@dataclass(frozen=True)
class CaseData:
    """``makers``: tensors that are not plain numbers. ``complete`` fills in tensors that follow from others; what a
    case file gives values for (``fills`` of the case) it leaves alone.
    ``golden``: float64 results in the order of the returns; None calls the op's golden with all arguments by
    name. ``visible`` cuts off outputs, by name, what the golden does not speak of, such as padding.
    ``function``: arguments of the public function that cases may give; empty, and cases are calls of the primitive."""

    makers: Mapping[str, Maker] = field(default_factory=dict)
    complete: Callable[[PlannedCase, np.random.Generator, Arrays], None] | None = None
    golden: Callable[[Callable[..., Any], Arrays, dict[str, Any], Symbols], Any] | None = None
    visible: Callable[[Arrays, PlannedCase], Arrays] | None = None
    function: tuple[str, ...] = ()


def uniform(low: float, high: float) -> Maker:
    """Uniform numbers."""
    return lambda rng, shape, symbols, attrs: rng.uniform(low, high, shape)


def lengths(symbol: str) -> Maker:
    """Numbers of steps from 0 to a symbol's size."""
    return lambda rng, shape, symbols, attrs: rng.integers(0, symbols[symbol] + 1, shape)


_PLAIN = CaseData()


@functools.cache
def _of_folder(golden: str) -> tuple[str, Mapping[str, CaseData]] | None:
    """File and CASES of the ``cases`` module beside the module of a golden; None without one."""
    package = golden.partition(":")[0].rpartition(".")[0]
    if not package or importlib.util.find_spec(f"{package}.cases") is None:
        return None
    module = importlib.import_module(f"{package}.cases")
    return str(module.__file__), getattr(module, "CASES", {})


def case_data(op: OpSpec) -> CaseData:
    """Entry of an op, plain data without a cases.py.

    Raises:
        OpInfoError: the folder has a cases.py that does not speak of the op.
    """
    found = _of_folder(op.impl.golden)
    if found is None:
        return _PLAIN
    file, cases = found
    if op.name not in cases:
        raise OpInfoError(describe(op.name, f"CASES in {file}", ", ".join(cases) or "(none)",
                                   "an entry for every op of the folder, CaseData() for plain numbers"))  # fmt: skip
    if not isinstance(cases[op.name], CaseData):
        raise OpInfoError(describe(op.name, f"CASES[{op.name!r}] in {file}", repr(cases[op.name]), "a CaseData(...)"))
    return cases[op.name]


def golden_outputs(op: OpSpec, arrays: Arrays, attrs: Mapping[str, Any], symbols: Symbols) -> list[np.ndarray]:
    """Results of the op's golden, float64.

    Raises:
        SignatureError: the golden takes other arguments than the op has, or gives another number of outputs.
    """
    golden, known = resolve(op.impl.golden), case_data(op)
    wide = {n: a if a.dtype.kind in "iub" else a.astype(np.float64) for n, a in arrays.items()}
    if known.golden is None:
        _takes(op, golden, (*wide, *(arg.name for arg in op.attributes)))
        found = golden(**wide, **attrs)
    else:
        found = known.golden(golden, wide, dict(attrs), symbols)
    outputs = found if isinstance(found, (tuple, list)) else (found,)
    if found is None or len(outputs) != len(op.returns):
        names = ", ".join(ret.name for ret in op.returns)
        given = "nothing" if found is None else f"{len(outputs)} output(s)"
        accepted = f"{len(op.returns)}, the returns of {op.location}; write: return {names}"
        raise SignatureError(describe(op.name, "what the golden returned", given, accepted), place_of(golden))
    return [np.asarray(array) for array in outputs]


def _takes(op: OpSpec, golden: Callable[..., Any], names: tuple[str, ...]) -> None:
    """SignatureError unless ``golden`` can be called with ``names`` as keywords."""
    try:
        inspect.signature(golden).bind(**dict.fromkeys(names))
    except TypeError as error:
        given = f"({', '.join(inspect.signature(golden).parameters)}), {error}"
        accepted = f"tensors and attributes of {op.location} by name; write: def {golden.__name__}({', '.join(names)})"
        raise SignatureError(describe(op.name, "what the golden takes", given, accepted), place_of(golden)) from None
    except ValueError:
        return  # a built-in function without a signature


def place_of(function: Callable[..., Any]) -> str | None:
    """``file:line`` of a function's definition, None of one that Python did not define."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"
