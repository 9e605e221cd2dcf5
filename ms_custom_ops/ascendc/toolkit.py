# SPDX-License-Identifier: Apache-2.0
"""A folder that scripts and build files take for the vendor's toolkit: links to what is here, and an environment."""

from __future__ import annotations

import platform
import shutil
import sys
from pathlib import Path

from ms_custom_ops.errors import AscendcError, describe

_MARK = "# The environment of a toolkit folder of ms_custom_ops."
_INCLUDES = ("include", "runtime/include", "atc/include", "acllib/include", "{host}/include")
_LIBRARIES = (
    "lib64", "runtime/lib64", "runtime/lib64/stub", "acllib/lib64", "acllib/lib64/stub", "atc/lib64", "atc/lib64/stub",
    "{host}/lib64", "{host}/lib64/stub", "{host}/devlib",
)  # fmt: skip
_ENVIRONMENT = """{mark}
export ASCEND_HOME_PATH="{folder}" ASCEND_TOOLKIT_HOME="{folder}" ASCEND_INSTALL_PATH="{folder}"
export ASCEND_OPP_PATH="{folder}/opp" DDK_PATH="{folder}" NPU_HOST_LIB="{folder}/lib64"
export LD_LIBRARY_PATH="{folder}/lib64:{folder}/opp/vendors/customize/op_api/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
export CMAKE_PREFIX_PATH="{folder}/compiler/tikcpp/ascendc_kernel_cmake${{CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}}"
export MS_CUSTOM_OPS_PYTHON="{python}"
"""


def make_toolkit(folder: Path, headers: Path, libraries: Path) -> Path:
    """``folder`` as a toolkit: made, or made again. ``headers`` and ``libraries``: those of acl and aclnn.

    AscendcError where the folder holds something else.
    """
    folder = folder.absolute()
    environment = folder / "set_env.sh"
    ours = environment.is_file() and environment.read_text().startswith(_MARK)
    if folder.exists() and not ours and (not folder.is_dir() or any(folder.iterdir())):
        raise AscendcError(
            describe("ascendc toolkit", "folder", f"{folder} with other files", "a new or an empty folder")
        )
    host = f"{platform.machine()}-linux"
    here = Path(__file__).resolve().parent
    places = {name.format(host=host): headers for name in _INCLUDES}
    places |= {name.format(host=host): libraries for name in _LIBRARIES}
    places |= {"tools": here / "tools", "compiler": here / "compiler"}
    for top in {place.split("/")[0] for place in places} - {"opp"}:
        if (folder / top).is_symlink():
            (folder / top).unlink()
        elif (folder / top).is_dir():
            shutil.rmtree(folder / top)  # folders of links, which are not followed
    for place, target in sorted(places.items()):
        if f"{place}/stub" in places:  # a folder of links to each library, and one below it
            (folder / place).mkdir(parents=True)
            for library in sorted(target.iterdir()):
                (folder / place / library.name).symlink_to(library)
        else:
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).symlink_to(target)
    text = _ENVIRONMENT.format(mark=_MARK, folder=folder, python=sys.executable)
    environment.write_text(text)
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / "setenv.bash").write_text(text)
    return folder
