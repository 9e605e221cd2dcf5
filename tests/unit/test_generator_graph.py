# SPDX-License-Identifier: Apache-2.0
"""Generated primitives and functions under MindSpore: every pattern of optional inputs, in both modes.

The runtime is a small fake (a C kernel per pattern), so that this tests the generator alone. A child process
runs it: MindSpore's mode is global, and the generated modules go by the names of the real ones.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("mindspore")

OP_INFO = """
mix:
  doc: scale * x * w + a + 2 * b + 100 (if c) + d + e
  args:
    x: {dtype: tensor, shape: [M, N]}
    w: {dtype: tensor, shape: [M, N]}
    a: {dtype: tensor, default: None, shape: [M, N]}
    b: {dtype: tensor, default: None, shape: [N]}
    c: {dtype: tensor, default: None, shape: ["1|M", N]}
    d: {dtype: tensor, default: None, shape: [M]}
    e: {dtype: tensor, default: None, shape: [M, N]}
    scale: {dtype: float, default: 2.0, prim_init: True}
    mode: {dtype: str, default: "'plain'", prim_init: True}
    flag: {dtype: bool, default: True, prim_init: True}
  returns:
    y: {dtype: tensor, shape: [M, N], dtype_from: x}
    stat: {dtype: tensor, shape: [M], dtype_from: float32}
  dtype_format:
    - {x: F32, w: F32, a: F32, b: F32, c: F16, d: I32, e: U8, y: F32, stat: F32}
  bprop:
    x, w, a, b: mix_grad(x, w, dout[0], a, b, scale=scale)
    c, d, e: non_differentiable
    output_differentiability: [True, False]
  impl: {tik: {entry: "toy:mix"}, golden: "toy:mix", tiling: "toy"}
  target: {soc: {Ascend910A: {dtypes: [F32]}}}
mix_grad:
  args:
    x: {dtype: tensor, shape: [M, N]}
    w: {dtype: tensor, shape: [M, N]}
    d_y: {dtype: tensor, shape: [M, N]}
    a: {dtype: tensor, default: None, shape: [M, N]}
    b: {dtype: tensor, default: None, shape: [N]}
    never: {dtype: tensor, default: None, shape: [N]}
    scale: {dtype: float, default: 2.0, prim_init: True}
  returns:
    d_x: {dtype: tensor, shape: [M, N], dtype_from: x}
    d_w: {dtype: tensor, shape: [M, N], dtype_from: w}
    d_a: {dtype: tensor, shape: [M, N], dtype_from: a, present_if: a}
    d_b: {dtype: tensor, shape: [N], dtype_from: b, present_if: b}
  dtype_format:
    - {x: F32, w: F32, d_y: F32, a: F32, b: F32, never: F32, d_x: F32, d_w: F32, d_a: F32, d_b: F32}
  bprop: none
  impl: {tik: {entry: "toy:mix_grad"}, golden: "toy:mix_grad", tiling: "toy"}
  target: {soc: {Ascend910A: {dtypes: [F32]}}}
square:
  args: {x: {dtype: tensor, shape: [M, N]}}
  returns: {y: {dtype: tensor, shape: [M, N], dtype_from: x}}
  dtype_format: [{x: F32, y: F32}]
  bprop: {x: "square_grad(x, dout[0])"}
  impl: {tik: {entry: "toy:square"}, golden: "toy:square", tiling: "toy"}
  target: {soc: {Ascend910A: {dtypes: [F32]}}}
square_grad:
  args: {x: {dtype: tensor, shape: [M, N]}, d_y: {dtype: tensor, shape: [M, N]}}
  returns: {d_x: {dtype: tensor, shape: [M, N], dtype_from: x}}
  dtype_format: [{x: F32, d_y: F32, d_x: F32}]
  bprop: none
  impl: {tik: {entry: "toy:square_grad"}, golden: "toy:square_grad", tiling: "toy"}
  target: {soc: {Ascend910A: {dtypes: [F32]}}}
