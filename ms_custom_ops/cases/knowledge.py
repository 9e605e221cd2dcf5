# SPDX-License-Identifier: Apache-2.0
"""What the op_info files do not say about an op's data: sensible values of its tensors, how its golden is called,
and how its public function comes to the primitive. An op without an entry has no case data and is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ms_custom_ops.errors import OpArgumentError, describe
from ms_custom_ops.registry import resolve
from ms_custom_ops.registry.spec import OpSpec

Arrays = dict[str, np.ndarray]
Symbols = Mapping[str, int]
Maker = Callable[[np.random.Generator, tuple[int, ...], Symbols, Mapping[str, Any]], np.ndarray]
Lift = Callable[[list[np.ndarray]], list[np.ndarray]]


@dataclass(frozen=True)
class Function:
    """The public function without MindSpore. ``parameters``: its arguments that cases may give, names of the
    op_info file. ``lower`` turns its arrays and attributes into those of the primitive, and gives the function
    that turns outputs back."""

    parameters: tuple[str, ...]
    lower: Callable[[Arrays, dict[str, Any]], tuple[Arrays, dict[str, Any], Lift]]


@dataclass(frozen=True)
class Knowledge:
    """``makers``: tensors that are not normal numbers. ``complete`` fills in tensors that follow from others.
    ``golden``: float64 results in the order of the returns; None calls the op's golden with all arguments by
    name. ``visible`` cuts padding off outputs."""

    makers: Mapping[str, Maker] = field(default_factory=dict)
    complete: Callable[[Arrays, Mapping[str, Any], Symbols], None] | None = None
    golden: Callable[[Callable[..., Any], Arrays, dict[str, Any], Symbols], Any] | None = None
    visible: Callable[[list[np.ndarray], Symbols], list[np.ndarray]] | None = None
    function: Function | None = None


def knowledge_of(op: OpSpec) -> Knowledge:
    """Entry of an op; OpArgumentError when it has none."""
    if op.name not in KNOWLEDGE:
        raise OpArgumentError(describe("cases", "op", repr(op.name), "an op with case data: " + ", ".join(KNOWLEDGE)))
    return KNOWLEDGE[op.name]


def golden_outputs(op: OpSpec, arrays: Arrays, attrs: Mapping[str, Any], symbols: Symbols) -> list[np.ndarray]:
    """Results of the op's golden, float64."""
    golden, known = resolve(op.impl.golden), knowledge_of(op)
    wide = {n: a if a.dtype.kind in "iub" else a.astype(np.float64) for n, a in arrays.items()}
    if known.golden is None:
        found = golden(**wide, **attrs)
    else:
        found = known.golden(golden, wide, dict(attrs), symbols)
    return [np.asarray(a) for a in (found if isinstance(found, tuple) else (found,))]


def _uniform(low: float, high: float) -> Maker:
    return lambda rng, shape, symbols, attrs: rng.uniform(low, high, shape)


def _lengths(symbol: str) -> Maker:
    """Numbers of steps from 0 to a symbol's size."""
    return lambda rng, shape, symbols, attrs: rng.integers(0, symbols[symbol] + 1, shape)


def _share(probability: float, pad: float) -> Maker:
    """0 or 1, 1 with ``probability``; ``pad`` behind the S2 real columns."""

    def make(rng: np.random.Generator, shape: tuple[int, ...], symbols: Symbols, attrs: Any) -> np.ndarray:
        array = (rng.random(shape) < probability).astype(np.float64)
        array[..., symbols["S2"] :] = pad
        return array

    return make


def _query(rng: np.random.Generator, shape: tuple[int, ...], symbols: Symbols, attrs: Mapping[str, Any]) -> np.ndarray:
    """Normal, times D**-0.5 where the call does not scale the scores: what attention over normal keys means."""
    return rng.standard_normal(shape) * (1.0 if "scale_value" in attrs else symbols["D"] ** -0.5)


def _bounds(rng: np.random.Generator, shape: tuple[int, ...], symbols: Symbols, attrs: Any) -> np.ndarray:
    """0, rising first steps of sequences, S, and zeros behind."""
    count = int(rng.integers(1, min(shape[0] - 1, symbols["S"]) + 1))
    inner = rng.choice(np.arange(1, symbols["S"]), count - 1, replace=False)
    bounds = np.zeros(shape, np.int64)
    bounds[1:count], bounds[count] = np.sort(inner), symbols["S"]
    return bounds


