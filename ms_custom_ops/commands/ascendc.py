# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops ascendc``: run a kernel or a program in Ascend C, and what a build of one's own needs."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import click
import numpy as np

from ms_custom_ops import ascendc
from ms_custom_ops.ascendc import compile as compiler
from ms_custom_ops.ascendc.binary import build_kernels, packed
from ms_custom_ops.ascendc.program import build_program
from ms_custom_ops.ascendc.rewrite import without_comments
from ms_custom_ops.ascendc.toolkit import make_toolkit
from ms_custom_ops.commands import aclnn
from ms_custom_ops.errors import AscendcError, describe
from ms_custom_ops.program.dtypes import DTYPES

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_NEW = re.compile(r"(zeros|ones|arange|normal):([\d,x]+):(\w+)")


@click.group("ascendc", invoke_without_command=True)
@click.option("--cflags", is_flag=True, help="Print the flags that a kernel or a program is compiled with.")
@click.option("--libs", is_flag=True, help="Print what a program is linked with.")
@click.option("--cmake", is_flag=True, help="Print the folder to add to CMAKE_PREFIX_PATH.")
@click.option("--root", is_flag=True, help="Print the folder that build files of CANN's samples take as its package.")
@click.pass_context
def command(ctx: click.Context, cflags: bool, libs: bool, cmake: bool, root: bool) -> None:
    """Kernels in Ascend C.

    \b
    Examples:
      ms-custom-ops ascendc run add_custom.cpp --blocks 8 x.npy ones:16384:float16 zeros:16384:float16 16384
      ms-custom-ops ascendc build add_custom.cpp --out add_custom.o
      g++ $(ms-custom-ops ascendc --cflags) main.cpp add_custom.cpp $(ms-custom-ops ascendc --libs)
      cmake -S . -B build -DASCEND_CANN_PACKAGE_PATH=$(ms-custom-ops ascendc --root) -DSOC_VERSION=Ascend910B1
    """
    words = [*compiler.cflags(), "-include", "mco/launch.h"] if cflags else []
    words += compiler.libs() if libs else []
    words += [str(Path(ascendc.__file__).parent / "cmake")] if cmake else []
    words += [str(Path(ascendc.__file__).parent)] if root else []
    if words:
        click.echo(" ".join(words))
    elif ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@command.command("run")
@click.argument("file", type=FILE)
@click.argument("values", nargs=-1)
@click.option("--entry", default=None, help="Kernel; default: the only one of FILE.")
@click.option("--blocks", default=1, show_default=True, help="Blocks of the launch.")
@click.option("--soc", default=None, help="Chip; default: the configured one.")
@click.option("--source", "sources", type=FILE, multiple=True, help="Further source, or a host header.")
@click.option("-I", "include_dirs", multiple=True, help="Folder of headers.")
@click.option("-D", "defines", multiple=True, metavar="NAME=VALUE", help="Definition.")
@click.option("--tiling", type=FILE, default=None, help="File of the tiling data.")
@click.option("--tiling-key", type=int, default=None, help="Number of TILING_KEY_IS.")
@click.option("--workspace", default=0, help="Bytes of workspace.")
@click.option("--save", type=click.Path(path_type=Path), default=None, help="Folder for the arrays after the run.")
def run(file, values, entry, blocks, soc, sources, include_dirs, defines, tiling, tiling_key, workspace, save):
    """Run the kernel ENTRY of FILE on VALUES, or FILE itself where it has a main().

    A value is a number, a file x.npy, or a new array such as zeros:8x2048:float16, ones, arange or normal. Arrays that
    the kernel has changed are shown, and with --save written to a folder.

    \b
    Examples:
      ms-custom-ops ascendc run add.cpp --entry add --blocks 8 x.npy ones:16384:float16 zeros:16384:float16 16384
      ms-custom-ops ascendc run main.cpp --source add.cpp
    """
    if re.search(r"\bmain\s*\(", without_comments(file.read_text(errors="replace"))):
        with tempfile.TemporaryDirectory() as folder:
            program = build_program([file, *sources], Path(folder) / "program", include_dirs, defines, soc)
            raise SystemExit(subprocess.run([str(program), *values]).returncode)
    kernel = ascendc.build([file, *sources], entry, soc, include_dirs, defines)
    click.echo(f"{kernel.name}: {'found' if kernel.cached else 'built'} in {kernel.seconds:.2f} s")
    arguments = [value_of(kernel.name, number, text) for number, text in enumerate(values)]
    before = [value.copy() if isinstance(value, np.ndarray) else None for value in arguments]
    data = tiling.read_bytes() if tiling else None
    kernel(blocks, *arguments, tiling=data, tiling_key=tiling_key, workspace=workspace)
    for number, (old, new) in enumerate(zip(before, arguments, strict=True)):
        if old is None or not isinstance(new, np.ndarray) or old.tobytes() == new.tobytes():
            continue
        shown = np.array2string(new.astype(np.float64) if new.dtype.kind == "V" else new, threshold=8, precision=4)
        click.echo(f"argument {number} {new.dtype}{list(new.shape)}: {shown}")
        if save:
            save.mkdir(parents=True, exist_ok=True)
            np.save(save / f"{number}.npy", new)


