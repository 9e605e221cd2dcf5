# SPDX-License-Identifier: Apache-2.0
"""Folders of ops outside this project: how they are found, named and kept apart, and what is wrong with them."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import ms_custom_ops as mco
import ms_custom_ops.config
from ms_custom_ops.cli import main
from ms_custom_ops.errors import OpArgumentError, OpInfoError
from ms_custom_ops.registry import check_registry, get_op, list_ops, load_package, load_registry, packages
from ms_custom_ops.registry.generate import current_files

MODULE = sys.modules["ms_custom_ops.registry.discovery"]

YAML = """
{name}:
  doc: {factor} * x
  args:
    x: {{dtype: tensor, shape: [N], doc: numbers}}
  returns: {{y: {{dtype: tensor, shape: [N], dtype_from: x}}}}
  constraints: [{{expr: "N % 16 == 0", msg: whole blocks}}]
  dtype_format: [{{x: F16, y: F16}}]
  bprop: {bprop}
  impl:
    tik: {{entry: "op_impl.times.kernel:times", kernel_name: {name}}}
    golden: "op_impl.times.golden:times"
    tiling: "tiling.times"
  target: {{soc: {{Ascend910A: {{dtypes: [F16]}}, Ascend910B: {{dtypes: [F16]}}}}}}
  cases: [{{name: small, N: 64, dtype: F16}}]
"""
KERNEL = """
from ms_custom_ops import tik
from ...tiling.times import FACTOR

