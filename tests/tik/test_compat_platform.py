# SPDX-License-Identifier: Apache-2.0
"""Chip queries of the served modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ms_custom_ops import compat, tik
from ms_custom_ops.compat import cce_conf, cce_params, platform, topi_util
from ms_custom_ops.errors import SocError
from ms_custom_ops.soc import current_soc, set_soc, use_soc
from ms_custom_ops.tik.trace import trace


@pytest.fixture(autouse=True)
def default_chip() -> Iterator[None]:
    """The chip in force before, also after a test that changes it."""
    before = current_soc().name
    yield
    platform.reset()
    set_soc(before)


@pytest.mark.parametrize(
    ("soc", "key", "value"),
    [
        ("Ascend310", "CORE_NUM", 2),
        ("Ascend310", "UB_SIZE", 253952),
        ("Ascend310", "SMASK_SIZE", 256),
        ("Ascend310", "SHORT_SOC_VERSION", "Ascend310"),
        ("Ascend310P3", "CORE_NUM", 8),
        ("Ascend310P3", "VECTOR_CORE_CNT", 7),
        ("Ascend310P3", "SHORT_SOC_VERSION", "Ascend310P"),
        ("Ascend310P3", "CORE_TYPE_LIST", "AiCore,VectorCore"),
        ("Ascend910A", "CORE_NUM", 32),
        ("Ascend910A", "SOC_VERSION", "Ascend910"),
        ("Ascend910A", "FULL_SOC_VERSION", "Ascend910A"),
        ("Ascend910A", "L1_SIZE", 1048576),
        ("Ascend910A", "L0C_SIZE", 262144),
        ("Ascend910A", "BT_SIZE", 0),
        ("Ascend910A", "FB0_SIZE", 0),
        ("Ascend910A", "CUBE_VECTOR_SPLIT", False),
        ("Ascend910A", "CORE_TYPE_LIST", "AiCore"),
        ("Ascend910A", "CUBE_SIZE", [16, 16, 16]),
        ("Ascend910A", "ubblock_size", 32),
        ("Ascend910A", "cube_m_size", 16),
        ("Ascend910A", "AICORE_TYPE", "AiCore"),
        ("Ascend910A", "VREG_SIZE", 0),
        ("Ascend910B1", "UB_SIZE", 196608),
        ("Ascend910B1", "L0A_SIZE", 65536),
        ("Ascend910B1", "CUBE_CORE_CNT", 24),
        ("Ascend910B1", "VECTOR_CORE_CNT", 48),
        ("Ascend910B1", "BT_SIZE", 1024),
        ("Ascend910B1", "FB0_SIZE", 2048),
        ("Ascend910B1", "FB1_SIZE", 1024),
        ("Ascend910B1", "CUBE_VECTOR_SPLIT", True),
        ("Ascend910_9391", "SHORT_SOC_VERSION", "Ascend910_93"),
    ],
)
def test_soc_spec(soc: str, key: str, value: Any) -> None:
    assert platform.set_current_compile_soc_info(soc) == "success"
    assert platform.get_soc_spec(key) == value


def test_every_key_of_the_public_list_is_known() -> None:
    keys = """SOC_VERSION FULL_SOC_VERSION SHORT_SOC_VERSION AICORE_TYPE CORE_NUM CUBE_CORE_CNT VECTOR_CORE_CNT UB_SIZE
        L2_SIZE L1_SIZE L0A_SIZE L0B_SIZE L0C_SIZE CUBE_SIZE SMASK_SIZE UNZIP VREG_SIZE AREG_SIZE PREG_SIZE UREG_SIZE
        WREG_SIZE CUBE_VECTOR_SPLIT COMPILER_ARCH FB0_SIZE FB1_SIZE FB2_SIZE FB3_SIZE BT_SIZE CORE_TYPE_LIST
        ubblock_size cube_m_size cube_k_size cube_n_size""".split()
    assert [platform.get_soc_spec(key) is None for key in keys] == [False] * len(keys)


def test_unknown_key() -> None:
    with pytest.raises(RuntimeError, match=r"Unsupported Key Value of get_soc_spec\(\): UB; accepted: .*UB_SIZE"):
        platform.get_soc_spec("UB")


def test_vector_core_and_core_limit() -> None:
    platform.set_current_compile_soc_info("Ascend910B1", "VectorCore")
    assert (platform.get_soc_spec("CORE_NUM"), platform.get_soc_spec("AICORE_TYPE")) == (48, "VectorCore")
    platform.set_current_compile_soc_info("Ascend910B1", "AiCore", 5)
    assert platform.get_soc_spec("CORE_NUM") == 5
    platform.te_set_version("Ascend910A")
    assert platform.get_soc_spec("CORE_NUM") == 32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Ascend999",), "Ascend999.*accepted: .*Ascend910A"),
        (("Ascend910A", "Vector"), "core_type is 'Vector'; accepted: AiCore, VectorCore"),
        (("Ascend910A", "AiCore", 33), r"aicore_num is 33; accepted: 1\.\.32 on Ascend910A"),
        (("Ascend910A", "AiCore", "many"), r"aicore_num is 'many'; accepted: 1\.\.32"),
    ],
    ids=["soc", "core-type", "too-many", "no-number"],
)
def test_refused_chip(arguments: tuple, message: str) -> None:
    with pytest.raises(RuntimeError, match=f"set_current_compile_soc_info: .*{message}"):
        platform.set_current_compile_soc_info(*arguments)


@pytest.mark.parametrize(
    "name, short", [("BS9SX1AA", "BS9SX1A"), ("Ascend310B1", "Ascend310B"), ("Ascend610", "Ascend610")]
)
def test_a_chip_that_is_not_modelled_can_be_compared_with(name: str, short: str) -> None:
    """Kernels ask for it to choose a way; what needs its sizes or instructions is refused with what to write."""
    before = current_soc().name
    assert platform.set_current_compile_soc_info(name, "VectorCore") == "success"
    asked = [
        platform.get_soc_spec(key) for key in ("SOC_VERSION", "SHORT_SOC_VERSION", "FULL_SOC_VERSION", "AICORE_TYPE")
    ]
    assert asked == [short, short, name, "VectorCore"]
    for need in (lambda: platform.get_soc_spec("UB_SIZE"), tik.Tik, lambda: platform.api_check_support("tik.vadd")):
        with pytest.raises(SocError, match=rf"soc is '{name}', .*not modelled; accepted: .*trace.*Ascend910A"):
            need()

    def kernel() -> None:
        t = tik.Tik()
        y, ub = (t.Tensor("float16", (16,), scope, "y") for scope in (tik.scope_gm, tik.scope_ubuf))
        assert platform.get_soc_spec("SHORT_SOC_VERSION") == "Ascend910"
        t.vec_dup(16, ub, 1.0, 1, 8)
        t.data_move(y, ub, 0, 1, 1, 0, 0)
        t.BuildCCE("k", [], [y])

    assert trace(kernel, soc="Ascend910A").soc == "Ascend910A"
    set_soc(before)
    assert platform.get_soc_spec("FULL_SOC_VERSION") == before


def test_chip_of_a_trace_wins() -> None:
    with use_soc("Ascend310P3"):
        platform.set_current_compile_soc_info("Ascend910A")
        assert platform.get_soc_spec("FULL_SOC_VERSION") == "Ascend310P3"
    assert platform.get_soc_spec("FULL_SOC_VERSION") == "Ascend910A"


def test_product_version() -> None:
    from ms_custom_ops import tik

    before = current_soc().name
    for version, soc, product in (("mini", "Ascend310", "mini"), ("Ascend910A", "Ascend910A", "cloud")):
        tik.set_product_version(version)
        assert (current_soc().name, topi_util.get_product_version()) == (soc, product)
    assert topi_util.get_product_version() == topi_util.VERSION_CLOUD
    tik.unset_product_version()
    assert current_soc().name == before
    with pytest.raises(RuntimeError, match="set_product_version: version is 'huge'; accepted: mini, cloud"):
        tik.set_product_version("huge")


@pytest.mark.parametrize(
    ("soc", "api", "dtype", "answer"),
    [
        ("Ascend910A", "tik.vadd", "float16", True),
        ("Ascend910A", "tik.vadd", "", True),
        ("Ascend910A", "tik.vadd", "int16", False),
        ("Ascend910A", "tik.vec_add", "float32", True),
        ("Ascend910A", "tik.vec_dup", "float16", True),
        ("Ascend910A", "tik.vec_conv", "f162f32", True),
        ("Ascend910A", "tik.vconv", "s322f16", True),
        ("Ascend910A", "tik.vec_conv", "f322s64r", False),
        ("Ascend910B1", "tik.vec_conv", "f322s64r", True),
        ("Ascend310", "tik.vdiv", "float32", False),
        ("Ascend910A", "tik.vdiv", "float32", True),
        ("Ascend310", "tik.vexp", "float32", False),
        ("Ascend310P3", "tik.vgather", "float16", True),
        ("Ascend910A", "tik.vgather", "float16", False),
        ("Ascend910A", "tik.data_move_pad", "float16", False),
        ("Ascend910B1", "tik.data_move_pad", "float16", True),
        ("Ascend910B1", "tik.data_move_pad", "", True),
        ("Ascend910A", "tik.vcmax", "float32", False),
        ("Ascend910A", "tik.vec_reduce_max", "float16", True),
        ("Ascend910A", "tik.h_cast", "f162f32", True),
        ("Ascend910A", "tik.h_reduce_sum", "float32", True),
        ("Ascend910A", "tik.vnchwconv", "float16", True),
        ("Ascend910A", "tik.vec_trans_scatter", "int8", True),
        ("Ascend910A", "tik.vrpsort16", "float16", True),
        ("Ascend910A", "tik.mmad", "f16f16f32", True),
        ("Ascend910A", "tik.mmad", "s8s8s32", True),
        ("Ascend910A", "tik.matmul", "f32f32f32", False),
        ("Ascend910A", "tik.set_atomic_add", "float16", False),
        ("Ascend310P3", "tik.set_atomic_add", "float16", True),
        ("Ascend910A", "tik.vmla", "f32f16", True),
        ("Ascend910A", "tik.data_move", "int64", True),
        ("Ascend910A", "tik.load3dv1", "", True),
        ("Ascend910B1", "tik.load3dv1", "", False),
        ("Ascend910A", "te.lang.cce.vadd", "float16", True),
        ("Ascend910A", "tbe.dsl.vexp", "float32", True),
        ("Ascend910A", "tik.no_such_method", "float16", False),
        ("Ascend910A", "te.lang.cce.reduce_prod", "float16", False),
    ],
)
def test_api_check_support(soc: str, api: str, dtype: str, answer: bool) -> None:
    with use_soc(soc):
        assert platform.api_check_support(api, dtype) is answer


@pytest.mark.parametrize(
    ("soc", "name", "dtype", "answer"),
    [
        ("Ascend910A", "Intrinsic_vconv", "f322s32r", True),
        ("Ascend310", "Intrinsic_vconv", "f322s32r", False),
        ("Ascend910A", "Intrinsic_vcadd", "float32", True),
        ("Ascend910B1", "Intrinsic_vreducev2", "", True),
        ("Ascend910A", "Intrinsic_vreducev2", "", False),
    ],
)
def test_intrinsic_check_support(soc: str, name: str, dtype: str, answer: bool) -> None:
    with use_soc(soc):
        assert platform.intrinsic_check_support(name, dtype) is answer


def test_vector_core_has_no_cube() -> None:
    platform.set_current_compile_soc_info("Ascend310P3", "VectorCore")
    assert not platform.api_check_support("tik.mmad")
    assert platform.api_check_support("tik.vadd", "float16")


@pytest.mark.parametrize(
    ("dtype", "bits"), [("float16", 16), ("int8", 8), ("uint64", 64), ("bfloat16", 16), ("bool", 8)]
)
def test_bit_len(dtype: str, bits: int) -> None:
    assert platform.get_bit_len(dtype) == bits


def test_bit_len_of_a_name_without_width() -> None:
    with pytest.raises(RuntimeError, match="get_bit_len: dtype is 'half'; accepted: names that end in a width"):
        platform.get_bit_len("half")


def test_older_queries() -> None:
    with use_soc("Ascend910A"):
        assert cce_conf.getValue("Unified_Buffer") == cce_conf.CceProductParams().getParams("Unified_Buffer") == 262144
        assert cce_conf.get_value("CORE_NUM") == 32
        with pytest.raises(RuntimeError, match="cce_conf.getValue: key is 'UB'; accepted: Unified_Buffer"):
            cce_conf.getValue("UB")


def test_constants_through_the_served_names() -> None:
    compat.install()
    try:
        import te.platform.cce_params as cce
        from tbe.common import platform as served

        assert (cce.BLOCK_IN, cce.BLOCK_OUT, cce.BLOCK_REDUCE, cce.BLOCK_REDUCE_INT8, cce.BLOCK_VECTOR) == (
            16,
            16,
            16,
            32,
            1,
        )
        assert served.CUBE_MKN["int8"]["mac"] == [16, 32, 16] and served.CUBE_MKN["float32"]["mac"] == [16, 8, 16]
        assert served.scope_ubuf == "local.UB" and served.cce_params.scope_gm == "global"
        assert served.cce_conf.UB_SIZE == "UB_SIZE"
        assert served.get_soc_spec(served.UB_SIZE) == served.cce_conf.get_soc_spec(served.platform_info.UB_SIZE)
    finally:
        compat.uninstall()
    assert cce_params.VECTOR_INST_MAX_REPEAT_TIMES == 255
