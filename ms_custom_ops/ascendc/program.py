# SPDX-License-Identifier: Apache-2.0
"""Programs of a user's own: a main() that launches kernels by ICPU_RUN_KF, ``<<<>>>`` or ACLRT_LAUNCH_KERNEL."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from ms_custom_ops.ascendc import compile as compiler
from ms_custom_ops.ascendc.chips import chip_flags
from ms_custom_ops.soc import current_soc, get_soc


def build_program(
    sources: Sequence[str | os.PathLike],
    output: str | os.PathLike,
    include_dirs: Iterable[str | os.PathLike] = (),
    defines: Iterable[str] = (),
    soc: str | None = None,
) -> Path:
    """The program of ``sources``, written to ``output``. A launch ``kernel<<<...>>>(...)`` is one of C++ here.

    Raises AscendcBuildError, the user's line first.
    """
    chip = get_soc(soc) if soc is not None else current_soc()
    paths = [Path(path).absolute() for path in sources]
    folders = list(dict.fromkeys([*(Path(folder).absolute() for folder in include_dirs), *(p.parent for p in paths)]))
    unit = compiler.Unit("", paths[0], tuple(paths[1:]), "", tuple(folders), ())
    flags = [*compiler.cflags(), "-w", *chip_flags(chip), *(f"-D{text}" for text in defines)]
    with tempfile.TemporaryDirectory() as scratch:
        readable = [str(compiler.readable(path, Path(scratch))) for path in paths]
        includes = [f"-I{folder}" for folder in folders]
        launches = ["-include", "mco/launch.h"]
        command = [compiler.compiler(), *flags, *includes, *launches, "-x", "c++", *readable, "-x", "none"]
        compiler.run([*command, *compiler.libs(), "-o", str(output)], unit)
    return Path(output)
