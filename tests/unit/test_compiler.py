# SPDX-License-Identifier: Apache-2.0
"""compile_op: keys, the order of look-ups, what makes a Program stale, and threads."""

from __future__ import annotations

import dataclasses
import importlib
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import ms_custom_ops as mco
from ms_custom_ops import compiler
from ms_custom_ops.cache import ProgramCache
from ms_custom_ops.errors import EngineError, OpArgumentError, OpDtypeError, SocError
from ms_custom_ops.registry import OpSpec, get_op
from ms_custom_ops.registry.spec import Impl
from ms_custom_ops.sources import sources_of

SHAPE = (1, 2, 17, 16)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[compiler.Call]:
    """An empty memory and folder; the list of calls that were traced."""
    calls: list[compiler.Call] = []
    original = compiler._trace

    def counting(call: compiler.Call) -> Any:
        calls.append(call)
        return original(call)

    monkeypatch.setattr(compiler, "_trace", counting)
    monkeypatch.setattr(compiler, "default_cache", lambda: ProgramCache(tmp_path / "cache"))
    monkeypatch.setattr(compiler, "_memory", compiler._Memory())
    return calls


def attention(
    shape: tuple[int, ...] = SHAPE, dtype: str = "float16", soc: str | None = "Ascend910B1", **attrs: Any
) -> compiler.CompiledOp:
    return mco.compile_op("flash_attention", [shape] * 3, [dtype] * 3, attrs, soc)


def test_memory_then_disk_then_trace(traced: list) -> None:
    first = attention()
    assert attention() is first
    compiler.drop_memory()
    second = attention()
    assert len(traced) == 1
    assert second.program_bytes == first.program_bytes and second.path == first.path
    assert first.path is not None and first.path.is_file()
    first.path.unlink()
    compiler.drop_memory()
    assert attention().program_bytes == first.program_bytes and len(traced) == 2


def test_program_has_the_tensors_of_the_op(traced: list) -> None:
    compiled = mco.compile_op(
        "flash_attention",
        {"query": SHAPE, "key": SHAPE, "value": SHAPE, "attn_mask": (1, 1, 17, 32), "real_shift": None},
        {"query": "float16", "key": "float16", "value": "float16", "attn_mask": "float16"},
        {},
    )
    program = compiled.program
    assert compiled.inputs == ("query", "key", "value", "attn_mask")
    assert tuple(program.buffers[i].name for i in program.inputs) == compiled.inputs
    assert tuple(program.buffers[i].name for i in program.outputs) == compiled.outputs


@pytest.mark.parametrize(
    "change",
    [{"shape": (1, 2, 18, 16)}, {"dtype": "bfloat16"}, {"soc": "Ascend910A"}, {"sparse_mode": 3}, {"scale_value": 0.5}],
    ids=lambda c: next(iter(c)),
)
def test_each_part_of_the_key_counts(traced: list, change: dict[str, Any]) -> None:
    assert attention().key != attention(**change).key
    assert len(traced) == 2


def test_defaults_and_number_types_do_not_count(traced: list) -> None:
    assert attention().key == attention(scale_value=1, sparse_mode=0).key
    assert len(traced) == 1


def test_key_text(traced: list) -> None:
    prefix, _, tensors = attention().key.partition("|")
    assert tensors == "float16[1,2,17,16];float16[1,2,17,16];float16[1,2,17,16]"
    for part in (
        '"op":"flash_attention"',
        '"soc":"Ascend910B1"',
        '"present":["query","key","value"]',
        sources_of(get_op("flash_attention")).hash,
    ):
        assert part in prefix


def test_current_soc_is_the_default(traced: list) -> None:
    from ms_custom_ops.soc import use_soc

    with use_soc("Ascend310P3"):
        assert '"soc":"Ascend310P3"' in attention(soc=None).key


def test_threads_trace_a_key_once(traced: list) -> None:
    barrier, results = threading.Barrier(4), []

    def work() -> None:
        barrier.wait()
        results.append(attention())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(traced) == 1 and len({id(result) for result in results}) == 1 and len(results) == 4


def test_errors_keep_their_type_and_leave_the_compiler_usable(traced: list) -> None:
    with pytest.raises(OpArgumentError, match="flash_attention: rank of query"):
        attention((2, 17, 16))
    with pytest.raises(OpDtypeError, match="dtype of query is float32"):
        attention(dtype="float32")
    with pytest.raises(OpDtypeError, match="bfloat16 on Ascend910A"):
        attention(dtype="bfloat16", soc="Ascend910A")
    with pytest.raises(SocError, match="Ascend999"):
        attention(soc="Ascend999")
    with pytest.raises(OpArgumentError, match="shapes is 11 entries; accepted: at most 10"):
        mco.compile_op("flash_attention", [SHAPE] * 11, ["float16"] * 11, {})
    with pytest.raises(OpArgumentError, match="no_such_op"):
        mco.compile_op("no_such_op", [], [], {})
    assert not traced
    attention()
    assert len(traced) == 1


