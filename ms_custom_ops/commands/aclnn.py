# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops aclnn``: what a C++ program needs to use acl and aclnn here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

import ms_custom_ops


def root() -> Path:
    """The folder with include and lib64, as ASCEND_HOME_PATH would name it."""
    return Path(ms_custom_ops.__file__).resolve().parent / "aclnn" / "c"


@click.command("aclnn")
@click.option("--cflags", is_flag=True, help="Flags of the compiler.")
@click.option("--libs", is_flag=True, help="Flags of the linker, a run path among them.")
@click.option("--root", "folder", is_flag=True, help="The folder with include and lib64, for ASCEND_HOME_PATH.")
@click.option("--cmake", is_flag=True, help="The folder of the CMake package, for CMAKE_PREFIX_PATH.")
@click.option("--pkg-config", "pkgconfig", is_flag=True, help="The folder of ms_custom_ops_aclnn.pc.")
@click.option("--plan", "requests", multiple=True, metavar="REQUEST",
              help="Make the kernel of a call that an error of the C library names (repeatable).")  # fmt: skip
@click.option("--project", type=click.Path(exists=True, file_okay=False, path_type=Path), default=None,
              help="Folder of an Ascend C project: libcust_opapi.so and headers of its ops go to --out.")  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=None,
              help="Folder that ASCEND_OPP_PATH will name, for --project.")  # fmt: skip
@click.option("--vendor", default="customize", show_default=True, help="Name of the vendor's folder, for --project.")
@click.option("--serve", is_flag=True, hidden=True)  # the C library's own use
def command(
    cflags: bool, libs: bool, folder: bool, cmake: bool, pkgconfig: bool, requests: tuple[str, ...],
    project: Path | None, out: Path | None, vendor: str, serve: bool,
) -> None:  # fmt: skip
    """Flags and folders for C++ programs that call acl and aclnn (docs/aclnn_c.md).

    \b
    Examples:
      g++ program.cpp $(ms-custom-ops aclnn --cflags --libs) -o program
      cmake -S . -B build -DCMAKE_PREFIX_PATH=$(ms-custom-ops aclnn --cmake)
      ASCEND_HOME_PATH=$(ms-custom-ops aclnn --root) cmake -S . -B build
      ms-custom-ops aclnn --project AddCustom --out opp
    """
    if serve:
        _serve()
        return
    if requests:
        _make(requests)
        return
    if (project is None) != (out is None):
        raise click.UsageError("--project and --out go together; accepted: --project FOLDER --out FOLDER")
    lib = root() / "lib64"
    if not (cflags or libs or folder or cmake or pkgconfig or project):
        raise click.UsageError(
            "nothing asked for; accepted: --cflags, --libs, --root, --cmake, --pkg-config, --project"
        )
    if (project or libs or folder or cmake or pkgconfig) and not (lib / "libascendcl.so").is_file():
        raise click.ClickException(
            f"{lib / 'libascendcl.so'} was not built: install a C++17 compiler (g++) and install ms_custom_ops again"
        )
    if project is not None and out is not None:
        build_project(project.absolute(), out.absolute() / "vendors" / vendor / "op_api")
    words = []
    if cflags:
        words.append(f"-I{root() / 'include'}")
    if libs:
        words += [f"-L{lib}", f"-Wl,-rpath,{lib}", "-lascendcl", "-lnnopbase", "-lopapi"]
    if folder:
        words.append(str(root()))
    if cmake:
        words.append(str(lib / "cmake"))
    if pkgconfig:
        words.append(str(lib / "pkgconfig"))
    if words:
        click.echo(" ".join(words))


def build_project(project: Path, api: Path) -> None:
    """libcust_opapi.so and headers of the ops of a project; those that C cannot call are told."""
    from ms_custom_ops.aclnn import custom
    from ms_custom_ops.ascendc import load_project
    from ms_custom_ops.errors import AscendcError

    ops = {}
    for name, op in load_project(project).all().items():
        try:
            custom.parameters(op)
        except AscendcError as error:
            click.echo(f"left out: {error}", err=True)
            continue
        ops[name] = op
    if not ops:
        raise click.ClickException(f"{project} has no op that C can call")
    include, lib = api / "include", api / "lib"
    for made in (include, lib):
        made.mkdir(parents=True, exist_ok=True)
    for op in ops.values():
        (include / f"aclnn_{op.definition.entry}.h").write_text(custom.library_header(op))
    source = lib / "cust_opapi.cpp"
    source.write_text(custom.library_source(ops, project))
    custom.compile_library(source, include, root(), lib / "libcust_opapi.so")
    source.unlink()
    for name, op in ops.items():
        click.echo(f"{name}: {include / f'aclnn_{op.definition.entry}.h'}")
    click.echo(f"{lib / 'libcust_opapi.so'}")


def _make(requests: tuple[str, ...]) -> None:
    from ms_custom_ops.aclnn import interface_of
    from ms_custom_ops.aclnn.plan import make_plan, read_request

    for request in requests:
        try:
            about, _ = read_request(request)
            interface = about["op"]
        except (ValueError, KeyError, TypeError) as error:
            raise click.ClickException(
                f"--plan is {request!r}; accepted: the text that the C library printed"
            ) from error
        plan = make_plan(request, interface_of)
        if not plan.program and b"status 0 0" not in plan.text[:20]:
            raise click.ClickException(plan.text.decode().partition("\n")[2].partition("\n")[2].strip())
        click.echo(f"{interface}: {len(plan.program)} bytes of Program, {len(plan.text)} of plan")


def _serve() -> None:
    """Answers go to what standard output was; what a kernel prints goes to standard error."""
    from ms_custom_ops.aclnn import interface_of
    from ms_custom_ops.aclnn.plan import serve

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers, interface_of)
