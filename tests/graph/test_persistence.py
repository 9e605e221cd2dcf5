# SPDX-License-Identifier: Apache-2.0
"""Programs across processes: disk cache, MindIR, MindSpore's compiler cache, changed sources."""

from __future__ import annotations

import shutil
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
from attention_nets import run_python

CALL = """
import mindspore as ms
import numpy as np
from mindspore import Tensor
from attention_nets import AttentionOut, qkv
from ms_custom_ops import compiler
traced = []
original = compiler._trace
compiler._trace = lambda call: traced.append(call) or original(call)
ms.set_context(mode=ms.GRAPH_MODE)
tensors = [Tensor(a) for a in qkv(1, 2, 2, 17, 33, 16)]
out = AttentionOut(sparse_mode=3)(*tensors).asnumpy()
np.save("{name}.npy", out)
print("traced", len(traced))
"""

# A further source of the kernel, which a test can change.
EXTRA_SOURCE = """
from pathlib import Path
from ms_custom_ops import sources
front_end, extra = sources._front_end(), Path("extra/source.py").absolute()
sources._front_end = lambda: {**front_end, "extra": (extra, *sources._taken(extra))}
"""

EXPORT = (
    EXTRA_SOURCE
    + """
import mindspore as ms
import numpy as np
from mindspore import Tensor
from attention_nets import AttentionOut, qkv
ms.set_context(mode=ms.GRAPH_MODE)
tensors = [Tensor(a) for a in qkv(1, 2, 2, 17, 33, 16)]
net = AttentionOut(sparse_mode=3)
np.save("exported.npy", net(*tensors).asnumpy())
ms.export(net, *tensors, file_name="attention", file_format="MINDIR")
"""
)

LOAD = """
import sys
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
{first}
def random(*shape, seed):
    return np.random.RandomState(seed).randn(*shape).astype(np.float16)
ms.set_context(mode=ms.GRAPH_MODE)
net = nn.GraphCell(ms.load("attention.mindir"))
tensors = [Tensor(random(1, 2, s, 16, seed=i)) for i, s in ((1, 17), (2, 33), (3, 33))]
out = net(*tensors)
out = out[0] if isinstance(out, (list, tuple)) else out
assert (out.asnumpy() == np.load("exported.npy")).all()
assert {imported} == ("ms_custom_ops" in sys.modules)
print("loaded")
"""


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a process that traced its program: the program cache and the output."""
    folder = tmp_path_factory.mktemp("first")
    done = run_python(CALL.format(name="one"), folder, MS_CUSTOM_OPS_CACHE_DIR=str(folder / "programs"))
    assert done.returncode == 0, done.stderr
    assert "traced 1" in done.stdout
    return folder


def test_second_process_finds_programs_on_disk(first: Path, tmp_path: Path) -> None:
    done = run_python(CALL.format(name="two"), tmp_path, MS_CUSTOM_OPS_CACHE_DIR=str(first / "programs"))
    assert done.returncode == 0, done.stderr
    assert "traced 0" in done.stdout
    assert (np.load(first / "one.npy") == np.load(tmp_path / "two.npy")).all()


@pytest.mark.parametrize("folder", ["off", "/proc/no_such_folder"], ids=["off", "not_writable"])
def test_without_a_writable_folder(tmp_path: Path, folder: str) -> None:
    done = run_python(CALL.format(name="one"), tmp_path, MS_CUSTOM_OPS_CACHE_DIR=folder)
    assert done.returncode == 0, done.stderr
    assert "traced 1" in done.stdout
    assert done.stderr.count("going on with programs in memory") == (folder != "off")


def test_corrupt_files_are_traced_anew(first: Path, tmp_path: Path) -> None:
    cache = tmp_path / "programs"
    environ = {"MS_CUSTOM_OPS_CACHE_DIR": str(cache)}
    shutil.copytree(first / "programs", cache)
    (path,) = cache.iterdir()
    intact = path.read_bytes()
    path.write_bytes(intact[:-100] + bytes(100))
    done = run_python(CALL.format(name="two"), tmp_path, **environ)
    assert done.returncode == 0, done.stderr
    assert "traced 1" in done.stdout and "ignoring the cache file" in done.stderr
    assert path.read_bytes() == intact


def write_extra_source(folder: Path) -> Path:
    path = folder / "extra" / "source.py"
    path.parent.mkdir()
    path.write_text("BLOCK = 16\n")
    return path


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folder of an exported MindIR with its programs and sources, and a copy of it."""
    folder, copy = tmp_path_factory.mktemp("export"), tmp_path_factory.mktemp("copies") / "export"
    write_extra_source(folder)
    done = run_python(EXPORT, folder, MS_CUSTOM_OPS_CACHE_DIR=str(folder / "programs"))
    assert done.returncode == 0, done.stderr
    shutil.copytree(folder, copy)
    return folder, copy


