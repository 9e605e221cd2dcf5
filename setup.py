# SPDX-License-Identifier: Apache-2.0
"""The native engine, the only thing that setup.cfg cannot declare."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from glob import glob

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class ParallelBuildExt(build_ext):
    """Compiles the sources of the extension side by side; setuptools itself takes them one after another."""

    def build_extension(self, ext: Extension) -> None:
        compile_one = self.compiler.compile

        def compile_all(sources: list[str], **options) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                return [objects[0] for objects in pool.map(lambda s: compile_one([s], **options), sources)]

        self.compiler.compile = compile_all
        super().build_extension(ext)


# No -march=native: the installed file has to run on another machine too, SIMD is picked at run time.
# -ffp-contract=off: a fused multiply-add rounds once where the chip's two instructions round twice.
ENGINE = Extension(
    "ms_custom_ops._engine",
    sources=sorted(glob("csrc/*.cc")),  # csrc/tests is the fuzz driver
    depends=sorted(
        glob("csrc/**/*.h", recursive=True)
        + glob("csrc/*.inc")
        + ["ms_custom_ops/ascendc/include/mco/abi.h", "ms_custom_ops/ascendc/include_host/mco_host/api.h"]
    ),
    language="c++",
    extra_compile_args=[
        "-std=c++17",
        "-O3",
        "-ffp-contract=off",
        "-fno-strict-aliasing",
        "-fvisibility=hidden",
        "-pthread",
    ],
    extra_link_args=["-pthread", "-Wl,--strip-debug"],  # a tenth of the size
)

setup(ext_modules=[ENGINE], cmdclass={"build_ext": ParallelBuildExt})
