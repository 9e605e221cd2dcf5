# SPDX-License-Identifier: Apache-2.0
"""install(), uninstall(), what stands for the DSL of CANN, and loading kernel files."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ms_custom_ops import compat
from ms_custom_ops.soc import use_soc

TOP = ("tbe", "te", "topi")


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Every test starts and ends without the names, without impl, and with the path it found."""
    path = list(sys.path)
    compat.uninstall()
    yield
    compat.uninstall()
    sys.path[:] = path
    for name in [n for n in sys.modules if n.partition(".")[0] in ("impl", "lone_kernel", "kernel_pack")]:
        del sys.modules[name]


IMPORTS = [
    "import tbe",
    "import te",
    "from tbe import tik",
    "from te import tik",
    "from te import tvm",
    "from te import platform as cce",
    "import te.platform.cce_params as cce",
    "from te.platform import cce_params, cce_conf",
    "from te.platform.cce_conf import te_set_version, api_check_support",
    "from te.platform.fusion_manager import fusion_manager",
    "from te.platform import get_soc_spec",
    "import te.lang.cce",
    "from te.lang.cce import vadd, broadcast",
    "from te.lang.cce.te_compute.util import check_input_tensor_shape",
    "from te.utils.op_utils import *",
    "from te.utils import op_utils",
    "from te.utils.error_manager import error_manager_vector",
    "from te.utils.error_manager import error_manager_util as error_manager",
    "from te.tvm.topi.cce import util",
    "from tbe.tvm.topi.cce import util",
    "from tbe.tvm.topi import generic",
    "from topi.cce import util",
    "from topi import generic",
    "import topi",
    "from tbe import dsl",
    "from tbe import tvm",
    "from tbe.dsl.base.operation import var",
    "from tbe.common import platform as tbe_platform",
    "import tbe.common.platform as tbe_platform",
    "from tbe.common.platform import set_current_compile_soc_info, get_soc_spec, api_check_support",
    "from tbe.common.platform.platform_info import get_soc_spec",
    "from tbe.common.utils import para_check, shape_util",
    "from tbe.common.utils.para_check import check_op_params, REQUIRED_INPUT, KERNEL_NAME",
    "from tbe.common.utils import errormgr",
    "from tbe.common.utils.errormgr import error_manager_vector",
    "from tbe.common.register import register_op_compute, register_operator",
    "import tbe.common.register as tbe_register",
    "import tbe.common.context.op_context as op_context",
    "from tbe.common.context import get_context",
    "from tbe.common.buildcfg import build_config",
    "from tbe.common.buildcfg import get_current_build_config",
]


@pytest.mark.parametrize("statement", IMPORTS)
def test_import(statement: str) -> None:
    compat.install()
    exec(statement, {})


@pytest.mark.parametrize("statement", ["import tbe", "from te import tik", "from topi.cce import util"])
def test_names_are_gone_after_uninstall(statement: str) -> None:
    compat.install()
    exec(statement, {})
    compat.uninstall()
    assert not compat.installed()
    assert not [n for n in sys.modules if n.partition(".")[0] in TOP]
    with pytest.raises(ModuleNotFoundError):
        exec(statement, {})


def test_second_install_and_uninstall_do_nothing() -> None:
    compat.install()
    import tbe

    compat.install()
    assert sys.modules["tbe"] is tbe
    compat.uninstall()
    compat.uninstall()
    assert not compat.installed()


def test_unknown_name_of_a_served_module() -> None:
    compat.install()
    with pytest.raises(ImportError, match="no_such_check"):
        exec("from tbe.common.utils.para_check import no_such_check", {})
    with pytest.raises(ModuleNotFoundError, match="tbe.common.no_such"):
        exec("import tbe.common.no_such", {})


@pytest.mark.parametrize(
    "use",
    [
        "te.lang.cce.vadd(1, 2)",
        "te.tvm.compute((1,), lambda i: i)",
        "tbe.dsl.auto_schedule(None)",
        "tbe.tvm.target.cce()",
        "te.lang.cce.vadd[0]",
        "bool(te.lang.cce.vadd)",
        "list(te.lang.cce.vadd)",
    ],
)
def test_dsl_is_refused_when_used(use: str) -> None:
    compat.install()
    import tbe
    import te
    import te.lang.cce

    name = use.removeprefix("bool(").removeprefix("list(").partition("(")[0].partition("[")[0].rstrip(")")
    with pytest.raises(compat.CannMissingError, match=f"{name}: .*needs a CANN installation"):
        eval(use, {"te": te, "tbe": tbe})


def test_kernel_may_derive_from_and_test_against_dsl_classes() -> None:
    compat.install()
    from te import tvm

    class Mine(tvm.expr.Something):
        pass

    assert not isinstance(3, tvm.expr.Expr)
    assert isinstance(tvm.placeholder((2, 3), name="x", dtype="float16"), tvm.tensor.Tensor)
    with pytest.raises(compat.CannMissingError, match="Mine"):
        Mine()


