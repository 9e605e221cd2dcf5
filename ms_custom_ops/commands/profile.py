# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops profile``: modelled time of a kernel on a chip, as text, timelines, tables and a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ms_custom_ops.commands._launches import is_source, profile_op, profile_source
from ms_custom_ops.commands._subject import Wanted, find_subject, pairs

if TYPE_CHECKING:
    from ms_custom_ops.cost import Profile
    from ms_custom_ops.scope import Scope


def _profile(scope: Scope, what: str, wanted: Wanted, numbers: tuple[str, ...], how: tuple[int, str]) -> Profile:
    from ms_custom_ops.cost import cost_chip, profile
    from ms_custom_ops.soc import current_soc

    if is_source(what) or wanted.impl == "ascendc":
        if how[1] == "integers":
            raise click.UsageError("--execute integers: of Ascend C everything is computed; accepted: needed, all")
        chip = cost_chip(wanted.soc or current_soc().name).with_values(**pairs(numbers, "--set"))
        if is_source(what):
            return profile_source(what, wanted, chip, how[0])
        return profile_op(scope, what, wanted, chip, how[0])
    subject = find_subject(scope, what, wanted)
    chip = cost_chip(wanted.soc or subject.program.soc).with_values(**pairs(numbers, "--set"))
    return profile(subject.program, subject.feed, chip=chip, traced_blocks=how[0], execute=how[1])


def _other(text: str, what: str, wanted: Wanted) -> tuple[str, Wanted]:
    """What ``--compare`` names: another subject, or the same with another chip, case, attribute or size."""
    fields: dict[str, tuple[str, ...]] = {"attrs": (), "shape": (), "arguments": ()}
    for part in text.split():
        name, sign, value = part.partition("=")
        if not sign:
            if is_source(what) != is_source(part):  # kernels of two languages take their values differently
                wanted = replace(wanted, arguments=())
            what = part
        elif name in ("soc", "case", "dtype", "impl", "entry"):
            changed: dict[str, Any] = {name: value}
            wanted = replace(wanted, **changed)
        elif name == "block_dim" and value.isdigit():
            wanted = replace(wanted, block_dim=int(value))
        elif name == "arg":
            fields["arguments"] += (value,)
        elif name.startswith("attr."):
            fields["attrs"] += (f"{name[5:]}={value}",)
        else:
            fields["shape"] += (part,)
    arguments = fields["arguments"] or wanted.arguments
    return what, replace(
        wanted, attrs=wanted.attrs + fields["attrs"], shape=wanted.shape + fields["shape"], arguments=arguments
    )


@click.command("profile")
@click.argument("what", metavar="OP|KERNEL.py:ENTRY|KERNEL.cpp")
@click.option("--case", default=None, help="Smoke case of the op; default: its first.")
@click.option("--soc", default=None, help="Chip; default: the configured one.")
@click.option("--shape", multiple=True, metavar="NAME=SIZE,...", help="Other sizes for the case, such as S1=1024.")
@click.option("--attr", "attrs", multiple=True, metavar="NAME=VALUE", help="Other attributes for the case.")
@click.option("--dtype", default=None, help="Another dtype row for the case, such as BF16.")
@click.option("--impl", type=click.Choice(["tik", "ascendc"]), default="tik", show_default=True,
              help="Which kernel of the op.")  # fmt: skip
@click.option("--entry", default=None, help="Kernel of KERNEL.cpp; default: the only one.")
@click.option("--block-dim", type=click.IntRange(1), default=1, show_default=True, help="Blocks of KERNEL.cpp.")
@click.option("--tiling", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=None,
              help="File of the tiling data of KERNEL.cpp.")  # fmt: skip
@click.option("--tiling-key", type=int, default=None, help="Number of TILING_KEY_IS of KERNEL.cpp.")
@click.option("--workspace", type=click.IntRange(0), default=0, help="Bytes of workspace of KERNEL.cpp.")
@click.option("--arg", "arguments", multiple=True, metavar="VALUE", help="Argument of ENTRY, as of run; of KERNEL.cpp, "
              "as of ascendc run.")  # fmt: skip
@click.option("--feed", "feeds", multiple=True, metavar="FILE", help="Input of KERNEL, as of run; default: zeros.")
@click.option("--set", "numbers", multiple=True, metavar="NAME=NUMBER", help="Another number for the model.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=None, help="Folder for the files.")
@click.option("--blocks", type=click.IntRange(0), default=2, show_default=True, help="Blocks in the timelines.")
@click.option("--execute", type=click.Choice(["needed", "all", "integers"]), default="needed", show_default=True,
              help="Results that are computed on the way; integers: quick for long kernels.")  # fmt: skip
@click.option("--lines", type=click.IntRange(0), default=10, show_default=True, help="Lines of the kernel to print.")
@click.option("--compare", default=None, metavar="OTHER", help="Another OP or KERNEL.py:ENTRY, or what differs, such "
              "as 'soc=Ascend910A', 'S1=2048', 'attr.sparse_mode=3'.")  # fmt: skip
@click.pass_obj
def command(
    scope: Scope, what: str, case: str | None, soc: str | None, shape: tuple[str, ...], attrs: tuple[str, ...],
    dtype: str | None, impl: str, entry: str | None, block_dim: int, tiling: Path | None, tiling_key: int | None,
    workspace: int, arguments: tuple[str, ...], feeds: tuple[str, ...], numbers: tuple[str, ...], out: Path | None,
    blocks: int, execute: str, lines: int, compare: str | None,
) -> None:  # fmt: skip
    """Modelled time of the kernel of an op, or of a kernel file, on a chip: where its cycles go.

    --out writes insight/trace.json (MindStudio Insight), perfetto.json, tables in the form of the vendor's profiler,
    summary.html and summary.json. Nothing is measured on a chip; docs/profiler.md says what the figures are worth.

    \b
    Examples:
      ms-custom-ops profile flash_attention --case causal_small --soc Ascend910B1 --out profile
      ms-custom-ops profile flash_attention --shape S1=1024,S2=1024 --compare soc=Ascend910A
      ms-custom-ops profile kernel.py:add --arg 'float16[4096]' --arg 'float16[4096]'
      ms-custom-ops profile add.cpp --block-dim 8 --arg x.npy --arg ones:16384:float16 --arg zeros:16384:float16
    """
    from ms_custom_ops.cost import files

    wanted = Wanted(
        case, soc, shape, attrs, dtype, arguments, feeds, impl, entry, block_dim, tiling, tiling_key, workspace
    )
    first = _profile(scope, what, wanted, numbers, (blocks, execute))
    click.echo(first.text(lines))
    if out is not None:
        files.write(first, out)
        click.echo(f"wrote {out}/summary.html, summary.json, insight/trace.json, perfetto.json and tables")
    if compare is not None:
        second = _profile(scope, *_other(compare, what, wanted), numbers, (blocks, execute))
        click.echo(files.compare(first, second))
        if out is not None:
            files.write(second, out / "other")
