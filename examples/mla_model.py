# SPDX-License-Identifier: Apache-2.0
"""A small decoder-only language model whose attention is latent and sparse, with the training step of both phases."""

from __future__ import annotations

from dataclasses import dataclass

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

import ms_custom_ops as mco


@dataclass(frozen=True)
class MlaConfig:
    """Sizes of the model: ``width`` of a token's vector, ``context`` tokens per sample, ``topk`` tokens that a query
    attends to in the sparse phase, ``latent`` size of the key-value latent, ``rope`` of the rotary part."""

    vocab: int
    layers: int = 2
    heads: int = 4
    width: int = 128
    context: int = 128
    topk: int = 32
    latent: int = 64
    rope: int = 16
    index_heads: int = 8
    index_dim: int = 32

    def attention(self, seed: int) -> mco.nn.SparseMLA:
        """The attention of one layer."""
        head = max(self.width // self.heads, 1)
        return mco.nn.SparseMLA(
            self.width,
            self.heads,
            q_lora_rank=self.latent,
            kv_lora_rank=self.latent,
            qk_nope_head_dim=head,
            qk_rope_head_dim=self.rope,
            v_head_dim=head,
            index_n_heads=self.index_heads,
            index_head_dim=self.index_dim,
            index_topk=self.topk,
            max_length=self.context,
            seed=seed,
        )


class RMSNorm(nn.Cell):
    """x / sqrt(mean(x^2) + 1e-6) * weight over the last axis."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = Parameter(Tensor(np.ones(width, np.float32)))

    def construct(self, x):
        return x * ops.rsqrt(ops.square(x).mean(-1, keep_dims=True) + 1e-6) * self.weight


class Block(nn.Cell):
    """Pre-norm block: sparse latent attention and a four times wider SiLU layer, each with a residual."""

    def __init__(self, config: MlaConfig, seed: int) -> None:
        super().__init__()
        self.norm_attention = RMSNorm(config.width)
        self.attention = config.attention(seed)
        self.norm_mlp = RMSNorm(config.width)
        self.widen = nn.Dense(config.width, 4 * config.width, has_bias=False)
        self.narrow = nn.Dense(4 * config.width, config.width, has_bias=False)

    def construct(self, x, dense):
        mixed, kl_loss = self.attention(self.norm_attention(x), None, dense)
        x = x + mixed
        hidden = self.widen(self.norm_mlp(x))
        return x + self.narrow(hidden * ops.sigmoid(hidden)), kl_loss


class MlaLM(nn.Cell):
    """Token ids (B, S) int32 -> logits (B * S, vocab) float32 and the mean KL loss of the layers' indexers."""

    def __init__(self, config: MlaConfig, seed: int = 0) -> None:
        super().__init__()
        self.width = config.width
        self.token_table = Parameter(Tensor(np.zeros((config.vocab, config.width), np.float32)))
        self.blocks = nn.CellList([Block(config, seed + i) for i in range(config.layers)])
        self.norm = RMSNorm(config.width)
        self.logits = ops.MatMul(transpose_b=True)
        self.layers = config.layers

    def construct(self, ids, dense):
        x = ops.gather(self.token_table, ids, 0)
        total = 0.0
        for block in self.blocks:
            x, kl_loss = block(x, dense)
            total = total + kl_loss
        return self.logits(self.norm(x).reshape(-1, self.width), self.token_table), total / self.layers

    def indexer_parameters(self) -> list[Parameter]:
        """What the KL loss trains."""
        return [parameter for block in self.blocks for parameter in block.attention.indexer_parameters()]


class Losses(nn.Cell):
    """Mean cross entropy in nats of the next token, and the KL loss. ids, targets: (B, S) int32."""

    def __init__(self, model: MlaLM) -> None:
        super().__init__()
        self.model = model
        self.cross_entropy = nn.CrossEntropyLoss()

    def construct(self, ids, targets, dense):
        logits, kl_loss = self.model(ids, dense)
        return self.cross_entropy(logits, targets.reshape(-1)), kl_loss


class TrainStep(nn.Cell):
    """One optimizer step on the sum of both losses, which it returns apart. ``dense`` is the phase; a graph is
    compiled for each. The sum is multiplied by ``scale`` for float16; the optimizer divides the gradients by it."""

    def __init__(self, losses: Losses, optimizer: nn.Optimizer, scale: float) -> None:
        super().__init__()
        self.losses = losses
        self.optimizer = optimizer
        self.scale = scale
        self.gradient = ops.value_and_grad(self.scaled, None, optimizer.parameters, has_aux=True)

    def scaled(self, ids, targets, dense):
        task, kl_loss = self.losses(ids, targets, dense)
        return (task + kl_loss) * self.scale, task, kl_loss

    def construct(self, ids, targets, dense):
        (_, task, kl_loss), gradients = self.gradient(ids, targets, dense)
        return ops.depend((task, kl_loss), self.optimizer(gradients))


def initialise(model: MlaLM, config: MlaConfig, seed: int) -> None:
    """Fills the weights outside attention from a NumPy generator: normal with deviation 0.02 for the token table and
    1 / sqrt(fan in) for the rest, the residual projection divided by sqrt(2 * layers)."""
    rng = np.random.default_rng(seed)
    deviations = {
        "token_table": 0.02,
        "widen.weight": config.width**-0.5,
        "narrow.weight": (8 * config.layers * config.width) ** -0.5,
    }
    for name, parameter in sorted(model.parameters_and_names()):
        for end, deviation in deviations.items():
            if name.endswith(end):
                parameter.set_data(Tensor(rng.normal(0.0, deviation, parameter.shape).astype(np.float32)))


def held_out(losses: Losses, ids: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """Both losses of one batch in both phases, without training, and the KL loss in the dense phase of an indexer that
    knows nothing: all scores equal. The last one grows as attention becomes selective."""
    batch = Tensor(ids, ms.int32), Tensor(targets, ms.int32)
    result = {}
    for phase, dense in (("dense", True), ("sparse", False)):
        task, kl_loss = losses(*batch, dense)
        result[f"{phase}_loss"], result[f"{phase}_kl"] = float(task.asnumpy()), float(kl_loss.asnumpy())
    weights = [block.attention.index_ww for block in losses.model.blocks]
    kept = [weight.asnumpy().copy() for weight in weights]
    for weight in weights:
        weight.set_data(ops.zeros_like(weight))
    result["dense_kl_of_equal_scores"] = float(losses(*batch, True)[1].asnumpy())
    for weight, value in zip(weights, kept, strict=True):
        weight.set_data(Tensor(value))
    return result
