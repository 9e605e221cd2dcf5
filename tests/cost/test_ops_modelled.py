# SPDX-License-Identifier: Apache-2.0
"""The ops' kernels in the cost model: what overlaps, which banks meet, and that counted instructions have a cost."""

from __future__ import annotations

from typing import Any

import pytest

from ms_custom_ops.commands._subject import Wanted, find_subject
from ms_custom_ops.cost import Profile, cost_chip, profile
from ms_custom_ops.scope import Scope

SOCS = ("Ascend910A", "Ascend910B1")


def modelled(op: str, soc: str, shape: str = "", attrs: tuple[str, ...] = (), case: str | None = None, **values: Any):
    """Profile of a case of an op on its usual data."""
    subject = find_subject(Scope(), op, Wanted(case, soc, (shape,) if shape else (), attrs))
    return profile(subject.program, subject.feed, chip=cost_chip(soc).with_values(**values), traced_blocks=0)


def stalled(p: Profile, pipe: str, reason: str) -> float:
    """Part of the kernel's cycles for which a pipe of a core waits for a reason."""
    return p.pipe(pipe).stalls.get(reason, 0.0) / (p.cycles * p.cores)


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("chunk", (64, 128))
def test_rows_of_segsum_lie_in_different_banks(chunk: int, soc: str) -> None:
    p = modelled("bwd_segsum_dadt", soc, f"B=1,H=4,N={2048 // chunk},C={chunk}", (f"chunk_size={chunk}",), "one_chunk")
    assert stalled(p, "V", "bank conflict") < 0.15


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("chunk", (64, 128))
def test_segsum_decay_takes_little_longer_than_its_results_take_to_leave(chunk: int, soc: str) -> None:
    p = modelled("segsum_decay", soc, "B=1,H=4,S=2048", (f"chunk_size={chunk}",), "one_chunk")
    assert p.roof.name == "GM"
    assert p.cycles - p.chip.values["launch_us"] * p.chip.clock_mhz <= 1.15 * p.roof.cycles


@pytest.mark.parametrize("soc", SOCS)
def test_keys_of_the_next_tile_come_beside_the_work(soc: str) -> None:
    shape = "B=1,BK=1,S1=2,S2=600,N1=16,N2=1,D=512,DV=512,K=512"
    p, serial = (
        modelled("sparse_flash_attention", soc, shape, ("rope_dim=64",), "causal_small", serial=s) for s in (0, 1)
    )
    assert p.cycles < 0.75 * serial.cycles


_SELECTED = "B=1,BK=1,S1=2,S2=600,N1=16,N2=1,D=512"
_SCAN = "B=1,S=256,H=2,P=64,G=1,N=64,NS=1"


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize(
    ("op", "case", "shape", "attrs", "part"),
    (
        ("sparse_flash_attention_grad", "causal_small", f"{_SELECTED},DV=512,K=512", ("rope_dim=64",), 0.13),
        ("sparse_lightning_indexer_grad_kl_loss", "causal_small", f"{_SELECTED},NI=64,DI=128,K=512", (), 0.18),
        ("ssd_chunk_scan", "one_chunk", _SCAN, ("chunk_size=64",), 0.51),
        ("ssd_chunk_scan_grad", "grouped", _SCAN, ("chunk_size=64",), 0.49),
        ("mamba3_chunk_scan_grad", "rank_four", _SCAN, ("chunk_size=64",), 0.49),
    ),
    ids=("sparse_grad", "kl_loss", "ssd", "ssd_grad", "mamba3_grad"),
)
def test_pipes_overlap(op: str, case: str, shape: str, attrs: tuple[str, ...], part: float, soc: str) -> None:
    """A kernel takes less than this part of its instructions one after the other."""
    p, serial = (modelled(op, soc, shape, attrs, case, serial=s) for s in (0, 1))
    assert p.cycles < part * serial.cycles


def test_compaction_by_a_number_of_elements_has_a_cost() -> None:
    p = modelled("lightning_indexer", "Ascend910B1", "S1=1,S2=300", ("sparse_count=64",), "causal_small")
    assert p.cycles > 3.0 * p.chip.clock_mhz
