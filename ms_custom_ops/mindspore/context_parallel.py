# SPDX-License-Identifier: Apache-2.0
"""A sequence whose rows lie on several ranks, and what they tell each other by MindSpore's own collectives.

For attention the sequence is cut into 2 n chunks for n ranks; rank r holds chunks r and 2 n - 1 - r (zigzag), so that
under a causal mask every rank has the same work. Keys and values go round chunk by chunk, partial outputs are merged by
their statistics in float32, and the backward pass sends the chunks round once more: memory is O(S / n) plus one chunk.
For the scans rank r holds the r-th of n chunks (context_scan.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.communication import GlobalComm, get_group_size, get_rank

from ms_custom_ops.errors import OpArgumentError, describe


@dataclass(frozen=True)
class ContextGroup:
    """The ranks that share a sequence: this process's ``rank`` among ``size``, and the group's name in MindSpore.

    A group of size 1 needs no ``init()``.
    """

    rank: int = 0
    size: int = 1
    name: str = ""
    broadcasts: bool = False

    @classmethod
    def of(cls, group: str | None = None) -> ContextGroup:
        """The group of this name (``create_group``), or all ranks of the job.

        MindSpore's CPU backend broadcasts in the group of all ranks alone, and in PYNATIVE mode not reliably: there an
        AllReduce of one rank's rows and the others' zeros takes the place of a Broadcast, with the same result.
        """
        name = group or GlobalComm.WORLD_COMM_GROUP
        return cls(get_rank(name), get_group_size(name), name, ms.get_context("device_target") != "CPU")

    def chunks(self) -> tuple[int, int]:
        """The two chunks of this rank, of 2 * size."""
        return self.rank, 2 * self.size - 1 - self.rank

    def owner(self, chunk: int) -> tuple[int, int]:
        """(rank, 0 or 1 for its first or second half) that holds a chunk."""
        return (chunk, 0) if chunk < self.size else (2 * self.size - 1 - chunk, 1)


def context_rows(seq_len: int, group: ContextGroup, *, zigzag: bool = True, multiple: int = 1) -> np.ndarray:
    """Positions in the sequence of the rows of this rank, int64.

    Positions of at least ``seq_len`` are padding: the rows of a sequence that cannot be cut into equal chunks.

    Args:
        seq_len: rows of the whole sequence.
        group: the ranks that share it.
        zigzag: two chunks of 2 * size, for attention; False: one of size, rank after rank, for the scans.
        multiple: rows of a chunk are a multiple of this, such as the chunk_size of an op that works chunk by chunk.
    """
    for name, value in (("seq_len", seq_len), ("multiple", multiple)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise OpArgumentError(describe("context_rows", name, repr(value), "an int of at least 1"))
    parts = group.chunks() if zigzag else (group.rank,)
    chunk = -(-seq_len // (len(parts) * group.size * multiple)) * multiple
    return np.concatenate([np.arange(part * chunk, (part + 1) * chunk) for part in parts])


def context_split(
    x: np.ndarray, group: ContextGroup, axis: int = 1, *, zigzag: bool = True, multiple: int = 1
) -> np.ndarray:
    """The rows of this rank of a whole array; padding rows are zeros. Inverse: :func:`context_join`, with the same
    ``zigzag`` and ``multiple`` (:func:`context_rows`)."""
    rows = context_rows(x.shape[axis], group, zigzag=zigzag, multiple=multiple)
    part = np.take(x, np.minimum(rows, x.shape[axis] - 1), axis)
    real = (rows < x.shape[axis]).reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    return np.where(real, part, np.zeros((), x.dtype))


def context_join(
    parts: list[np.ndarray], seq_len: int, axis: int = 1, *, zigzag: bool = True, multiple: int = 1
) -> np.ndarray:
    """The whole array from the parts of all ranks, in the order of ranks."""
    groups = [ContextGroup(rank, len(parts)) for rank in range(len(parts))]
    rows = np.concatenate([context_rows(seq_len, group, zigzag=zigzag, multiple=multiple) for group in groups])
    whole = np.take(np.concatenate(parts, axis), np.argsort(rows), axis)
    return np.take(whole, np.arange(seq_len), axis)


def context_work(group: ContextGroup, sparse_mode: int = 3) -> float:
    """Blocks of chunk x chunk that this rank computes; one on the diagonal of a causal mask counts a half."""
    if sparse_mode == 0:
        return float(4 * group.size)
    return sum(chunk + 0.5 for chunk in group.chunks())


def nothing_like(x):
    """Zeros that are computed: of a constant the graph compiler drops what it has to wait for."""
    return ops.cast(ops.less(x, x), x.dtype)


class Exchange(nn.Cell):
    """What ranks tell each other. The order has to be the same on all of them: the caller makes each call depend on the
    one before.

    What is sent must be no constant, see :func:`nothing_like`, and the result of a cell has to wait for its last call:
    one whose result a rank does not use is dropped from that rank's graph, and the others wait for ever.
    """

    def __init__(self, group: ContextGroup):
        super().__init__()
        self.group, self.alone, self.broadcasts = group, group.size == 1, group.broadcasts
        if not self.alone:
            self.all_reduce = ops.AllReduce(ops.ReduceOp.SUM, group.name)
            if self.broadcasts:
                self.send = [ops.Broadcast(root, group.name) for root in range(group.size)]

    def share(self, x, owner):
        """``x`` of the rank ``owner``, on every rank."""
        if self.alone:
            return x
        if self.broadcasts:
            return self.send[owner]((x,))[0]
        return self.all_reduce(x if owner == self.group.rank else nothing_like(x))

    def total(self, x):
        """Sum over the ranks."""
        return x if self.alone else self.all_reduce(x)
