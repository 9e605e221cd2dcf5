# SPDX-License-Identifier: Apache-2.0
"""The layers under mixed precision, in both modes; nn.Mamba2 with packed sequences and limits of the step sizes."""

from __future__ import annotations

import functools

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops
from test_mamba_layer import SMALL, Prefill, defined, inputs, make

import ms_custom_ops as mco
from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.mindspore.mamba2_layer import GatedRMSNorm, Mamba2
from ms_custom_ops.testing import assert_rms

MLA = dict(q_lora_rank=16, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=16, index_n_heads=2)
MODES = (ms.PYNATIVE_MODE, ms.GRAPH_MODE)

NIGHTLY = functools.partial(pytest.param, marks=pytest.mark.nightly)  # each compiles a large graph of its own


def dense(size):
    """24 -> size, the same weights in every run."""
    layer, rng = nn.Dense(24, size), np.random.default_rng(5)
    for parameter in (layer.weight, layer.bias):
        parameter.set_data(Tensor((rng.standard_normal(parameter.shape) * 24**-0.5).astype(np.float32)))
    return layer


class Forms(nn.Cell):
    """All forms of the layer inside a network that mixed precision reaches."""

    def __init__(self):
        super().__init__()
        self.inner = dense(24)
        self.layer = make(SMALL)

    def construct(self, u):
        u = self.inner(u)
        first, conv, state = self.layer.prefill(u[:, :9])
        one, conv, state = self.layer.step(u[:, 9], conv, state)
        return ops.concat((first, ops.expand_dims(one, 1), self.layer(u[:, 10:], conv, state)), 1)


