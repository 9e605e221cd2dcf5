# SPDX-License-Identifier: Apache-2.0
"""A small decoder-only transformer; its attention is the TIK kernel or MindSpore's own operators."""

from __future__ import annotations

from dataclasses import dataclass

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from ranks import Group

import ms_custom_ops as mco

ATTENTION_KINDS = ("flash", "builtin")
CAUSAL = 3  # sparse_mode of MindSpore's attention operators: causal, aligned to the lower right corner


@dataclass(frozen=True)
class GptConfig:
    """Sizes of the model: ``width`` is the size of a token's vector, ``context`` the tokens per sample."""

    vocab: int
    layers: int = 4
    heads: int = 4
    width: int = 256
    context: int = 256

    def __post_init__(self) -> None:
        for name in ("vocab", "layers", "heads", "width", "context"):
            if getattr(self, name) < 1:
                raise ValueError(f"GptConfig: {name} must be at least 1, got {getattr(self, name)}")
        if self.width % self.heads:
            raise ValueError(
                f"GptConfig: width must be a multiple of heads, got width={self.width}, heads={self.heads}"
            )


class FlashCore(nn.Cell):
    """Causal softmax(Q K^T / sqrt(D)) V by the TIK kernel, in float16.

    Inputs and output: (B, N, S, D) float32, rounded for the kernel alone, so that nothing else differs from
    :class:`BuiltinCore`.
    """

    def construct(self, query, key, value):
        out, _, _ = mco.ops.flash_attention(query, key, value, sparse_mode=CAUSAL, compute_dtype="float16")
        return out


class SharedCore(nn.Cell):
    """:class:`FlashCore` of rows that lie on several ranks."""

    def __init__(self, group: Group) -> None:
        super().__init__()
        self.attend = mco.nn.ContextParallelAttention(group.members, sparse_mode=CAUSAL)

    def construct(self, query, key, value):
        out = self.attend(query.astype(ms.float16), key.astype(ms.float16), value.astype(ms.float16))
        return out.astype(ms.float32)


class BuiltinCore(nn.Cell):
    """The same attention composed of MindSpore operators, in float32. Inputs and output: (B, N, S, D)."""

    def __init__(self, context: int, head_dim: int) -> None:
        super().__init__()
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.mix = ops.BatchMatMul()
        self.softmax = ops.Softmax(-1)
        self.scale = head_dim**-0.5
        hidden = np.triu(np.full((context, context), -np.inf, np.float32), k=1)
        self.bias = Tensor(hidden[None, None])

    def construct(self, query, key, value):
        return self.mix(self.softmax(self.scores(query, key) * self.scale + self.bias), value)


class Block(nn.Cell):
    """Pre-norm transformer block: attention and a four times wider GELU layer, each with a residual."""

    def __init__(self, config: GptConfig, attention: str, group: Group) -> None:
        super().__init__()
        width = config.width
        self.heads, self.head_dim = config.heads, width // config.heads
        self.norm_attention = nn.LayerNorm((width,), epsilon=1e-5)
        self.qkv = nn.Dense(width, 3 * width)
        self.project = nn.Dense(width, width)
        self.norm_mlp = nn.LayerNorm((width,), epsilon=1e-5)
        self.widen = nn.Dense(width, 4 * width)
        self.activate = nn.GELU()
        self.narrow = nn.Dense(4 * width, width)
        if attention == "builtin":
            self.core = BuiltinCore(config.context, self.head_dim)
        else:
            self.core = FlashCore() if group.context == 1 else SharedCore(group)

    def construct(self, x):
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).reshape(batch, tokens, 3, self.heads, self.head_dim)
        query, key, value = ops.unbind(qkv.transpose(2, 0, 3, 1, 4))
        out = self.core(query, key, value).transpose(0, 2, 1, 3).reshape(batch, tokens, width)
        x = x + self.project(out)
        return x + self.narrow(self.activate(self.widen(self.norm_mlp(x))))


class Gpt(nn.Cell):
    """Token ids (B, S) int32 -> logits (B * S, vocab) float32; the output layer shares the token table.

    With a group that shares sequences S counts this rank's rows.
    """

    def __init__(self, config: GptConfig, attention: str, group: Group | None = None) -> None:
        super().__init__()
        if attention not in ATTENTION_KINDS:
            raise ValueError(f"Gpt: attention must be one of {ATTENTION_KINDS}, got {attention!r}")
        group = group or Group()
        self.width = config.width
        self.places = None
        if group.context > 1:  # a padding row takes some place: its result is not read
            self.places = Tensor(np.minimum(group.rows(config.context), config.context - 1).astype(np.int32))
        self.token_table = Parameter(Tensor(np.zeros((config.vocab, config.width), np.float32)))
        self.position_table = Parameter(Tensor(np.zeros((config.context, config.width), np.float32)))
        self.blocks = nn.CellList([Block(config, attention, group) for _ in range(config.layers)])
        self.norm = nn.LayerNorm((config.width,), epsilon=1e-5)
        self.logits = ops.MatMul(transpose_b=True)

    def construct(self, ids):
        places = self.position_table
        if self.places is not None:
            places = ops.gather(places, self.places, 0)
        x = ops.gather(self.token_table, ids, 0) + places
        for block in self.blocks:
            x = block(x)
        return self.logits(self.norm(x).reshape(-1, self.width), self.token_table)


class NextTokenLoss(nn.Cell):
    """Mean cross entropy in nats of the next token. ids, targets: (B, S) int32."""

    def __init__(self, model: Gpt) -> None:
        super().__init__()
        self.model = model
        self.cross_entropy = nn.CrossEntropyLoss()

    def construct(self, ids, targets):
        return self.cross_entropy(self.model(ids), targets.reshape(-1))


def initialise(model: Gpt, config: GptConfig, seed: int) -> None:
    """Fills the weights from a NumPy generator: one seed means one set of weights, whatever the attention.

    Normal(0, 0.02) as in GPT-2, with the residual projections scaled by 1 / sqrt(2 * layers); norms start
    as the identity.
    """
    rng = np.random.default_rng(seed)
    for name, parameter in sorted(model.parameters_and_names()):
        if name.endswith("gamma"):
            value = np.ones(parameter.shape)
        elif name.endswith(("beta", "bias")):
            value = np.zeros(parameter.shape)
        else:
            residual = name.endswith(("project.weight", "narrow.weight"))
            value = rng.normal(0.0, 0.02 / (2 * config.layers) ** 0.5 if residual else 0.02, parameter.shape)
        parameter.set_data(Tensor(value.astype(np.float32)))
