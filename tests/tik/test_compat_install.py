# SPDX-License-Identifier: Apache-2.0
"""install(), uninstall(), what stands for the DSL of CANN, and loading kernel files."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    "use, name, what",
    [
        ("te.lang.cce.vadd[0]", "te.lang.cce.vadd", "an element of it"),
        ("bool(te.lang.cce.vadd)", "te.lang.cce.vadd", "its truth value"),
        ("list(te.lang.cce.vadd)", "te.lang.cce.vadd", "iterating over it"),
        ("len(te.lang.cce.vadd(1, 2))", r"te.lang.cce.vadd\(...\)", "its length"),
        ("te.tvm.compute((1,), lambda i: i)[0]", r"te.tvm.compute\(...\)", "an element of it"),
        ("tbe.dsl.auto_schedule(None).stages()", r"tbe.dsl.auto_schedule\(...\).stages", "a call of it"),
        ("tbe.tvm.const(1) + 1", r"tbe.tvm.const\(...\)", "arithmetic on it"),
        ("2 * tbe.tvm.const(1)", r"tbe.tvm.const\(...\)", "arithmetic on it"),
        ("int(tbe.tvm.const(1))", r"tbe.tvm.const\(...\)", "arithmetic on it"),
        ("tbe.tvm.const(1) < 2", r"tbe.tvm.const\(...\)", "arithmetic on it"),
        ("tbe.dsl.build(tbe.dsl.auto_schedule(None), {})", r"tbe.dsl.auto_schedule\(...\)", "its use in tbe.dsl.build"),
        ("tbe.dsl.build(1, {'t': tbe.dsl.vadd(1, 2)})", r"tbe.dsl.vadd\(...\)", "its use in tbe.dsl.build"),
        ("len(tbe.common.utils.op_tiling())", r"tbe.common.utils.op_tiling\(...\)", "its length"),
        ("tbe.common.platform.CCE_AXIS + 1", "tbe.common.platform.CCE_AXIS", "arithmetic on it"),
        ("tbe.common.utils.shape_util.cast(1) + 1", r"tbe.common.utils.shape_util.cast\(...\)", "arithmetic on it"),
    ],
)
def test_dsl_is_refused_when_used(use: str, name: str, what: str) -> None:
    compat.install()
    import tbe
    import tbe.common.platform
    import tbe.common.utils.op_tiling
    import te
    import te.lang.cce

    with pytest.raises(compat.CannMissingError, match=f"^{name}: {what} needs a CANN installation"):
        eval(use, {"te": te, "tbe": tbe})


def test_with_statement_on_the_dsl() -> None:
    compat.install()
    from tbe import tvm

    with pytest.raises(compat.CannMissingError, match=r"tbe.tvm.target.cce\(...\): a with statement on it needs"):
        with tvm.target.cce():
            pass


def test_dsl_constants_and_decorators_exist_while_a_file_is_imported() -> None:
    compat.install()
    from tbe import tvm
    from tbe.common.register import register_pass_for_fusion

    assert "tbe.tvm.const(...): absent" in repr(tvm.const(0.5, "float32"))

    @register_pass_for_fusion(pass_name="p")
    @tvm.target.generic_func
    def operator() -> int:
        return 3

    assert operator() == 3


def test_load_kernel_of_a_tree_whose_package_imports_every_operator(tmp_path: Path) -> None:
    write(tmp_path / "impl" / "__init__.py", "from .dsl import dsl_op\nfrom .kernel import kernel\n")
    write(tmp_path / "impl" / "dsl.py", "from tbe import tvm\nHALF = tvm.const(0.5, 'float32')\ndef dsl_op(): pass\n")
    write(tmp_path / "impl" / "kernel.py", "from tbe import tik\ndef kernel(): return tik.Tik()\n")
    assert compat.load_kernel(tmp_path / "impl" / "kernel.py").kernel is not None


def test_load_kernel_of_a_package_whose_init_fails(tmp_path: Path) -> None:
    write(tmp_path / "impl" / "__init__.py", "from .broken import x\n")
    write(tmp_path / "impl" / "broken.py", "from collections import Iterable\n")
    write(tmp_path / "impl" / "util.py", "SIX = 6\n")
    write(tmp_path / "impl" / "kernel.py", "from tbe import tik\nfrom impl.util import SIX\n")
    with pytest.warns(UserWarning, match="the __init__ of package impl failed .ImportError: cannot import name 'Iter"):
        assert compat.load_kernel(tmp_path / "impl" / "kernel.py").SIX == 6
    with pytest.raises(ImportError, match="Iterable"), pytest.warns(UserWarning, match="package impl failed"):
        sys.modules.pop("impl")
        compat.load_kernel(tmp_path / "impl" / "broken.py")


@pytest.mark.parametrize(
    "name, value",
    [
        ("te.platform.cce_intrin.get_bit_len('float16')", 16),
        ("te.platform.CceProductParams().getParams('Unified_Buffer')", 262144),
        ("te.platform.get_const(7)", 7),
        ("te.platform.cce_params.C0_SIZE", 16),
        ("te.platform.ELEMENTS_VECTOR_OP_FP16", 128),
        ("te.platform.cce_conf.get_kernel_meta_dir()", "kernel_meta"),
        ("tbe.common.platform.AIC_310P", "Ascend310PAiCore"),
        ("tbe.common.platform.SD3403AIC", "SD3403AiCore"),
        ("tbe.common.platform.scope_areg", "local.AREG"),
        ("tbe.common.platform.platform_info_.VERSION_MINI", "mini"),
        ("tbe.common.utils.log.debug('text') is None", True),
        ("tbe.common.rl_bank.rl_bank.tik_dsl_bank_proc([1], sync_tensor=2)", ([1], None)),
        ("tbe.common.rl_bank.bank_manager.update_bank_hit_info(True) is None", True),
        ("tbe.common.buildcfg.default_buildcfg.dynamic_build_config_dict['dynamic_shape']", True),
        ("te.platform.fusion_manager.fusion_manager.set_tik_tensor([], []) is None", True),
        ("te.utils.para_check.OP_ERROR_CODE_009", "E80009"),
        ("te.utils.para_check.OP_ERROR_CODE_012", "E80012"),
        ("te.utils.para_check.is_scalar((1,)), te.utils.para_check.is_scalar((1, 1))", (True, False)),
        ("te.utils.para_check.check_tensor_shape_size([2, 3])", 6),
        ("tbe.tik.common.tik_get_soc_name.get_soc_name()", "Ascend910"),
        ("tbe.tik.tik_lib.tik_soc_manager.TikSocManager.is_v100_soc()", True),
        ("tbe.tik.tik_lib.tik_soc_manager.TikSocManager.is_v210_soc()", False),
    ],
)
def test_names_that_kernels_reach(name: str, value: Any) -> None:
    compat.install()
    module = name.partition("(")[0]
    top = __import__(name.partition(".")[0])
    parts = module.split(".")[1:-1]
    for k in range(len(parts)):
        try:
            importlib.import_module(".".join([top.__name__, *parts[: k + 1]]))
        except ImportError:
            break
    with use_soc("Ascend910A"):
        assert eval(name, {top.__name__: top}) == value


def test_classes_of_tik_by_their_modules() -> None:
    compat.install()
    from tbe import tik

    with use_soc("Ascend910A"):
        t = tik.Tik()
        s = t.Scalar("int32", "s")
        assert hasattr(tik, "tik_lib") and isinstance(s, tik.api.tik_scalar.Scalar)
        assert isinstance(t.InputScalar("int32", "n"), tik.api.tik_scalar.InputScalar)
        assert isinstance(s + 1, tik.tik_lib.tik_expr.Expr) and not isinstance(3, tik.tik_lib.tik_expr.Expr)
        assert isinstance(t.Tensor("float16", (16,), tik.scope_gm, "x"), tik.api.tik_tensor.Tensor)


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
