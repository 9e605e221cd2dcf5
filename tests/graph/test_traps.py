# SPDX-License-Identifier: Apache-2.0
"""Properties of MindSpore's ops.Custom that would bite, one by one (docs/mindspore.md lists them all)."""

from __future__ import annotations

import warnings
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from attention_nets import Attention, AttentionOut, Gradients, check, numpy, qkv, random, rms_ratio
from mindspore import Tensor, nn, ops

import ms_custom_ops as mco
from ms_custom_ops import compiler, mco_generated_ops
from ms_custom_ops.cache import ProgramCache
from ms_custom_ops.errors import OpArgumentError, OpDtypeError, TikError
from ms_custom_ops.mindspore import versions
from ms_custom_ops.mindspore.custom import TikCustom, dtype_name, prim_cache
from ms_custom_ops.op_impl.flash_attention import golden
from ms_custom_ops.registry import get_op


class Raw(nn.Cell):
    """The generated primitive itself."""

    def construct(self, query, key, value):
        return mco_generated_ops.flash_attention(query, key, value)


def tensors(*sizes: int) -> list[Tensor]:
    return [Tensor(a) for a in qkv(*(sizes or (1, 2, 2, 17, 33, 16)))]


WRONG = {
    "rank": (lambda t: (t[0][0], *t[1:]), OpArgumentError, "rank of query is 3"),
    "dtype": (lambda t: [ops.cast(x, ms.float32) for x in t], OpDtypeError, "dtype of query is float32"),
    "heads": (lambda t: (t[0], ops.concat([t[1], t[1]], 1), ops.concat([t[2], t[2]], 1)), OpArgumentError, "N1"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize(
    "net", [pytest.param(Raw, marks=pytest.mark.nightly), AttentionOut], ids=["primitive", "function"]
)
def test_wrong_inputs_leave_the_process_usable(mode: str, net: type, name: str) -> None:
    change, error, text = WRONG[name]
    good, cell = tensors(), net()
    for _ in range(2):
        with pytest.raises(error, match=f"flash_attention: .*{text}"):
            cell(*change(good))
    check(Attention(), qkv(1, 2, 2, 17, 33, 16))
    assert (ops.add(good[0], good[0]).asnumpy() == 2 * good[0].asnumpy()).all()


def test_dtypes_are_checked_although_mindspore_does_not(mode: str) -> None:
    query, key, value = tensors()
    with pytest.raises(OpDtypeError, match="dtype of key is bfloat16"):
        Raw()(query, ops.cast(key, ms.bfloat16), value)


class FailingKernel(nn.Cell):
    def construct(self, query, key, value):
        return mco.ops.flash_attention(query, key, value, scale_value=0.125)[0]


def test_error_of_a_kernel_surfaces_at_compile(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(call: compiler.Call) -> None:
        raise TikError("data_move: burst is 0; accepted: 1 to 65535", "fwd.py:7")

    monkeypatch.setattr(compiler, "_memory", compiler._Memory())
    monkeypatch.setattr(compiler, "default_cache", lambda: ProgramCache(None))
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "_trace", refuse)
        with pytest.raises(BaseException, match=r"data_move: burst is 0; accepted: 1 to 65535 \[fwd.py:7\]"):
            FailingKernel()(*tensors(1, 1, 1, 18, 18, 16))
    assert (
        rms_ratio(FailingKernel()(*tensors()), golden.flash_attention(*qkv(1, 2, 2, 17, 33, 16), scale_value=0.125)[0])
        <= 2e-3
    )


def test_dynamic_shapes_are_refused_by_name() -> None:
    net = Raw()
    net.set_inputs(*[Tensor(shape=[1, 2, None, 16], dtype=ms.float16)] * 3)
    with pytest.raises(OpArgumentError, match="flash_attention: .*static shape"):
        net(*tensors(1, 2, 2, 17, 17, 16))
    assert Raw()(*tensors())[0].shape == (1, 2, 17, 16)  # the attempt poisoned nothing


def test_dynamic_shapes_are_refused_by_the_function() -> None:
    net = AttentionOut()
    net.set_inputs(*[Tensor(shape=[1, 2, None, 16], dtype=ms.float16)] * 3)
    with pytest.raises(OpArgumentError, match=r"query is of shape .*static shape \(B, N1, S1, D\); dynamic shapes"):
        net(*tensors(1, 2, 2, 17, 17, 16))


def test_compiled_once_per_shape() -> None:
    net, seen = AttentionOut(), []
    original = TikCustom._infer
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TikCustom, "_infer", lambda self, *a: seen.append(a[0][0]) or original(self, *a))
        for length in (17, 33, 17, 33):
            net(*tensors(1, 2, 2, length, length, 16))
    assert len(seen) == 2


def test_dropped_memory_does_not_matter_to_a_live_graph(mode: str) -> None:
    net, arrays = AttentionOut(), qkv(1, 2, 2, 17, 33, 16)
    before = net(*tensors()).asnumpy()
    compiler.drop_memory()
    for path in Path(compiler.default_cache().folder).iterdir():
        path.unlink()
    assert (net(*tensors()).asnumpy() == before).all()
    assert rms_ratio(AttentionOut()(*tensors()), golden.flash_attention(*arrays)[0]) <= 2e-3


def test_set_soc_between_calls(mode: str) -> None:
    """PYNATIVE keeps one primitive per set of attributes; it must follow the chip all the same."""
    brain = [ops.cast(t, ms.bfloat16) for t in tensors()]
    AttentionOut()(*brain)
    mco.set_soc("Ascend910A")
    with pytest.raises(OpDtypeError, match="bfloat16 on Ascend910A"):
        AttentionOut()(*brain)
    mco.set_soc("Ascend910B1")
    AttentionOut()(*brain)


def test_statistics_alone_have_a_gradient(mode: str) -> None:
    query, key, value = tensors()
    zeros, ones = ops.zeros_like(query), ops.ones((1, 2, 17), ms.float32)
    d_query, d_key, d_value = Gradients(Attention())(query, key, value, (zeros, ones, ones))[:3]
    assert numpy(d_query).any() and numpy(d_key).any() and not numpy(d_value).any()


class MaskGradient(nn.Cell):
    def __init__(self):
        super().__init__()
        self.net = Attention()
        self.grad = ops.GradOperation(get_all=True)

    def construct(self, query, key, value, mask, shift, qlen):
        return self.grad(self.net)(query, key, value, mask, shift, None, qlen)


def test_gradients_of_masks_and_lengths_do_not_abort(mode: str) -> None:
    """A None in the tuple of a bprop would abort the process when all gradients are asked for."""
    query, key, value = tensors()
    mask, shift = Tensor(np.zeros((17, 33), np.float16)), Tensor(random(1, 2, 1, 33))
    gradients = MaskGradient()(query, key, value, mask, shift, Tensor([17], ms.int32))
    assert numpy(gradients[0]).any()


class Both(nn.Cell):
    def construct(self, query, key, value):
        first = mco.ops.flash_attention(query, key, value)[0]
        return first + mco.ops.flash_attention(query=query, value=value, key=key)[0]


def test_keywords(mode: str) -> None:
    one, two = AttentionOut()(*tensors()), Both()(*tensors())
    assert np.abs(2 * numpy(one) - numpy(two)).max() < 1e-2


def test_several_ops_share_nothing_but_the_extension(mode: str) -> None:
    small, large = AttentionOut(sparse_mode=3), AttentionOut()
    for sizes in ((1, 1, 1, 1, 1, 16), (2, 2, 2, 17, 33, 40), (1, 1, 1, 1, 1, 16)):
        assert rms_ratio(small(*tensors(*sizes)), golden.flash_attention(*qkv(*sizes), sparse_mode=3)[0]) <= 2e-3
        assert rms_ratio(large(*tensors(*sizes)), golden.flash_attention(*qkv(*sizes))[0]) <= 2e-3


def test_primitive_alone_and_through_the_cache() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    absent = (False,) * len(get_op("flash_attention").optional_tensors)
    query, key, value = tensors()
    out = mco_generated_ops.FlashAttention(absent)(query, key, value, *[mco_generated_ops.ABSENT] * len(absent))
    assert isinstance(out, tuple) and len(out) == 3
    cached = prim_cache(mco_generated_ops.FlashAttention)(absent)
    assert cached is prim_cache(mco_generated_ops.FlashAttention)(absent)
    assert (cached(query, key, value, *[mco_generated_ops.ABSENT] * len(absent))[0].asnumpy() == out[0].asnumpy()).all()


def test_wrong_attributes_of_the_primitive() -> None:
    with pytest.raises(OpArgumentError, match="flash_attention: scale_value is 'x'"):
        TikCustom("flash_attention", {"scale_value": "x"}, (False,) * 7)
    with pytest.raises(OpArgumentError, match="attribute 'nonsense' is 1; accepted"):
        TikCustom("flash_attention", {"nonsense": 1}, (False,) * 7)
    with pytest.raises(OpArgumentError, match="2 presence flags"):
        TikCustom("flash_attention", {}, (False,) * 2)
    with pytest.raises(OpArgumentError, match="no_such_op"):
        TikCustom("no_such_op", {}, ())


def test_white_list_of_mindspore(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MS_CUSTOM_AOT_WHITE_LIST", str(tmp_path))
    with pytest.raises(TypeError, match=str(tmp_path)):
        TikCustom("flash_attention", {}, (False,) * 7)


def test_path_with_a_colon(monkeypatch: pytest.MonkeyPatch) -> None:
    from ms_custom_ops.mindspore import custom

    custom._extension.cache_clear()
    monkeypatch.setattr(custom.engine, "library_path", lambda: Path("/a:b/_engine.so"))
    with pytest.raises(OpArgumentError, match="path of the extension is /a:b/_engine.so; accepted: a path without ':'"):
        TikCustom("flash_attention", {}, (False,) * len(get_op("flash_attention").optional_tensors))
    custom._extension.cache_clear()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8", "uint8", "int16", "int32", "int64"])
def test_dtype_names(dtype: str) -> None:
    from mindspore.common import dtype as mstype

    assert dtype_name(getattr(ms, dtype)) == dtype_name(mstype.TensorType(getattr(ms, dtype))) == dtype
    assert dtype_name(ms.bool_) == "bool"


@pytest.mark.parametrize(
    "mindspore, numpy_version, text",
    [
        ("2.10.0", "1.26.4", None),
        ("2.8.0", "2.1.0", None),
        ("2.7.2", "1.25.0", None),
        ("3.0.0rc1", "2.4.6", None),
        ("2.10.0", "2.4.6", "built against NumPy 1; with NumPy 2.4.6.*numpy>=1.25,<2"),
    ],
)
def test_versions_that_go_together(mindspore: str, numpy_version: str, text: str | None) -> None:
    found = versions.check(mindspore, numpy_version)
    assert found is None if text is None else found is not None and __import__("re").search(text, found)


@pytest.mark.parametrize("mindspore, given", [("2.7.1", "2.7.1"), ("1.10", "1.10"), (None, "not installed")])
def test_versions_that_do_not(mindspore: str | None, given: str) -> None:
    with pytest.raises(versions.VersionError, match=f"MindSpore is {given}; accepted: mindspore >= 2.7.2"):
        versions.check(mindspore, "1.26.4")


def test_installed_versions_are_accepted() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        versions.check_versions()
