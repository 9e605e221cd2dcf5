# SPDX-License-Identifier: Apache-2.0
"""What the tests of the TIK front end's messages share: tensors, a case, and the check of its text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ms_custom_ops import tik
from ms_custom_ops.errors import TikError
from ms_custom_ops.soc import use_soc


class Kit:
    """Tensors that most cases need."""

    def __init__(self) -> None:
        self.t = t = tik.Tik()
        self.gm = t.Tensor("float16", (1024,), tik.scope_gm, "gm")
        self.gm32 = t.Tensor("float32", (1024,), tik.scope_gm, "gm32")
        self.u = t.Tensor("float16", (1024,), tik.scope_ubuf, "u")
        self.v = t.Tensor("float16", (1024,), tik.scope_ubuf, "v")
        self.f = t.Tensor("float32", (1024,), tik.scope_ubuf, "f")
        self.i = t.Tensor("int32", (1024,), tik.scope_ubuf, "i")
        self.b = t.Tensor("uint8", (64,), tik.scope_ubuf, "b")
        self.l1 = t.Tensor("float16", (2048,), tik.scope_cbuf, "l1")
        self.a0 = t.Tensor("float16", (1024,), tik.scope_ca, "a0")
        self.b0 = t.Tensor("float16", (1024,), tik.scope_cb, "b0")
        self.c0 = t.Tensor("float32", (1024,), tik.scope_cc, "c0")
        self.s = t.Scalar("int32", "s", 1)
        self.h = t.Scalar("float16", "h", 1.0)

    def blocks(self, tensor: Any, step: int = 16) -> list:
        return [tensor[k * step] for k in range(16)]


@dataclass
class Case:
    """``call`` raises ``kind`` with every one of ``words`` in its text."""

    id: str
    call: Callable[[Kit], Any]
    words: tuple[str, ...]
    kind: type[Exception] = TikError
    soc: str = "Ascend910A"


def check_message(case: Case, file: str) -> None:
    """The case raises its class, and the text holds its words and a line of ``file``."""
    with use_soc(case.soc):
        kit = Kit()
        with pytest.raises(TikError) as caught:
            case.call(kit)
    text = str(caught.value)
    assert type(caught.value) is case.kind, text
    for word in case.words:
        assert word in text
    assert f"[{file}:" in text
