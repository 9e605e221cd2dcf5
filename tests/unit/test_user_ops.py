# SPDX-License-Identifier: Apache-2.0
"""A copy of examples/user_ops works anywhere, with this checkout and with a wheel; the installation stays as it was."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "user_ops"
COMMAND = "import sys; from ms_custom_ops.cli import main; main(sys.argv[1:])"
FILES = {
    "README.md",
    "op_impl/rms_norm/golden.py",
    "op_impl/rms_norm/kernel.py",
    "op_info/rms_norm.yaml",
    "tiling/rms_norm.py",
    "train.py",
}


def sources(folder: Path) -> set[str]:
    """Files of a folder, without what Python and MindSpore leave behind."""
    found = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {str(path) for path in found if not {"__pycache__", "rank_0", "kernel_meta"} & set(path.parts)}


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in sources(folder)}


class Copy:
    """The example in a folder of its own, and the commands of one Python there."""

    def __init__(self, folder: Path, python: str):
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "mco_generated_*"))
        self.folder, self.python = folder, python
        clean = {name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "MS_CUSTOM_OPS_PATH")}
        self.environ = {**clean, "MS_CUSTOM_OPS_CACHE_DIR": str(folder.parent / "cache")}

    def run(self, *arguments: str) -> str:
        done = subprocess.run([self.python, *arguments], cwd=self.folder, env=self.environ, capture_output=True,
                              text=True, timeout=600)  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    def verb(self, *arguments: str) -> str:
        return self.run("-c", COMMAND, *arguments)

    def walk(self) -> None:
        """check, gen, test and training; two files are written, in the folder."""
        assert self.verb("check") == "2 op(s) checked, no finding\n"
        generated = {f"mco_generated_{self.folder.name}{part}.py" for part in ("", "_primitives")}
        assert self.verb("gen").count("wrote ") == 2
        assert sources(self.folder) == FILES | generated
        assert self.verb("gen", "--check") == "generated files agree with op_info\n"
        assert ", 0 failed, 0 error(s)" in self.verb("test", "rms_norm", "rms_norm_grad", "--quiet")
        assert self.run("train.py").startswith("loss ")
        assert sources(self.folder) == FILES | generated


def test_example_files() -> None:
    there = {name for name in sources(EXAMPLE) if not name.startswith("mco_generated_")}
    assert {name for name in there if "/ascendc/" not in name} == FILES


PAGE = ROOT / "docs" / "first_op.md"


def files_of_the_page() -> dict[str, str]:
    """Titled blocks of the page, by their titles, with what they include."""
    found = re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', PAGE.read_text(), re.M | re.S)
    return {name: re.sub(r'^--8<-- "([^"]+)"\n', lambda m: (ROOT / m.group(1)).read_text(), text, flags=re.M)
            for name, text in found}  # fmt: skip


def test_someone_who_follows_only_the_page_of_a_first_op(tmp_path: Path) -> None:
    """Writes the files that it names, gives its commands in its order, and touches nothing else."""
    pytest.importorskip("mindspore")
    before = contents(ROOT / "ms_custom_ops")
    copy, written = Copy(tmp_path / "my_ops", sys.executable), files_of_the_page()
    shutil.rmtree(copy.folder)
    commands = [line for block in re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(), re.M | re.S)
                for line in block.splitlines()]  # fmt: skip
    assert commands[0] == "mkdir -p my_ops && cd my_ops" and "python train.py" in commands
    copy.folder.mkdir()
    for name, text in written.items():
        text = re.sub(r"    ascendc: .*\n", "", text)  # as the page says
        (copy.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (copy.folder / name).write_text(text)
    printed = {}
    for command in commands[1:]:
        program, *arguments = command.split()
        printed[command] = copy.verb(*arguments) if program == "ms-custom-ops" else copy.run(*arguments)
    assert printed["ms-custom-ops check"] == "2 op(s) checked, no finding\n"
    assert "gradient        6 comparison(s)  good" in printed["ms-custom-ops test rms_norm --only golden"]
    assert ", 0 failed, 0 error(s)" in printed["ms-custom-ops test"]
    assert printed["python train.py"].startswith("loss ")
    generated = {"mco_generated_my_ops.py", "mco_generated_my_ops_primitives.py"}
    assert sources(copy.folder) == FILES - {"README.md"} | generated
    assert contents(ROOT / "ms_custom_ops") == before
    assert list((tmp_path / "cache").iterdir()), "the Programs of the ops are in the cache"


FORM = """
import sys
import numpy as np, mindspore as ms, ms_custom_ops as mco
from mindspore import Tensor, ops
sys.path.insert(0, ".")
mine = mco.load(".")

