# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops export``: a TIK kernel as an Ascend C project."""

from __future__ import annotations

from pathlib import Path

import click

from ms_custom_ops.scope import Scope


@click.command("export")
@click.argument("what", metavar="OP|KERNEL.py:ENTRY")
@click.option("--soc", default=None, help="Chip to trace for; default: the configured one.")
@click.option("--case", "cases", multiple=True, help="Case of the op; default: all that the chip has.")
@click.option("--arg", "arguments", multiple=True, metavar="VALUE | NAME=VALUE",
              help="Argument of the entry of a kernel file, as for `run`.")  # fmt: skip
@click.option("--trace-soc", default=None, help="Chip to trace a kernel file for, where it is another one of the "
              "same kind of cores, such as Ascend910A for Ascend310P3.")  # fmt: skip
@click.option("--name", default=None, help="Name of the op in Ascend C; default: that of the op or kernel.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder, new or empty.")
@click.option("--prove", is_flag=True, help="Compile it here, run every case and compare every bit.")
@click.pass_context
def command(
    ctx: click.Context, what: str, soc: str | None, cases: tuple[str, ...], arguments: tuple[str, ...],
    trace_soc: str | None, name: str | None, out: Path, prove: bool,
) -> None:  # fmt: skip
    """Write the TIK kernel of OP, or of a file, as an Ascend C project into a folder.

    What cannot go to the chip is refused with its line. Exit code 1 when --prove finds a bit that differs.

    \b
    Examples:
      ms-custom-ops export bwd_segsum_dadt --soc Ascend910B1 --out exported --prove
      ms-custom-ops export kernel.py:double --arg 'float16[1024]' --arg 'float16[1024]' --soc Ascend310P3 --out double
    """
    from ms_custom_ops.commands._subject import refuse_file
    from ms_custom_ops.exporter import op_subject, program_subject, write
    from ms_custom_ops.soc import current_soc

    scope: Scope = ctx.obj
    if ":" in what:
        if cases:
            raise click.UsageError(f"--case with {what}; accepted: --arg")
        from ms_custom_ops.commands.run import entry_of, split_arguments
        from ms_custom_ops.tik.trace import trace

        args, kwargs = split_arguments(arguments)
        program = trace(entry_of(what), *args, soc=trace_soc or soc, **kwargs)
        target = (soc or current_soc().name) if trace_soc else ""
        subject = program_subject([("traced", program)], name or program.name, what, target)
    else:
        if arguments or name or trace_soc:
            given = "arg" if arguments else "name" if name else "trace-soc"
            raise click.UsageError(f"--{given} with an op; accepted: --case")
        refuse_file(what, "OP, FILE.py:FUNCTION of a TIK kernel")
        subject = op_subject(scope.registry().get(what), soc or current_soc().name, cases)
    exported = write(subject, out)
    for case, facts in exported.facts.items():
        click.echo(
            f"{case}: {facts.lines} lines, {facts.waits} waits, {facts.blocks} blocks, workspace {facts.workspace}"
        )
    click.echo(f"{exported.kernel}")
    if prove:
        _prove(ctx, exported)


def _prove(ctx: click.Context, exported: object) -> None:
    from ms_custom_ops.exporter.project import Exported
    from ms_custom_ops.exporter.proof import prove

    assert isinstance(exported, Exported)
    subject = exported.subject
    rows = prove(exported.folder, subject.entry, subject.soc, subject.op)
    for row in rows:
        verdict = "every bit is equal" if row.equal else f"differs: {row.different}"
        far = "" if row.golden is None else f", {row.golden:.2e} from the golden"
        click.echo(f"{row.case}: {verdict}{far} ({row.seconds:.1f} s)")
    if not all(row.equal for row in rows):
        ctx.exit(1)
