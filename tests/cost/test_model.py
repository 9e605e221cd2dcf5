# SPDX-License-Identifier: Apache-2.0
"""The cost model: its rows against published figures, dependences, overlap, flags, cores, long kernels."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops import tik
from ms_custom_ops.cost import cost_chip, profile
from ms_custom_ops.cost.binding import LANES, chip_value_names
from ms_custom_ops.errors import EngineError, SocError
from ms_custom_ops.program.isa import ISA
from ms_custom_ops.soc import list_socs
from ms_custom_ops.tik.trace import trace

_BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SOC = "Ascend910B1"


@pytest.fixture(scope="module")
def published():
    """The subject costmodel of the benchmarks, and its kernels."""
    sys.path.insert(0, str(_BENCHMARKS))
    try:
        import costmodel
        import costmodel_kernels
    finally:
        sys.path.remove(str(_BENCHMARKS))
    return costmodel, costmodel_kernels


def test_small_published_rows_are_met(published):
    rows, kernels = published
    checked = [r for r in rows.rows() if r.unit == "cycles"] + [r for r in rows.rows() if "3072^3" in r.name]
    assert len(checked) == 9
    for row in checked:
        found = row.read(profile(kernels.traced(row.build, row.soc), chip=cost_chip(row.soc), traced_blocks=0))
        assert abs(found / row.measured - 1) <= row.limit, (row.name, found, row.measured)


def _built(build):
    return trace(lambda: build(tik.Tik()), soc=SOC)


def _copy_kernel(threads: int, rounds: int = 40):
    """Moves in, works, moves out; the buffers lie in the loop."""

    def build(t):
        x = t.Tensor("float16", (rounds, 8192), tik.scope_gm, "x")
        y = t.Tensor("float16", (rounds, 8192), tik.scope_gm, "y")
        with t.for_range(0, rounds, thread_num=threads) as i:
            ub = t.Tensor("float16", (8192,), tik.scope_ubuf, "ub")
            t.data_move(ub, x[i, 0], 0, 1, 512, 0, 0)
            for _ in range(4):
                t.vec_adds(128, ub, ub, 1.0, 64, 8, 8)
            t.data_move(y[i, 0], ub, 0, 1, 512, 0, 0)
        t.BuildCCE(kernel_name="copy", inputs=[x], outputs=[y])

    return build


def test_two_threads_overlap_and_one_does_not():
    one, two = (profile(_built(_copy_kernel(n))) for n in (1, 2))
    busy = sum(two.pipe(n).busy for n in ("MTE2", "V", "MTE3"))
    start = one.chip.values["launch_us"] * one.chip.clock_mhz
    assert one.cycles - start >= 0.95 * busy  # every buffer is waited for
    assert two.cycles - start <= 0.75 * (one.cycles - start)
    assert two.pipe("MTE2").stalls.keys() & {"waits for a reader", "waits for a writer"}


def _slices(p, lane):
    return p.slices[p.slices["lane"] == LANES.index(lane)]


def test_order_follows_the_data():
    p = profile(_built(_copy_kernel(2)))
    into, work, out = (_slices(p, n) for n in ("MTE2", "V", "MTE3"))
    assert len(into) == len(out) == 40
    assert len(work) == 160
    assert np.all(work["start"][::4] >= into["start"] + p.chip.values["mte2_latency"])
    assert np.all(out["start"] >= work["start"][3::4])
    assert np.all(into["start"][2:] >= out["start"][:-2])  # the copy that is filled again was read
    for lane in LANES:
        of = _slices(p, lane)
        assert np.all(of["end"][:-1] <= of["start"][1:])


def _flags(t, wait: bool):
    x = t.Tensor("float16", (8192,), tik.scope_gm, "x")
    y = t.Tensor("float16", (8192,), tik.scope_gm, "y")
    ub = t.Tensor("float16", (8192,), tik.scope_ubuf, "ub")
    with t.new_stmt_scope(disable_sync=True):
        t.data_move(ub, x, 0, 1, 512, 0, 0)
        if wait:
            t.set_flag("PIPE_MTE2", "PIPE_V", 0)
            t.wait_flag("PIPE_MTE2", "PIPE_V", 0)
        t.vec_adds(128, ub, ub, 1.0, 64, 8, 8)
        t.pipe_barrier("PIPE_ALL")
        t.data_move(y, ub, 0, 1, 512, 0, 0)
    t.BuildCCE(kernel_name="flags", inputs=[x], outputs=[y])


def test_without_automatic_synchronisation_only_flags_order():
    without, with_flag = (profile(_built(lambda t, w=w: _flags(t, w))) for w in (False, True))
    assert _slices(without, "V")["start"][0] < _slices(without, "MTE2")["start"][0] + 100
    assert _slices(with_flag, "V")["start"][0] > _slices(with_flag, "MTE2")["start"][0] + 185
    assert with_flag.pipe("V").stalls["waits for a flag"] > 0
    assert with_flag.unpaired_flags == 0


def test_a_flag_nobody_set_is_counted():
    def build(t):
        y = t.Tensor("float16", (16,), tik.scope_gm, "y")
        ub = t.Tensor("float16", (16,), tik.scope_ubuf, "ub")
        with t.new_stmt_scope(disable_sync=True):
            t.wait_flag("PIPE_MTE2", "PIPE_MTE3", 1)
            t.data_move(y, ub, 0, 1, 1, 0, 0)
        t.BuildCCE(kernel_name="unpaired", inputs=[], outputs=[y])

    p = profile(_built(build))
    assert p.unpaired_flags == 1
    assert "1 waits for a flag that was not set" in p.text()


def test_what_nobody_took_during_the_launch_is_gone():
    """48 cores that read 128 KiB once: as long as GM needs for all of it."""

    def build(t):
        x = t.Tensor("float16", (48, 65536), tik.scope_gm, "x")
        y = t.Tensor("float16", (48, 16), tik.scope_gm, "y")
        with t.for_range(0, 48, block_num=48) as core:
            ub = t.Tensor("float16", (65536,), tik.scope_ubuf, "ub")
            t.data_move(ub, x[core, 0], 0, 1, 4096, 0, 0)
            t.data_move(y[core, 0], ub, 0, 1, 1, 0, 0)
        t.BuildCCE(kernel_name="once", inputs=[x], outputs=[y])

    p = profile(_built(build))
    after_launch = p.cycles - p.chip.values["launch_us"] * p.chip.clock_mhz
    assert after_launch >= next(r.cycles for r in p.roofs if r.name == "GM")


def test_cores_share_gm():
    def build(cores):
        def kernel(t):
            x = t.Tensor("float16", (cores, 1 << 20), tik.scope_gm, "x")
            y = t.Tensor("float16", (cores, 16), tik.scope_gm, "y")
            with t.for_range(0, cores, block_num=cores) as core:
                ub = t.Tensor("float16", (65536,), tik.scope_ubuf, "ub")
                with t.for_range(0, 16) as i:
                    t.data_move(ub, x[core, i * 65536], 0, 1, 4096, 0, 0)
                t.data_move(y[core, 0], ub, 0, 1, 1, 0, 0)
            t.BuildCCE(kernel_name="share", inputs=[x], outputs=[y])

        return kernel

    one, many = (profile(_built(build(n))) for n in (1, 48))
    assert many.cores == 48
    assert many.cycles > 2 * one.cycles
    assert many.pipe("MTE2").stalls["shared bandwidth"] > 0
    roof = next(r for r in many.roofs if r.name == "GM")
    assert roof.cycles <= many.cycles <= 1.4 * roof.cycles


def test_blocks_beyond_the_cores_take_turns():
    def build(blocks):
        def kernel(t):
            y = t.Tensor("float16", (blocks, 16), tik.scope_gm, "y")
            with t.for_range(0, blocks, block_num=blocks) as block:
                ub = t.Tensor("float16", (32768,), tik.scope_ubuf, "ub")
                with t.for_range(0, 50):
                    t.vec_dup(128, ub, 1.0, 255, 8)
                t.data_move(y[block, 0], ub, 0, 1, 1, 0, 0)
            t.BuildCCE(kernel_name="turns", inputs=[], outputs=[y])

        return kernel

    few, more = (profile(_built(build(n))) for n in (48, 96))
    start = few.chip.values["launch_us"] * few.chip.clock_mhz
    assert more.cores == few.cores == 48
    assert more.cycles - start == pytest.approx(2 * (few.cycles - start), rel=0.02)


def test_blocks_meet_at_a_barrier():
    def build(t):
        y = t.Tensor("float16", (2, 16), tik.scope_gm, "y")
        sync = t.Tensor("int64", (8,), tik.scope_gm, "sync", is_workspace=True, is_atomic_add=True)
        with t.for_range(0, 2, block_num=2) as block:
            ub = t.Tensor("float16", (32768,), tik.scope_ubuf, "ub")
            with t.for_range(0, 1 + block * 100):
                t.vec_dup(128, ub, 1.0, 255, 8)
            t.block_barrier(sync)
            t.data_move(y[block, 0], ub, 0, 1, 1, 0, 0)
        t.BuildCCE(kernel_name="meet", inputs=[], outputs=[y])

    p = profile(_built(build))
    first, second = (p.slices[(p.slices["block"] == b) & (p.slices["lane"] == LANES.index("MTE3"))] for b in (0, 1))
    assert first["start"][0] == pytest.approx(second["start"][0], abs=50)
    assert p.pipe("S").stalls["other blocks"] > 20000


def test_control_flow_that_reads_data_is_followed():
    def build(t):
        n = t.Tensor("int32", (8,), tik.scope_gm, "n")
        y = t.Tensor("float16", (16,), tik.scope_gm, "y")
        ub = t.Tensor("int32", (8,), tik.scope_ubuf, "ub")
        out = t.Tensor("float16", (128,), tik.scope_ubuf, "out")
        count = t.Scalar("int32")
        t.data_move(ub, n, 0, 1, 1, 0, 0)
        count.set_as(ub[0])
        with t.for_range(0, count):
            t.vec_dup(128, out, 1.0, 1, 8)
        t.data_move(y, out, 0, 1, 1, 0, 0)
        t.BuildCCE(kernel_name="counted", inputs=[n], outputs=[y])

    program = _built(build)
    feed = np.full(8, 7, np.int32)
    p = profile(program, [feed])
    assert p.pipe("V").instructions == 7
    assert p.pipe("S").stalls["waits for a result"] > 150
    assert profile(program).pipe("V").instructions == 0  # zeros
    assert profile(program, [feed], execute="integers").cycles == p.cycles


def test_executed_and_skipped_give_the_same_times():
    program = _built(_copy_kernel(2))
    skipped, executed = (profile(program, execute=e) for e in ("needed", "all"))
    assert skipped.cycles == executed.cycles
    assert [p.busy for p in skipped.pipes] == [p.busy for p in executed.pipes]


def test_a_million_instructions_take_bounded_memory():
    def build(t):
        y = t.Tensor("float16", (16,), tik.scope_gm, "y")
        ub = t.Tensor("float16", (128,), tik.scope_ubuf, "ub")
        with t.for_range(0, 1_000_000):
            t.vec_adds(128, ub, ub, 1.0, 1, 8, 8)
        t.data_move(y, ub, 0, 1, 1, 0, 0)
        t.BuildCCE(kernel_name="long", inputs=[], outputs=[y])

    p = profile(_built(build), traced_slices=1000)
    assert p.pipe("V").instructions == 1_000_000
    assert len(p.slices) <= 1001
    assert p.cycles > 25e6


def test_every_chip_and_row_has_numbers():
    names = set(chip_value_names())
    computed = {"cores", "split", "start", "gm_total", "l2_total", "l2_bytes"}
    for soc in list_socs():
        chip = cost_chip(soc)
        assert names - computed <= set(chip.values), soc
        assert set(chip.values) - names == {"gm_tb_s", "l2_tb_s", "gm_efficiency", "launch_us"}
        assert all(source[0] in "MVSDA" for source in chip.sources.values())
        assert chip.error
    rows = set(cost_chip(SOC).rows) - {"other"}
    assert rows <= set(ISA), rows - set(ISA)


def test_numbers_can_be_changed():
    program = _built(_copy_kernel(1))
    slow = cost_chip(SOC).with_values(mte2_latency=5000)
    assert profile(program, chip=slow).cycles > profile(program).cycles + 40 * 4000
    assert slow.sources["mte2_latency"] == "user"
    with pytest.raises(SocError, match="number is speed; accepted: .*mte2_latency"):
        cost_chip(SOC).with_values(speed=3)


def test_what_is_refused():
    program = _built(_copy_kernel(1))
    with pytest.raises(EngineError, match="soc of profile is Ascend910A; accepted: Ascend910B1, or a chip with cores"):
        profile(program, soc="Ascend910A")
    with pytest.raises(EngineError, match="execute of profile is 'most'; accepted: needed, all, integers"):
        profile(program, execute="most")
    with pytest.raises(EngineError, match="profile: program is str; accepted: a Program, a Tik instance"):
        profile("kernel")
    assert mco.profile(program, soc="Ascend910B4").soc == "Ascend910B4"
