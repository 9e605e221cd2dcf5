# SPDX-License-Identifier: Apache-2.0
"""Every documented form of the element-wise names, called without a namespace; library transposes and reductions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from asc_cases import need_ascendc

import ms_custom_ops as mco
from ms_custom_ops.errors import AscendcBuildError, AscendcError

need_ascendc()
SOURCE = Path(__file__).with_name("forms.cpp")
RNG = np.random.default_rng(29)
FORMS = 7  # of each name: counts, masks as a number and as bits, template arguments, the mask register
REAL = {
    "Exp": lambda x, y, d: np.exp(x),
    "Ln": lambda x, y, d: np.log(x),
    "Abs": lambda x, y, d: np.abs(x),
    "Reciprocal": lambda x, y, d: 1 / x,
    "Sqrt": lambda x, y, d: np.sqrt(x),
    "Rsqrt": lambda x, y, d: 1 / np.sqrt(x),
    "Relu": lambda x, y, d: np.maximum(x, 0),
    "Add": lambda x, y, d: x + y,
    "Sub": lambda x, y, d: x - y,
    "Mul": lambda x, y, d: x * y,
    "Div": lambda x, y, d: x / y,
    "Max": lambda x, y, d: np.maximum(x, y),
    "Min": lambda x, y, d: np.minimum(x, y),
    "AddRelu": lambda x, y, d: np.maximum(x + y, 0),
    "SubRelu": lambda x, y, d: np.maximum(x - y, 0),
    "FusedMulAdd": lambda x, y, d: d * x + y,
    "MulAddRelu": lambda x, y, d: np.maximum(d * x + y, 0),
    "FusedMulAddRelu": lambda x, y, d: np.maximum(d * x + y, 0),
    "Adds": lambda x, y, d: x + 3,
    "Muls": lambda x, y, d: 3 * x,
    "Maxs": lambda x, y, d: np.maximum(x, 3),
    "Mins": lambda x, y, d: np.minimum(x, 3),
    "LeakyRelu": lambda x, y, d: np.where(x >= 0, x, 3 * x),
    "MulAddDst": lambda x, y, d: d + x * y,
    "Axpy": lambda x, y, d: d + 3 * x,
}
WHOLE = {
    "ShiftLeft": lambda x, y, d: x << 3,
    "ShiftRight": lambda x, y, d: x >> 3,
    "And": lambda x, y, d: x & y,
    "Or": lambda x, y, d: x | y,
    "Not": lambda x, y, d: ~x,
}
TYPES = {"float": np.float32, "half": np.float16, "uint16_t": np.uint16, "int32_t": np.int32}


def results(group: str, dtype: str, names: dict, x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """By name, one row for each form."""
    out = np.zeros((len(names) * FORMS, x.size), x.dtype)
    mco.ascendc.build(SOURCE, entry=f"{group}_{dtype}")(1, x, y, out)
    return dict(zip(names, out.reshape(len(names), FORMS, -1), strict=True))


@pytest.mark.parametrize("dtype", ["float", "half"])
def test_every_form_without_a_namespace_gives_what_the_plain_one_gives(dtype):
    kind, count = TYPES[dtype], 1024 // np.dtype(TYPES[dtype]).itemsize
    x, y = (RNG.uniform(0.25, 4, count).astype(kind) for _ in range(2))
    for name, got in results("Real", dtype, REAL, x, y).items():
        wanted = REAL[name](x.astype(np.float64), y.astype(np.float64), 2.0)
        tolerance = 5e-7 if dtype == "float" else 2e-3
        np.testing.assert_allclose(got[0].astype(np.float64), wanted, tolerance, tolerance, err_msg=name)
        for form in range(1, FORMS):
            np.testing.assert_array_equal(got[form], got[0], err_msg=f"{name}, form {form}")


@pytest.mark.parametrize("dtype", ["uint16_t", "int32_t"])
def test_every_form_of_whole_numbers_without_a_namespace(dtype):
    kind = TYPES[dtype]
    names = WHOLE if dtype == "uint16_t" else {name: WHOLE[name] for name in ("ShiftLeft", "ShiftRight")}
    x, y = (RNG.integers(0, 2**12, 1024 // np.dtype(kind).itemsize).astype(kind) for _ in range(2))
    for name, got in results("Whole", dtype, names, x, y).items():
        for form in range(FORMS):
            np.testing.assert_array_equal(got[form], WHOLE[name](x, y, 2), err_msg=f"{name}, form {form}")


def test_a_name_that_is_not_there_stays_the_first_thing_said(tmp_path):
    source = tmp_path / "k.cpp"
    source.write_text(
        '#include "kernel_operator.h"\nextern "C" __global__ __aicore__ void k(GM_ADDR x) {\n'
        "  AscendC::LocalTensor<float> t;\n  Exp<float, false>(t, t, 8);\n"
        "  int n = GetBlockIdx();\n  Rexp(t, t, n);\n}\n"
    )
    with pytest.raises(AscendcBuildError) as caught:
        mco.ascendc.build(source, entry="k")
    assert str(caught.value).startswith(f"{source}:4: ‘Exp’ was not declared in this scope")
    source.write_text(source.read_text().replace("GetBlockIdx()", "AscendC::GetBlockIdx()"))
    with pytest.raises(AscendcBuildError) as caught:
        mco.ascendc.build(source, entry="k")
    assert str(caught.value).startswith(f"{source}:6: ‘Rexp’ was not declared in this scope")
    source.write_text(source.read_text().replace("  Rexp(t, t, n);\n", ""))
    mco.ascendc.build(source, entry="k")


LIBRARY = """
#include "kernel_operator.h"
using namespace AscendC;
template <class T>
struct Memory {
  TPipe pipe;
  TBuf<> buffer;
  LocalTensor<T> x, o;
  __aicore__ inline Memory(GM_ADDR a, uint32_t n) {
    pipe.InitBuffer(buffer, 163840);
    x = buffer.GetWithOffset<T>(81920 / sizeof(T), 0), o = buffer.GetWithOffset<T>(81920 / sizeof(T), 81920);
    GlobalTensor<T> from;
    from.SetGlobalBuffer((__gm__ T*)a);
    DataCopyPad(x, from, {1, uint32_t(n * sizeof(T)), 0, 0, 0}, {false, 0, 0, 0});
    Duplicate(o, T(0), 81920 / sizeof(T));
  }
  __aicore__ inline void Out(GM_ADDR b, uint32_t n) {
    GlobalTensor<T> to;
    to.SetGlobalBuffer((__gm__ T*)b);
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(to, o, {1, uint32_t(n * sizeof(T)), 0, 0, 0});
  }
};

