# SPDX-License-Identifier: Apache-2.0
"""``tune``: the choices of a plan, what is stored, and who reads it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from ms_custom_ops import tuned, tuning
from ms_custom_ops.cli import main
from ms_custom_ops.commands._subject import Wanted, chosen_case
from ms_custom_ops.compiler import describe_call, trace_call
from ms_custom_ops.config import config
from ms_custom_ops.errors import TilingError
from ms_custom_ops.registry import get_op
from ms_custom_ops.tiling.flash_attention import AttentionProblem, plan_forward

SOC = "Ascend910B1"
# Two heads of 256 rows: tiles of 128 rows would leave 20 of 24 cores without work.
OPTIONS = ["--case", "causal_small", "--soc", SOC, "--shape", "S1=256,S2=256", "--attr", "sparse_mode=0"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MS_CUSTOM_OPS_CACHE_DIR", str(tmp_path))
    config.cache_clear()
    tuned._stored.cache_clear()
    yield tmp_path
    monkeypatch.undo()
    config.cache_clear()
    tuned._stored.cache_clear()


def _case():
    return chosen_case(get_op("flash_attention"), Wanted("causal_small", SOC, ("S1=256,S2=256",), ("sparse_mode=0",)))


def _key():
    op, case = get_op("flash_attention"), _case()
    shapes, dtypes, attrs = op.case_call(case)
    return describe_call(op, shapes, dtypes, attrs, SOC).key


def _tune(*more):
    found = CliRunner().invoke(main, ["tune", "flash_attention", *OPTIONS, *more])
    return found.exit_code, found.output


def test_a_tune_and_what_reads_it(folder):
    before = _key()
    code, text = _tune("--workers", "1", "--limit", "12")
    assert code == 0, text
    assert "12 choices in" in text
    assert f"stored in {folder / 'tuned' / 'flash_attention.json'}" in text
    (problem,) = json.loads((folder / "tuned/flash_attention.json").read_text()).values()
    assert problem["cycles"] < problem["default"]
    plan = plan_forward(AttentionProblem(1, 2, 2, 256, 256, 64, "float16"), _soc())
    tile = {"q_block": plan.q_block, "kv_block": plan.kv_block}
    assert tile == problem["choice"] != {"q_block": 128, "kv_block": 128}
    other = plan_forward(AttentionProblem(1, 2, 2, 512, 512, 64, "float16"), _soc())
    assert (other.q_block, other.kv_block) == (128, 128)
    assert _key() != before
    assert tuning.modelled("flash_attention", _case(), SOC, problem["choice"]) == problem["cycles"]
    code, text = _tune()
    assert "; --again searches again" in text
    assert " choices in " not in text
    code, text = _tune("--forget")
    assert text.startswith("forgotten in ")
    assert _key() == before


def _soc():
    from ms_custom_ops.soc import get_soc

    return get_soc(SOC)


def test_a_dask_cluster(folder):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with distributed.LocalCluster(1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        found = tuning.search("flash_attention", _case(), SOC, limit=3, scheduler=cluster.scheduler_address)
    assert len(found.ranked) == 3


def test_what_is_refused(folder):
    found = CliRunner().invoke(main, ["tune", "bwd_dtrap_ddt", "--soc", SOC])
    assert (
        "bwd_dtrap_ddt: plan is one without choices; accepted: an op whose plan asks ms_custom_ops.tuned"
        in found.output
    )
    (folder / "tuned").mkdir()
    (folder / "tuned/flash_attention.json").write_text("[]")
    with pytest.raises(TilingError, match="no choices by problem; accepted: a file that tune wrote; delete it"):
        tuned.digest("flash_attention")


def test_a_stored_tile_that_does_not_fit_is_named(folder):
    from ms_custom_ops.errors import BudgetError

    problem = AttentionProblem(1, 2, 2, 256, 256, 512, "float16")
    with tuned.trying() as trial:
        plan_forward(problem, _soc())
    tuned.store("flash_attention", trial.problem, {"choice": {"q_block": 128, "kv_block": 128}, "cycles": 1})
    with pytest.raises(BudgetError, match="the stored tile 128x128 does not fit .*--forget drops this one"):
        plan_forward(problem, _soc())


OTHERS = {
    "bwd_dadt_cumsum": ("one_chunk", "S=64", "group"),
    "bwd_dadt_fused": ("one_chunk", "N=2,C=64", "panel"),
    "bwd_segsum_dadt": ("one_chunk", "N=2,C=64", "panel"),
    "dacs_segsum": ("one_chunk", "S=64", "group"),
    "lightning_indexer": ("causal_small", "S2=300", "chunk"),
    "segsum_decay": ("one_chunk", "S=64", "group"),
    "sparse_flash_attention": ("causal_small", "S1=2", "value_chunk"),
    "sparse_flash_attention_grad": ("causal_small", "S1=2", "kv_width"),
    "ssd_chunk_scan": ("packed", "S=96", "columns"),
    "ssd_chunk_scan_grad": ("packed", "S=96", "columns"),
    "mamba3_chunk_scan": ("packed", "S=96", "columns"),
}
"""Case, sizes, and a number that choices of the op differ in."""


@pytest.mark.parametrize("op", sorted(OTHERS))
def test_other_plans_have_choices_and_take_a_stored_one(op, folder):
    name, shape, number = OTHERS[op]
    sizes = (*shape.split(","),)
    chunk = ("chunk_size=64",) if "C=64" in shape else ()
    case = chosen_case(get_op(op), Wanted(name, SOC, sizes, chunk))
    call = tuning._call(op, case, SOC)
    trial = tuning.problem_of(op, case, SOC)
    assert len({c[number] for c in trial.choices}) > 1
    default = trace_call(call)[0]
    other = next(c for c in reversed(trial.choices) if _traced(call, c) != default)
    tuned.store(op, trial.problem, {"choice": other, "cycles": 1})
    assert trace_call(call)[0] == _traced(call, other)
    assert isinstance(tuning.modelled(op, case, SOC, other), float)


def _traced(call, choice):
    with tuned.trying(choice):
        return trace_call(call)[0]


def test_a_stored_choice_of_another_plan_is_named(folder):
    case = chosen_case(get_op("dacs_segsum"), Wanted("one_chunk", SOC))
    trial = tuning.problem_of("dacs_segsum", case, SOC)
    tuned.store("dacs_segsum", trial.problem, {"choice": {"q_block": 16}, "cycles": 1})
    wanted = (
        "dacs_segsum: stored choice is q_block 16; accepted: group, tile, panel, pad; ms-custom-ops tune dacs_segsum"
    )
    with pytest.raises(TilingError, match=f"{wanted} --forget drops this one"):
        trace_call(tuning._call("dacs_segsum", case, SOC))