def plain(x, w):
    x32, w32 = x.astype(ms.float32), w.astype(ms.float32)
    return (x32 * ops.rsqrt((x32 * x32).mean(-1, keep_dims=True) + 1e-6) * w32).astype(x.dtype)

def own(x, w):
    return mine.rms_norm(x, w)[0]

rng = np.random.default_rng(0)
for dtype, limit in ((ms.float16, 2e-3), (ms.float32, 1e-5), (ms.bfloat16, 2e-2)):
    x, w, dy = (Tensor(rng.standard_normal(s).astype(np.float32)).astype(dtype) for s in ((37, 208), (208,), (37, 208)))
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        grads = [ops.GradOperation(get_all=True, sens_param=True)(f)(x, w, dy) for f in (plain, own)]
        for a, b in zip((plain(x, w), *grads[0]), (own(x, w), *grads[1])):
            assert a.dtype == b.dtype, (a.dtype, b.dtype)
            a, b = (t.astype(ms.float32).asnumpy() for t in (a, b))
            assert np.sqrt(((a - b) ** 2).mean() / (a**2).mean()) < limit, (dtype, mode)
print("equal")
"""


def test_forward_and_gradients_equal_those_of_mindspore(tmp_path: Path) -> None:
    pytest.importorskip("mindspore")
    copy = Copy(tmp_path / "rms", sys.executable)
    (copy.folder / "form.py").write_text(FORM)
    assert "equal" in copy.run("form.py")


AMP = """
import numpy as np, mindspore as ms, ms_custom_ops as mco
from mindspore import Tensor, nn, ops
mine = mco.load(".")

class Own(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense, self.weight = nn.Dense(32, 32), ms.Parameter(Tensor(np.ones(32, np.float32)), name="weight")

    def construct(self, x):
        h = self.dense(x)
        y, _ = mine.rms_norm(h, self.weight.astype(h.dtype))  # a plain call: other forms it leaves as they are
        return y

class Other(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense, self.norm = nn.Dense(32, 32), nn.LayerNorm((32,))

    def construct(self, x):
        return ops.gelu(self.norm(self.dense(x))) + ops.softmax(x)

x = Tensor(np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32))
for kind in (Own, Other):
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        net = kind()
        wanted = net(x).asnumpy()
        got = ms.amp.auto_mixed_precision(net, "O1", ms.float16)(x).asnumpy()
        assert np.abs(got - wanted).max() < 1e-2, (kind, mode)
print("equal")
"""


def test_rewritten_by_amp_o1_beside_other_models(tmp_path: Path) -> None:
    """MindSpore rewrites the sources of a network and of the functions it calls."""
    pytest.importorskip("mindspore")
    copy = Copy(tmp_path / "rms", sys.executable)
    (copy.folder / "form.py").write_text(AMP)
    assert "equal" in copy.run("form.py")


def test_reference_engine_too() -> None:
    command = [sys.executable, "-c", COMMAND, "test", "rms_norm", "rms_norm_grad", "--engine", "reference"]
    command += ["--soc", "Ascend910B1", "--case", "one_block"]
    done = subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.nightly
def test_copy_of_the_example_with_a_wheel(tmp_path: Path) -> None:
    """A wheel built here, in an environment of its own that sees MindSpore and NumPy of this one."""
    pytest.importorskip("mindspore")
    source = tmp_path / "source"
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, source], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=False)
    python = str(tmp_path / "venv" / "bin" / "python")
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    subprocess.run([*pip, "install", "-q", "--no-deps", "--target", site, wheel], check=True)
    borrowed = Path(np.__file__).parents[1]
    (site / "borrowed.pth").write_text(f"{borrowed}\n")  # .pth files in there, such as an editable one, do not count
    copy = Copy(tmp_path / "anywhere", python)
    assert copy.run("-c", "import ms_custom_ops; print(ms_custom_ops.__file__)").startswith(str(site))
    before = contents(site / "ms_custom_ops")
    copy.walk()
    assert contents(site / "ms_custom_ops") == before
