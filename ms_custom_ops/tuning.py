# SPDX-License-Identifier: Apache-2.0
"""The search of ``ms-custom-ops tune``: modelled cycles of every choice of a plan, on processes or a Dask cluster."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ms_custom_ops import tuned
from ms_custom_ops.compiler import describe_call, trace_call
from ms_custom_ops.cost import profile
from ms_custom_ops.errors import MsCustomOpsError, TilingError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.registry import get_op
from ms_custom_ops.soc import current_soc
from ms_custom_ops.spread import spread

if TYPE_CHECKING:
    from ms_custom_ops.registry.spec import Case


@dataclass(frozen=True)
class Tuning:
    """What a search found: ``ranked`` are (cycles, choice), the best first; ``refused`` did not fit."""

    op: str
    problem: str
    default: float
    ranked: tuple[tuple[float, tuned.Choice], ...]
    refused: int
    seconds: float

    @property
    def best(self) -> tuple[float, tuned.Choice]:
        """Cycles and choice."""
        return self.ranked[0]


def _call(op: str, case: Case, soc: str | None) -> Any:
    spec = get_op(op)
    shapes, dtypes, attrs = spec.case_call(case)
    return describe_call(spec, shapes, dtypes, attrs, soc)


def modelled(op: str, case: Case, soc: str | None, choice: tuned.Choice | None, threads: int = 1) -> float | str:
    """Cycles of one choice (None: the default), or why it is refused. Run by the workers."""
    try:
        with tuned.trying(choice):
            program = ir.Program.from_bytes(trace_call(_call(op, case, soc))[0])
        return profile(program, execute="integers", traced_blocks=0, threads=threads).cycles
    except MsCustomOpsError as error:
        return f"{type(error).__name__}: {error}"


def problem_of(op: str, case: Case, soc: str | None) -> tuned.Trial:
    """The problem that a call's plan states, and its choices; TilingError for an op whose plan has none."""
    with tuned.trying() as trial:
        trace_call(_call(op, case, soc))
    if not trial.problem:
        raise TilingError(describe(op, "plan", "one without choices", "an op whose plan asks ms_custom_ops.tuned"))
    return trial


def search(
    op: str, case: Case, soc: str | None, *, limit: int | None = None, workers: int = 2, scheduler: str | None = None,
    folders: Sequence[str] = (),
) -> Tuning:  # fmt: skip
    """Tries the choices of a plan.

    Args:
        op, case, soc: what is tuned for.
        limit: try so many at the most, picked evenly at random (always the same ones).
        workers: processes of this machine (1: this one); ``scheduler`` (tcp://...): a Dask cluster in their place.
        folders: folders of users' ops that the workers load.
    """
    begun, trial = time.perf_counter(), problem_of(op, case, soc)
    choices: list[tuned.Choice] = list(trial.choices)
    if limit is not None and len(choices) > limit:
        choices = random.Random(0).sample(choices, limit)
    chip = soc or current_soc().name  # the workers may be set to another one
    tasks: list[tuple] = [(op, case, chip, choice) for choice in (None, *choices)]
    default, *found = spread("tune", modelled, tasks, workers=workers, scheduler=scheduler, folders=folders)
    if isinstance(default, str):
        raise TilingError(default)
    good = [(cycles, choice) for cycles, choice in zip(found, choices, strict=True) if not isinstance(cycles, str)]
    if not good:
        raise TilingError(describe(op, "choices", f"{len(choices)}, none of which fits", "a problem with a plan"))
    good.sort(key=lambda pair: pair[0])
    return Tuning(op, trial.problem, default, tuple(good), len(choices) - len(good), time.perf_counter() - begun)
