# SPDX-License-Identifier: Apache-2.0
"""grad_of: a gradient op written as what differs from its forward op is the op written in full."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from ms_custom_ops.errors import OpInfoError
from ms_custom_ops.registry import get_op, load_registry
from ms_custom_ops.registry.export import strip_to_op_def
from ms_custom_ops.registry.generate import generate
from ms_custom_ops.registry.spec import OpSpec

FORWARD = """\
scale:
  args:
    x: {dtype: tensor, shape: [B, N], doc: values}
    table: {dtype: tensor, default: None, shape: [M]}
    bias: {dtype: tensor, default: None, shape: ["1|B", N]}
    factor: {dtype: float, default: 1.0, prim_init: True, doc: a factor}
    paged: {dtype: bool, default: False, prim_init: True}
    mode: {dtype: str, default: "'fast'", prim_init: True}
  args_signature: {dtype_group: "(x, bias)"}
  symbols: {NP: "(N + 7) // 8 * 8"}
  returns:
    y: {dtype: tensor, shape: [B, N], dtype_from: x}
    stat: {dtype: tensor, shape: [B, NP], dtype_from: float32}
  constraints:
    - {expr: "N >= 1", msg: "not empty"}
    - {expr: "not paged or present(table)", msg: "paged needs a table"}
  dtype_format:
    - {x: F16, table: I32, bias: F16, y: F16, stat: F32, format: ND}
    - {x: BF16, table: I32, bias: BF16, y: BF16, stat: F32, format: ND}
  bprop:
    x, bias: FORMULA
    table: non_differentiable
    output_differentiability: [True, False]
  impl: {tik: {entry: "toy.fwd:scale"}, golden: "toy.golden:scale", tiling: "toy.tiling"}
  target: {soc: {Ascend910A: {dtypes: [F16]}, Ascend910B: {dtypes: [F16, BF16]}}, deterministic: True}
  accuracy: {fp16: {rms: 0.002}}
"""
SHORT = """\
scale_grad:
  grad_of: scale
  omit: [table, paged]
  args:
    stat: {}
    d_y: {like: y}
    seed: {dtype: tensor, shape: [4], dtype_from: int32}
    factor: {doc: the factor}
    rounds: {dtype: int, default: 2, prim_init: True}
  returns:
    d_x: {like: x}
    d_bias: {like: bias, dtype_from: float32}
  constraints:
    - {expr: "rounds >= 1", msg: "at least one"}
  impl: {tik: {entry: "toy.bwd:scale_grad"}, golden: "toy.golden:scale_grad"}
  target: {deterministic: False}
"""
FULL = """\
scale_grad:
  args:
    x: {dtype: tensor, shape: [B, N], doc: values}
    stat: {dtype: tensor, shape: [B, NP], doc: "stat of the forward call"}
    d_y: {dtype: tensor, shape: [B, N], doc: "gradient of y"}
    seed: {dtype: tensor, shape: [4]}
    bias: {dtype: tensor, default: None, shape: ["1|B", N]}
    mode: {dtype: str, default: "'fast'", prim_init: True}
    factor: {dtype: float, default: 1.0, prim_init: True, doc: the factor}
    rounds: {dtype: int, default: 2, prim_init: True}
  args_signature: {dtype_group: "(x, d_y, bias)"}
  symbols: {NP: "(N + 7) // 8 * 8"}
  returns:
    d_x: {dtype: tensor, shape: [B, N], dtype_from: x, doc: "gradient of x"}
    d_bias: {dtype: tensor, shape: ["1|B", N], dtype_from: float32, present_if: bias, doc: "gradient of bias"}
  constraints:
    - {expr: "rounds >= 1", msg: "at least one"}
    - {expr: "N >= 1", msg: "not empty"}
  dtype_format:
    - {x: F16, stat: F32, d_y: F16, seed: I32, bias: F16, d_x: F16, d_bias: F32, format: ND}
    - {x: BF16, stat: F32, d_y: BF16, seed: I32, bias: BF16, d_x: BF16, d_bias: F32, format: ND}
  bprop: none
  impl: {tik: {entry: "toy.bwd:scale_grad"}, golden: "toy.golden:scale_grad", tiling: "toy.tiling"}
  target: {soc: {Ascend910A: {dtypes: [F16]}, Ascend910B: {dtypes: [F16, BF16]}}, deterministic: False}
  accuracy: {fp16: {rms: 0.002}}