template <class T>
__global__ __aicore__ void turned(GM_ADDR a, GM_ADDR b, uint32_t n, uint32_t m, int type, bool old, uint32_t bb,
                                  uint32_t nn, uint32_t s, uint32_t d) {
  Memory<T> memory(a, n);
  ConfusionTransposeTiling tiling{bb, nn, s, d};
  LocalTensor<uint8_t> tmp;
  if (old) {
    ConfusionTranspose(memory.o, memory.x, tmp, TransposeType(type), tiling);
  } else {
    Transpose(memory.o, memory.x, TransposeType(type), tiling);
  }
  memory.Out(b, m);
}
template <class T>
__global__ __aicore__ void images(GM_ADDR a, GM_ADDR b, uint32_t n, int type, uint16_t nn, uint16_t c, uint16_t h,
                                  uint16_t w) {
  Memory<T> memory(a, n);
  LocalTensor<uint8_t> tmp;
  Transpose(memory.o, memory.x, tmp, TransposeParamsExt(nn, c, h, w, TransposeType(type)));
  memory.Out(b, n);
}
#define REDUCE(NAME)                                                                                      \
  if (last) NAME<T, Pattern::Reduce::AR>(memory.o, memory.x, tmp, shape, padded);                         \
  else NAME<T, Pattern::Reduce::RA, true>(memory.o, memory.x, shape, padded);                             \
  break;