"""

KERNEL = """
#include <cstdint>
#define ABI int np, void **p, int *nd, int64_t **sh, const char **dt, void *st, void *ex
static int mix(int bits, float scale, void **p, int64_t **sh) {
  int64_t M = sh[0][0], N = sh[0][1];
  float *x = (float *)p[0], *w = (float *)p[1], *a = (float *)p[2], *b = (float *)p[3], *y = (float *)p[7];
  int32_t *d = (int32_t *)p[5]; uint8_t *e = (uint8_t *)p[6]; float *stat = (float *)p[8];
  for (int64_t i = 0; i < M; i++) {
    stat[i] = 0;
    for (int64_t j = 0; j < N; j++) {
      int64_t k = i * N + j; float s = scale * x[k] * w[k];
      if (bits & 1) s += a[k];
      if (bits & 2) s += 2 * b[j];
      if (bits & 4) s += 100;
      if (bits & 8) s += d[i];
      if (bits & 16) s += e[k];
      y[k] = s; stat[i] += s;
    }
  }
  return 0;
}
static int mix_grad(int bits, float scale, void **p, int64_t **sh) {
  int64_t M = sh[0][0], N = sh[0][1];
  float *x = (float *)p[0], *w = (float *)p[1], *g = (float *)p[2];
  float *dx = (float *)p[6], *dw = (float *)p[7], *da = (float *)p[8], *db = (float *)p[9];
  if (bits & 2) for (int64_t j = 0; j < N; j++) db[j] = 0; else *(uint8_t *)p[9] = 0;
  if (!(bits & 1)) *(uint8_t *)p[8] = 0;
  for (int64_t k = 0; k < M * N; k++) {
    dx[k] = scale * w[k] * g[k]; dw[k] = scale * x[k] * g[k];
    if (bits & 1) da[k] = g[k];
    if (bits & 2) db[k % N] += 2 * g[k];
  }
  return 0;
}
extern "C" int square_0_0(ABI) {
  float *x = (float *)p[0], *y = (float *)p[1];
  for (int64_t k = 0; k < sh[0][0] * sh[0][1]; k++) y[k] = x[k] * x[k];
  return 0;
}
extern "C" int square_grad_0_0(ABI) {
  float *x = (float *)p[0], *g = (float *)p[1], *d = (float *)p[2];
  for (int64_t k = 0; k < sh[0][0] * sh[0][1]; k++) d[k] = 2 * x[k] * g[k];
  return 0;
}
"""

FAKE_RUNTIME = """
import os
import numpy as np
from mindspore import Tensor, ops
from mindspore.common import dtype as mstype
from mindspore.ops._primitive_cache import _get_cache_prim
from ms_custom_ops.registry import load_registry

HERE = os.path.dirname(os.path.abspath(__file__))
SPECS = load_registry(os.path.join(HERE, "op_info")).ops


def _name(dtype):
    return str(getattr(dtype, "element_type", lambda: dtype)()).lower()


class TikCustom(ops.Custom):
    def __init__(self, op_name, attrs, present, bprop=None):
        spec = SPECS[op_name]
        assert len(present) == len(spec.optional_tensors)
        bits = sum(1 << i for i, flag in enumerate(present) if flag)
        symbol = f"{op_name}_{bits}_{int(attrs.get('scale', 0))}"

        self.call = spec, attrs, present
        super().__init__(os.path.join(HERE, "toy.so") + ":" + symbol, len, len, func_type="aot", bprop=bprop)

    def __infer__(self, *args):
        spec, attrs, present = self.call
        shapes = spec.named_inputs([tuple(arg["shape"]) for arg in args], present)
        dtypes = spec.named_inputs([_name(arg["dtype"]) for arg in args], present)
        returns = spec.infer(shapes, dtypes, attrs, "Ascend910A")
        shape = tuple(item[0] for item in returns)
        dtype = tuple(mstype.TensorType(getattr(mstype, item[1])) for item in returns)
        single = len(returns) == 1
        return {"shape": shape[0] if single else shape, "dtype": dtype[0] if single else dtype, "value": None}


class OpPrimitive(TikCustom):
    def __init__(self, present, *values):
        attrs = dict(zip([arg.name for arg in SPECS[self.OP].attributes], values))
        super().__init__(self.OP, attrs, present, self.gradient(present, *values))



def no_gradient(op):
    raise NotImplementedError(op)


