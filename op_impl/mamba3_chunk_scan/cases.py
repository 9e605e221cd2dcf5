# SPDX-License-Identifier: Apache-2.0
"""Case data of the Mamba-3 scan: rows are (step, rank) pairs, the golden takes steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ms_custom_ops.cases.base import Arrays, CaseData, Maker, Symbols
from ms_custom_ops.cases.model import PlannedCase
from ms_custom_ops.errors import OpArgumentError, describe
from ms_custom_ops.op_impl.mamba3_chunk_scan.golden import trapezoid
from ms_custom_ops.op_impl.ssd_chunk_scan.cases import first_chunks, packed_bounds, scaled


def _rank(attrs: Mapping[str, Any]) -> int:
    return attrs.get("rank", 1)


def _decays(rng: np.random.Generator, shape: tuple[int, ...], symbols: Symbols, attrs: Mapping[str, Any]) -> np.ndarray:
    """Decays of steps: 0 in all rows of a step but the first."""
    da = np.zeros(shape)
    da[..., :: _rank(attrs)] = rng.uniform(-0.1, 0, (*shape[:-1], shape[-1] // _rank(attrs)))
    return da


def _step_bounds(arrays: Arrays, attrs: Mapping[str, Any], symbols: Symbols) -> np.ndarray:
    """First step of each sequence and the number of steps, of one batch entry."""
    bounds = packed_bounds(arrays, attrs, symbols)
    return (np.array([0, symbols["S"]]) if bounds is None else bounds) // _rank(attrs)


def _trapezoid_weights(case: PlannedCase, rng: np.random.Generator, arrays: Arrays) -> None:
    """factor and gamma from step sizes and trapezoid weights, the same in all rows of a step."""
    steps, rank = arrays["da"][..., :: _rank(case.attrs)].shape, _rank(case.attrs)
    dt, trap = np.log1p(np.exp(rng.standard_normal(steps) - 1)), rng.standard_normal(steps)
    weights = trapezoid(dt, trap, _step_bounds(arrays, case.attrs, case.symbols))
    for name, weight in zip(("factor", "gamma"), weights, strict=True):
        if name not in case.fills:
            arrays[name] = np.repeat(weight, rank, -1).astype(arrays[name].dtype)


def _of_steps(arrays: Arrays, attrs: Mapping[str, Any], symbols: Symbols) -> Arrays:
    """The golden's arguments: rows as steps and ranks, and the dt and trap that factor and gamma come from.

    gamma[t] = s dt and factor[t] - gamma[t] = (1 - s) dt of the step behind; dt is their sum. The first step of a
    sequence has nothing before it, so that its trap is free: s = 1/2. OpArgumentError for weights that no trapezoid
    gives.
    """
    rank, bounds = _rank(attrs), _step_bounds(arrays, attrs, symbols)
    per_step = {n: arrays[n].reshape(*arrays[n].shape[:2], -1, rank) for n in ("da", "factor", "gamma")}
    factor, gamma = per_step["factor"][..., 0], per_step["gamma"][..., 0]
    late, stops = factor - gamma, bounds[1:][bounds[1:] > bounds[:-1]]
    good = (gamma > 0).all() and (late >= 0).all() and not late[..., stops - 1].any()
    good = good and not per_step["da"][..., 1:].any()
    if not good or any((per_step[n] != per_step[n][..., :1]).any() for n in ("factor", "gamma")):
        raise OpArgumentError(describe("cases", "da, factor, gamma", "values that no trapezoid gives",
                                       "0 < gamma <= factor, equal at the last step of a sequence, the same in all "
                                       "rows of a step; da 0 in all but the first"))  # fmt: skip
    before = np.concatenate([gamma[..., :1], late[..., :-1]], -1)
    starts = bounds[:-1][bounds[1:] > bounds[:-1]]
    before[..., starts] = gamma[..., starts]
    with np.errstate(divide="ignore"):  # 0 before a step: s = 1
        trap = np.log(gamma / before)
    rows = {n: arrays[n].reshape(arrays[n].shape[0], -1, rank, *arrays[n].shape[2:]) for n in ("v", "k", "q")}
    return {**rows, "da": per_step["da"][..., 0], "dt": gamma + before, "trap": trap,
            "initial_states": arrays["initial_states"]}  # fmt: skip


def _mamba3_golden(golden: Callable[..., Any], arrays: Arrays, attrs: dict[str, Any], symbols: Symbols) -> Any:
    packed = None if "first_chunks" not in arrays else _step_bounds(arrays, attrs, symbols)
    o, final_states = golden(**_of_steps(arrays, attrs, symbols), cu_seqlens=packed)
    return o.reshape(arrays["v"].shape), final_states


def _mamba3_grad_golden(golden: Callable[..., Any], arrays: Arrays, attrs: dict[str, Any], symbols: Symbols) -> Any:
    """d_factor and d_gamma from gradients of v: a row's v enters with factor in later steps and in the final state,
    with gamma in its own step, so that v . d_v = factor d_factor + gamma d_gamma; where nothing decays into another
    step, its own part alone is left."""
    given = _of_steps(arrays, attrs, symbols)
    given["do"] = arrays["d_o"].reshape(given["v"].shape)
    packed = None if "first_chunks" not in arrays else _step_bounds(arrays, attrs, symbols)
    found = golden(**given, d_final=arrays["d_final_states"], cu_seqlens=packed)
    own = golden(**{**given, "da": np.full_like(given["da"], -np.inf)}, cu_seqlens=packed)

    def share(d_v: np.ndarray) -> np.ndarray:
        """v . d_v of each row, (B, H, S)."""
        return (d_v * given["v"]).sum(-1).reshape(*arrays["v"].shape[:3]).transpose(0, 2, 1)

    d_gamma = share(own["v"]) / arrays["gamma"]
    d_factor = (share(found["v"]) - share(own["v"])) / arrays["factor"]
    d_v, d_k, d_q = (found[n].reshape(arrays[n].shape) for n in ("v", "k", "q"))
    return d_v, found["da"], d_factor, d_gamma, d_k, d_q, found["initial_states"]


def _first_rows(outputs: Arrays, case: PlannedCase) -> Arrays:
    """d_da of steps: the other rows of a step have no decay of their own."""
    return {n: x[..., :: _rank(case.attrs)] if n == "d_da" else x for n, x in outputs.items()}


_MAKERS: dict[str, Maker] = {
    "da": _decays, "v": scaled(0.1), "k": scaled(1, True), "q": scaled(1, True), "d_o": scaled(0.1),
    "initial_states": scaled(0.1), "d_final_states": scaled(0.1), "first_chunks": first_chunks,
}  # fmt: skip


CASES = {
    "mamba3_chunk_scan": CaseData(_MAKERS, complete=_trapezoid_weights, golden=_mamba3_golden),
    "mamba3_chunk_scan_grad": CaseData(
        _MAKERS, complete=_trapezoid_weights, golden=_mamba3_grad_golden, visible=_first_rows
    ),
}
