# SPDX-License-Identifier: Apache-2.0
"""MindSpore in both modes, and a program cache of its own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

ms = pytest.importorskip("mindspore")

from ms_custom_ops import config, soc  # noqa: E402


@pytest.fixture(autouse=True)
def defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program_folder: Path) -> Iterator[None]:
    """GRAPH mode and the default chip for each test; MindSpore's dumps go to the test's folder."""
    monkeypatch.chdir(tmp_path)
    soc.set_soc(config.config().soc)
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_context(jit_config={"jit_level": "O0"})
    yield
    soc.set_soc(config.config().soc)
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_context(jit_config={"jit_level": "O0"})


@pytest.fixture(params=["GRAPH", "PYNATIVE"])
def mode(request: pytest.FixtureRequest) -> str:
    """Both execution modes."""
    ms.set_context(mode=ms.GRAPH_MODE if request.param == "GRAPH" else ms.PYNATIVE_MODE)
    return request.param


@pytest.fixture()
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """A program of examples/ by its name, imported for one test: a process of its own would import MindSpore first."""
    folder = Path(__file__).parents[2] / "examples"
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(ms, "set_device", lambda *_: None)  # MindSpore takes it before its first kernel only
    before = ms.get_context("mode")
    yield importlib.import_module
    ms.set_context(mode=before)
    for name in {path.stem for path in folder.glob("*.py")} & set(sys.modules):
        del sys.modules[name]
