# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops tune``: the choice of a plan with the fewest modelled cycles, kept for later calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ms_custom_ops.commands._subject import Wanted, chosen_case

if TYPE_CHECKING:
    from ms_custom_ops.scope import Scope


def _text(choice: object) -> str:
    return ", ".join(f"{n} {v}" for n, v in choice.items()) if isinstance(choice, dict) else str(choice)


@click.command("tune")
@click.argument("op")
@click.option("--case", default=None, help="Smoke case to start from; default: the first.")
@click.option("--soc", default=None, help="Chip; default: the configured one.")
@click.option("--shape", multiple=True, metavar="NAME=SIZE,...", help="Sizes, such as B=1,N1=8,N2=8,S1=4096,S2=4096.")
@click.option("--attr", "attrs", multiple=True, metavar="NAME=VALUE", help="Attributes.")
@click.option("--dtype", default=None, help="dtype row, such as BF16.")
@click.option("--limit", type=click.IntRange(1), default=None, help="Try so many choices at the most.")
@click.option("--workers", type=click.IntRange(1), default=2, show_default=True, help="Processes of this machine.")
@click.option("--scheduler", default=None, metavar="tcp://HOST:PORT", help="A Dask cluster in their place.")
@click.option("--again", is_flag=True, help="Search though something is stored.")
@click.option("--forget", is_flag=True, help="Drop what is stored for this problem.")
@click.pass_obj
def command(
    scope: Scope, op: str, case: str | None, soc: str | None, shape: tuple[str, ...], attrs: tuple[str, ...],
    dtype: str | None, limit: int | None, workers: int, scheduler: str | None, again: bool, forget: bool,
) -> None:  # fmt: skip
    """Search the choices of OP's plan (blocks of a tile) for the fewest modelled cycles, and keep the best.

    Later calls of exactly these sizes on this chip take what was kept. Another tile rounds otherwise: results differ
    in their last bits. What is searched is the model of docs/profiler.md, not a chip.

    \b
    Examples:
      ms-custom-ops tune flash_attention --shape B=1,N1=8,N2=8,S1=4096,S2=4096,D=128 --soc Ascend910B1
      ms-custom-ops tune flash_attention --case causal_small --forget
    """
    from ms_custom_ops import tuned, tuning

    chosen = chosen_case(scope.registry().get(op), Wanted(case, soc, shape, attrs, dtype))
    trial = tuning.problem_of(op, chosen, soc)
    if forget:
        click.echo(f"forgotten in {tuned.store(op, trial.problem, None)}")
        return
    known = tuned.found_for(op, trial.problem)
    if known is not None and not again:
        click.echo(
            f"{op}: stored in {tuned.path_of(op)}: {_text(known['choice'])}, {known['cycles']:,.0f} cycles (modelled), "
            f"{known['default'] / known['cycles']:.2f}x of the default; --again searches again"
        )
        return
    folders = tuple(str(folder) for folder in scope.folders)
    found = tuning.search(op, chosen, soc, limit=limit, workers=workers, scheduler=scheduler, folders=folders)
    cycles, choice = found.best
    click.echo(f"{len(found.ranked)} choices in {found.seconds:.1f} s, {found.refused} do not fit (cycles modelled)")
    for n, (c, other) in enumerate(found.ranked[:8]):
        click.echo(f"{'best' if n == 0 else '':6}{c:>14,.0f}  {_text(other)}")
    click.echo(f"{'default':6}{found.default:>13,.0f}")
    if cycles >= found.default:
        click.echo("the default is as good: nothing is stored")
        return
    kept = {"choice": dict(choice), "cycles": cycles, "default": found.default, "tried": len(found.ranked)}
    click.echo(f"stored in {tuned.store(op, found.problem, kept)}")
