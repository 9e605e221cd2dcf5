# SPDX-License-Identifier: Apache-2.0
"""What a Program's key covers: for every op of the registry, what its trace imports; for a user's folder, every way to
import."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ms_custom_ops as mco
from ms_custom_ops import compiler, sources
from ms_custom_ops.cache import ProgramCache
from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.registry import OpSpec, get_op, list_ops, load_registry

PACKAGE = Path(mco.__file__).resolve().parent

# For each op, in a child of its own, the files that are loaded after tracing a smoke case per chip and set of tensors.
TRACE = """
import json, os, sys
from ms_custom_ops import compiler
from ms_custom_ops.registry import get_op, list_ops
from ms_custom_ops.registry.dtypes import CODE_TO_NAME
from ms_custom_ops.soc import get_soc
from ms_custom_ops.tik import trace
for op in list_ops():
    if os.fork() == 0:
        spec = get_op(op)
        for family in spec.target.soc:
            for case in {tuple(case.present): case for case in spec.cases}.values():
                if CODE_TO_NAME.get(case.dtype, case.dtype) in spec.soc_dtypes(family):
                    compiler._trace(compiler.describe_call(spec, *spec.case_call(case), get_soc(family).name))
        files = [getattr(m, "__file__", None) for m in list(sys.modules.values())]
        print(json.dumps([op, [f for f in files if f]]), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0, op
"""
# Loaded by any process that compiles, and without influence on what a kernel records.
NO_SOURCE = {PACKAGE / "__init__.py", PACKAGE / "cache.py", PACKAGE / "op_info" / "__init__.py"}


@functools.cache
def loaded_files() -> dict[str, set[Path]]:
    done = subprocess.run([sys.executable, "-c", TRACE], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    listed = dict(json.loads(line) for line in done.stdout.splitlines())
    folders = (PACKAGE, *(Path(importlib.import_module(name).__file__).resolve().parent for name in sources._OPS))
    own = {op: {Path(file).resolve() for file in files} for op, files in listed.items()}
    return {op: {f for f in files if any(f.is_relative_to(folder) for folder in folders)} for op, files in own.items()}


def hashed_files(op: str) -> set[Path]:
    return {path.resolve() for path, _ in sources.sources_of(get_op(op)).files}


@pytest.mark.parametrize("op", list_ops())
def test_what_a_trace_imports_is_hashed(op: str) -> None:
    loaded = {path for path in loaded_files()[op] if path.suffix == ".py"}
    assert PACKAGE / "tik" / "build.py" in loaded and get_op(op).impl.tiling.rpartition(".")[2] in {
        path.stem for path in loaded
    }
    assert loaded - NO_SOURCE - hashed_files(op) == set()


@pytest.mark.parametrize("op", list_ops())
def test_files_of_other_ops_are_not(op: str) -> None:
    """A change elsewhere costs no retrace: of the folders of ops only the files that the trace loads."""
    kernels = {path for path in hashed_files(op) if not path.is_relative_to(PACKAGE / "tik")}
    of_ops = {path for path in kernels if "op_impl" in path.parts or "tiling" in path.parts}
    assert of_ops - loaded_files()[op] == set()


@pytest.mark.parametrize("op", list_ops())
def test_a_change_in_any_imported_file_changes_the_hash(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = get_op(op)
    original, before = sources.read, sources._collect(spec)
    again = sources._collect(spec)
    assert again.hash == before.hash and again.settled
    changed: list[Path] = []
    front_end = sources._front_end.__wrapped__
    monkeypatch.setattr(sources, "read", lambda path: original(path) + b"\n#" * (path.resolve() in changed))
    seen = set()
    files = [path for path in hashed_files(op) if path in loaded_files()[op] or path.suffix == ".yaml"]
    in_op = [path for path in files if "op_impl" in path.parts or "tiling" in path.parts or path.suffix == ".yaml"]
    assert len(in_op) >= 4
    for path in [*in_op, PACKAGE / "tik" / "move.py", PACKAGE / "soc" / "table.py", PACKAGE / "_version.py"]:
        changed[:] = [path]
        if path.is_relative_to(PACKAGE):  # read once per process
            monkeypatch.setattr(sources, "_front_end", front_end)
        seen.add(sources._collect(spec).hash)
    assert before.hash not in seen and len(seen) == len(in_op) + 3


COPIED = """
import sys
from ms_custom_ops import compiler
from ms_custom_ops.registry import get_op
traced = []
original = compiler._trace
compiler._trace = lambda call: traced.append(call) or original(call)
spec = get_op("bwd_dtrap_ddt")
call = compiler.describe_call(spec, *spec.case_call(spec.cases[1]), "Ascend910B1")
print(compiler.compile_call(call).program.block_num, len(traced), spec.location)
"""


def test_an_edited_plan_is_never_served_stale(tmp_path: Path) -> None:
    """The installed tree, copied: one process after another, with an edit of the tiling plan between them."""
    tree = tmp_path / "ms_custom_ops"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, tree, ignore=ignore)
    for name in ("op_impl", "op_info", "tiling"):
        folder = Path(importlib.import_module(f"ms_custom_ops.{name}").__file__).resolve().parent
        shutil.copytree(folder, tree / name, ignore=ignore, dirs_exist_ok=True)

    def compiled() -> tuple[int, int]:
        environ = {**os.environ, "PYTHONPATH": str(tmp_path), "MS_CUSTOM_OPS_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", COPIED], capture_output=True, text=True, env=environ, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        blocks, traced, location = done.stdout.split()
        assert location.startswith(str(tree))
        return int(blocks), int(traced)

    blocks, traced = compiled()
    assert traced == 1 and blocks > 1
    assert compiled() == (blocks, 0)
    path = tree / "tiling" / "segsum_dtrap.py"
    path.write_text(path.read_text() + "\n\nvector_cores = lambda soc: 1\n")
    assert compiled() == (1, 1)
    assert compiled() == (1, 0)


KERNEL = """
from ms_custom_ops import tik


def kernel(x, out, kernel_name):
    {inside}
    instance = tik.Tik()
    gm = instance.Tensor("float16", x["shape"], name="x", scope=tik.scope_gm)
    to = instance.Tensor("float16", x["shape"], name="out", scope=tik.scope_gm)
    ub = instance.Tensor("float16", (LENGTH,), name="ub", scope=tik.scope_ubuf)
    instance.data_move(ub, gm, 0, 1, LENGTH // 16, 0, 0)
    instance.data_move(to, ub, 0, 1, LENGTH // 16, 0, 0)
    instance.BuildCCE(kernel_name=kernel_name, inputs=[gm], outputs=[to])
"""
IMPORTS = {
    "absolute": "from user_kernels.shared.numbers import LENGTH",
    "module": "import user_kernels.shared.numbers\n    LENGTH = user_kernels.shared.numbers.LENGTH",
    "alias": "import user_kernels.shared.numbers as n; LENGTH = n.LENGTH",
    "relative": "from ..shared.numbers import LENGTH",
    "relative_module": "from ..shared import numbers; LENGTH = numbers.LENGTH",
    "star_of_a_package": "from user_kernels.reexport import LENGTH",
    "lone_module": "from user_numbers import LENGTH",
    "namespace": "from user_space.numbers import LENGTH",
    "import_module": "import importlib; LENGTH = importlib.import_module('user_kernels.shared.numbers').LENGTH",
    "computed": "import importlib; LENGTH = importlib.import_module('user_kernels.' + 'shared.numbers').LENGTH",
}


OP_INFO = """
toy:
  doc: "y = x"
  args:
    x: {dtype: tensor, shape: [N]}
  returns:
    y: {dtype: tensor, shape: [N], dtype_from: x}
  dtype_format:
    - {x: F16, y: F16, format: ND}
  bprop: none
  impl:
    tik: {entry: "user_kernels.op.fwd:kernel", kernel_name: toy}
    golden: "user_kernels.op.golden:toy"
    tiling: "user_kernels.tiling.toy"
  target:
    soc: {Ascend910B: {dtypes: [F16]}}
    deterministic: True
  accuracy:
    standard: mixed
    fp16: {rms: 0.001}
  cases:
    - {name: small, N: 256, dtype: F16}
"""


class UserOp:
    """A folder of a user's own with a kernel whose length comes from a file of numbers."""

    def __init__(self, root: Path):
        self.root = root
        self.package = root / "user_kernels"
        for folder in ("op", "shared", "reexport", "tiling"):
            (self.package / folder).mkdir(parents=True)
            (self.package / folder / "__init__.py").write_text("")
        (self.package / "__init__.py").write_text("")
        (self.package / "reexport" / "__init__.py").write_text("from ..shared.numbers import *\n")
        (self.package / "tiling" / "toy.py").write_text("")
        (self.package / "notes.txt").write_text("")
        (root / "user_space").mkdir()
        (root / "op_info").mkdir()
        (root / "op_info" / "toy.yaml").write_text(OP_INFO)
        self.numbers = {
            "package": self.package / "shared" / "numbers.py",
            "lone": root / "user_numbers.py",
            "namespace": root / "user_space" / "numbers.py",
        }
        self.set(16)
        self.kernel(IMPORTS["absolute"])

    def set(self, length: int) -> None:
        for path in self.numbers.values():
            path.write_text(f"LENGTH = {length}\n")

    def kernel(self, inside: str) -> None:
        (self.package / "op" / "fwd.py").write_text(KERNEL.format(inside=inside))

    def spec(self) -> OpSpec:
        """As a new process would load it."""
        forget_user_modules()
        return load_registry(self.root / "op_info").get("toy")

    def call(self, spec: OpSpec | None = None) -> compiler.Call:
        return compiler.describe_call(spec or self.spec(), [(256,)], ["float16"], {}, "Ascend910B1")


def forget_user_modules() -> None:
    for name in [name for name in sys.modules if name.startswith("user_")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    compiler._entry.cache_clear()
    compiler.drop_memory()


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UserOp]:
    root = tmp_path / "src"
    monkeypatch.syspath_prepend(str(root))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a .pyc does not notice edits within a second
    monkeypatch.setattr(compiler, "default_cache", lambda: ProgramCache(tmp_path / "cache"))
    yield UserOp(root)
    forget_user_modules()


def elements(compiled: compiler.CompiledOp) -> int:
    """Length of the kernel's UB tensor."""
    (ub,) = [buffer for buffer in compiled.program.buffers if buffer.name == "ub"]
    return ub.size_bytes // 2


@pytest.fixture
def compile_anew(user: UserOp, monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[int, int]]:
    """Compiles the op as a new process would: (elements of its UB tensor, number of traces)."""
    counted: list[compiler.Call] = []
    monkeypatch.setattr(compiler, "_trace", lambda call, trace=compiler._trace: counted.append(call) or trace(call))

    def compile_anew() -> tuple[int, int]:
        before = len(counted)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled = compiler.compile_call(user.call())
        return elements(compiled), len(counted) - before

    return compile_anew


@pytest.mark.parametrize("form", IMPORTS)
def test_a_user_s_change_retraces_and_no_change_does_not(user: UserOp, compile_anew: Callable, form: str) -> None:
    user.kernel(IMPORTS[form])
    assert compile_anew() == (16, 1)
    assert compile_anew() == (16, 0)
    user.set(32)
    assert compile_anew() == (32, 1)
    assert compile_anew() == (32, 0)
    user.set(16)
    assert compile_anew() == (16, 0)  # the key is of the text


@pytest.mark.parametrize("file", ["op/fwd.py", "op/__init__.py", "__init__.py", "tiling/toy.py", "shared/__init__.py"])
def test_packages_tiling_and_entry_count(user: UserOp, compile_anew: Callable, file: str) -> None:
    assert compile_anew()[1] == 1
    path = user.package / file
    path.write_text(path.read_text() + "# changed\n")
    assert compile_anew()[1] == 1


def test_the_yaml_counts_and_what_nothing_imports_does_not(user: UserOp, compile_anew: Callable) -> None:
    assert compile_anew()[1] == 1
    for path in (user.package / "notes.txt", user.package / "reexport" / "__init__.py", user.numbers["lone"]):
        path.write_text(path.read_text() + "# changed\n")
    assert compile_anew()[1] == 0
    path = user.root / "op_info" / "toy.yaml"
    path.write_text(path.read_text() + "# changed\n")
    assert compile_anew()[1] == 1


def test_a_module_that_was_not_there_yet(user: UserOp, compile_anew: Callable) -> None:
    user.kernel("try:\n        from user_late import LENGTH\n    except ImportError:\n        LENGTH = 16")
    assert compile_anew() == (16, 1)
    (user.root / "user_late.py").write_text("LENGTH = 48\n")
    assert compile_anew() == (48, 1)


def test_what_a_gradient_inherits_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its entry says grad_of; the forward op's stands in another file."""
    folder = shutil.copytree(Path(get_op("flash_attention").location.rpartition(":")[0]).parent, tmp_path / "op_info")
    forward = folder / "flash_attention.yaml"

    def hashed() -> str:
        return sources.sources_of(load_registry(folder).get("flash_attention_grad")).hash

    before = hashed()
    assert "grad_of: flash_attention" in (folder / "flash_attention_grad.yaml").read_text()
    forward.write_text(forward.read_text() + "# a comment\n")
    assert hashed() == before
    text = forward.read_text()
    keep = text[text.index("    keep_prob:") : text.index("\n", text.index("    keep_prob:")) + 1]
    forward.write_text(text.replace(keep, "").replace("    scale_value:", keep + "    scale_value:", 1))
    assert hashed() != before


@pytest.mark.parametrize("extra", ["", "m = importlib.import_module('m9')\n"], ids=["statements", "names"])
def test_imports_are_found_in_statements_of_every_kind(extra: str) -> None:
    text = (
        "import m0\n"
        "def f(x=(lambda: 0)):\n    with x:\n        import m1\n    return [y if y else x for y in x]\n"
        "class C:\n    async def g(self):\n        async for i in self:\n            import m2\n"
        "        else:\n            import m3\n"
        "try:\n    import m4\nexcept OSError:\n    from m5 import a, b\nfinally:\n    import m6\n"
        "if m0:\n    pass\nelif m1:\n    from . import m7\n"
        "match m0:\n    case 1 if (lambda: 2)():\n        import m8\n"
    )
    found, computed = sources._imports((text + extra).encode(), "x.py")
    assert not computed
    assert sorted(found) == [
        (0, f"m{i}", ("a", "b") if i == 5 else ()) for i in range(10 if extra else 9) if i != 7
    ] + [(1, "", ("m7",))]


def test_nothing_is_imported_to_take_the_hash(user: UserOp) -> None:
    (user.package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    assert user.numbers["package"] in dict(sources.sources_of(user.spec()).files)
    assert not [name for name in sys.modules if name.startswith("user_")]


def test_the_hash_does_not_depend_on_the_place(user: UserOp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sources.sources_of(user.spec()).hash
    user.root.rename(tmp_path / "moved")
    user.root = tmp_path / "moved"
    monkeypatch.syspath_prepend(str(user.root))
    assert sources.sources_of(user.spec()).hash == before


def test_an_installed_package_counts_by_its_version(user: UserOp, monkeypatch: pytest.MonkeyPatch) -> None:
    user.kernel("import yaml; LENGTH = 16")
    spec = user.spec()
    before = sources._collect(spec)
    assert not [path for path, _ in before.files if path.parent.name == "yaml"]
    version = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.1" if name == "PyYAML" else version(name))
    assert sources._collect(spec).hash != before.hash


HIDDEN = "import sys; sys.path.insert(0, {folder!r}); from user_hidden import LENGTH"


def test_what_only_running_tells_is_not_kept(user: UserOp, compile_anew: Callable, monkeypatch: pytest.MonkeyPatch):
    hidden = user.root / "deep"
    hidden.mkdir()
    (hidden / "user_hidden.py").write_text("LENGTH = 16\n")
    user.kernel(HIDDEN.format(folder=str(hidden)))
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.warns(RuntimeWarning, match="toy: its kernel loads user_hidden in a way that its import statements"):
        compiled = compiler.compile_call(user.call())
    assert compiled.path is None and not (user.root.parent / "cache").exists()


def test_an_edit_while_the_process_lives(user: UserOp, compile_anew: Callable) -> None:
    """What was loaded is what runs; nothing that might be a mixture is written to disk."""
    spec = user.spec()
    first = compiler.compile_call(user.call(spec))
    assert first.path is not None
    user.set(32)
    other = compiler.describe_call(spec, [(512,)], ["float16"], {}, "Ascend910B1")
    second = compiler.compile_call(other)
    assert elements(second) == 16 and second.path is None
    assert second.key.split("|")[0] == first.key.split("|")[0]
    assert compile_anew() == (32, 1)  # the next process


def test_an_edit_before_the_first_hash(user: UserOp) -> None:
    """The module is loaded, the file is another by now: the text of what runs is lost, so no key on disk is its."""
    user.spec()
    importlib.import_module("user_kernels.shared.numbers")
    user.set(32)
    spec = load_registry(user.root / "op_info").get("toy")
    got = sources.sources_of(spec)
    assert dict(got.files)[user.numbers["package"]] == "edited-after-import" and not got.settled
    compiled = compiler.compile_call(user.call(spec))
    assert elements(compiled) == 16 and compiled.path is None
    assert sources._collect(spec).hash != got.hash  # of no other process either


def test_a_syntax_error_is_told_by_the_import(user: UserOp) -> None:
    user.kernel("def")
    with pytest.raises(SyntaxError, match="fwd.py"):
        compiler.compile_call(user.call())


@pytest.mark.parametrize("field", ["entry", "tiling"])
def test_missing_module(user: UserOp, field: str) -> None:
    spec = user.spec()
    name = "user_kernels.gone:kernel" if field == "entry" else "user_kernels.gone"
    broken = dataclasses.replace(spec, impl=dataclasses.replace(spec.impl, **{field: name}))
    with pytest.raises(OpArgumentError, match="user_kernels.gone; accepted: a module that can be imported"):
        sources.sources_of(broken)
