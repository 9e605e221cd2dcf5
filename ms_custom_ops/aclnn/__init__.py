# SPDX-License-Identifier: Apache-2.0
"""The two-phase aclnn interface: ``status, size, executor = FooGetWorkspaceSize(...)``, then
``status = Foo(workspace, size, executor, stream)``.

Every op of the registry has the pair, found by name: ``aclnn.FlashAttentionGetWorkspaceSize``. Arguments and outputs
are NumPy arrays or MindSpore tensors; outputs are written in place. Needs no MindSpore. docs/aclnn.md has the codes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ms_custom_ops.aclnn.interface import Interface
from ms_custom_ops.aclnn.products import PRODUCTS, current_product, use_product
from ms_custom_ops.aclnn.score import ScoreInterface
from ms_custom_ops.aclnn.sparse_grad import SparseGradInterface
from ms_custom_ops.aclnn.status import SUCCESS, get_recent_error
from ms_custom_ops.aclnn.two_phase import Executor, TwoPhase, build
from ms_custom_ops.errors import OpArgumentError, describe
from ms_custom_ops.registry import get_op, list_ops
from ms_custom_ops.registry.yaml_source import nearest

_SUFFIX = "GetWorkspaceSize"
# Ops whose published interface is not that of the primitive.
_PUBLISHED: dict[str, Callable[[], Interface]] = {
    "sparse_flash_attention_grad": lambda: SparseGradInterface(1),
    "sparse_flash_attention_grad_v2": lambda: SparseGradInterface(2),
    "flash_attention_score": lambda: ScoreInterface(False),
    "flash_attention_score_grad": lambda: ScoreInterface(True),
    "flash_attention_var_len_score": lambda: ScoreInterface(False, packed=True),
    "flash_attention_unpadding_score_grad": lambda: ScoreInterface(True, packed=True),
}

__all__ = [
    "PRODUCTS",
    "SUCCESS",
    "Executor",
    "TwoPhase",
    "current_product",
    "get_recent_error",
    "two_phase",
    "use_product",
]


@functools.cache
def interface_of(op: str) -> Interface:
    """The interface of the op called ``op``: one of :func:`interface_names`.

    Raises:
        OpArgumentError: there is no such op.
    """
    if op in _PUBLISHED:
        return _PUBLISHED[op]()
    if op not in list_ops():
        raise OpArgumentError(describe("aclnn", "op name", repr(op), nearest(op, _names().values())))
    return Interface(get_op(op))


def interface_names() -> list[str]:
    """Names of all interfaces, in order."""
    return sorted({*list_ops(), *_PUBLISHED})


@functools.cache
def two_phase(op: str) -> TwoPhase:
    """Both functions of the op called ``op`` ("flash_attention").

    Raises:
        OpArgumentError: there is no such op.
    """
    return build(interface_of(op))


@functools.cache
def _names() -> dict[str, str]:
    """Name of the second function -> op."""
    return {**{get_op(op).class_name: op for op in list_ops()}, **{make().name: op for op, make in _PUBLISHED.items()}}


def __getattr__(name: str) -> Any:
    base = name.removesuffix(_SUFFIX)
    if name.startswith("_") or base not in _names():
        raise AttributeError(f"module 'ms_custom_ops.aclnn' has no attribute {name!r}; it has {', '.join(__dir__())}")
    functions = two_phase(_names()[base])
    return functions.execute if base == name else functions.get_workspace_size


def __dir__() -> list[str]:
    return sorted([*__all__, *_names(), *(name + _SUFFIX for name in _names())])