def test_placeholder() -> None:
    compat.install()
    from tbe import tvm

    x = tvm.placeholder((2, 3), name="x", dtype="float16")
    assert (x.shape, x.dtype, x.name) == ((2, 3), "float16", "x")


def fake_cann(folder: Path) -> None:
    (folder / "tbe").mkdir()
    (folder / "tbe" / "__init__.py").write_text("REAL = True\n")
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()


def test_real_cann_is_not_hidden(tmp_path: Path) -> None:
    fake_cann(tmp_path)
    with pytest.raises(compat.CompatError, match=r"tbe at .*tbe.__init__\.py.*force=True"):
        compat.install()
    assert not compat.installed()


@pytest.mark.parametrize("loaded", [False, True], ids=["importable", "imported"])
def test_force_hides_real_cann_until_uninstall(tmp_path: Path, loaded: bool) -> None:
    fake_cann(tmp_path)
    if loaded:
        import tbe

        assert tbe.REAL
    compat.install(force=True)
    import tbe

    assert not hasattr(tbe, "REAL")
    compat.uninstall()
    import tbe

    assert tbe.REAL
    del sys.modules["tbe"]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_load_kernel_of_a_package_called_impl(tmp_path: Path) -> None:
    """The file imports its siblings by the name impl, as operators of CANN do; a second impl takes its place."""
    for which in ("one", "two"):
        write(tmp_path / which / "impl" / "__init__.py", "")
        write(tmp_path / which / "impl" / "util" / "names.py", f"from tbe import tik\nNAME = '{which}'\n")
        file = write(tmp_path / which / "impl" / "dynamic" / "op.py", "from impl.util.names import NAME, tik\n")
        module = compat.load_kernel(file)
        assert (module.__name__, module.NAME, module.tik.__name__) == ("impl.dynamic.op", which, "tbe.tik")


def test_load_kernel_of_an_impl_folder_without_init(tmp_path: Path) -> None:
    write(tmp_path / "impl" / "helper.py", "VALUE = 3\n")
    assert compat.load_kernel(write(tmp_path / "impl" / "op.py", "from impl.helper import VALUE\n")).VALUE == 3


def test_load_kernel_of_an_impl_folder_without_init_after_a_package_impl(tmp_path: Path) -> None:
    write(tmp_path / "one" / "impl" / "__init__.py", "")
    compat.load_kernel(write(tmp_path / "one" / "impl" / "op.py", ""))
    write(tmp_path / "two" / "impl" / "helper.py", "VALUE = 5\n")
    assert compat.load_kernel(write(tmp_path / "two" / "impl" / "op.py", "from impl.helper import VALUE\n")).VALUE == 5


def test_pyacl_tells_the_chip_where_there_is_no_real_one(tmp_path: Path) -> None:
    compat.install()
    import acl

    with use_soc("Ascend310P3"):
        assert acl.get_soc_name() == "Ascend310P3"
    with pytest.raises(compat.CannMissingError, match="acl.rt.set_device: a call of it needs a CANN installation"):
        acl.rt.set_device(0)
    compat.uninstall()
    write(tmp_path / "acl.py", "REAL = True\n")
    sys.path.insert(0, str(tmp_path))
    importlib.invalidate_caches()
    compat.install()
    import acl

    assert acl.REAL
    del sys.modules["acl"]


def test_load_kernel_of_a_package(tmp_path: Path) -> None:
    write(tmp_path / "kernel_pack" / "__init__.py", "")
    write(tmp_path / "kernel_pack" / "base.py", "VALUE = 4\n")
    assert compat.load_kernel(write(tmp_path / "kernel_pack" / "op.py", "from .base import VALUE\n")).VALUE == 4


def test_load_kernel_of_a_lone_file_leaves_the_path_alone(tmp_path: Path) -> None:
    before = list(sys.path)
    module = compat.load_kernel(write(tmp_path / "lone_kernel.py", "from te import tik\n"))
    assert module.__name__ == "lone_kernel" and sys.path == before


@pytest.mark.parametrize("name", ["absent.py", "kernel.txt"])
def test_load_kernel_refuses(tmp_path: Path, name: str) -> None:
    (tmp_path / "kernel.txt").write_text("")
    with pytest.raises(compat.KernelLoadError, match=r"load_kernel: path is .*accepted: an existing \.py file"):
        compat.load_kernel(tmp_path / name)


def test_load_kernel_of_lone_files_of_one_name(tmp_path: Path) -> None:
    """Each is loaded afresh, also one that is called like a module of Python."""
    import json

    for folder in ("one", "two"):
        assert compat.load_kernel(write(tmp_path / folder / "json.py", f"VALUE = '{folder}'\n")).VALUE == folder
    assert sys.modules["json"] is json


def test_load_kernel_refuses_a_package_name_in_use(tmp_path: Path) -> None:
    write(tmp_path / "json" / "__init__.py", "")
    with pytest.raises(compat.KernelLoadError, match="load_kernel: a module json is loaded from"):
        compat.load_kernel(write(tmp_path / "json" / "op.py", ""))
