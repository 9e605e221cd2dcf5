# SPDX-License-Identifier: Apache-2.0
"""Built kernels as one file, which aclrtBinaryLoadFromFile and aclrtBinaryLoadFromData take (csrc/acl/binary.cc).

All numbers are little-endian: magic, version, version of the headers, bytes that follow, their SHA-256; then
saturation, split cores and ``__NPU_ARCH__`` of the chip, the number of kernels, the sizes of the memories; and for each
kernel the length of its name, the name, the number of its libraries, and the length and bytes of each.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from ms_custom_ops.ascendc.build import build
from ms_custom_ops.ascendc.kernel import ABI, Kernel
from ms_custom_ops.ascendc.rewrite import global_functions, templates, without_comments
from ms_custom_ops.errors import AscendcBuildError, describe
from ms_custom_ops.program.ir import SCOPES

MAGIC = b"MCOASCB\n"
VERSION = 1
MOST_KERNELS = 256


def build_kernels(
    sources: Sequence[str | os.PathLike],
    entries: Sequence[str] = (),
    soc: str | None = None,
    include_dirs: Iterable[str | os.PathLike] = (),
    defines: Iterable[str] = (),
    optimize: bool = True,
) -> list[Kernel]:
    """Kernels ``entries`` of ``sources``, a template with its arguments, and without them every ``__global__`` function
    of the first source that is no template; other arguments as of :func:`ms_custom_ops.ascendc.build`.

    Raises AscendcBuildError."""
    names: Sequence[str | None] = list(entries) or plain_kernels(Path(sources[0])) or [None]
    if len(names) > MOST_KERNELS:
        given = f"{len(names)} of {sources[0]}"
        raise AscendcBuildError(describe("ascendc.build", "kernels", given, f"up to {MOST_KERNELS}"))
    folders, macros = list(include_dirs), list(defines)
    return [build(list(sources), name, soc, folders, macros, optimize) for name in names]


def plain_kernels(source: Path) -> list[str]:
    """Names of the kernels of a source that are no templates. AscendcBuildError where it has nothing but templates."""
    bare = without_comments(source.read_text(errors="replace"))
    made = templates(bare)
    found = [name for name in global_functions(bare) if name not in made]
    if made and not found:
        accepted = "the name of one with its arguments, such as name<float>"
        raise AscendcBuildError(describe("ascendc.build", "entry", f"none of the templates {sorted(made)}", accepted))
    return found


def packed(kernels: Sequence[Kernel]) -> bytes:
    """Kernels of one chip as a binary."""
    record = kernels[0].record(1)
    scopes = [record.scope_bytes[i] for i in range(len(SCOPES))]
    parts = [struct.pack(f"<iiiI{len(scopes)}q", record.saturate, record.split, record.arch, len(kernels), *scopes)]
    for kernel in kernels:
        name = kernel.name.encode()
        parts += [struct.pack("<I", len(name)), name, struct.pack("<I", len(kernel.libraries))]
        for library in kernel.libraries:
            code = library.read_bytes()
            parts += [struct.pack("<Q", len(code)), code]
    body = b"".join(parts)
    return MAGIC + struct.pack("<IIQ", VERSION, ABI, len(body)) + hashlib.sha256(body).digest() + body
