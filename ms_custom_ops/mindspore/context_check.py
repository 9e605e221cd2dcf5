# SPDX-License-Identifier: Apache-2.0
"""What the ranks of a job must agree on before they work together: else one waits for ever for what another sends."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

from ms_custom_ops import soc
from ms_custom_ops._version import __version__
from ms_custom_ops.errors import OpArgumentError, describe
from ms_custom_ops.mindspore.context_parallel import ContextGroup

_DIGEST = 32  # bytes of SHA-256


def _text(value: Any) -> str:
    """A tensor's dtype and shape, anything else as it prints."""
    if isinstance(value, (Tensor, np.ndarray)):
        return f"{str(value.dtype).lower()} {tuple(value.shape)}"
    return repr(value)


def _tables(rows: np.ndarray, group: ContextGroup) -> np.ndarray:
    """(size, len) from every rank's (len,): a sum of one row and zeros, which works in any group of any backend."""
    table = np.zeros((group.size, len(rows)), np.float32)
    table[group.rank] = rows
    return ops.AllReduce(ops.ReduceOp.SUM, group.name)(Tensor(table)).asnumpy()


def _disagreements(texts: list[dict[str, str]]) -> str:
    """ "name is A on ranks 0, 2 and B on rank 1; ..." of every name on which the ranks differ."""
    found = []
    for name in dict.fromkeys(name for text in texts for name in text):
        ranks: dict[str, list[int]] = {}
        for rank, text in enumerate(texts):
            ranks.setdefault(text.get(name, "not given"), []).append(rank)
        if len(ranks) > 1:
            said = (f"{value} on rank{'s' * (len(at) > 1)} {', '.join(map(str, at))}" for value, at in ranks.items())
            found.append(f"{name} is {' and '.join(said)}")
    return "; ".join(found)


def check_ranks(group: str | ContextGroup | None = None, **facts: Any) -> None:
    """Raises one and the same error on every rank of a group where the ranks do not agree. Plain Python, at the start
    of a program, on every rank at the same place; not inside ``construct``.

    Versions of this package and of MindSpore, the chip that kernels are traced for and the execution mode are always
    compared.

    Args:
        group: name of a communication group, or a :class:`ContextGroup`; None means all ranks.
        facts: what else must be the same, by name: a tensor stands for its dtype and shape, anything else for its repr:
            ``check_ranks(query=query, seed=seed, options=options)``.

    Raises:
        OpArgumentError: names everything that differs, with the ranks and their values.
    """
    members = group if isinstance(group, ContextGroup) else ContextGroup.of(group)
    if members.size == 1:
        return
    always = {"ms_custom_ops": __version__, "mindspore": ms.__version__, "chip": soc.current_soc().name}
    always["mode"] = "GRAPH" if ms.get_context("mode") == ms.GRAPH_MODE else "PYNATIVE"
    mine = json.dumps({**always, **{name: _text(value) for name, value in facts.items()}}).encode()
    # Lengths and digests first: they have one size on all ranks, whatever these disagree on.
    heads = _tables(np.array([*hashlib.sha256(mine).digest(), len(mine)], np.float32), members)
    if (heads[:, :_DIGEST] == heads[0, :_DIGEST]).all():
        return
    lengths = heads[:, _DIGEST].astype(int)
    padded = np.frombuffer(mine.ljust(lengths.max()), np.uint8)
    texts = [json.loads(bytes(row)) for row in _tables(padded, members).astype(np.uint8)]
    raise OpArgumentError(describe("check_ranks", "job", _disagreements(texts), "the same on all ranks"))