def _sequence_golden(golden: Callable[..., Any], arrays: Arrays, attrs: dict[str, Any], symbols: Symbols) -> Any:
    bounds = arrays.get("cu_seqlens")
    if bounds is not None:
        arrays = {**arrays, "cu_seqlens": bounds[: int(np.argmax(bounds)) + 1]}
    return golden(**arrays, **attrs)


def _first_chunks(rng: np.random.Generator, shape: tuple[int, ...], symbols: Symbols, attrs: Any) -> np.ndarray:
    """First chunks of NS packed sequences, the number of chunks behind them, and padding."""
    count, chunks = symbols["NS"], symbols["S"] // attrs.get("chunk_size", 64)
    first = np.full(shape, -1)
    first[:count] = [0, *np.sort(rng.integers(0, chunks + 1, count - 1))]
    first[count] = chunks
    return first


def _scaled(scale: float, per_state: bool = False) -> Maker:
    """Normal times ``scale``, and N**-0.25 for factors of a product over the N states."""

    def make(rng: np.random.Generator, shape: tuple[int, ...], symbols: Symbols, attrs: Any) -> np.ndarray:
        return rng.standard_normal(shape) * scale * (symbols["N"] ** -0.25 if per_state else 1.0)

    return make


def _scan_golden(golden: Callable[..., Any], arrays: Arrays, attrs: dict[str, Any], symbols: Symbols) -> Any:
    """The golden's names, and steps for chunks; its gradients in the order of the returns."""
    names = {"b": "B", "c": "C", "d_final_states": "d_final"}
    given: dict[str, Any] = {names.get(n, n): a for n, a in arrays.items()}
    first = given.pop("first_chunks", None)
    if first is not None:
        given["cu_seqlens"] = first[: symbols["NS"] + 1] * attrs.get("chunk_size", 64)
    found = golden(**given)  # chunk_size changes how, not what
    return tuple(found[n] for n in ("x", "da", "B", "C", "initial_states")) if isinstance(found, dict) else found


_NO_RESULT = ("tiling_stgy_name", "high_precision")  # they change how, not what
_STATISTICS = ("attention_out", "softmax_max", "softmax_sum")


def _attention_arguments(arrays: Arrays, attrs: dict[str, Any], symbols: Symbols) -> dict[str, Any]:
    """Masks and lengths without their padding; attributes that the golden knows."""
    cut = {}
    for name, array in arrays.items():
        if name in ("attn_mask", "real_shift", "drop_mask"):
            array = array[..., : symbols["S2"]]
            array = array if name == "real_shift" else array != 0
        elif name in ("actual_seq_qlen", "actual_seq_kvlen"):
            array = array[: symbols["B"]]
        cut[name] = array
    # At the primitive the factor is 1 unless given, in the golden it is D**-0.5.
    return {**cut, "scale_value": 1.0, **{n: v for n, v in attrs.items() if n not in _NO_RESULT}}


def _attention_golden(golden: Callable[..., Any], arrays: Arrays, attrs: dict[str, Any], symbols: Symbols) -> Any:
    return golden(**_attention_arguments(arrays, attrs, symbols))


def _attention_visible(outputs: list[np.ndarray], symbols: Symbols) -> list[np.ndarray]:
    return [outputs[0], *(x[..., : symbols["S1"]] for x in outputs[1:])]


def _attention_forward(arrays: Arrays, attrs: Mapping[str, Any], symbols: Symbols) -> None:
    """attention_out and its statistics, from the golden of the forward op."""
    from ms_custom_ops.op_impl.flash_attention import golden

    inputs = {n: a.astype(np.float64) for n, a in arrays.items() if n not in (*_STATISTICS, "d_attention_out")}
    found = golden.flash_attention(**_attention_arguments(inputs, dict(attrs), symbols))
    rows = arrays["softmax_max"].shape[-1] - symbols["S1"]
    for name, array in zip(_STATISTICS, found, strict=True):
        if name != "attention_out":
            array = np.pad(array, [(0, 0), (0, 0), (0, rows)])
        arrays[name] = array.astype(np.float32).astype(arrays[name].dtype)