template <class T>
__global__ __aicore__ void reduced(GM_ADDR a, GM_ADDR b, uint32_t n, uint32_t m, int which, bool last, bool padded,
                                   uint32_t rows, uint32_t columns) {
  Memory<T> memory(a, n);
  LocalTensor<uint8_t> tmp;
  const uint32_t shape[] = {rows, columns};
  switch (which) {
    case 0: REDUCE(ReduceSum)
    case 1: REDUCE(ReduceMean)
    case 2: REDUCE(ReduceProd)
    case 3: REDUCE(ReduceMax)
    case 4: REDUCE(ReduceMin)
    default:
      if constexpr (sizeof(T) == 4) {
        switch (which) {
          case 5: REDUCE(ReduceAny)
          default: REDUCE(ReduceAll)
        }
      }
  }
  memory.Out(b, m);
}
extern "C" __global__ __aicore__ void differ(GM_ADDR a, GM_ADDR b, uint32_t n) {
  Memory<int16_t> memory(a, 2 * n);
  ReduceXorSum(memory.o, memory.x, memory.x[n], n);
  memory.Out(b, 1);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    source = tmp_path_factory.mktemp("library") / "library.cpp"
    source.write_text(LIBRARY)
    return lambda entry: mco.ascendc.build(source, entry=entry)


def nz(x: np.ndarray) -> np.ndarray:
    """[..., rows, columns] in fractals of 16 x 16, those of a column after each other."""
    *batch, rows, columns = x.shape
    split = x.reshape(*batch, rows // 16, 16, columns // 16, 16)
    return np.moveaxis(split, -2, len(batch))


@pytest.mark.parametrize("old", [False, True], ids=["Transpose", "ConfusionTranspose"])
@pytest.mark.parametrize("dtype", ["half", "float"])
@pytest.mark.parametrize("type_", range(1, 8))
def test_transposes_between_layouts(library, type_, dtype, old):
    b, n, s, d = (1, 1, 48, 32) if type_ == 7 else (2, 16, 32, 16)
    x = RNG.normal(size=(b, n, s, d)).astype(TYPES[dtype])
    bsnd = np.ascontiguousarray(x.transpose(0, 2, 1, 3))
    merged = bsnd.reshape(b, s, n * d)
    given = x if type_ == 7 else nz(merged) if type_ in (3, 4) else nz(x)
    if type_ == 7:
        wanted = x[0, 0].T
    else:
        wanted = {1: bsnd, 2: nz(bsnd), 3: nz(x), 4: x, 5: bsnd, 6: nz(merged)}[type_]
    out = np.zeros(wanted.size, x.dtype)
    run = library(f"turned<{dtype}>")
    run(1, np.ascontiguousarray(given), out, x.size, out.size, type_, old, b, n, s, d)
    np.testing.assert_array_equal(out, wanted.ravel())


@pytest.mark.parametrize("dtype", ["half", "float"])
@pytest.mark.parametrize(("type_", "shape"), [(11, (2, 3, 5, 16)), (12, (2, 5, 16, 3))], ids=["NHWC", "NCHW"])
def test_transposes_of_images(library, type_, shape, dtype):
    x = RNG.normal(size=shape).astype(TYPES[dtype])
    first = type_ == 11
    n, c, h, w = shape if first else (shape[0], shape[3], shape[1], shape[2])
    out = np.zeros(x.size, x.dtype)
    library(f"images<{dtype}>")(1, x, out, x.size, type_, n, c, h, w)
    np.testing.assert_array_equal(out, x.transpose(0, 2, 3, 1).ravel() if first else x.transpose(0, 3, 1, 2).ravel())


def test_a_transpose_refuses_what_it_cannot_do(library):
    x, out = np.zeros(256, np.float32), np.zeros(256, np.float32)
    with pytest.raises(AscendcError, match=r"Transpose: TRANSPOSE_ND2ND_B16 of elements of 4 bytes; accepted: 2 bytes"):
        library("images<float>")(1, x, out, 256, 10, 0, 0, 16, 16)
    with pytest.raises(AscendcError, match=r"transposeType is 3; accepted: TRANSPOSE_ND2ND_B16, TRANSPOSE_NCHW2NHWC"):
        library("images<float>")(1, x, out, 256, 3, 1, 1, 16, 16)
    with pytest.raises(AscendcError, match=r"cSize is 5000; accepted: 0 to 4095"):
        library("images<float>")(1, x, out, 256, 11, 1, 5000, 1, 1)
    turned = library("turned<float>")
    with pytest.raises(AscendcError, match=r"transposeType is 9; accepted: TRANSPOSE_NZ2ND_0213 to TRANSPOSE_ND2ND_O"):
        turned(1, x, out, 256, 256, 9, False, 1, 1, 16, 16)
    with pytest.raises(AscendcError, match=r"tiling of \[1, 1, 16, 4294967295\]; accepted: that of GetTransposeTilin"):
        turned(1, x, out, 256, 256, 1, False, 1, 1, 16, 2**32 - 1)
    with pytest.raises(AscendcError, match=r"Transpose: reads bytes \[0, 1048576\) of the VECCALC b"):
        turned(1, x, out, 256, 256, 7, False, 1, 1, 512, 512)


NAMES = ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceAny", "ReduceAll")


@pytest.mark.parametrize("last", [True, False], ids=["AR", "RA"])
@pytest.mark.parametrize(
    ("dtype", "name"), [(dtype, name) for dtype in ("float", "half") for name in NAMES[: 7 if dtype == "float" else 5]]
)
def test_reductions_along_an_axis(library, dtype, name, last):
    rows, columns, kind = 7, 29, TYPES[dtype]
    pitch = -(-columns // 16) * 16 if dtype == "half" else 32
    x = RNG.uniform(0.5, 1.5, (rows, pitch)).astype(kind)
    if name in ("ReduceAny", "ReduceAll"):
        x = (RNG.random((rows, pitch)) < (0.1 if name == "ReduceAny" else 0.9)).astype(kind)
    x[:, columns:] = np.nan  # does not count
    functions = dict(zip(NAMES, (np.sum, np.mean, np.prod, np.max, np.min, np.any, np.all), strict=True))
    wanted = functions[name](x[:, :columns].astype(np.float64), axis=1 if last else 0)
    out = np.zeros(wanted.size, kind)
    library(f"reduced<{dtype}>")(1, x, out, x.size, out.size, NAMES.index(name), last, True, rows, columns)
    np.testing.assert_array_equal(out, wanted.astype(kind))
    dense = np.ascontiguousarray(x[:, :columns])
    library(f"reduced<{dtype}>")(1, dense, out, dense.size, out.size, NAMES.index(name), last, False, rows, columns)
    np.testing.assert_array_equal(out, wanted.astype(kind))


def test_a_reduction_with_a_nan_is_nan_and_one_of_nothing_writes_nothing(library):
    x = np.ones((4, 8), np.float32)
    x[1, 2] = np.nan
    for which in (3, 4):
        out = np.zeros(4, np.float32)
        library("reduced<float>")(1, x, out, x.size, 4, which, True, True, 4, 8)
        np.testing.assert_array_equal(out, [1, np.nan, 1, 1])
    library("reduced<float>")(1, x, out, x.size, 4, 0, True, True, 0, 8)
    np.testing.assert_array_equal(out, 0)


def test_the_sum_of_what_differs(library):
    x = RNG.integers(-40, 40, (2, 33)).astype(np.int16)
    out = np.zeros(1, np.int16)
    library("differ")(1, x, out, 33)
    assert out[0] == np.sum(x[0] ^ x[1])
