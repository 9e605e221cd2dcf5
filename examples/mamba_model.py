# SPDX-License-Identifier: Apache-2.0
"""A small language model of Mamba-2 layers: a whole-sequence form for training, a step form for decoding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from ranks import Group

import ms_custom_ops as mco


@dataclass(frozen=True)
class MambaConfig:
    """Sizes of the model: ``width`` is the size of a token's vector, ``state`` the state size N of a head."""

    vocab: int
    layers: int = 4
    width: int = 256
    state: int = 64
    headdim: int = 64
    chunk: int = 64

    def __post_init__(self) -> None:
        for name in ("vocab", "layers", "width", "state", "headdim", "chunk"):
            if getattr(self, name) < 1:
                raise ValueError(f"MambaConfig: {name} must be at least 1, got {getattr(self, name)}")
        if 2 * self.width % self.headdim:
            raise ValueError(
                f"MambaConfig: 2 * width must be a multiple of headdim, got width={self.width}, headdim={self.headdim}"
            )


class RMSNorm(nn.Cell):
    """x / sqrt(mean(x^2) + 1e-5) * weight over the last axis."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = Parameter(Tensor(np.ones(width, np.float32)))

    def construct(self, x):
        return x * ops.rsqrt(ops.square(x).mean(-1, keep_dims=True) + 1e-5) * self.weight


class Block(nn.Cell):
    """Pre-norm Mamba-2 layer with a residual."""

    def __init__(self, config: MambaConfig, seed: int, group: Group) -> None:
        super().__init__()
        self.norm = RMSNorm(config.width)
        options = dict(d_state=config.state, headdim=config.headdim, chunk_size=config.chunk, seed=seed)
        if group.context == 1:
            self.mixer = mco.nn.Mamba2(config.width, **options)
        else:
            self.mixer = mco.nn.ContextParallelMamba2(config.width, **options, group=group.members)

    def construct(self, x):
        return x + self.mixer(self.norm(x))

    def prefill(self, x):
        out, conv, state = self.mixer.prefill(self.norm(x))
        return x + out, conv, state

    def step(self, x, conv, state):
        out, conv, state = self.mixer.step(self.norm(x), conv, state)
        return x + out, conv, state


class MambaLM(nn.Cell):
    """Token ids (B, S) int32 -> logits (B * S, vocab) float32; the output layer shares the token table.

    With a group that shares sequences S counts this rank's rows, and there is no step form.
    """

    def __init__(self, config: MambaConfig, seed: int = 0, group: Group | None = None) -> None:
        super().__init__()
        self.width = config.width
        self.token_table = Parameter(Tensor(np.zeros((config.vocab, config.width), np.float32)))
        self.blocks = nn.CellList([Block(config, seed + i, group or Group()) for i in range(config.layers)])
        self.norm = RMSNorm(config.width)
        self.logits = ops.MatMul(transpose_b=True)

    def construct(self, ids):
        x = ops.gather(self.token_table, ids, 0)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def head(self, x):
        return self.logits(self.norm(x).reshape(-1, self.width), self.token_table)

    def prefill(self, ids):
        """Logits of every step, and the states of all layers after the last one (each with a leading axis of
        layers)."""
        x = ops.gather(self.token_table, ids, 0)
        convs, states = [], []
        for block in self.blocks:
            x, conv, state = block.prefill(x)
            convs.append(conv)
            states.append(state)
        return self.head(x), ops.stack(convs), ops.stack(states)

    def step(self, ids, convs, states):
        """One token per row, ids (B,): logits (B, vocab) and the states after it."""
        x = ops.gather(self.token_table, ids, 0)
        new_convs, new_states = [], []
        for i, block in enumerate(self.blocks):
            x, conv, state = block.step(x, convs[i], states[i])
            new_convs.append(conv)
            new_states.append(state)
        return self.head(x), ops.stack(new_convs), ops.stack(new_states)

    def empty_state(self, batch: int) -> tuple[Tensor, Tensor]:
        """States of all layers before the first token."""
        pairs = [block.mixer.empty_state(batch) for block in self.blocks]
        return ops.stack([conv for conv, _ in pairs]), ops.stack([state for _, state in pairs])


class Prefill(nn.Cell):
    """:meth:`MambaLM.prefill` as a graph."""

    def __init__(self, model: MambaLM) -> None:
        super().__init__()
        self.model = model

    def construct(self, ids):
        return self.model.prefill(ids)


class Step(nn.Cell):
    """:meth:`MambaLM.step` as a graph."""

    def __init__(self, model: MambaLM) -> None:
        super().__init__()
        self.model = model

    def construct(self, ids, convs, states):
        return self.model.step(ids, convs, states)


class NextTokenLoss(nn.Cell):
    """Mean cross entropy in nats of the next token. ids, targets: (B, S) int32."""

    def __init__(self, model: MambaLM) -> None:
        super().__init__()
        self.model = model
        self.cross_entropy = nn.CrossEntropyLoss()

    def construct(self, ids, targets):
        return self.cross_entropy(self.model(ids), targets.reshape(-1))


def initialise(model: MambaLM, config: MambaConfig, seed: int) -> None:
    """Fills token table and projections from a NumPy generator: normal(0, 0.02), out_proj scaled by
    1 / sqrt(layers). Step sizes, decay rates, convolutions and norms keep what the layer gave them."""
    rng = np.random.default_rng(seed)
    for name, parameter in sorted(model.parameters_and_names()):
        if name.endswith(("token_table", "proj.weight")):
            scale = config.layers**-0.5 if name.endswith("out_proj.weight") else 1.0
            parameter.set_data(Tensor((0.02 * scale * rng.standard_normal(parameter.shape)).astype(np.float32)))


def sample(logits: np.ndarray, temperature: float, rng: np.random.Generator) -> int:
    """A token drawn from softmax(logits / temperature); the most likely one for temperature 0."""
    if temperature == 0:
        return int(logits.argmax())
    scaled = (logits - logits.max()) / temperature
    weights = np.exp(scaled)
    return int(rng.choice(len(weights), p=weights / weights.sum()))


def generate(model: MambaLM, prompt: np.ndarray, count: int, temperature: float, seed: int) -> np.ndarray:
    """``count`` token ids that continue ``prompt``: the prompt goes through the chunked form, the rest step
    by step."""
    rng, step = np.random.default_rng(seed), Step(model)
    logits, convs, states = Prefill(model)(Tensor(prompt[None].astype(np.int32)))
    last, out = logits.asnumpy()[-1], []
    for _ in range(count):
        out.append(sample(last, temperature, rng))
        logits, convs, states = step(Tensor(np.array(out[-1:], np.int32)), convs, states)
        last = logits.asnumpy()[0]
    return np.array(out, np.int32)


def compare_forms(model: MambaLM, ids: np.ndarray) -> dict[str, float]:
    """Log-probabilities of every next token by the chunked form and by the step form: largest and rms
    difference."""
    step = Step(model)
    chunked, _, _ = Prefill(model)(Tensor(ids[None].astype(np.int32)))
    convs, states = model.empty_state(1)
    rows = []
    for token in ids:
        logits, convs, states = step(Tensor(np.array([token], np.int32)), convs, states)
        rows.append(logits.asnumpy()[0])

    def log_probabilities(logits: np.ndarray) -> np.ndarray:
        wide = logits.astype(np.float64)
        top = wide.max(-1, keepdims=True)
        return wide - top - np.log(np.exp(wide - top).sum(-1, keepdims=True))

    difference = log_probabilities(chunked.asnumpy()) - log_probabilities(np.stack(rows))
    return {
        "max_abs_diff": float(np.abs(difference).max()),
        "rms_diff": float(np.sqrt(np.mean(difference**2))),
        "tokens": len(ids),
    }
