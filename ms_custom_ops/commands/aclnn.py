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
@click.option("--serve", is_flag=True, hidden=True)  # the C library's own use
def command(
    cflags: bool, libs: bool, folder: bool, cmake: bool, pkgconfig: bool, requests: tuple[str, ...], serve: bool
) -> None:
    """Flags and folders for C++ programs that call acl and aclnn (docs/aclnn_c.md).

    \b
    Examples:
      g++ program.cpp $(ms-custom-ops aclnn --cflags --libs) -o program
      cmake -S . -B build -DCMAKE_PREFIX_PATH=$(ms-custom-ops aclnn --cmake)
      ASCEND_HOME_PATH=$(ms-custom-ops aclnn --root) cmake -S . -B build
    """
    if serve:
        _serve()
        return
    if requests:
        _make(requests)
        return
    lib = root() / "lib64"
    if not (cflags or libs or folder or cmake or pkgconfig):
        raise click.UsageError("nothing asked for; accepted: --cflags, --libs, --root, --cmake, --pkg-config")
    if (libs or folder or cmake or pkgconfig) and not (lib / "libascendcl.so").is_file():
        raise click.ClickException(
            f"{lib / 'libascendcl.so'} was not built: install a C++17 compiler (g++) and install ms_custom_ops again"
        )
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
    click.echo(" ".join(words))


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