def times(x, y, kernel_name):
    t = tik.Tik()
    n = x["shape"][0]
    src = t.Tensor("float16", (n,), tik.scope_gm, "x")
    dst = t.Tensor("float16", (n,), tik.scope_gm, "y")
    with t.for_range(0, n // 16) as i:
        ub = t.Tensor("float16", (16,), tik.scope_ubuf, "ub")
        t.data_move(ub, src[i * 16], 0, 1, 1, 0, 0)
        t.vec_muls(16, ub, ub, FACTOR, 1, 8, 8)
        t.data_move(dst[i * 16], ub, 0, 1, 1, 0, 0)
    t.BuildCCE(kernel_name=kernel_name, inputs=[src], outputs=[dst])
"""


def make(folder: Path, name: str = "times_two", factor: float = 2.0) -> Path:
    """A package with an op that multiplies by ``factor``, and its gradient."""
    (folder / "op_info").mkdir(parents=True)
    (folder / "op_impl" / "times").mkdir(parents=True)
    (folder / "tiling").mkdir()
    grad = f"{name}_grad"
    text = YAML.format(name=name, factor=factor, bprop=f'{{x: "{grad}(dout[0])"}}')
    text += YAML.format(name=grad, factor=factor, bprop="none")
    (folder / "op_info" / f"{name}.yaml").write_text(text)
    (folder / "op_impl" / "times" / "kernel.py").write_text(KERNEL)
    (folder / "op_impl" / "times" / "golden.py").write_text(f"def times(x):\n    return {factor} * x\n")
    (folder / "tiling" / "times.py").write_text(f"FACTOR = {factor}\n")
    return folder


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if "__pycache__" not in path.parts)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Packages that a test adds are gone after it; none come from this machine's environment."""
    monkeypatch.delenv("MS_CUSTOM_OPS_PATH", raising=False)
    ms_custom_ops.config.config.cache_clear()
    own = packages()[0]
    monkeypatch.setattr(MODULE, "_packages", {own.root: own})
    monkeypatch.setattr(MODULE, "_roots", {})
    monkeypatch.setattr(MODULE, "_combined", None)
    monkeypatch.setattr(MODULE, "_discovered", True)
    yield
    for name in [name for name in sys.modules if name.startswith("mco_user_")]:
        del sys.modules[name]
    ms_custom_ops.config.config.cache_clear()


def run_op(name: str, x: np.ndarray) -> np.ndarray:
    compiled = mco.compile_op(name, [x.shape], ["float16"], soc="Ascend910A")
    return mco.run(compiled.program, {"x": x})[0]


def test_two_packages_with_folders_of_the_same_name(tmp_path: Path) -> None:
    """Neither the folder's name, nor its modules', nor sys.path are shared."""
    before = list(sys.path)
    make(tmp_path / "a" / "my_ops", "twice", 2.0)
    make(tmp_path / "b" / "my_ops", "thrice", 3.0)
    first, second = load_package(tmp_path / "a" / "my_ops"), load_package(tmp_path / "b" / "my_ops")
    assert first.name == "mco_user_my_ops" and second.name.startswith("mco_user_my_ops_")
    assert first.generated != second.generated
    x = np.arange(64, dtype=np.float16)
    assert (run_op("twice", x) == 2 * x).all() and (run_op("thrice", x) == 3 * x).all()
    assert sys.path == before and "op_impl" not in sys.modules and "tiling" not in sys.modules
    assert load_package(tmp_path / "a" / "my_ops") is first
    assert {"twice", "thrice", "flash_attention"} < set(list_ops())


def test_adding_keeps_what_is_there(tmp_path: Path) -> None:
    before = get_op("flash_attention")
    load_package(make(tmp_path / "ops"))
    assert get_op("flash_attention") is before


def test_one_name_in_two_packages(tmp_path: Path) -> None:
    make(tmp_path / "a"), make(tmp_path / "b")
    load_package(tmp_path / "a")
    with pytest.raises(OpInfoError) as error:
        load_package(tmp_path / "b")
    assert all(f"{tmp_path}/{folder}/op_info/times_two.yaml:2" in str(error.value) for folder in "ab")
    assert "op 'times_two'" in str(error.value) and len(packages()) == 2 and get_op("times_two")


def test_a_name_of_this_project(tmp_path: Path) -> None:
    make(tmp_path / "a", "flash_attention")
    with pytest.raises(OpInfoError) as error:
        load_package(tmp_path / "a")
    assert "/a/op_info/flash_attention.yaml:2" in str(error.value)
    assert get_op("flash_attention").location in str(error.value)


def test_one_function_name_in_two_packages(tmp_path: Path) -> None:
    make(tmp_path / "a")
    file = tmp_path / "a" / "op_info" / "times_two.yaml"
    file.write_text(file.read_text().replace("times_two:\n", "times_two:\n  function: {name: segsum_decay}\n", 1))
    with pytest.raises(OpInfoError, match="function 'segsum_decay' in .*times_two.yaml:2 is also that of op"):
        load_package(tmp_path / "a")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("bad: [", "not valid YAML"),
        ("bad: {args: {x: {dtype: tensor}}}", "tensor 'x' has no shape"),
        ("bad: 3", "the op is 3; accepted: a mapping"),
    ],
)
def test_a_broken_file_breaks_its_op_alone(tmp_path: Path, text: str, reason: str) -> None:
    make(tmp_path / "ops")
    (tmp_path / "ops" / "op_info" / "bad.yaml").write_text(text)
    load_package(tmp_path / "ops")
    x = np.ones(64, np.float16)
    assert (run_op("times_two", x) == 2).all() and "bad" not in list_ops()
    with pytest.raises(OpInfoError, match="op bad cannot be used\n.*bad.yaml:[12]") as error:
        get_op("bad")
    assert reason in str(error.value)
    assert any(reason in finding for finding in check_registry(load_registry()))
    listed = CliRunner().invoke(main, ["--ops", str(tmp_path / "ops"), "list"])
    (row,) = [line for line in listed.output.splitlines() if line.startswith("bad ")]
    assert listed.exit_code == 0 and row.split()[1] == "broken" and reason in row
    checked = CliRunner().invoke(main, ["--ops", str(tmp_path / "ops"), "check"])
    assert checked.exit_code == 1 and reason in checked.output


