# SPDX-License-Identifier: Apache-2.0
"""The native engine and the acl library, the only things that setup.cfg cannot declare."""

from __future__ import annotations

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# Where the headers and the library of acl and aclnn lie in the package.
ACL = Path("ms_custom_ops") / "aclnn" / "c" / "lib64"
# What published link lines name besides -lascendcl; each only names the one library.
ACL_NAMES = ("nnopbase", "opapi", "acl_op_compiler")
NOT_ALONE = ("pymodule", "mindspore_glue")  # what needs Python or MindSpore


class ParallelBuildExt(build_ext):
    """Compiles the sources of the extension side by side; setuptools itself takes them one after another.

    Links the same objects with those of csrc/acl into a library for C++ programs."""

    def build_extension(self, ext: Extension) -> None:
        compile_one, made = self.compiler.compile, []

        def compile_all(sources: list[str], **options) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                return [objects[0] for objects in pool.map(lambda s: compile_one([s], **options), sources)]

        def compile_both(sources: list[str], **options) -> list[str]:
            objects = compile_all(sources, **options)
            own = sorted(glob("csrc/acl/*.cc"))
            options["extra_postargs"] = [*(options.get("extra_postargs") or ()), "-Ims_custom_ops/aclnn/c/include"]
            made.extend(compile_all(own, **options) if own else [])
            made.extend(name for name in objects if own and Path(name).stem not in NOT_ALONE)
            return objects

        self.compiler.compile = compile_both
        super().build_extension(ext)
        if made:
            self._link_acl(made)

    def _link_acl(self, objects: list[str]) -> None:
        folder = Path(self.build_lib) / ACL
        folder.mkdir(parents=True, exist_ok=True)
        flags = ["-pthread", "-Wl,--strip-debug"]
        # Only acl and aclnn are seen: the engine inside is not to be taken for that of a Python in the same process.
        self._link(objects, folder / "libascendcl.so", [*flags, "-Wl,--version-script=csrc/acl/exports.map"])
        for name in ACL_NAMES:
            needs = ["-Wl,--no-as-needed", f"-L{folder}", "-lascendcl", "-Wl,-rpath,$ORIGIN"]
            self._link([], folder / f"lib{name}.so", needs)
        (folder / "libacl_rt.so").write_text("/* GNU ld script */\nINPUT(-lascendcl)\n")

    def copy_extensions_to_source(self) -> None:
        """For editable installations."""
        super().copy_extensions_to_source()
        made = Path(self.build_lib) / ACL
        if made.is_dir():
            shutil.copytree(made, ACL, dirs_exist_ok=True)
            (ACL / "python").write_text(sys.executable)  # an installed library finds its own

    def _link(self, objects: list[str], path: Path, flags: list[str]) -> None:
        soname = f"-Wl,-soname,{path.name}"
        self.compiler.link_shared_object(objects, str(path), extra_postargs=[soname, *flags], target_lang="c++")


# No -march=native: the installed file has to run on another machine too, SIMD is picked at run time.
# -ffp-contract=off: a fused multiply-add rounds once where the chip's two instructions round twice.
ENGINE = Extension(
    "ms_custom_ops._engine",
    # csrc/tests is the fuzz driver. The inner loops come first: each takes as long as ten others.
    sources=sorted(glob("csrc/*.cc"), key=lambda name: ("simd_" not in name, name)),
    depends=sorted(
        glob("csrc/**/*.h", recursive=True)
        + glob("csrc/*.inc")
        + glob("csrc/acl/*.cc")
        + ["csrc/acl/exports.map"]
        + glob("ms_custom_ops/aclnn/c/include/**/*.h", recursive=True)
        + ["ms_custom_ops/ascendc/include/mco/abi.h", "ms_custom_ops/ascendc/include_host/mco_host/api.h"]
    ),
    language="c++",
    extra_compile_args=[
        "-std=c++17",
        "-O3",
        "-g0",  # Python's own flags ask for debug information, which takes a third of the time and is stripped below
        "-ffp-contract=off",
        "-fno-strict-aliasing",
        "-fvisibility=hidden",
        "-pthread",
    ],
    extra_link_args=["-pthread", "-Wl,--strip-debug"],  # a tenth of the size
)

setup(ext_modules=[ENGINE], cmdclass={"build_ext": ParallelBuildExt})
