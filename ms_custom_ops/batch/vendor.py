# SPDX-License-Identifier: Apache-2.0
"""A vendor package of TIK kernels, as CANN's op compiler looks for it: op information of every chip, and a Python file
per op with its kernel in CANN's own convention, whose ``tik`` is CANN's.

    vendors/<vendor>/op_impl/ai_core/tbe/config/<chip>/aic-<chip>-ops-info.json
    vendors/<vendor>/op_impl/ai_core/tbe/<vendor>_impl/<op>.py
    vendors/<vendor>/op_impl/ai_core/tbe/<vendor>_impl/<vendor>_kernels/    what the kernels import
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ms_custom_ops
from ms_custom_ops.errors import MsCustomOpsError, OpArgumentError, describe
from ms_custom_ops.registry import OpSpec
from ms_custom_ops.registry.dtypes import CODE_TO_NAME
from ms_custom_ops.soc import get_soc
from ms_custom_ops.sources import sources_of

_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_FOLDER = {
    "310": "ascend310",
    "910A": "ascend910",
    "310P": "ascend310p",
    "910B": "ascend910b",
    "910_93": "ascend910_93",
}
_PORTABLE = ("errors", "mistakes", "where", "config", "soc", "tuned")  # parts of this library that kernels may import
_CANN_DTYPES = {"float32": "float"}

_TIK = '''\
"""TIK, as CANN has it."""

from tbe import tik as _tik


def __getattr__(name):
    return getattr(_tik, name)
'''
_WRAPPER = '''\
"""{class_name}: kernel of ms_custom_ops {version} in the convention of CANN's op compiler."""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
if _HERE not in sys.path:
    sys.path.append(_HERE)

from tbe.common.platform import get_soc_spec  # noqa: E402

from {kernels}.soc import get_soc  # noqa: E402
from {kernels}.tik.call import KernelCall, TensorInfo  # noqa: E402
from {module} import {entry} as _entry  # noqa: E402

_TENSORS, _RETURNS, _ATTRIBUTES = {tensors!r}, {returns!r}, {attributes!r}


def _described(names, values):
    return {{n: TensorInfo(tuple(v["shape"]), v["dtype"]) for n, v in zip(names, values) if v is not None}}


def {op}({parameters}kernel_name="{kernel_name}"):
    """Tensors, returns and attributes in the order of the op information file."""
    soc = get_soc(get_soc_spec("FULL_SOC_VERSION"))
    inputs = _described(_TENSORS, [{tensor_list}])
    outputs = _described(_RETURNS, [{return_list}])
    return _entry(KernelCall("{op}", kernel_name, soc, inputs, outputs, dict(zip(_ATTRIBUTES, [{attribute_list}]))))
