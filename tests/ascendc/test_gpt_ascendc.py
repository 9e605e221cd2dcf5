# SPDX-License-Identifier: Apache-2.0
"""examples/train_gpt.py trains in GRAPH_MODE on the Ascend C attention as on that in TIK."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from asc_cases import need_ascendc

import ms_custom_ops as mco
from ms_custom_ops import compiler

need_ascendc()
ms = pytest.importorskip("mindspore")
pytest.importorskip("matplotlib")
EXAMPLES = Path(__file__).parents[2] / "examples"
SHORT = {"steps": 3, "layers": 1, "heads": 2, "width": 64, "context": 96, "batch": 2}
SIZES = [pytest.param(SHORT, id="short"), pytest.param({}, id="defaults", marks=pytest.mark.nightly)]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import train_gpt

    ms.set_context(mode=ms.GRAPH_MODE)
    yield train_gpt
    for name in ("train_gpt", "gpt_model", "ranks"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("given", SIZES)
def test_the_loss_is_that_of_the_tik_kernels(program, given: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: set[tuple[str, str]] = set()
    publish = compiler.publish
    monkeypatch.setattr(compiler, "publish", lambda call: (ran.add((call.spec.name, call.impl)), publish(call)))
    options = {param.name: param.default for param in program.main.params} | given
    ids, vocab = program.encode(program.read_text(None), options["context"])
    config = program.GptConfig(vocab, options["layers"], options["heads"], options["width"], options["context"])
    losses = {}
    for impl in ("tik", "ascendc"):
        with mco.use_impl(impl):
            losses[impl] = program.train("flash", config, ids, options, program.Group()).losses
        assert {(op, impl) for op in ("flash_attention", "flash_attention_grad")} <= ran
    np.testing.assert_allclose(losses["ascendc"], losses["tik"], rtol=0, atol=1e-2)
    if not given:
        assert losses["ascendc"][-1] < 0.7 * losses["ascendc"][0]