@command.command("toolkit")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--project", type=click.Path(exists=True, file_okay=False, path_type=Path), default=None,
              help="Ascend C project whose ops get aclnn functions, in FOLDER/opp.")  # fmt: skip
@click.option("--vendor", default="customize", show_default=True, help="Name of the vendor's folder, for --project.")
def toolkit(folder: Path, project: Path | None, vendor: str) -> None:
    """Make FOLDER a toolkit that scripts written for CANN take for it: headers, libraries, CMake files, set_env.sh.

    \b
    Examples:
      ms-custom-ops ascendc toolkit ~/toolkit
      ASCEND_INSTALL_PATH=~/toolkit bash run.sh -r npu -v Ascend910B1
      ms-custom-ops ascendc toolkit ~/toolkit --project AddCustom
    """
    package = aclnn.root()
    if not (package / "lib64" / "libascendcl.so").is_file():
        raise click.ClickException("libascendcl.so was not built: install g++ and install ms_custom_ops again")
    made = make_toolkit(folder, package / "include", package / "lib64")
    if project is not None:
        aclnn.build_project(project.absolute(), made / "opp" / "vendors" / vendor / "op_api")
    click.echo(f"{made}: source {made / 'set_env.sh'}")


@command.command("build")
@click.argument("file", type=FILE)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="File of the binary.")
@click.option("--entry", default=None, help="Kernel; default: all of FILE.")
@click.option("--soc", default=None, help="Chip; default: the configured one.")
@click.option("--source", "sources", type=FILE, multiple=True, help="Further source, or a host header.")
@click.option("-I", "include_dirs", multiple=True, help="Folder of headers.")
@click.option("-D", "defines", multiple=True, metavar="NAME=VALUE", help="Definition.")
def build(file, out, entry, soc, sources, include_dirs, defines):
    """Kernels of FILE as a binary that aclrtBinaryLoadFromFile takes (docs/aclnn_c.md).

    \b
    Examples:
      ms-custom-ops ascendc build add.cpp --entry add --out add.o
    """
    kernels = build_kernels([file, *sources], [entry] if entry else [], soc, include_dirs, defines)
    made = packed(kernels)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(made)
    click.echo(f"{', '.join(kernel.name for kernel in kernels)}: {out}, {len(made)} bytes")


def value_of(name: str, number: int, text: str) -> np.ndarray | int | float:
    """A value of the command line: a number, a file x.npy, or a new array. AscendcError for anything else."""
    where = f"value {number}"
    if new := _NEW.fullmatch(text):
        kind, sizes, dtype = new.groups()
        if dtype not in DTYPES:
            raise AscendcError(describe(name, f"dtype of {where}", dtype, ", ".join(DTYPES)))
        shape = [int(size) for size in re.split("[x,]", sizes) if size]
        rng = np.random.default_rng(number)
        count = int(np.prod(shape))
        makers: dict[str, Any] = {
            "zeros": np.zeros,
            "ones": np.ones,
            "arange": np.arange,
            "normal": rng.standard_normal,
        }
        made = makers[kind](count)
        return made.astype(DTYPES[dtype].numpy).reshape(shape)
    if text.endswith(".npy"):
        try:
            return np.ascontiguousarray(np.load(text, allow_pickle=False))
        except (ValueError, EOFError) as error:
            raise AscendcError(describe(name, where, f"{text}, {error}", "a file that np.save wrote")) from None
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        accepted = "a number, a file .npy, or zeros|ones|arange|normal:SIZES:DTYPE"
        raise AscendcError(describe(name, where, repr(text), accepted)) from None
