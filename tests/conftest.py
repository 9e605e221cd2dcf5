# SPDX-License-Identifier: Apache-2.0
"""Settings shared by all tests."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ms_custom_ops.cache
import ms_custom_ops.config


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "nightly: a long grid or property test; scripts/test.sh runs it only with -m nightly"
    )
    config.addinivalue_line(
        "markers", "graph_at_night(*cases): nightly in GRAPH mode, each a graph of its own; in PYNATIVE they stay"
    )


@pytest.hookimpl(tryfirst=True)  # before -m looks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        marker, call = item.get_closest_marker("graph_at_night"), getattr(item, "callspec", None)
        if marker and call and call.params["mode"] == "GRAPH" and call.id.removeprefix("GRAPH-") in marker.args:
            item.add_marker(pytest.mark.nightly)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What collection made lives to the end, and MindSpore collects garbage before it compiles a graph: without this,
    every one of its collections looks at half a million objects, which takes as long as a small graph's own work."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def program_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of its own for the program cache, during the tests of a module."""
    folder = tmp_path_factory.mktemp("programs")
    caches = ms_custom_ops.config.config, ms_custom_ops.cache.default_cache
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MS_CUSTOM_OPS_CACHE_DIR", str(folder))
        for each in caches:
            each.cache_clear()
        yield folder
    for each in caches:
        each.cache_clear()


@pytest.fixture(scope="module")
def example_ops() -> Iterator[object]:
    """The ops of examples/user_ops, which the tests of other modules do not have."""
    import ms_custom_ops as mco
    from ms_custom_ops.registry import packages

    packages()  # looks for them before they are copied
    discovery = sys.modules["ms_custom_ops.registry.discovery"]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_packages", "_roots"):
            patch.setattr(discovery, name, dict(getattr(discovery, name)))
        patch.setattr(discovery, "_combined", None)
        yield mco.load(Path(__file__).parents[1] / "examples" / "user_ops")


@pytest.fixture()
def write_op(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Writes the files of ``ms-custom-ops new my_op`` into a folder: ``write_op(template, {path: (old, new)})``.
    Packages of ops that a test adds are gone after it."""
    from ms_custom_ops.commands.new import rendered
    from ms_custom_ops.registry import packages

    discovery = sys.modules["ms_custom_ops.registry.discovery"]
    monkeypatch.delenv("MS_CUSTOM_OPS_PATH", raising=False)
    ms_custom_ops.config.config.cache_clear()
    own = packages()[0]
    for name, value in (("_packages", {own.root: own}), ("_roots", {}), ("_combined", None), ("_discovered", True)):
        monkeypatch.setattr(discovery, name, value)

    def write(template: str = "elementwise", changed: dict[str, tuple[str, str]] | None = None) -> Path:
        files = dict(rendered("my_op", template, "tik", False))
        for path, (old, new) in (changed or {}).items():
            assert old in files[path], (path, old)
            files[path] = files[path].replace(old, new, 1)
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        return tmp_path

    yield write
    for name in [name for name in sys.modules if name.startswith("mco_user_")]:
        del sys.modules[name]
    ms_custom_ops.config.config.cache_clear()