def test_an_op_whose_gradient_is_broken_is_broken(tmp_path: Path) -> None:
    make(tmp_path / "ops")
    file = tmp_path / "ops" / "op_info" / "times_two.yaml"
    head, _, tail = file.read_text().partition("\ntimes_two_grad:")
    file.write_text(f"{head}\ntimes_two_grad:{tail.replace('N % 16', 'M % 16')}")
    load_package(tmp_path / "ops")
    with pytest.raises(OpInfoError, match="bprop of x: the op 'times_two_grad' is broken itself"):
        get_op("times_two")


def test_path_of_the_environment(tmp_path: Path) -> None:
    make(tmp_path / "a", "twice"), make(tmp_path / "b", "thrice", 3.0)
    code = "import ms_custom_ops as mco; print(sorted({'twice', 'thrice', 'segsum_decay'} & set(mco.list_ops())))"
    for path, wanted in (
        (f"{tmp_path / 'a'}{os.pathsep}{tmp_path / 'b'}", "['segsum_decay', 'thrice', 'twice']"),
        ("", "['segsum_decay']"),
    ):
        done = python(code, MS_CUSTOM_OPS_PATH=path)
        assert done.stdout.strip() == wanted, done.stderr
    done = python(code, MS_CUSTOM_OPS_PATH=str(tmp_path / "nothing"))
    accepted = "a folder with op_info/*.yaml, op_impl/ and tiling/"
    assert f"MS_CUSTOM_OPS_PATH: folder is {tmp_path / 'nothing'}; accepted: {accepted}" in done.stderr