class Norm(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner, self.norm = dense(24), GatedRMSNorm(24, 2)

    def construct(self, u):
        return self.norm(self.inner(u), u)


class Sparse(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layer = mco.nn.SparseMLA(24, 2, **MLA, index_head_dim=16, index_topk=8, max_length=32, seed=0)

    def construct(self, u):
        return self.layer(u, None, True)[0]


class Attention(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = dense(72)
        self.attention = mco.nn.FlashAttention(12, 2, causal=True, tiling_stgy_name="auto")

    def construct(self, u):
        batch, steps, _ = u.shape
        whole = ops.cast(self.inner(u), ms.float16).reshape(batch, steps, 6, 12)
        whole = ops.transpose(whole, (0, 2, 1, 3))
        return self.attention(whole[:, :2], whole[:, 2:4], whole[:, 4:])


class Loss(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def construct(self, u):
        out = ops.cast(self.net(u), ms.float32)
        return (ops.square(out) + out).sum()


def mixed(net, level):
    if level == "to_float":
        return net.to_float(ms.float16)
    return ms.amp.auto_mixed_precision(net, level, ms.float16)


def trained(kind, level, mode, weights=None):
    """Loss and gradients, by name, of one step."""
    ms.set_context(mode=mode)
    net = kind()
    if weights is not None:
        ms.load_param_into_net(net, weights)
    names, loss = [p.name for p in net.trainable_params()], Loss(mixed(net, level))
    value, found = ms.value_and_grad(loss, None, weights=loss.trainable_params())(Tensor(inputs(23, SMALL)))
    return net.parameters_dict(), float(value.asnumpy()), dict(zip(names, [g.asnumpy() for g in found], strict=True))


@pytest.mark.parametrize(
    "kind, level",
    [(Mamba2, "O2"), (Forms, "O3"), NIGHTLY(Mamba2, "to_float"), (Mamba2, "auto"), (Norm, "O2"), (Sparse, "O3")]
    + [(Attention, "O2"), (Attention, "O1"), NIGHTLY(Mamba2, "O1"), NIGHTLY(Sparse, "O1"), NIGHTLY(Forms, "O1")],
    ids=lambda v: v if isinstance(v, str) else v.__name__,
)
def test_layers_train_alike_in_both_modes(kind, level):
    build = (lambda: make(SMALL)) if kind is Mamba2 else kind
    weights, loss, plain = trained(build, "O0", ms.PYNATIVE_MODE)
    for mode in MODES:
        _, value, found = trained(build, level, mode, {k: ms.Parameter(v.copy()) for k, v in weights.items()})
        assert abs(value - loss) <= 3e-3 * loss
        for name, gradient in found.items():
            assert gradient.dtype == np.float32
            if np.abs(plain[name]).max() > 1e-6:
                assert_rms(f"{name} in mode {mode}", gradient, plain[name], 1e-2)


@pytest.mark.parametrize(
    "taps, given", [(1, "list"), (4, "int32"), *(NIGHTLY(*at) for at in [(4, "list"), (1, "int32")])]
)
def test_packed_sequences_are_computed_alone(mode, taps, given):
    options = SMALL | dict(d_conv=taps)
    layer, u, cu = make(options), inputs(24, options, 1), [0, 2, 2, 13, 24]
    rng = np.random.default_rng(1)
    conv = rng.standard_normal((4, taps - 1, layer.conv_channels)).astype(np.float32)
    conv = Tensor(conv) if taps > 1 else ops.zeros(conv.shape, ms.float32)
    state = Tensor(rng.standard_normal((4, layer.heads, layer.headdim, layer.d_state)).astype(np.float32))
    found = Packed(layer, cu if given == "list" else Tensor(cu, ms.int32))(Tensor(u), conv, state)
    ms.set_context(mode=ms.PYNATIVE_MODE)  # to compare with; every length would be a graph of its own
    for i, (start, stop) in enumerate(zip(cu, cu[1:], strict=False)):
        if start == stop:
            alone = u[:, :0], conv[i : i + 1], state[i : i + 1]
        elif taps > 1:
            alone = Prefill(layer)(Tensor(u[:, start:stop]), conv[i : i + 1], state[i : i + 1])
        else:
            alone = Prefill(layer)(Tensor(u[:, start:stop]), None, state[i : i + 1])
        for name, whole, part in zip(
            ("out", "conv_state", "ssm_state"), (found[0][:, start:stop], found[1][i], found[2][i]), alone, strict=True
        ):
            if whole.size:
                assert_rms(f"{name} {i}", whole.asnumpy().ravel(), np.asarray(part).ravel(), 1e-3)


class Packed(nn.Cell):
    def __init__(self, layer, cu):
        super().__init__()
        self.layer, self.cu = layer, cu

    def construct(self, u, conv, state):
        return self.layer.prefill(u, conv, state, self.cu)


class PackedLoss(nn.Cell):
    def __init__(self, layer, cu, cotangent):
        super().__init__()
        self.layer, self.cu, self.cotangent = layer, cu, Tensor(cotangent)

    def construct(self, u):
        out = self.layer(u, None, None, self.cu)
        return (out * self.cotangent).sum(), out


def test_what_lies_behind_the_last_sequence_does_not_matter(mode):
    layer, u, cu = make(SMALL), inputs(24, SMALL, 1), Tensor([0, 7, 19], ms.int32)
    loss = PackedLoss(layer, cu, np.random.default_rng(2).standard_normal(u.shape).astype(np.float32))
    step, results = ms.value_and_grad(loss, 0, weights=layer.trainable_params(), has_aux=True), []
    for value in (0.0, np.nan):
        u[:, 19:] = value
        (_, out), (du, weights) = step(Tensor(u))
        results.append([out.asnumpy(), du.asnumpy(), *[w.asnumpy() for w in weights]])
    assert not results[0][0][:, 19:].any() and not results[0][1][:, 19:].any()
    for zeros, nans in zip(*results, strict=True):
        np.testing.assert_array_equal(zeros, nans)


def test_limits_of_the_step_sizes(mode):
    options = SMALL | dict(dt_limit=(0.2, 0.5))
    layer, u = make(options), inputs(17, options)
    out = layer(Tensor(u)).asnumpy()
    assert_rms("out", out, defined(layer, u)[0], 2e-3)
    assert np.abs(out - defined(make(SMALL), u)[0]).max() > 1e-2  # without the limits


@pytest.mark.parametrize("limits", [(0.5, 0.2), (-1.0, 1.0), (0.1,)])
def test_limits_are_refused(limits):
    with pytest.raises(OpArgumentError, match=r"nn\.Mamba2: dt_limit is .*accepted: \(least, greatest\), from 0 on"):
        Mamba2(**SMALL | dict(dt_limit=limits))