KERNEL = """
from ms_custom_ops import tik


def kernel(query, key, value, attn_mask, real_shift, drop_mask, qlen, kvlen, words, bounds, out, row_max, row_sum,
           *attrs, kernel_name):
    instance = tik.Tik()
    tensors = {{}}
    for name, arg in (("query", query), ("key", key), ("value", value), ("out", out), ("row_max", row_max),
                      ("row_sum", row_sum)):
        tensors[name] = instance.Tensor(arg["dtype"], arg["shape"], name=name, scope=tik.scope_gm)
    ub = instance.Tensor("float16", (16,), name="ub", scope=tik.scope_ubuf)
    instance.data_move(ub, tensors["query"], 0, 1, 1, 0, 0)
    instance.data_move(tensors["out"], ub, 0, 1, 1, 0, 0)
    instance.BuildCCE(kernel_name=kernel_name, inputs=[tensors[n] for n in {inputs}],
                      outputs=[tensors[n] for n in ("out", "row_max", "row_sum")])
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpSpec:
    """The schema of flash_attention over a kernel in a package of its own."""
    package = tmp_path / "toy_kernels"
    for folder in ("op", "common", "tiling"):
        (package / folder).mkdir(parents=True)
        (package / folder / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "op" / "fwd.py").write_text(KERNEL.format(inputs=("query", "key", "value")))
    (package / "tiling" / "toy.py").write_text("BLOCK = 16\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    for name in [name for name in sys.modules if name.partition(".")[0] == "toy_kernels"]:
        monkeypatch.delitem(sys.modules, name)
    impl = Impl("toy_kernels.op.fwd:kernel", "toy", "toy_kernels.op.golden:toy", "toy_kernels.tiling.toy")
    compiler._entry.cache_clear()
    return dataclasses.replace(get_op("flash_attention"), impl=impl)


def toy_call(toy: OpSpec) -> compiler.Call:
    return compiler.describe_call(toy, [SHAPE] * 3, ["float16"] * 3, {})


def test_kernel_called_in_the_tbe_convention(toy: OpSpec, traced: list) -> None:
    program = compiler.compile_call(toy_call(toy)).program
    assert program.name == "toy"
    assert [program.buffers[i].name for i in program.inputs] == ["query", "key", "value"]


CALL_KERNEL = """
from ms_custom_ops import tik


def kernel(call):
    assert call.op == "flash_attention" and call.kernel_name == "toy" and call.soc.name == "Ascend910B1"
    assert list(call.inputs) == ["query", "key", "value"] and list(call.outputs) == ["attention_out", "softmax_max",
                                                                                    "softmax_sum"]
    assert call["query"].shape == (1, 2, 17, 16) and call["softmax_max"].dtype == "float32"
    assert "attn_mask" not in call and call.attrs["tiling_stgy_name"] == "auto"
    {line}
    instance = tik.Tik()
    gm = [[instance.Tensor(x.dtype, x.shape, name=n, scope=tik.scope_gm) for n, x in side.items()]
          for side in (call.inputs, call.outputs)]
    ub = instance.Tensor("float16", (16,), name="ub", scope=tik.scope_ubuf)
    instance.data_move(ub, gm[0][0], 0, 1, 1, 0, 0)
    instance.data_move(gm[1][0], ub, 0, 1, 1, 0, 0)
    instance.BuildCCE(kernel_name=call.kernel_name, inputs=gm[0], outputs=gm[1])
"""


def test_kernel_that_takes_the_call(toy: OpSpec, traced: list, tmp_path: Path) -> None:
    (tmp_path / "toy_kernels" / "op" / "fwd.py").write_text(CALL_KERNEL.format(line=""))
    program = compiler.compile_call(toy_call(toy)).program
    assert program.name == "toy"
    assert [program.buffers[i].name for i in program.inputs] == ["query", "key", "value"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('call["qury"]', r"^flash_attention: tensor that the kernel asks for is 'qury'; accepted: one of the call: "
                         r"query, key, value, attention_out, softmax_max, softmax_sum; nearest: query$"),
        ('call["attn_mask"].shape', r"^flash_attention: tensor that the kernel asks for is 'attn_mask'; accepted: one"),
        ('call.attrs["sed"]', r"^flash_attention: attribute that the kernel asks for is 'sed'; accepted: .*st: seed$"),
    ],
)  # fmt: skip
def test_what_the_call_does_not_have_is_named(toy: OpSpec, traced: list, tmp_path: Path, line: str, message: str):
    (tmp_path / "toy_kernels" / "op" / "fwd.py").write_text(CALL_KERNEL.format(line=line))
    with pytest.raises(OpArgumentError, match=message):
        compiler.compile_call(toy_call(toy))


def test_kernel_with_other_tensors_is_refused(toy: OpSpec, traced: list, tmp_path: Path) -> None:
    (tmp_path / "toy_kernels" / "op" / "fwd.py").write_text(KERNEL.format(inputs=("query", "key")))
    with pytest.raises(
        EngineError,
        match=r"flash_attention: inputs of BuildCCE in the kernel is query float16.*"
        r"accepted: query float16\[1, 2, 17, 16\], key .*, value ",
    ):
        compiler.compile_call(toy_call(toy))