def python(code: str, cwd: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_entry_points_of_installed_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package that an entry point names is found without being run."""
    make(tmp_path / "site" / "their_ops")
    (tmp_path / "site" / "their_ops" / "__init__.py").write_text("raise RuntimeError('run')\n")
    info = tmp_path / "site" / "their_ops-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their_ops\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ms_custom_ops.ops]\ntheirs = their_ops\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert importlib.metadata.entry_points(group="ms_custom_ops.ops")
    monkeypatch.setattr(MODULE, "_discovered", False)
    assert get_op("times_two").package == "mco_user_their_ops"
    assert packages()[1].origin == "entry point theirs of ms_custom_ops.ops"
    (info / "entry_points.txt").write_text("[ms_custom_ops.ops]\ntheirs = their_lost_ops\n")
    monkeypatch.setattr(MODULE, "_packages", {packages()[0].root: packages()[0]})
    monkeypatch.setattr(MODULE, "_discovered", False)
    monkeypatch.setattr(MODULE, "_combined", None)
    with pytest.raises(OpInfoError, match="entry point theirs of ms_custom_ops.ops: package is their_lost_ops"):
        get_op("times_two")


def test_no_folder_of_ops(tmp_path: Path) -> None:
    with pytest.raises(OpInfoError, match="mco.load: folder is .*; accepted: a folder with op_info"):
        load_package(tmp_path)
    (tmp_path / "op_info").mkdir()
    with pytest.raises(OpInfoError, match="accepted: a folder with at least one"):
        load_package(tmp_path)
    with pytest.raises(OpArgumentError, match="op name is 'times_to'"):
        get_op("times_to")


def test_modules_that_the_folder_does_not_have_are_absolute(tmp_path: Path) -> None:
    make(tmp_path / "ops")
    file = tmp_path / "ops" / "op_info" / "times_two.yaml"
    file.write_text(file.read_text().replace("op_impl.times.golden:times", "numpy:square"))
    load_package(tmp_path / "ops")
    assert get_op("times_two").impl.golden == "numpy:square"
    assert get_op("times_two").impl.tiling == "mco_user_ops.tiling.times"


def test_check_finds_what_is_missing(tmp_path: Path) -> None:
    make(tmp_path / "ops")
    load_package(tmp_path / "ops")
    assert check_registry(load_registry(), ["times_two", "times_two_grad"]) == []
    (tmp_path / "ops" / "op_impl" / "times" / "golden.py").write_text("")
    found = check_registry(load_registry(), ["times_two"])
    assert len(found) == 1 and "impl.golden names 'times', which" in found[0]


def test_generated_file_follows_the_yaml(tmp_path: Path) -> None:
    package = load_package(make(tmp_path / "mine"))
    files = current_files(package)
    assert files == [package.root / f"mco_generated_mine{part}.py" for part in ("_primitives", "")]
    texts = [file.read_text() for file in files]
    for file in files:
        file.write_text("stale")
        assert [file.read_text() for file in current_files(package)] == texts
    assert not list(package.root.glob("*.tmp"))


def test_folder_that_takes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The generated file goes to the cache folder; without one, an error names both."""
    package = load_package(make(tmp_path / "ops"))
    generate = sys.modules["ms_custom_ops.registry.generate"]
    write = generate._replace

    def refuse(path: Path, text: str) -> Path:
        if path.parent == package.root:
            raise PermissionError(13, "Permission denied", str(path))
        return write(path, text)

    monkeypatch.setattr(generate, "_replace", refuse)
    monkeypatch.setenv("MS_CUSTOM_OPS_CACHE_DIR", str(tmp_path / "cache"))
    ms_custom_ops.config.config.cache_clear()
    assert all((tmp_path / "cache") in file.parents for file in current_files(package))
    monkeypatch.setenv("MS_CUSTOM_OPS_CACHE_DIR", "off")
    ms_custom_ops.config.config.cache_clear()
    with pytest.raises(OpInfoError, match="Permission denied.*accepted: a folder of ops, or a cache folder"):
        current_files(package)


def test_commands_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """check, gen and test are about the ops of the current folder; nothing else is written."""
    folder = make(tmp_path / "mine")
    monkeypatch.chdir(folder)
    before = files(folder)
    run = CliRunner().invoke
    assert run(main, ["check"]).output == "2 op(s) checked, no finding\n"
    assert "Error: " in run(main, ["gen", "--check"]).output
    assert run(main, ["gen"]).output.count("wrote ") == 2
    assert run(main, ["gen", "--check"]).exit_code == 0
    assert set(files(folder)) - set(before) == {"mco_generated_mine.py", "mco_generated_mine_primitives.py"}
    tested = run(main, ["test", "--report", str(tmp_path / "report.json")])
    assert tested.exit_code == 0, tested.output
    report = json.loads((tmp_path / "report.json").read_text())
    assert {row["op"] for row in report["cases"]} == {"times_two", "times_two_grad"}
    assert "in " + str(folder) in run(main, ["list"]).output
    assert run(main, ["info", "times_two"]).output.startswith("# times_two\n")


GRAPH = """
import numpy as np, mindspore as ms, ms_custom_ops as mco
from mindspore import Tensor, nn, ops
mine = mco.load("ops")

class Net(nn.Cell):
    def construct(self, x):
        return mine.times_two(x) + mco.ops.times_two(x)

x = Tensor(np.arange(64, dtype=np.float16))
for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
    ms.set_context(mode=mode)
    net = Net()
    assert (net(x).asnumpy() == 4 * x.asnumpy()).all()
    (grad,) = ops.GradOperation(get_all=True)(net)(x)
    assert (grad.asnumpy() == 4).all()
assert "times_two" in dir(mine) and "times_two" in dir(mco.ops)
for where in (mine, mco.ops):
    try:
        where.bad
    except mco.errors.OpInfoError as error:
        assert "op bad cannot be used" in str(error)
    else:
        raise AssertionError("bad")
    assert not hasattr(where, "no_such_op")
print("trained")
"""


def test_functions_in_graph_and_pynative_mode(tmp_path: Path) -> None:
    pytest.importorskip("mindspore")
    make(tmp_path / "ops")
    (tmp_path / "ops" / "op_info" / "bad.yaml").write_text("bad: 3")
    script = tmp_path / "script.py"
    script.write_text("import ms_custom_ops.errors\n" + GRAPH)
    environ = {**os.environ, "MS_CUSTOM_OPS_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "trained" in done.stdout, done.stderr[-4000:]