'''


def ops_info(spec: OpSpec) -> dict[str, Any]:
    """Entry of an op in an op information file."""
    entry: dict[str, Any] = {}
    inputs = [(arg.name, arg.optional) for arg in spec.tensors]
    for what, items in (("input", inputs), ("output", [(ret.name, False) for ret in spec.returns])):
        for index, (item, optional) in enumerate(items):
            names = [CODE_TO_NAME[row.codes[item]] for row in spec.dtype_rows]
            entry[f"{what}{index}"] = {
                "name": item, "dtype": ",".join(_CANN_DTYPES.get(name, name) for name in names),
                "format": ",".join(["ND"] * len(names)), "shape": "all",
                "paramType": "optional" if optional else "required",
            }  # fmt: skip
    for arg in spec.attributes:
        value = str(arg.default).lower() if arg.kind == "bool" else str(arg.default)
        entry[f"attr_{arg.name}"] = {"type": arg.kind, "value": "all",
                                     "paramType": "optional" if arg.has_default else "required",
                                     **({"defaultValue": value} if arg.has_default else {})}  # fmt: skip
    if spec.attributes:
        entry["attr"] = {"list": ",".join(arg.name for arg in spec.attributes)}
    entry |= {
        "opFile": {"value": spec.name},
        "opInterface": {"value": spec.name},
        "dynamicShapeSupport": {"flag": "false"},
    }
    return entry


def check_vendor(vendor: str) -> None:
    """OpArgumentError: ``vendor`` is no name."""
    if not _NAME.match(vendor):
        raise OpArgumentError(describe("compile", "--vendor", repr(vendor), "small letters, digits and underscores"))


def write_package(specs: Sequence[OpSpec], out: Path, vendor: str) -> list[Path]:
    """Writes the package into ``out``; gives the files.

    Raises:
        OpArgumentError: ``vendor`` is no name, or a kernel imports something that no package can hold.
    """
    check_vendor(vendor)
    tbe = out / "vendors" / vendor / "op_impl" / "ai_core" / "tbe"
    kernels = f"{vendor}_kernels"
    impl = tbe / f"{vendor}_impl"
    written = []
    for family, folder in _FOLDER.items():
        known = {spec.class_name: ops_info(spec) for spec in specs if _on(spec, family)}
        if known:
            path = tbe / "config" / folder / f"aic-{folder}-ops-info.json"
            written.append(_write(path, json.dumps(known, indent=1) + "\n"))
    for spec in specs:
        written += _sources(spec, impl, kernels)
        written.append(_write(impl / f"{spec.name}.py", _wrapper(spec, kernels)))
    return sorted(set(written) | set(_library(impl / kernels, kernels, [p for p in written if p.suffix == ".py"])))


def _on(spec: OpSpec, family: str) -> bool:
    return any(get_soc(soc).family == family for soc in spec.target.soc)


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _module(name: str, kernels: str) -> str:
    """Module name of a kernel's source inside the package."""
    if name.startswith("ms_custom_ops."):
        return name.replace("ms_custom_ops", kernels, 1)
    return f"{kernels}.{name}"


def _wrapper(spec: OpSpec, kernels: str) -> str:
    module, _, entry = spec.impl.entry.partition(":")
    tensors, returns = [a.name for a in spec.tensors], [r.name for r in spec.returns]
    attributes = [a.name for a in spec.attributes]
    defaults = "".join(f"{a.name}={a.default!r}, " if a.has_default else f"{a.name}, " for a in spec.attributes)
    return _WRAPPER.format(
        class_name=spec.class_name, version=ms_custom_ops.__version__, kernels=kernels, module=_module(module, kernels),
        entry=entry, op=spec.name, kernel_name=spec.impl.kernel_name, tensors=tuple(tensors), returns=tuple(returns),
        attributes=tuple(attributes), parameters="".join(f"{n}, " for n in (*tensors, *returns)) + defaults,
        tensor_list=", ".join(tensors), return_list=", ".join(returns), attribute_list=", ".join(attributes),
    )  # fmt: skip


def _sources(spec: OpSpec, impl: Path, kernels: str) -> list[Path]:
    """Copies what the op's entry and plan import: its own files and the shared ones, under the package's name."""
    root = Path(ms_custom_ops.__file__).parent
    front = {
        path
        for room in ("tik", "program", "soc", "engine", "debug", "registry")
        for path in (root / room).rglob("*.py")
    }
    written = []
    for label, path in sources_of(spec).modules.items():
        if path in front or path.parent == root or path.suffix != ".py":
            continue
        place = impl.joinpath(*_module(label, kernels).split("."))
        target = place / "__init__.py" if path.name == "__init__.py" else place.with_suffix(".py")
        written.append(_write(target, _renamed(path.read_text(encoding="utf-8"), kernels)))
    if not written:
        raise MsCustomOpsError(describe(spec.name, "kernel", "without a Python file of its own", "a file in op_impl"))
    return written


def _library(target: Path, kernels: str, written: Sequence[Path]) -> list[Path]:
    """The few parts of this library that the kernels in ``written`` import, directly or not; ``tik`` is CANN's."""
    root = Path(ms_custom_ops.__file__).parent
    made = [
        _write(target / "tik" / "__init__.py", _TIK),
        _write(target / "tik" / "call.py", _renamed((root / "tik" / "call.py").read_text(encoding="utf-8"), kernels)),
        _write(
            target / "__init__.py", f'"""What the kernels of ms_custom_ops {ms_custom_ops.__version__} import."""\n'
        ),
    ]
    known, pending = {"tik", "op_impl", "tiling"}, [*written, *made, target / "soc"]
    while pending:
        names = _imported(pending.pop(), kernels) - known
        for name in sorted(names):
            if (target / name).is_dir():  # a folder of a user's ops
                continue
            if name not in _PORTABLE:
                given = f"a kernel imports ms_custom_ops.{name}"
                raise OpArgumentError(describe("compile", "--target tbe", given, ", ".join(("tik", *_PORTABLE))))
            folder = root / name
            for path in sorted(folder.glob("*.py")) if folder.is_dir() else [root / f"{name}.py"]:
                text = _renamed(path.read_text(encoding="utf-8"), kernels)
                made.append(_write(target / path.relative_to(root), text))
                pending.append(made[-1])
        known |= names
    return made


def _imported(file: Path, kernels: str) -> set[str]:
    """First names below the package ``kernels`` that a file imports."""
    if not file.is_file():
        return {file.name}
    text = file.read_text(encoding="utf-8")
    found = set(re.findall(rf"^\s*(?:from|import) {kernels}\.(\w+)", text, re.M))
    for names in re.findall(rf"^\s*from {kernels} import ([^\n#]+)", text, re.M):
        found |= {name.split(" as ")[0].strip(" ()") for name in names.split(",")}
    return found - {""}


def _renamed(text: str, kernels: str) -> str:
    return re.sub(r"\bms_custom_ops(?=\.| import)", kernels, text)


def install(package: Path, path: Path) -> list[Path]:
    """Copies every vendor of a written package below ``path``/vendors and names it in vendors/config.ini.

    Raises:
        OpArgumentError: ``package`` holds no vendor.
    """
    vendors = sorted(p for p in (package / "vendors").glob("*") if p.is_dir())
    if not vendors:
        raise OpArgumentError(describe("install", "PACKAGE", str(package),
                                       "the --out folder of ms-custom-ops compile --target tbe"))  # fmt: skip
    target = path / "vendors"
    target.mkdir(parents=True, exist_ok=True)
    for vendor in vendors:
        shutil.copytree(vendor, target / vendor.name, dirs_exist_ok=True)
    config = target / "config.ini"
    known = config.read_text(encoding="utf-8").partition("=")[2].strip().split(",") if config.is_file() else []
    order = list(dict.fromkeys([v.name for v in vendors] + [n for n in known if n]))
    config.write_text(f"load_priority={','.join(order)}\n", encoding="utf-8")
    return [target / vendor.name for vendor in vendors]