"""
SHORT_FORMULA = "scale_grad(d_y=dout[0], seed=zeros_like(out[1]), rounds=3)"
FULL_FORMULA = "scale_grad(x, out[1], dout[0], zeros_like(out[1]), bias, mode, factor, 3)"
# A gradient has one shape: the alternatives of an optional input are written out in both forms.
SHORT, FULL = (text.replace('["1|B", N]', "[B, N]") for text in (SHORT, FULL))
FORWARD = FORWARD.replace('["1|B", N]', "[B, N]")


def load(folder: Path, forward: str, gradient: str, name: str = "a.yaml") -> Any:
    folder.mkdir(exist_ok=True)
    (folder / "scale.yaml").write_text(forward)
    (folder / name).write_text(gradient)
    return load_registry(folder)


def plain(spec: OpSpec) -> dict[str, Any]:
    """Everything a spec says, but for where it is written."""
    return {f.name: repr(getattr(spec, f.name)) for f in fields(spec) if f.name not in ("location", "raw")}


@pytest.mark.parametrize("file", ["a.yaml", "z.yaml"])
def test_the_short_form_is_the_full_form(tmp_path: Path, file: str) -> None:
    short = load(tmp_path / "short", FORWARD.replace("FORMULA", SHORT_FORMULA), SHORT, file)
    full = load(tmp_path / "full", FORWARD.replace("FORMULA", FULL_FORMULA), FULL)
    assert plain(short.get("scale_grad")) == plain(full.get("scale_grad"))
    assert strip_to_op_def(short.get("scale_grad")) == strip_to_op_def(full.get("scale_grad"))
    assert generate(short) == generate(full)
    assert short.get("scale").bprop.rules[0].args == full.get("scale").bprop.rules[0].args


def test_literals_in_the_generated_gradient(tmp_path: Path) -> None:
    text = "".join(generate(load(tmp_path, FORWARD.replace("FORMULA", SHORT_FORMULA), SHORT)).values())
    assert "scale_grad = ScaleGrad((present[1],), mode, factor, 3)" in text
    assert "grad_x, grad_bias = scale_grad(x, out[1], dout[0], ops.zeros_like(out[1]), bias)" in text


def test_what_the_gradient_states_wins(tmp_path: Path) -> None:
    rows = "  dtype_format: [{x: F16, stat: F32, d_y: F16, seed: I32, bias: F16, d_x: F16, d_bias: F32}]\n"
    accuracy = "  accuracy: {fp16: {rms: 0.1}}\n"
    text = SHORT.replace("  impl:", rows + accuracy + "  impl:").replace('golden: "', 'tiling: "own.tiling", golden: "')
    spec = load(tmp_path, FORWARD.replace("FORMULA", SHORT_FORMULA), text).get("scale_grad")
    assert len(spec.dtype_rows) == 1 and spec.accuracy["float16"].rms == 0.1 and spec.impl.tiling == "own.tiling"


def test_gradients_of_the_shipped_ops_say_whose_they_are() -> None:
    folder = Path(get_op("flash_attention").location.rpartition(":")[0]).parent
    for name in ("flash_attention", "sparse_flash_attention", "ssd_chunk_scan", "mamba3_chunk_scan"):
        written = yaml.safe_load((folder / f"{name}_grad.yaml").read_text())[f"{name}_grad"]
        assert written["grad_of"] == name and not {"dtype_format", "symbols", "accuracy"} & written.keys()


CASES = {
    "unknown": ("grad_of: scale", "grad_of: scael", 2, "grad_of is 'scael'; nearest known: 'scale'"),
    "itself": ("grad_of: scale", "grad_of: scale_grad", 2, "grad_of is 'scale_grad'; nearest known: 'scale'"),
    "omit_no_list": ("[table, paged]", "table", 3, "omit is 'table'; accepted: a list of arguments of scale"),
    "omit_unknown": ("[table, paged]", "[tabel]", 3, "omit names 'tabel', no argument of scale; nearest known: 'ta"),
    "omitted_and_stated": ("[table,", "[factor, table,", 8, "argument 'factor' is omitted and stated; accepted"),
    "like_unknown": ("{like: y}", "{like: yy}", 6, "like is 'yy'; nearest known: 'y'"),
    "like_attribute": ("{like: y}", "{like: factor}", 6, "like is 'factor'; "),
    "like_of_return": ("{like: x}", "{like: w}", 11, "like is 'w'; "),
    "no_mapping": ("{like: y}", "y", 6, "args.d_y is 'y'; accepted: a mapping, {} for that of the forward op"),
    "args_no_mapping": ("  returns:", "  returns: [d_x]\n  more:", 10, "returns is ['d_x']; accepted: a mapping"),
    "no_dtype": (", dtype_from: int32", "", 7, "dtype_from of 'seed' is None; accepted: a tensor argument"),
    "dtype_of_omitted": ("dtype_from: int32", "dtype_from: table", 7, "dtype_from of 'seed' is 'table'; accepted"),
    "return_dtype": ("dtype_from: float32", "dtype_from: F32", 12, "dtype_from of 'd_bias' is 'F32'; accepted"),
    "misspelt": ("grad_of:", "gradof:", 2, "unknown key 'gradof' in the op; nearest known: 'grad_of'"),
    "own_fault": ("rounds >= 1", "round >= 1", 14, "'round >= 1' uses the unknown name 'round'; nearest known: "),
}


@pytest.mark.parametrize("case", CASES)
def test_finding_with_its_line(tmp_path: Path, case: str) -> None:
    old, new, line, text = CASES[case]
    assert old in SHORT
    with pytest.raises(OpInfoError) as caught:
        load(tmp_path, FORWARD.replace("FORMULA", SHORT_FORMULA), SHORT.replace(old, new, 1))
    wanted = f"a.yaml:{line}: op scale_grad: {text}"
    assert any(wanted in item for item in str(caught.value).splitlines()), str(caught.value)


def test_a_gradient_of_a_gradient_is_refused(tmp_path: Path) -> None:
    text = SHORT + SHORT.replace("scale_grad:", "third:", 1).replace("grad_of: scale", "grad_of: scale_grad")
    with pytest.raises(OpInfoError, match="op third: grad_of is 'scale_grad', a gradient itself; accepted: an op with"):
        load(tmp_path, FORWARD.replace("FORMULA", SHORT_FORMULA), text)
