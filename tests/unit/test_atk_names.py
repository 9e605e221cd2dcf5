# SPDX-License-Identifier: Apache-2.0
"""The import names of operator tests: ATK's classes, the functions of mindspeed_ops on torch tensors."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from ms_custom_ops import compat
from ms_custom_ops.compat import mindspeed
from ms_custom_ops.errors import OpArgumentError, OpDtypeError
from ms_custom_ops.registry import get_op, resolve
from ms_custom_ops.soc import use_soc


@pytest.fixture
def served():
    before = compat.installed()
    compat.install()
    yield
    if not before:
        compat.uninstall()


def test_names_come_and_go_without_torch():
    code = (
        "import sys\nfrom ms_custom_ops import compat\ncompat.install()\n"
        "from atk.configs.case_config import CaseConfig\nfrom mindspeed_ops.api.triton import segsum_decay\n"
        "import tests.utils\nassert 'torch' not in sys.modules\ncompat.uninstall()\n"
        "left = [n for n in sys.modules if n.split('.')[0] in ('atk', 'mindspeed_ops') or n == 'tests.utils']\n"
        "assert not left, left\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd="/")


def test_a_real_atk_stays(tmp_path, monkeypatch):
    (tmp_path / "atk").mkdir()
    (tmp_path / "atk" / "__init__.py").write_text("real = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    if compat.installed():
        pytest.skip("the names are served already")
    compat.install()
    try:
        assert importlib.import_module("atk").real and "mindspeed_ops" in sys.modules
    finally:
        compat.uninstall()
        sys.modules.pop("atk", None)


def test_real_tests_utils_comes_first(tmp_path, monkeypatch, served):
    package = tmp_path / "tests"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "utils.py").write_text("mine = 1\n")
    for name in [n for n in sys.modules if n == "tests" or n.startswith("tests.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    assert importlib.import_module("tests.utils").mine == 1
    for name in ("tests", "tests.utils"):
        del sys.modules[name]


def test_unserved_name_is_an_import_error(served):
    utils = importlib.import_module("mindspeed_ops.utils")
    with pytest.raises(AttributeError, match="no attribute 'is_arch32'; accepted: is_arch35"):
        utils.is_arch32  # noqa: B018


def test_registry_finds_by_name_and_folder(served, tmp_path):
    from ms_custom_ops.compat.atk import _Register

    registry = _Register("here")
    kind = registry.register("a")(type("A", (), {"__module__": __name__}))
    assert registry.get("a") is kind and registry.get("b") is None
    assert registry.get("a", str(tmp_path)) is None and registry.names(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda r: r.register(3), "here: name is 3; accepted: a string, as @register('name')"),
        (lambda r: r.register("a")(len), "here: what 'a' decorates is <built-in function len>; accepted: a class"),
    ],
    ids=["name", "class"],
)
def test_registry_refuses(use, text):
    from ms_custom_ops.compat.atk import _Register

    with pytest.raises(OpArgumentError) as caught:
        use(_Register("here"))
    assert str(caught.value) == text


def test_case_config_looks_up_inputs():
    from ms_custom_ops.compat.atk import CaseConfig, InputCaseConfig

    x, y, z = InputCaseConfig(""), InputCaseConfig("y", shape=(2, 3)), InputCaseConfig(None, range_values=["null"])
    config = CaseConfig([x, [y], z], id=4, name="n", more=1)
    assert config.get_input_data_config(name="y") is y and config.get_input_data_config(1) is z
    assert config.get_input_data_config(7) is None and config.flatten_list(config.inputs) == [x, y, z]
    assert (y.numel(), x.numel(), z.numel(), config.more) == (6, 1, 0, 1)


def test_base_api_has_the_device_and_wants_a_call():
    from ms_custom_ops.compat.atk import BaseApi, CaseConfig, InputDataset, TaskResult

    api = BaseApi(TaskResult(CaseConfig(name="torch.add")))
    assert (api.device, api.device_id, api.api_name) == ("cpu", 0, "torch.add")
    with pytest.raises(NotImplementedError, match="BaseApi.__call__"):
        api(InputDataset(), with_output=True)


SHAPE, CHUNK = (1, 2, 24), 8
VECTORS = {name: SHAPE for name in ("ddA_cs", "ddA_cs_rev", "dA_cs", "dA_cs_rev")}
MATRICES = {name: (1, 2, 3, CHUNK, CHUNK) for name in ("dSSdA", "SSdA")}
# fmt: off
CALLS = {
    "bwd_segsum_dadt": ({**MATRICES, "ddt_out": SHAPE}, True),
    "dacs_segsum": ({"da": SHAPE}, True),
    "segsum_decay": ({"da": SHAPE}, True),
    "bwd_dadt_cumsum": (VECTORS, True),
    "bwd_dadt_fused": ({**MATRICES, **VECTORS}, True),
    "bwd_dtrap_ddt": ({name: SHAPE for name in ("trap", "dt", "dfactor", "dgamma_diag")}, False),
}
# fmt: on


@pytest.mark.parametrize("name", sorted(mindspeed.NAMES))
def test_every_function_gives_the_golden(name, served):
    torch = pytest.importorskip("torch")
    op = mindspeed.NAMES[name]
    shapes, chunked = CALLS[op]
    rng = np.random.default_rng(3)
    arrays = {n: -rng.random(shape, np.float32) for n, shape in shapes.items()}
    module = importlib.import_module(f"mindspeed_ops.api.triton.{name}")
    found = getattr(module, name)(*(torch.from_numpy(a.copy()) for a in arrays.values()), CHUNK)
    again = getattr(module, f"{op}_triton")(*(torch.from_numpy(a.copy()) for a in arrays.values()), CHUNK)
    golden = resolve(get_op(op).impl.golden)(**arrays, **({"chunk_size": CHUNK} if chunked else {}))
    found, again, golden = (x if isinstance(x, tuple) else (x,) for x in (found, again, golden))
    for x, y, wanted in zip(found, again, golden, strict=False):
        np.testing.assert_allclose(x.numpy(), wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(x.numpy(), y.numpy())


def test_in_place_where_the_original_is(served):
    torch = pytest.importorskip("torch")
    from mindspeed_ops.api.triton import bwd_segsum_dadt

    d, s = torch.ones(MATRICES["dSSdA"]), torch.zeros(MATRICES["SSdA"])
    out = torch.ones(SHAPE)
    assert bwd_segsum_dadt(d, s, out, CHUNK) is out and float(out[0, 0, 1]) == 1 + (CHUNK - 1)
    strided = torch.ones((*SHAPE[:2], 2 * SHAPE[2]))[..., ::2]
    result = bwd_segsum_dadt(d, s, strided, CHUNK)
    assert torch.equal(result, out) and torch.equal(strided, torch.ones(SHAPE))


def test_bfloat16_runs_where_the_chip_in_force_has_none(served):
    torch = pytest.importorskip("torch")
    from mindspeed_ops.api.triton import bwd_segsum_dadt

    d, s = (torch.ones(MATRICES["dSSdA"], dtype=torch.bfloat16), torch.zeros(MATRICES["SSdA"], dtype=torch.bfloat16))
    for soc in ("Ascend910A", "Ascend910B1"):
        with use_soc(soc):
            out = bwd_segsum_dadt(d, s, torch.zeros(SHAPE, dtype=torch.bfloat16), CHUNK)
        assert out.dtype == torch.bfloat16 and float(out[0, 0, 1]) == CHUNK - 1


def test_what_is_no_cpu_tensor_is_refused(served):
    torch = pytest.importorskip("torch")
    from mindspeed_ops.api.triton import segsum_decay

    with pytest.raises(OpDtypeError, match=r"segsum_decay: da is ndarray; accepted: a torch.Tensor"):
        segsum_decay(np.zeros(SHAPE, np.float32), CHUNK)
    with pytest.raises(OpDtypeError, match=r"segsum_decay: device of da is meta; accepted: cpu"):
        segsum_decay(torch.zeros(SHAPE, device="meta"), CHUNK)


def test_assert_close(served):
    torch = pytest.importorskip("torch")
    from ms_custom_ops.compat.upstream import assert_close

    x = torch.ones(4)
    assert_close("o", x, x + 1e-7, 1e-9)
    assert_close("o", x, x * 1.001, 0.01)
    with pytest.raises(AssertionError, match="o: rms error ratio"):
        assert_close("o", x, x * 1.1, 0.01)


def test_a_folder_of_cases_called_atk_is_no_real_atk():
    """A folder without ``__init__.py`` on sys.path is a namespace package to Python."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom ms_custom_ops import compat\n"
        "folder = Path('cases'); (folder / 'atk').mkdir(parents=True)\nsys.path.insert(0, str(folder))\n"
        "compat.install()\nimport atk.configs.case_config\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=folder)
