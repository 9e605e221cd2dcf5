# SPDX-License-Identifier: Apache-2.0
"""What a tree of kernels written for an Ascend host finds around it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops import compat
from ms_custom_ops.compat import absent, kernel_tree
from ms_custom_ops.errors import TikError

MISSING = "package_that_nobody_has"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    path = list(sys.path)
    compat.uninstall()
    for module in (absent, kernel_tree):
        monkeypatch.setattr(module, "PREREQUISITES", (*absent.PREREQUISITES, MISSING))
    yield
    compat.uninstall()
    sys.path[:] = path
    for name in [n for n in sys.modules if n.partition(".")[0] == "impl"]:
        del sys.modules[name]


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("init", [True, False], ids=["package", "folder"])
def test_the_vendors_package_is_the_tree(tmp_path: Path, init: bool) -> None:
    write(tmp_path / "impl" / "common.py", "VALUE = 7\n")
    if init:
        write(tmp_path / "impl" / "__init__.py", "")
    kernel = compat.load_kernel(
        write(
            tmp_path / "impl" / "op.py",
            "from shop_impl.common import VALUE\ndef late():\n    import shop_impl.late as m\n    return m.V\n",
        )
    )
    write(tmp_path / "impl" / "late.py", "V = 8\n")
    importlib.invalidate_caches()
    assert kernel.VALUE == 7 and kernel.late() == 8


def test_the_vendors_package_of_a_second_tree(tmp_path: Path) -> None:
    for tree in ("one", "two"):
        write(tmp_path / tree / "impl" / "common.py", f"VALUE = {tree!r}\n")
        kernel = compat.load_kernel(write(tmp_path / tree / "impl" / "op.py", "from shop_impl.common import VALUE\n"))
        assert kernel.VALUE == tree
    compat.uninstall()
    assert not [n for n in sys.modules if n.startswith("shop_impl")] and importlib.util.find_spec("shop_impl") is None


def test_a_real_package_of_the_vendors_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "site" / "shop_impl" / "__init__.py", "VALUE = 'real'\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    kernel = compat.load_kernel(write(tmp_path / "tree" / "impl" / "op.py", "from shop_impl import VALUE\n"))
    assert kernel.VALUE == "real"
    del sys.modules["shop_impl"]


def test_what_a_tree_lacks_comes_from_the_package_impl_of_pythonpath(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Helpers that operators of others import from CANN's own package; the tree's own files come first."""
    for name in ("util/platform.py", "util/__init__.py", "conv.py", "own.py"):
        write(tmp_path / "cann" / "impl" / name, "WHO = 'cann'\n")
    write(tmp_path / "mine" / "impl" / "own.py", "WHO = 'mine'\n")
    text = "from impl import conv, own\nfrom impl.util import platform\nWHO = conv.WHO, platform.WHO, own.WHO\n"
    kernel = write(tmp_path / "mine" / "impl" / "op.py", text)
    with pytest.raises(ImportError, match="conv"):
        compat.load_kernel(kernel)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "cann"))
    assert compat.load_kernel(kernel).WHO == ("cann", "cann", "mine")
    compat.uninstall()
    assert "impl.conv" not in sys.modules and "impl.util.platform" not in sys.modules


def test_a_missing_prerequisite_is_refused_when_it_is_used(tmp_path: Path) -> None:
    text = f"from {MISSING} import re\nimport {MISSING}.deep as deep\ndef use():\n    return re(1.5) + 1\n"
    kernel = compat.load_kernel(write(tmp_path / "impl" / "op.py", text))
    with pytest.raises(compat.CannMissingError) as error:
        kernel.use()
    assert str(error.value) == (
        f"{MISSING}.re(...): arithmetic on it needs the package {MISSING}, which is not installed; "
        f"accepted: pip install {MISSING}"
    )
    assert importlib.util.find_spec(MISSING) is None and MISSING not in sys.modules


def test_an_installed_prerequisite_is_the_real_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "site" / "cffi" / "__init__.py", "VALUE = 'real'\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "cffi", raising=False)
    assert compat.load_kernel(write(tmp_path / "impl" / "op.py", "from cffi import VALUE\n")).VALUE == "real"
    monkeypatch.delitem(sys.modules, "cffi", raising=False)


COMPARES = """
from te import tik
def kernel(x, how, kernel_name="kernel"):
    t = tik.Tik()
    a, b = t.Scalar("int32", "a", 3), t.InputScalar("int32", "b")
    src = t.Tensor("float32", (8,), tik.scope_gm, "x")
    dst = t.Tensor("float32", (8,), tik.scope_gm, "y")
    ub = t.Tensor("float32", (8,), tik.scope_ubuf, "ub")
    t.data_move(ub, src, 0, 1, 1, 0, 0)
    if how == "if":
        if a < b:
            return t
    else:
        with t.for_range(0, {"min": min, "max": max}[how](a, b)):
            t.vec_adds(8, ub, ub, 1.0, 1, 8, 8)
    t.data_move(dst, ub, 0, 1, 1, 0, 0)
    t.BuildCCE(kernel_name, [src], [dst], flowtable=[b])
    return t
"""


@pytest.mark.parametrize("how", ["min", "max"])
def test_pythons_min_and_max_in_a_kernel_of_an_ascend_host_take_the_last(tmp_path: Path, how: str) -> None:
    file = write(tmp_path / "impl" / "op.py", COMPARES)
    kernel = compat.load_kernel(file)
    text = r"compares TIK expressions at .*op\.py:14: .*accepted: scalar_min, scalar_max"
    with pytest.warns(UserWarning, match=text):
        program = mco.trace(kernel.kernel, None, how, soc="Ascend910B1")
    assert mco.run(program, {"x": np.zeros(8, np.float32), "b": 5})[0].tolist() == [5.0] * 8


def test_an_if_of_python_stays_an_error_in_such_a_kernel(tmp_path: Path) -> None:
    kernel = compat.load_kernel(write(tmp_path / "impl" / "op.py", COMPARES))
    with pytest.raises(TikError, match="a TIK expression has no Python truth value"):
        mco.trace(kernel.kernel, None, "if", soc="Ascend910B1")
