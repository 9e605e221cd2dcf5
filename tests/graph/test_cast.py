# SPDX-License-Identifier: Apache-2.0
"""Casts that the engine does in MindSpore's place: the values of MindSpore's own, gradients, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from attention_nets import run_python
from mindspore import Tensor, nn, ops

from ms_custom_ops.errors import OpDtypeError
from ms_custom_ops.mindspore import cast as casts
from ms_custom_ops.mindspore.cast import EngineCast, cast

NARROW = ("float16", "bfloat16")
LEAST = casts._LEAST
# The engine takes 64 elements at a time: the last ones in every place of such a group.
COUNTS = (LEAST, LEAST + 1, LEAST + 17, LEAST + 63)


class Cast(nn.Cell):
    def __init__(self, dtype: str):
        super().__init__()
        self.dtype = getattr(ms, dtype)

    def construct(self, x):
        return cast(x, self.dtype)


class Loss(Cast):
    def construct(self, x):
        return (ops.cast(cast(x, self.dtype), ms.float32) * 3).sum()


class Curve(Cast):
    def construct(self, x):
        return (cast(cast(x, self.dtype), ms.float32) ** 2).sum()


class Slope(nn.Cell):
    def __init__(self, dtype: str):
        super().__init__()
        self.gradient = ops.grad(Curve(dtype))

    def construct(self, x):
        return self.gradient(x).sum()


class Both(nn.Cell):
    def __init__(self, dtype: str):
        super().__init__()
        self.dtype = getattr(ms, dtype)

    def construct(self, x):
        return cast(x, self.dtype), ops.cast(x, self.dtype)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def words(count: int) -> np.ndarray:
    """float32 of any bits, and in its first half of the size of float16's: subnormal, normal and beyond."""
    rng = np.random.default_rng(count)
    found = rng.integers(0, 2**32, count, np.uint32).view(np.float32)
    half = count // 2
    found[:half] = rng.standard_normal(half) * 10.0 ** rng.uniform(-9, 5, half)
    found[:8] = 65504, 65519.996, 65520, -65520, 2.0**-24, 2.0**-25, -0.0, np.inf
    return found


def bits(x: Any) -> np.ndarray:
    """As float32, which holds all three dtypes; every NaN the same one."""
    values = ops.cast(x, ms.float32).asnumpy()
    return np.where(np.isnan(values), np.float32(np.nan), values).view(np.uint32)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", NARROW)
def test_rounds_as_mindspore_does(mode: str, dtype: str, count: int) -> None:
    ours, theirs = Both(dtype)(Tensor(words(count)))
    assert ours.dtype == theirs.dtype == getattr(ms, dtype)
    assert (bits(ours) == bits(theirs)).all()


@pytest.mark.parametrize("dtype", NARROW)
def test_every_value_comes_back(mode: str, dtype: str) -> None:
    every = (np.arange(2**16, dtype=np.uint32) << 16).view(np.float32)
    if dtype == "float16":
        every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    narrow = ops.cast(Tensor(every), getattr(ms, dtype))
    wide = Cast("float32")(narrow)
    assert wide.dtype == ms.float32 and (bits(wide) == bits(Tensor(every))).all()


@pytest.mark.parametrize(("dtype", "given"), [("bfloat16", "float16"), ("float16", "bfloat16")])
def test_between_the_narrow_ones(mode: str, dtype: str, given: str) -> None:
    x = ops.cast(Tensor(words(LEAST + 5)), getattr(ms, given))
    out = Cast(dtype)(x)
    assert (bits(out) == bits(ops.cast(ops.cast(x, ms.float32), getattr(ms, dtype)))).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_in_mixed_precision(mode: str, dtype: str) -> None:
    """to_float casts what comes to ops.Custom too."""
    x = Tensor(np.full(LEAST, 1 / 3, np.float32))
    out = Cast(dtype).to_float(ms.float16)(x)
    assert out.dtype == getattr(ms, dtype)
    assert abs(ops.cast(out, ms.float32).asnumpy() - 1 / 3).max() < 2.0**-9


@pytest.mark.parametrize("shape", [(3,), (0, 4), (), (2, LEAST // 2)])
def test_any_shape(mode: str, shape: tuple[int, ...]) -> None:
    out = Cast("float16")(Tensor(np.full(shape, 1.5, np.float32)))
    assert out.shape == shape and out.dtype == ms.float16 and (out.asnumpy() == 1.5).all()


@pytest.mark.parametrize("dtype", NARROW)
def test_gradients_are_cast_back(mode: str, dtype: str) -> None:
    gradient = ms.grad(Loss(dtype))(Tensor(np.ones(LEAST, np.float32)))
    assert gradient.dtype == ms.float32 and (gradient.asnumpy() == 3).all()


@pytest.mark.parametrize("dtype", NARROW)
def test_gradients_of_the_second_order(mode: str, dtype: str) -> None:
    x = Tensor(np.full(LEAST, 2.0, np.float32))
    assert (ms.grad(Curve(dtype))(x).asnumpy() == 4).all()
    assert (ms.grad(Slope(dtype))(x).asnumpy() == 2).all()


def test_other_dtypes_are_mindspore_s(mode: str) -> None:
    given = Tensor(np.arange(LEAST, dtype=np.int32))
    assert (Cast("float32")(given).asnumpy() == given.asnumpy()).all()
    same = Cast("float32")(Tensor(np.ones(LEAST, np.float32)))
    assert same.dtype == ms.float32


@pytest.mark.parametrize(
    ("dtype", "given", "text"),
    [
        ("float16", np.int16, "cast: dtype of what becomes float16 is int16; accepted: float16, bfloat16, float32"),
        ("float32", np.int32, "cast: dtype of what becomes float32 is int32; accepted: float16, bfloat16, float32"),
    ],
)
def test_the_primitive_refuses_other_dtypes(dtype: str, given: Any, text: str) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    with pytest.raises(OpDtypeError, match=text):
        EngineCast(dtype)(Tensor(np.ones(4, given)))


FOREIGN = """
import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from ms_custom_ops.engine import native as engine
ms.set_context(mode=ms.PYNATIVE_MODE)
def op(shape, dtype):
    return ops.Custom(f"{engine.library_path()}:mco_cast", shape, dtype, func_type="aot")
half, two = Tensor(np.ones(3, np.float16)), Tensor(np.ones(2, np.float32))
cases = [
    lambda: op(lambda s: s, lambda t: ms.int32)(half),
    lambda: op(lambda s: [3], lambda t: ms.float16)(two),
    lambda: op(lambda s, t: s, lambda s, t: s)(two, two),
]
for case in cases:
    try:
        print(case().asnumpy())
    except RuntimeError as error:
        print("refused", str(error).splitlines()[0].partition("Error message is ")[2])
"""


def test_other_calls_of_the_function_are_refused(tmp_path: Path) -> None:
    done = run_python(FOREIGN, tmp_path)
    assert done.returncode == 0, done.stderr
    accepted = "; accepted: float16, bfloat16 or float32 as one of them, of as many elements"
    assert done.stdout.splitlines() == [
        f"refused mco_cast: float16[3] as int32[3]{accepted}",
        f"refused mco_cast: float32[2] as float16[3]{accepted}",
        "refused mco_cast: 3 tensors; accepted: a tensor and its result",
    ]
