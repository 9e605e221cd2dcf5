# SPDX-License-Identifier: Apache-2.0
"""nn.Mamba2: against a float64 definition, its two forms against each other, training, checkpoint,
messages."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from ms_custom_ops import soc
from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.mindspore.mamba2_layer import GatedRMSNorm, Mamba2
from ms_custom_ops.testing import assert_rms

SMALL = dict(d_model=24, d_state=10, headdim=12, ngroups=2, chunk_size=16)
SIZES = {
    "small_groups": SMALL,
    "one_group_wide_conv": SMALL | dict(ngroups=1, d_conv=7, bias=True),
    "one_tap_no_bias": SMALL | dict(d_conv=1, conv_bias=False),
    "aligned": dict(d_model=32, d_state=16, headdim=16),
}


class Prefill(nn.Cell):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, u, conv, state):
        return self.layer.prefill(u, conv, state)


class Step(nn.Cell):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, u, conv, state):
        return self.layer.step(u, conv, state)


def make(options, seed=3):
    """A layer whose scan matters: large step sizes, and a D of both signs in place of ones."""
    layer = Mamba2(**options, dt_min=0.05, dt_max=1.0, seed=seed)
    rng = np.random.default_rng(seed)
    layer.D.set_data(Tensor(rng.standard_normal(layer.D.shape).astype(np.float32)))
    for parameter in (layer.in_proj.weight, layer.out_proj.weight):
        parameter.set_data(
            Tensor((rng.standard_normal(parameter.shape) * parameter.shape[1] ** -0.5).astype(np.float32))
        )
    return layer


def inputs(steps, options, batch=2, seed=0):
    return np.random.default_rng(seed).standard_normal((batch, steps, options["d_model"])).astype(np.float32)


def defined(layer, u):
    """The layer in float64, step by step."""
    w = {
        name.split(".", 1)[-1] if name.count(".") > 1 else name: p.asnumpy().astype(np.float64)
        for name, p in layer.parameters_and_names()
    }

    def dense(x, name):
        return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0.0)

    batch, steps, _ = u.shape
    heads, size, groups, state = layer.heads, layer.headdim, layer.ngroups, layer.d_state
    z, mixed, dt = np.split(
        dense(u.astype(np.float64), "in_proj"), [layer.d_inner, layer.d_inner + layer.conv_channels], -1
    )
    dt = np.clip(np.log1p(np.exp(dt + w["dt_bias"])), *layer.dt_limit)
    padded = np.pad(mixed, ((0, 0), (layer.d_conv - 1, 0), (0, 0)))
    h, rows = np.zeros((batch, heads, size, state)), []
    for t in range(steps):
        conv = np.einsum("bkc,kc->bc", padded[:, t : t + layer.d_conv], w["conv_weight"]) + w.get("conv_bias", 0.0)
        conv = conv / (1 + np.exp(-conv))
        x, b, c = np.split(conv, [layer.d_inner, layer.d_inner + groups * state], -1)
        x = x.reshape(batch, heads, size)
        b, c = (np.repeat(v.reshape(batch, groups, state), heads // groups, 1) for v in (b, c))
        decay = np.exp(-dt[:, t] * np.exp(w["A_log"]))
        h = decay[..., None, None] * h + np.einsum("bh,bhp,bhn->bhpn", dt[:, t], x, b)
        y = (np.einsum("bhpn,bhn->bhp", h, c) + w["D"][:, None] * x).reshape(batch, -1)
        gated = (y * z[:, t] / (1 + np.exp(-z[:, t]))).reshape(batch, groups, -1)
        gated = gated / np.sqrt(np.mean(gated**2, -1, keepdims=True) + 1e-5)
        rows.append(dense(gated.reshape(batch, -1) * w["norm.weight"], "out_proj"))
    return np.stack(rows, 1), h


def stepwise(layer, u, conv, state):
    """The step form over all steps: outputs and states."""
    step, rows = Step(layer), []
    for t in range(u.shape[1]):
        out, conv, state = step(Tensor(u[:, t]), conv, state)
        rows.append(out.asnumpy())
    return np.stack(rows, 1), conv, state


@pytest.mark.graph_at_night("one_group_wide_conv", "aligned")
@pytest.mark.parametrize("options", SIZES.values(), ids=SIZES.keys())
def test_chunked_form_is_the_definition(mode, options):
    layer, u = make(options), inputs(37, options)
    out, _, state = Prefill(layer)(Tensor(u), *layer.empty_state(2))
    expected, last = defined(layer, u)
    assert_rms("out", out.asnumpy(), expected, 2e-3)
    assert_rms("ssm_state", state.asnumpy(), last, 2e-3)


@pytest.mark.graph_at_night("one_group_wide_conv", "aligned")
@pytest.mark.parametrize("options", SIZES.values(), ids=SIZES.keys())
def test_step_form_is_the_definition(mode, options):
    layer, u = make(options), inputs(9, options)
    out, _, state = stepwise(layer, u, *layer.empty_state(2))
    expected, last = defined(layer, u)
    assert_rms("out", out, expected, 2e-5)
    assert_rms("ssm_state", state.asnumpy(), last, 2e-5)


@pytest.mark.graph_at_night("5")
@pytest.mark.parametrize("steps", [5])
def test_both_forms_of_few_steps(mode, steps):
    layer, u = make(SMALL), inputs(steps, SMALL)
    expected, last = defined(layer, u)
    chunked, _, state = Prefill(layer)(Tensor(u), *layer.empty_state(2))
    steps, _, _ = stepwise(layer, u, *layer.empty_state(2))
    assert_rms("chunked", chunked.asnumpy(), expected, 2e-3)
    assert_rms("ssm_state", state.asnumpy(), last, 2e-3)
    assert_rms("steps", steps, expected, 2e-5)


def test_bfloat16_operands():
    soc.set_soc("Ascend910B1")
    options = SMALL | dict(operand_dtype="bfloat16")
    layer, u = make(options), inputs(33, options)
    assert_rms("out", layer(Tensor(u)).asnumpy(), defined(layer, u)[0], 1.5e-2)


@pytest.mark.parametrize("cut", [17, pytest.param(1, marks=pytest.mark.nightly)])
def test_prefill_then_steps_continue_the_sequence(cut):
    layer, u = make(SMALL), inputs(23, SMALL)
    ms.set_context(mode=ms.PYNATIVE_MODE)  # what to compare with needs no graph
    whole, conv, state = Prefill(layer)(Tensor(u), *layer.empty_state(2))
    ms.set_context(mode=ms.GRAPH_MODE)
    first, conv_cut, state_cut = Prefill(layer)(Tensor(u[:, :cut]), *layer.empty_state(2))
    rest, conv_end, state_end = stepwise(layer, u[:, cut:], conv_cut, state_cut)
    assert_rms("out", np.concatenate([first.asnumpy(), rest], 1), whole.asnumpy(), 2e-3)
    assert_rms("conv_state", conv_end.asnumpy(), conv.asnumpy(), 1e-5)
    assert_rms("ssm_state", state_end.asnumpy(), state.asnumpy(), 2e-3)
    again = layer(Tensor(u[:, cut:]), conv_cut, state_cut)
    assert_rms("chunked from a state", again.asnumpy(), whole.asnumpy()[:, cut:], 2e-3)


def test_gradients_of_every_parameter_against_central_differences():
    """Directional derivative of the float64 definition; the chunked form computes in float16 operands."""
    layer, u = make(SMALL), inputs(20, SMALL)
    cotangent = np.random.default_rng(5).standard_normal(u.shape).astype(np.float32)
    parameters = layer.trainable_params()
    gradient = ops.GradOperation(get_by_list=True, sens_param=True)
    found = gradient(layer, parameters)(Tensor(u), Tensor(cotangent))
    rng, step = np.random.default_rng(6), 1e-3
    for parameter, actual in zip(parameters, found, strict=True):
        value, norm = parameter.asnumpy().copy(), np.linalg.norm(actual.asnumpy())
        assert norm > 0, parameter.name
        # Half along the gradient, so that the derivative is no small difference of large terms.
        noise = rng.standard_normal(value.shape)
        direction = actual.asnumpy() / norm + noise / np.linalg.norm(noise)
        sums = []
        for sign in (1, -1):
            parameter.set_data(Tensor((value + sign * step * direction).astype(np.float32)))
            sums.append(np.sum(defined(layer, u)[0] * cotangent))
        parameter.set_data(Tensor(value))
        expected = (sums[0] - sums[1]) / (2 * step)
        assert abs(np.sum(actual.asnumpy() * direction) - expected) <= 1e-2 * abs(expected), parameter.name


def test_training_lowers_the_loss():
    layer, u = make(SMALL), Tensor(inputs(24, SMALL))
    target = Tensor(np.roll(u.asnumpy(), 1, 1))
    step = nn.TrainOneStepCell(nn.WithLossCell(layer, nn.MSELoss()), nn.Adam(layer.trainable_params(), 1e-2))
    step.set_train()
    losses = [float(step(u, target).asnumpy()) for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]


def test_checkpoint_keeps_the_layer(tmp_path):
    layer, u = make(SMALL), Tensor(inputs(17, SMALL))
    expected = layer(u).asnumpy()
    ms.save_checkpoint(layer, str(tmp_path / "layer.ckpt"))
    other = make(SMALL, seed=4)
    assert np.abs(other(u).asnumpy() - expected).max() > 0.1
    missing, _ = ms.load_param_into_net(other, ms.load_checkpoint(str(tmp_path / "layer.ckpt")))
    assert not missing
    np.testing.assert_array_equal(other(u).asnumpy(), expected)


def test_initial_step_sizes_and_rates_lie_in_their_ranges():
    layer = Mamba2(64, headdim=2, dt_min=0.01, dt_max=0.2, A_init_range=(2.0, 3.0), seed=0)
    dt, rate = np.log1p(np.exp(layer.dt_bias.asnumpy())), np.exp(layer.A_log.asnumpy())
    assert (dt >= 0.0099).all() and (dt <= 0.201).all() and dt.std() > 0.01
    assert (rate >= 1.999).all() and (rate <= 3.001).all() and rate.std() > 0.1
    other = Mamba2(64, headdim=2, seed=1)
    assert np.abs(other.A_log.asnumpy() - Mamba2(64, headdim=2, seed=1).A_log.asnumpy()).max() == 0


def test_gated_norm():
    rng = np.random.default_rng(0)
    x, z = (rng.standard_normal((3, 5, 12)).astype(np.float32) for _ in range(2))
    u = (x * z / (1 + np.exp(-z))).reshape(3, 5, 4, 3)
    expected = (u / np.sqrt(np.mean(u**2, -1, keepdims=True) + 1e-5)).reshape(x.shape)
    np.testing.assert_allclose(GatedRMSNorm(12, 4)(Tensor(x), Tensor(z)).asnumpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options, text",
    [
        (dict(d_model=0), "d_model is 0; accepted: an int of at least 1"),
        (dict(d_model=24.0), "d_model is 24.0; accepted: an int of at least 1"),
        (dict(d_state=257), "d_state is 257; accepted: an int from 1 to 256"),
        (dict(headdim=129), "headdim is 129; accepted: an int from 1 to 128"),
        (dict(chunk_size=0), "chunk_size is 0; accepted: an int from 1 to 256"),
        (dict(headdim=7), "expand * d_model is 48; accepted: a multiple of headdim = 7"),
        (dict(ngroups=3), "number of heads expand * d_model / headdim is 4; accepted: a multiple of ngroups = 3"),
        (dict(operand_dtype="float32"), "operand_dtype is 'float32'; accepted: 'float16' or 'bfloat16'"),
        (
            dict(dt_min=0.2),
            "dt_min, dt_max, A_init_range is 0.2, 0.1, (1.0, 16.0); accepted: positive, in rising order",
        ),
    ],
    ids=lambda v: v if isinstance(v, str) else next(iter(v)),
)
def test_constructor_refuses(options, text):
    with pytest.raises(OpArgumentError) as caught:
        Mamba2(**SMALL | options)
    assert f"nn.Mamba2: {text}" in str(caught.value)
