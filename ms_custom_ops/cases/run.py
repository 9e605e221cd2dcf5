# SPDX-License-Identifier: Apache-2.0
"""Runs one planned case on one chip and judges it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from ms_custom_ops.cases.base import case_data, golden_outputs, place_of
from ms_custom_ops.cases.compare import judge, measure
from ms_custom_ops.cases.data import make_arrays, numpy_dtype, stored, view
from ms_custom_ops.cases.model import PlannedCase, Result
from ms_custom_ops.engine import set_check
from ms_custom_ops.errors import MsCustomOpsError
from ms_custom_ops.mistakes import explain
from ms_custom_ops.registry import resolve

WAYS = ("native", "reference", "mindspore", "ascendc")


def run_case(case: PlannedCase, soc: str, way: str = "native", check: bool = False) -> Result:
    """Runs ``case``; nothing is raised but for a ``way`` that does not exist.

    Args:
        case: from :func:`file_cases` or :func:`smoke_cases`.
        soc: full chip name.
        way: engine "native" or "reference", without MindSpore; "mindspore": the op in GRAPH mode; or "ascendc": its
            Ascend C kernel, without MindSpore.
        check: run kernels on the native engine checked; what is found is the error of the case.
    """
    if way not in WAYS:
        raise ValueError(f"run_case: way is {way!r}; accepted: {', '.join(WAYS)}")
    result, start = Result(case, soc, way), time.perf_counter()
    checked = set_check(True) if check else None
    try:
        arrays = make_arrays(case)
        outputs = _mindspore(case, arrays, soc) if way == "mindspore" else _engine(case, arrays, soc, way)
        golden = [] if case.invalid else golden_outputs(case.op, arrays, case.attrs, case.symbols)
    except MsCustomOpsError as error:
        _refused(result, error)
    except (Exception, SystemExit) as error:  # whatever a case meets is a result, not the end of the run
        result.verdict, result.message = "error", explain(error) or f"{type(error).__name__}: {error}"
    else:
        if case.invalid:
            result.verdict, result.message = "fail", f"accepted, but is invalid ({case.invalid})"
        else:
            _judge(result, golden, outputs)
            if case.reference is not None:
                _compare(result, golden, outputs)
    finally:
        if checked is not None:
            set_check(checked)
    result.seconds = time.perf_counter() - start
    return result


def _refused(result: Result, error: MsCustomOpsError) -> None:
    case = result.case
    result.message = f"{type(error).__name__}: {explain(error)}"
    if not case.invalid:
        result.verdict = "error"
    elif case.expected_error not in str(error):
        result.verdict = "fail"
        result.message = f"refused without '{case.expected_error}' in the text: {result.message}"


def _judge(result: Result, golden: list[np.ndarray], outputs: dict[str, np.ndarray]) -> None:
    """Errors of every output, then every comparator; the first that fails is the message."""
    case, op = result.case, result.case.op
    known = case_data(op)
    if known.visible is not None:
        outputs = known.visible(outputs, case)
    accuracy = str(case.dtypes[op.dtype_group[0]])
    try:
        for ret, wanted in zip(op.returns, golden, strict=True):
            if ret.name not in outputs:
                continue
            array, source = outputs[ret.name], ret.dtype_from
            dtype = case.dtypes.get(source) or source
            if array.dtype != numpy_dtype(dtype):
                raise AssertionError(f"{ret.name}: dtype is {array.dtype}, should be {dtype}")
            if array.shape != wanted.shape:
                place = place_of(resolve(op.impl.golden))
                raise AssertionError(f"{ret.name}: the kernel gives shape {array.shape}, the golden {wanted.shape}; "
                                     f"accepted: {ret.shape_text} from both [{place}]")  # fmt: skip
            tolerance = None if array.dtype.kind in "iub" else op.tolerance(accuracy)
            result.outputs.append(measure(ret.name, array, wanted, tolerance))
            judge(op, case.standards, ret.name, array, wanted, dtype, accuracy)
    except AssertionError as error:
        result.verdict, result.message = "fail", str(error)


def _compare(result: Result, golden: list[np.ndarray], outputs: dict[str, np.ndarray]) -> None:
    """Distances from the file's own reference, which the kernel must meet as it meets the golden."""
    case, op = result.case, result.case.op
    assert case.reference is not None
    try:
        found = case.reference.outputs(case, make_arrays(case))
        pairs = [(ret, wanted) for ret, wanted in zip(op.returns, golden, strict=True) if ret.name in outputs]
        if len(found) != len(pairs):
            names = ", ".join(ret.name for ret, _ in pairs)
            raise AssertionError(f"reference: {len(found)} output(s); accepted: {len(pairs)}, {names}")
        accuracy = str(case.dtypes[op.dtype_group[0]])
        for (ret, wanted), theirs in zip(pairs, found, strict=True):
            ours = outputs[ret.name]
            if theirs.shape != ours.shape:
                raise AssertionError(f"reference: {ret.name} is of shape {theirs.shape}; accepted: {ours.shape}")
            result.from_reference.append(measure(ret.name, ours, theirs))
            result.reference_from_golden.append(measure(ret.name, theirs, wanted))
            source = ret.dtype_from
            judge(op, case.standards, f"{ret.name} from the reference", ours, theirs.astype(np.float64),
                  case.dtypes.get(source) or source, accuracy)  # fmt: skip
    except AssertionError as error:
        if result.verdict == "pass":
            result.verdict, result.message = "fail", str(error)
    except MsCustomOpsError as error:
        result.verdict, result.message = "error", str(error)


def _views(case: PlannedCase, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    layouts = {n: case.layouts.get(n, "contiguous") for n in arrays}
    return {n: view(stored(a, layouts[n]), layouts[n]) for n, a in arrays.items()}


def _engine(case: PlannedCase, arrays: dict[str, np.ndarray], soc: str, engine_name: str) -> dict[str, np.ndarray]:
    """Outputs by name: trace for ``soc``, run on an engine of this package."""
    from ms_custom_ops.compiler import describe_call
    from ms_custom_ops.lower.run import run_primitive, run_public
    from ms_custom_ops.registry.implementation import ASCENDC, TIK, use_impl

    given = _views(case, arrays)
    impl, engine_name = (ASCENDC, "native") if engine_name == ASCENDC else (TIK, engine_name)
    with use_impl(impl):
        if case.form == "function":
            return run_public(case.op.name, given, case.attrs, soc, engine_name)
        call = describe_call(case.op, {n: a.shape for n, a in given.items()}, dict(case.dtypes), case.attrs, soc)
        return run_primitive(call, given, engine_name)


def _mindspore(case: PlannedCase, arrays: Mapping[str, np.ndarray], soc: str) -> dict[str, Any]:
    from ms_custom_ops.cases.run_mindspore import run_graph

    layouts = {n: case.layouts.get(n, "contiguous") for n in arrays}
    return run_graph(case, {n: stored(a, layouts[n]) for n, a in arrays.items()}, soc)