ABSENT = Tensor(np.zeros((1,), np.uint8))
prim_cache = _get_cache_prim
"""

SCRIPT = '''
import importlib.util, itertools, os, sys
import numpy as np
import mindspore as ms
from mindspore import Tensor, nn, ops

HERE, MODE = sys.argv[1], sys.argv[2]


def put(name, file):
    spec = importlib.util.spec_from_file_location(name, os.path.join(HERE, file))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


put("ms_custom_ops.mindspore.custom", "fake_runtime.py")
put("ms_custom_ops.mco_generated_ops_primitives", "mco_generated_ops_primitives.py")
functions = put("ms_custom_ops.mco_generated_ops", "mco_generated_ops.py")
ms.set_context(mode=ms.GRAPH_MODE if MODE == "graph" else ms.PYNATIVE_MODE)
M, N = 3, 5
rng = np.random.default_rng(0)
x, w, a = (rng.standard_normal((M, N)).astype(np.float32) for _ in range(3))
b = rng.standard_normal(N).astype(np.float32)
values = [a, b, np.ones((1, N), np.float16), np.arange(M, dtype=np.int32), np.full((M, N), 7, np.uint8)]
NAMES = "abcde"


class Net(nn.Cell):
    def __init__(self, flags):
        super().__init__()
        self.flags, self.mix, self.scale = flags, functions.mix, 2.0

    def construct(self, x, w, *rest):
        given = [None, None, None, None, None]
        position = 0
        for i in range(5):
            if self.flags[i]:
                given[i] = rest[position]
                position += 1
        y, stat = self.mix(x, w, given[0], given[1], given[2], d=given[3], e=given[4], scale=self.scale)
        return y


class Grad(nn.Cell):
    """Value and gradients: one graph compiles faster than two."""

    def __init__(self, net):
        super().__init__()
        self.net, self.grad = net, ops.GradOperation(get_all=True)

    def construct(self, *args):
        return self.net(*args), self.grad(self.net)(*args)


for flags in itertools.product((False, True), repeat=5):
    given = [Tensor(v) for v, flag in zip(values, flags) if flag]
    net = Net(flags)
    want = 2 * x * w + flags[0] * a + 2 * flags[1] * b + 100 * flags[2]
    want = want + flags[3] * np.arange(M)[:, None] + 7 * flags[4]
    found, grads = Grad(net)(Tensor(x), Tensor(w), *given)
    np.testing.assert_allclose(found.asnumpy(), want, rtol=1e-5, atol=1e-5)
    full = {"a": np.ones((M, N)), "b": np.full(N, 2.0 * M), "c": np.zeros((1, N)),
            "d": np.zeros(M), "e": np.zeros((M, N))}
    wants = [2 * w, 2 * x] + [full[n] for n, flag in zip(NAMES, flags) if flag]
    assert len(grads) == len(wants), (flags, len(grads))
    for got, expected, source in zip(grads, wants, [x, w] + [v for v, flag in zip(values, flags) if flag]):
        assert (got.asnumpy().dtype, got.shape) == (source.dtype, source.shape), (flags, got.dtype)
        np.testing.assert_allclose(got.asnumpy(), expected, rtol=1e-5, atol=1e-5)


class Two(nn.Cell):
    """Two attribute values and a second op in one graph."""

    def construct(self, x, w):
        first, _ = functions.mix(x, w, scale=2.0)
        second, _ = functions.mix(x, w, b=None, scale=3.0, mode="other", flag=False)
        return first + second + functions.square(x)


two = Two()
found, (dx, dw) = Grad(two)(Tensor(x), Tensor(w))
np.testing.assert_allclose(found.asnumpy(), 5 * x * w + x * x, rtol=1e-5, atol=1e-5)
np.testing.assert_allclose(dx.asnumpy(), 5 * w + 2 * x, rtol=1e-5, atol=1e-5)
np.testing.assert_allclose(dw.asnumpy(), 5 * x, rtol=1e-5, atol=1e-5)
try:
    Net((False,) * 5)(Tensor(x), Tensor(w[:2])).asnumpy()
except ValueError as error:
    assert "mix: axis 0 of w (M) is 2; accepted: 3, the M of x axis 0" in str(error), error
else:
    raise AssertionError("a wrong shape was accepted")
print("patterns and graphs agree")
'''


def _wrappers() -> str:
    names = [("mix", bits, scale) for bits in range(32) for scale in (2, 3)]
    names += [("mix_grad", bits, scale) for bits in range(8) for scale in (2, 3)]
    return "".join(
        f'extern "C" int {op}_{bits}_{scale}(ABI) {{ return {op}({bits}, {scale}.0f, p, sh); }}\n'
        for op, bits, scale in names
    )


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from ms_custom_ops.registry import load_registry
    from ms_custom_ops.registry.generate import write

    if shutil.which("g++") is None:
        pytest.skip("needs g++ for the toy kernel")
    folder = tmp_path_factory.mktemp("generated")
    (folder / "op_info").mkdir()
    (folder / "op_info" / "toy.yaml").write_text(OP_INFO)
    (folder / "fake_runtime.py").write_text(FAKE_RUNTIME)
    (folder / "script.py").write_text(textwrap.dedent(SCRIPT))
    (folder / "toy.cc").write_text(KERNEL + _wrappers())
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-o", str(folder / "toy.so"), str(folder / "toy.cc")], check=True)
    write(load_registry(folder / "op_info"), folder)
    return folder


@pytest.mark.parametrize("mode", ["graph", "pynative"])
def test_every_pattern_of_optional_inputs(generated: Path, mode: str) -> None:
    result = subprocess.run(
        [sys.executable, str(generated / "script.py"), str(generated), mode],
        cwd=generated,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    assert "patterns and graphs agree" in result.stdout
