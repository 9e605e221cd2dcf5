# SPDX-License-Identifier: Apache-2.0
"""The compiler of CMake's language ASC: g++ with our headers, for sources whose ``<<<>>>`` become calls.

python asc_compiler.py FLAGS... [-c SOURCE]: a plain script, without the package.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import rewrite  # noqa: E402  beside this file

# What the vendor's libraries have is in the headers and the engine.
_VENDOR = {f"-l{name}" for name in "ascendcl c_sec tiling_api register platform unified_dlog ascendalog graph_base "
           "runtime".split()}  # fmt: skip
_ARCHS = {"dav-2201": (2201, 220, "Ascend910B1"), "dav-2002": (2002, 200, "Ascend310P3")}


def chip(flag: str) -> list[str]:
    """Definitions of ``--npu-arch=``."""
    name = flag.partition("=")[2]
    if name not in _ARCHS:
        sys.exit(f"asc: --npu-arch is {name}; accepted: {', '.join(_ARCHS)}")
    npu, aicore, soc = _ARCHS[name]
    rows = (HERE / "include_host" / "mco_host" / "chips.inc").read_text()
    ub = re.search(rf'"{soc}", "\w+", \d+, \d+, \w+, (\d+),', rows)
    assert ub is not None
    return [f"-D__NPU_ARCH__={npu}", f"-D__CCE_AICORE__={aicore}", f"-DMCO_ASC_UB_BYTES={ub[1]}",
            f'-DMCO_HOST_SOC="{soc}"']  # fmt: skip


def main(given: list[str]) -> int:
    words: list[str] = []
    for word in given:
        if word.startswith("--npu-arch"):
            words += chip(word)
        elif word not in _VENDOR and word not in ("-xasc", "--cce-auto-sync=on"):
            words.append(word)
    compiler = os.environ.get("CXX", "g++").split()
    if "-c" not in words:
        engine = next(HERE.parent.glob("_engine.*.so"), None)
        if engine is None:
            sys.exit("asc: the native engine of ms_custom_ops was not built")
        more = [str(engine), "-pthread", "-Wl,--unresolved-symbols=ignore-in-shared-libs"]
        return subprocess.run([*compiler, *words, *more]).returncode
    at = words.index("-c") + 1
    source = Path(words[at]).resolve()
    headers = [f"-I{source.parent}", f"-I{HERE / 'include'}", f"-I{HERE / 'include_host'}"]
    flags = ["-fno-strict-aliasing", "-ffp-contract=off", "-w", "-Wno-narrowing", "-pthread", "-DMCO_ASC_AS_ON_CHIP",
             *([] if any(word.startswith("-std=") for word in words) else ["-std=c++17"])]  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / f"{source.stem}.cpp"
        copy.write_text(f'#line 1 "{source}"\n{rewrite.plain_launches(source.read_text(errors="replace"))}')
        words[at] = str(copy)
        return subprocess.run([*compiler, *flags, "-include", "mco/launch.h", *words, *headers]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
