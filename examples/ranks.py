# SPDX-License-Identifier: Apache-2.0
"""The ranks of a training under msrun: a grid of data parallel groups, each of which shares its sequences."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import click
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.communication import create_group, get_group_size, get_rank, init

import ms_custom_ops as mco


@dataclass(frozen=True)
class Group:
    """This process among ``size`` ranks, ``context`` of which share the rows of a sequence; alone it is one of one.

    Ranks 0 to context - 1 share the first samples of a batch, the next ``context`` ranks the next ones, and so on.
    ``zigzag``: how the rows of a sequence lie on its ranks (``mco.ops.context_rows``).
    """

    rank: int = 0
    size: int = 1
    context: int = 1
    zigzag: bool = True
    members: mco.ops.ContextGroup = field(default_factory=mco.ops.ContextGroup)

    @classmethod
    def join(cls, context: int = 1, zigzag: bool = True) -> Group:
        """Joins the job that ``msrun`` made: data parallel where ``context`` is 1, otherwise a grid of groups."""
        init()
        rank, size = get_rank(), get_group_size()
        if size % context:
            raise click.UsageError(
                f"{context} ranks for a sequence, of {size} in the job; accepted: a divisor of {size}"
            )
        if context == 1:
            ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True)
            return cls(rank, size)
        name = None
        if context < size:
            first = rank // context * context
            name = f"context_{first}"
            create_group(name, list(range(first, first + context)))
        return cls(rank, size, context, zigzag, mco.ops.ContextGroup.of(name))

    @property
    def samples(self) -> tuple[int, int]:
        """(which, of how many) shares of a batch's samples this rank works on."""
        return self.rank // self.context, self.size // self.context

    def rows(self, tokens: int) -> np.ndarray:
        """Places in a sample of this rank's rows; places of at least ``tokens`` are padding."""
        return mco.ops.context_rows(tokens, self.members, zigzag=self.zigzag)

    def split(self, samples: np.ndarray) -> np.ndarray:
        """This rank's rows of (batch, tokens)."""
        return mco.ops.context_split(samples, self.members, zigzag=self.zigzag) if self.context > 1 else samples


class ShareOfLoss(nn.Cell):
    """This rank's part of the mean cross entropy in nats: the parts of the ranks of a sequence add up to the mean.

    ids, targets: (B, rows) int32. ``model`` gives (B * rows, vocab); padding rows count for nothing.
    """

    def __init__(self, model: nn.Cell, group: Group, batch: int, tokens: int) -> None:
        super().__init__()
        self.model = model
        self.cross_entropy = nn.CrossEntropyLoss(reduction="none")
        real = np.tile(group.rows(tokens) < tokens, (batch, 1))
        self.weights = Tensor(real.astype(np.float32).reshape(-1) / (batch * tokens))

    def construct(self, ids, targets):
        return (self.cross_entropy(self.model(ids), targets.reshape(-1)) * self.weights).sum()


class GridStep(nn.Cell):
    """One step of a grid: (loss), the mean over all samples, which every rank has.

    All gradients go into one AllReduce. It needs the last of them, so it comes after every collective of the network,
    and ranks whose graphs differ cannot meet in another order.
    """

    def __init__(self, network: nn.Cell, optimizer: nn.Optimizer, scale: float, group: Group) -> None:
        super().__init__(auto_prefix=False)
        self.network, self.optimizer, self.scale = network, optimizer, scale
        self.weights = optimizer.parameters
        self.total = ops.AllReduce()
        self.share = 1.0 / group.samples[1]
        self.value_and_grad = ops.value_and_grad(self.scaled, None, self.weights)

    def scaled(self, ids, targets):
        return self.network(ids, targets) * self.scale

    def construct(self, ids, targets):
        loss, gradients = self.value_and_grad(ids, targets)
        flat = (loss.reshape(1),)
        for gradient in gradients:
            flat += (gradient.reshape(-1),)
        summed = self.total(ops.concat(flat) * self.share)
        loss = summed[0] / self.scale
        start, reduced = 1, ()
        for gradient in gradients:
            reduced += (summed[start : start + gradient.size].reshape(gradient.shape),)
            start += gradient.size
        return ops.depend(loss, self.optimizer(reduced))


def check(group: Group, config: object, ids: np.ndarray, options: dict) -> None:
    """One error on every rank where the ranks were started with other options, text or versions."""
    if group.size > 1:
        given = {name: value for name, value in options.items() if name != "out"}
        mco.ops.check_ranks(model=config, text=hashlib.sha256(ids).hexdigest(), shared_by=group.context, **given)


def training_step(model: nn.Cell, loss: nn.Cell, optimizer: nn.Optimizer, options: dict, group: Group) -> nn.Cell:
    """(ids, targets) -> loss. ``loss`` is the model's where a rank has whole samples."""
    scale = options["loss_scale"]
    if group.context == 1:
        step = nn.TrainOneStepCell(loss, optimizer, sens=scale)
    else:
        share = ShareOfLoss(model, group, options["batch"], options["context"])
        step = GridStep(share, optimizer, scale, group)
    step.set_train()
    return step


def weights_digest(model: nn.Cell) -> str:
    """SHA-256 over the names and the bits of all weights."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.parameters_and_names()):
        digest.update(name.encode())
        digest.update(parameter.asnumpy().tobytes())
    return digest.hexdigest()


def compare_ranks(name: str, digest: str, group: Group) -> None:
    """Every rank fails unless all have the same weights; they tell each other, as hosts need not share a folder."""
    mco.ops.check_ranks(**{f"weights of {name}": digest})
    if group.rank == 0:
        print(f"{name}: the weights of {group.size} ranks agree bit for bit, sha256 {digest}")


def _state(model: nn.Cell, optimizer: nn.Optimizer) -> dict[str, ms.Parameter]:
    """Weights, moments and the step count by their places in the cells; every rank holds the same. The learning rates
    are those of the command that goes on."""
    state = {f"weights.{name}": p for name, p in model.parameters_and_names()}
    weights = {id(p) for p in state.values()}
    others = {f"optimizer.{name}": p for name, p in optimizer.parameters_and_names() if id(p) not in weights}
    others = {name: p for name, p in others.items() if not name.startswith("optimizer.learning_rate")}
    return {**state, **others}


def save(path: Path, model: nn.Cell, optimizer: nn.Optimizer, done: int, group: Group) -> None:
    """Rank 0 writes the checkpoint after ``done`` steps; the file appears whole or not at all."""
    if group.rank:
        return
    partial = path.with_name(f"partial-{path.name}")
    items = [{"name": name, "data": Tensor(p.asnumpy())} for name, p in _state(model, optimizer).items()]
    ms.save_checkpoint(items, str(partial), append_dict={"done": done})
    partial.replace(path)


def resume(path: Path, model: nn.Cell, optimizer: nn.Optimizer) -> int:
    """Takes a checkpoint, whatever the number of ranks that wrote it; the number of steps it has behind it."""
    read = ms.load_checkpoint(str(path))
    done = int(read.pop("done").asnumpy())
    state = _state(model, optimizer)
    if state.keys() != read.keys():
        differing = sorted(state.keys() ^ read.keys())
        raise click.ClickException(f"--resume {path}: {differing[:3]} are not in both the model and the checkpoint")
    for name, parameter in state.items():
        if read[name].shape != parameter.shape:
            raise click.ClickException(
                f"--resume {path}: {name} is of shape {read[name].shape}; accepted: {parameter.shape}"
            )
        parameter.set_data(Tensor(read[name].asnumpy()))
    return done