def _attention_grad_golden(golden: Callable[..., Any], arrays: Arrays, attrs: dict[str, Any], symbols: Symbols) -> Any:
    given = _attention_arguments({n: a for n, a in arrays.items() if n not in _STATISTICS}, attrs, symbols)
    return golden(d_out=given.pop("d_attention_out"), **given)


def _same(outputs: list[np.ndarray]) -> list[np.ndarray]:
    return outputs


def _chunked(matrices: Sequence[str], vectors: Sequence[str]) -> Function:
    """Functions over (B, H, N, C, C) matrices and (B, H, N*C) vectors: chunks below the smallest that the kernels
    take are filled up with zeros. Calls that do not fit together go on as they are, for the op's own check."""

    def lower(arrays: Arrays, attrs: dict[str, Any]) -> tuple[Arrays, dict[str, Any], Lift]:
        from ms_custom_ops.tiling.segsum import MIN_CHUNK

        dense = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        shape = dense[matrices[0]].shape
        chunk = attrs.get("chunk_size")
        fits = type(chunk) is int and len(shape) == 5 and shape[3] == shape[4] == chunk  # 8.0 and True are refused
        fits = fits and all(dense[n].shape == shape for n in matrices)
        fits = fits and all(dense[n].shape == (*shape[:2], shape[2] * shape[3]) for n in vectors)
        extra = MIN_CHUNK - shape[-1]
        if not fits or extra <= 0:
            return dense, attrs, _same
        ends = [(0, 0)] * 3
        for name in matrices:
            dense[name] = np.pad(dense[name], [*ends, (0, extra), (0, extra)])
        for name in vectors:
            steps = np.pad(dense[name].reshape(shape[:4]), [*ends, (0, extra)])
            dense[name] = steps.reshape(*shape[:2], -1)

        def lift(outputs: list[np.ndarray]) -> list[np.ndarray]:
            wide = [x.reshape(*shape[:3], MIN_CHUNK)[..., : shape[3]] for x in outputs]
            return [x.reshape(*shape[:2], -1) for x in wide]

        return dense, {**attrs, "chunk_size": MIN_CHUNK}, lift

    return Function((*matrices, *vectors, "chunk_size"), lower)


_MATRICES = ("dSSdA", "SSdA")
_SUMS = ("ddA_cs", "ddA_cs_rev", "dA_cs", "dA_cs_rev")
_DECAY = {"SSdA": _uniform(-2, 0), "dA_cs": _uniform(-2, 0), "dA_cs_rev": _uniform(-2, 0), "da": _uniform(-1, 0)}
# x is dt*x of a model: dt about 0.1 and products c.b of size 1, as after its projections, keep y near 1. The mixed
# standard has an absolute part, so that it can only be asked of results of that size.
_SCAN: dict[str, Maker] = {
    "da": _uniform(-0.1, 0), "x": _scaled(0.1), "b": _scaled(1, True), "c": _scaled(1, True),
    "dy": _scaled(0.1), "initial_states": _scaled(0.1), "d_final_states": _scaled(0.1), "first_chunks": _first_chunks,
}  # fmt: skip
_ATTENTION: dict[str, Maker] = {
    "query": _query, "attn_mask": _share(0.3, 1), "drop_mask": _share(0.75, 0),
    "actual_seq_qlen": _lengths("S1"), "actual_seq_kvlen": _lengths("S2"),
}  # fmt: skip

KNOWLEDGE: Mapping[str, Knowledge] = {
    "bwd_dadt_cumsum": Knowledge(_DECAY),
    "bwd_dadt_fused": Knowledge({**_DECAY, "lengths": _lengths("C")}, function=_chunked(_MATRICES, _SUMS)),
    "bwd_dtrap_ddt": Knowledge({"cu_seqlens": _bounds}, golden=_sequence_golden),
    "bwd_segsum_dadt": Knowledge({**_DECAY, "lengths": _lengths("C")}, function=_chunked(_MATRICES, ("ddt_out",))),
    "dacs_segsum": Knowledge(_DECAY),
    "flash_attention": Knowledge(_ATTENTION, golden=_attention_golden, visible=_attention_visible),
    "flash_attention_grad": Knowledge(_ATTENTION, complete=_attention_forward, golden=_attention_grad_golden),
    "segsum_decay": Knowledge(_DECAY),
    "ssd_chunk_scan": Knowledge(_SCAN, golden=_scan_golden),
    "ssd_chunk_scan_grad": Knowledge(_SCAN, golden=_scan_golden),
}