@pytest.fixture
def exported(export: tuple[Path, Path]) -> Path:
    """The folder as it was after the export; a graph remembers absolute paths."""
    folder, copy = export
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    return folder


def load(folder: Path, first: str = "", imported: bool = False, programs: str = "programs") -> CompletedProcess:
    environ = {"MS_CUSTOM_OPS_CACHE_DIR": str(folder / programs)}
    return run_python(LOAD.format(first=first, imported=imported), folder, **environ)


@pytest.mark.parametrize("imports", [False, True], ids=["mindspore_alone", "with_the_package"])
def test_mindir_in_a_fresh_process(exported: Path, imports: bool) -> None:
    done = load(exported, "import ms_custom_ops.mindspore.custom" if imports else "", imports)
    assert done.returncode == 0, done.stderr
    assert "loaded" in done.stdout


def test_mindir_without_its_program(exported: Path) -> None:
    shutil.rmtree(exported / "programs")
    done = load(exported)
    assert done.returncode == 1
    wanted = ("flash_attention: no Program for float16[1,2,17,16];", "no such file", "run the net once from Python")
    for part in wanted:
        assert part in done.stderr


def test_mindir_with_a_corrupt_program(exported: Path) -> None:
    for path in (exported / "programs").iterdir():
        path.write_bytes(path.read_bytes()[:-7])
    done = load(exported)
    assert done.returncode == 1 and "truncated" in done.stderr


def test_mindir_in_another_folder(exported: Path) -> None:
    """The folder of the loading process is looked in after the one the graph was built with."""
    (exported / "programs").rename(exported / "moved")
    first = "from ms_custom_ops.mindspore import custom; custom._extension()"
    done = load(exported, first, True, "moved")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("change", ["edited", "deleted"])
def test_mindir_of_other_sources_is_refused(exported: Path, change: str) -> None:
    extra_source = exported / "extra" / "source.py"
    if change == "edited":
        extra_source.write_text("BLOCK = 32\n")
    else:
        extra_source.unlink()
    done = load(exported)
    assert done.returncode == 1
    assert "flash_attention: the graph was compiled from kernel sources" in done.stderr
    assert "export the MindIR file again" in done.stderr
    assert (
        f"{extra_source} {'has changed' if change == 'edited' else 'is gone or no plain file'}; accepted" in done.stderr
    )


def test_a_process_that_built_the_op_knows_its_sources(exported: Path) -> None:
    """It traced from what it had imported, so its own hash counts, whatever is on disk by now."""
    first = (
        "from ms_custom_ops.mindspore import custom\n"
        "custom.sources_of = lambda spec: custom_sources\n"
        "from ms_custom_ops.sources import Sources\n"
        "custom_sources = Sources((), 'f' * 32, ())\n"
        "custom.TikCustom('flash_attention', {}, (False,) * 7)"
    )
    done = load(exported, first, True)
    assert done.returncode == 1 and f"but those of this process are {'f' * 32}" in done.stderr


GRAPH_CACHE = (
    EXTRA_SOURCE
    + """
import mindspore as ms
import numpy as np
from mindspore import Tensor
from attention_nets import AttentionOut, qkv
from ms_custom_ops import compiler
checked = []
original_call = compiler.describe_call
compiler.describe_call = lambda *args: checked.append(args) or original_call(*args)
ms.set_context(mode=ms.GRAPH_MODE)
tensors = [Tensor(a) for a in qkv(1, 2, 2, 17, 33, 16)]
net = AttentionOut(sparse_mode=3)
print("sum", net(*tensors).asnumpy().astype(np.float64).sum(), "checked", len(checked))
"""
)


def test_mindspore_compiler_cache(tmp_path: Path) -> None:
    """A cached graph runs without being compiled again; after the sources changed it is refused, never served."""
    environ = {
        "MS_CUSTOM_OPS_CACHE_DIR": str(tmp_path / "programs"),
        "MS_COMPILER_CACHE_ENABLE": "1",
        "MS_COMPILER_CACHE_PATH": str(tmp_path / "graphs"),
    }
    extra_source = write_extra_source(tmp_path)
    one, two = [run_python(GRAPH_CACHE, tmp_path, **environ) for _ in range(2)]
    assert one.returncode == two.returncode == 0, one.stderr + two.stderr
    assert "checked 0" not in one.stdout and "checked 0" in two.stdout
    assert one.stdout.split()[:2] == two.stdout.split()[:2]
    extra_source.write_text("BLOCK = 32\n")
    three = run_python(GRAPH_CACHE, tmp_path, **environ)
    assert three.returncode == 1, three.stdout
    assert "the graph was compiled from kernel sources" in three.stderr and "MS_COMPILER_CACHE_PATH" in three.stderr
    shutil.rmtree(tmp_path / "graphs")
    four = run_python(GRAPH_CACHE, tmp_path, **environ)
    assert four.returncode == 0, four.stderr
    assert one.stdout.split()[:2] == four.stdout.split()[:2]
