# SPDX-License-Identifier: Apache-2.0
"""An op of a project: its own shape inference and tiling, then its kernel."""

from __future__ import annotations

import hashlib
import importlib
import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from ms_custom_ops.ascendc import compile as compiler
from ms_custom_ops.ascendc.build import build
from ms_custom_ops.ascendc.definition import DYNAMIC, KINDS, combination, config_name, kernel_header, keyed, struct_of
from ms_custom_ops.ascendc.definition import Attribute as AttributeDef
from ms_custom_ops.ascendc.definition import Definition as OpDefinition
from ms_custom_ops.ascendc.host import HostCall, HostLibrary, Tensor, Tiling
from ms_custom_ops.ascendc.kernel import SYSTEM_WORKSPACE, Kernel
from ms_custom_ops.errors import AscendcBuildError, AscendcError, describe
from ms_custom_ops.soc.table import Soc

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Launch:
    """One call, ready to run. ``slots``: what each parameter of the kernel gets: ("input", i), ("output", i) or None.

    ``copies``: outputs that start as a copy of an input (output -> input); ``init``: the value others start with.
    ``call``: the host's call where tiling depends on values that are not known yet, so that ``tiling`` is none.
    """

    kernel: Kernel
    tiling: Tiling
    outputs: tuple[tuple[Shape, str], ...]
    slots: tuple[tuple[str, int] | None, ...]
    copies: Mapping[int, int]
    init: Mapping[int, int]
    call: HostCall | None

    @property
    def user_workspace(self) -> int:
        """Bytes of the workspace beyond those of the library."""
        return max(0, self.tiling.workspace - SYSTEM_WORKSPACE)


class AscendcOp:
    """An op of a project. Call it with arrays: ``op(x, y, attribute=...)`` gives new arrays.

    Inputs come in the order of the OpDef, an absent optional one as None; attributes by name. The result is one array,
    or a tuple where there are several outputs. An output of the same name as an input is a copy of it that the kernel
    changed; what a kernel writes into an input itself changes that array, where it is C-contiguous. bfloat16 comes as
    ml_dtypes.bfloat16 or, for inputs that do not take uint16, as its bits in uint16. Outputs start as zeros.

    Raises AscendcError and AscendcBuildError with file and line of the project where its code is at fault, OpDtypeError
    for dtypes that the OpDef does not have.
    """

    def __init__(
        self,
        host: HostLibrary,
        definition: OpDefinition,
        soc: Soc,
        source: Path | None,
        folders: Sequence[Path],
        defines: Sequence[str],
    ):
        self.definition, self.soc = definition, soc
        self.inputs, self.outputs = definition.for_soc(soc.family)
        self._host, self._source, self._folders, self._defines = host, source, folders, defines
        self._kernels: dict[Any, Kernel] = {}
        self._launches: dict[Any, Launch] = {}
        self._lock = threading.RLock()

    @property
    def name(self) -> str:
        return self.definition.name

    def __repr__(self) -> str:
        inputs = ", ".join(param.name for param in self.inputs)
        attributes = "".join(f", {a.name}=..." for a in self.definition.attributes)
        return f"{self.name}({inputs}{attributes}) -> {', '.join(param.name for param in self.outputs)}"

    @property
    def host_library(self) -> Path:
        """The compiled op_host, whose name tells its content."""
        return self._host.path

    def mindspore(self, bprop: Any = None, inputs: Sequence[str] | None = None, **attributes: Any) -> Any:
        """The op as a MindSpore operator with these attributes, for GRAPH_MODE and PYNATIVE.

        ``bprop(*inputs, out, dout)`` returns one gradient per input; it is a plain ``def`` in a source file, since the
        graph compiler reads it. ``inputs``: names of the inputs it will be called with, None for all. Shapes and dtypes
        are inferred, and the kernel is built, when a graph is compiled.
        """
        module = importlib.import_module("ms_custom_ops.mindspore.ascendc")
        return module.operator(self, attributes, bprop, inputs)

    def __call__(self, *tensors: Any, out_shapes: Sequence[Sequence[int]] | None = None, **named: Any) -> Any:
        """See the class. ``out_shapes``: for ops without shape inference, one shape for each output."""
        if any(type(tensor).__module__.startswith("mindspore.") for tensor in tensors):
            there = [param.name for param, tensor in zip(self.inputs, tensors, strict=False) if tensor is not None]
            return self.mindspore(inputs=there, **named)(*(tensor for tensor in tensors if tensor is not None))
        arrays = self._arrays(tensors, named)
        attributes = self.attribute_values(named)
        names = [() if array is None else _names(array) for array in arrays]
        values = [
            np.ascontiguousarray(array) if param.reads_values and array is not None else None
            for param, array in zip(self.inputs, arrays, strict=True)
        ]
        shapes = [None if array is None else array.shape for array in arrays]
        launch = self.launch(shapes, names, attributes, values, out_shapes)
        return self.run(launch, arrays)

    def launch(
        self,
        shapes: Sequence[Shape | None],
        dtypes: Sequence[Sequence[str]],
        attributes: Sequence[Any],
        values: Sequence[np.ndarray | None] = (),
        out_shapes: Sequence[Sequence[int]] | None = None,
    ) -> Launch:
        """A call of these shapes and dtypes (for each input the names it may have), None and () where absent.

        Without ``values``, a tiling that depends on values is left to when they are known.
        """
        depends = any(value is not None for value in values)
        fixed = None if out_shapes is None else self._checked_shapes(out_shapes)
        key = repr((shapes, dtypes, attributes, fixed))
        with self._lock:
            known = None if depends else self._launches.get(key)
            if known is None:
                known = self._prepare(shapes, dtypes, attributes, values, fixed)
                if not depends:
                    self._launches[key] = known
        return known

    def _prepare(
        self,
        shapes: Sequence[Shape | None],
        dtypes: Sequence[Sequence[str]],
        attributes: Sequence[Any],
        values: Sequence[np.ndarray | None],
        out_shapes: Sequence[Shape] | None,
    ) -> Launch:
        op = self.definition
        fitting, out_types = combination(op, self.inputs, self.outputs, dtypes)
        chosen = ["" if not names else names[0] for names in fitting]
        call = self._host.call(op, self.soc.name)
        for number, (shape, dtype) in enumerate(zip(shapes, chosen, strict=True)):
            if shape is not None:
                call.add_input(number, Tensor(tuple(shape), dtype, values[number] if values else None))
        call.add_attributes(attributes)
        outputs = call.infer(out_types, out_shapes)
        later = not values and any(
            param.reads_values and shape is not None for param, shape in zip(self.inputs, shapes, strict=True)
        )
        if later and keyed(op, self._host.structs):
            accepted = "one tiling structure for all keys, in a graph"
            raise AscendcError(describe(op.name, "tiling", "of values, with structures by tiling key", accepted))
        tiling = Tiling(1, 0, b"", 0) if later else call.tile()
        types = dict(zip((p.name for p in self.inputs), chosen, strict=True))
        types |= {p.name: dtype for p, (_, dtype) in zip(self.outputs, outputs, strict=True)}
        kernel = self._kernel(types, tiling.tiling_key)
        slots: list[tuple[str, int] | None] = [
            ("input", i) if shape is not None else None for i, shape in enumerate(shapes)
        ]
        in_place = op.in_place
        copies = {n: in_place[p.name] for n, p in enumerate(self.outputs) if p.name in in_place}
        for output, source in copies.items():  # one memory, which the kernel gets twice
            slots[source] = ("output", output)
        slots += [("output", i) for i in range(len(outputs))]
        init = {n: p.init for n, p in enumerate(self.outputs) if p.init is not None and n not in copies}
        return Launch(kernel, tiling, tuple(outputs), tuple(slots), copies, init, call if later else None)

    def _warn_of_chip(self) -> None:
        """Once, where the op does not name the chip it runs on."""
        op, chip = self.definition, config_name(self.soc.family)
        if op.configs and chip not in op.configs:
            text = describe(op.name, "AddConfig", ", ".join(sorted(op.configs)), chip)
            warnings.warn(f"{op.file}:{op.line}: {text}; it runs all the same", RuntimeWarning, stacklevel=5)

    def _kernel(self, dtypes: Mapping[str, str], tiling_key: int) -> Kernel:
        """The kernel for dtypes, built when first needed."""
        op, structs = self.definition, self._host.structs
        key = tiling_key if keyed(op, structs) and struct_of(op, structs, tiling_key) else 0
        known = self._kernels.get((tuple(dtypes.items()), key))
        if known is not None:
            return known
        if self._source is None:
            accepted = f"op_kernel/{op.entry}.cpp, the name of the op in lower case"
            at = f"{op.file}:{op.line}: "
            raise AscendcBuildError(at + describe(op.name, "kernel", "missing", accepted))
        self._warn_of_chip()
        text = kernel_header(op, dtypes, structs, key)
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        header = compiler.store() / "tiling" / name / f"{op.entry}_of_op_host.h"
        if not header.is_file():
            header.parent.mkdir(parents=True, exist_ok=True)
            temporary = header.with_suffix(f".{os.getpid()}")
            temporary.write_text(text)
            os.replace(temporary, header)  # others may read it at any time
        kernel = build([self._source, header], op.entry, self.soc.name, self._folders, self._defines)
        self._kernels[tuple(dtypes.items()), key] = kernel
        return kernel

    def run(
        self, launch: Launch, arrays: Sequence[np.ndarray | None], *, threads: int = 0, reverse: bool = False
    ) -> Any:
        """Outputs of a prepared call; ``arrays``: one for each input of the OpDef, None where absent. ``threads`` and
        ``reverse`` are those of :class:`Kernel`."""
        inputs = [None if array is None else np.ascontiguousarray(array) for array in arrays]
        outputs = []
        for number, (shape, dtype) in enumerate(launch.outputs):
            source = inputs[launch.copies[number]] if number in launch.copies else None
            if source is not None:
                outputs.append(source.copy())
            else:
                made = np.zeros(shape, _storage(dtype, arrays))
                if number in launch.init:
                    made[...] = launch.init[number]
                outputs.append(made)
        if any(output.size for output in outputs):
            sides = {"input": inputs, "output": outputs}
            slots = [None if slot is None else sides[slot[0]][slot[1]] for slot in launch.slots]
            tiling = launch.tiling
            launch.kernel(
                tiling.block_dim,
                *slots,
                tiling=tiling.data,
                tiling_key=tiling.tiling_key,
                workspace=launch.user_workspace,
                threads=threads,
                reverse=reverse,
            )
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _arrays(self, tensors: Sequence[Any], named: dict[str, Any]) -> list[np.ndarray | None]:
        """One array (or None) per input; takes inputs that are named out of ``named``."""
        if len(tensors) > len(self.inputs):
            accepted = f"at most {len(self.inputs)}: {', '.join(p.name for p in self.inputs)}; attributes go by name"
            raise AscendcError(describe(self.name, "positional arguments", len(tensors), accepted))
        given = dict(zip((param.name for param in self.inputs), tensors, strict=False))
        for param in self.inputs:
            if param.name in named:
                if param.name in given:
                    raise AscendcError(describe(self.name, f"input {param.name}", "twice", "once"))
                given[param.name] = named.pop(param.name)
        return [self._array(param, given.get(param.name)) for param in self.inputs]

    def _array(self, param: Any, value: Any) -> np.ndarray | None:
        if param.option == DYNAMIC:
            accepted = "inputs with one tensor (REQUIRED or OPTIONAL); lists of tensors are not there"
            raise AscendcError(describe(self.name, f"input {param.name}", "DYNAMIC", accepted))
        if value is None and param.optional:
            return None
        if not isinstance(value, np.ndarray | np.generic):
            what = "missing" if value is None else f"a {type(value).__name__}"
            raise AscendcError(describe(self.name, f"input {param.name}", what, "a NumPy array"))
        return np.asarray(value)

    def attribute_values(self, named: Mapping[str, Any]) -> list[Any]:
        """One value for each attribute of the OpDef, checked, defaults filled in."""
        known = [attribute.name for attribute in self.definition.attributes]
        for name in named:
            if name not in known:
                accepted = ", ".join([*(p.name for p in self.inputs), *known])
                raise AscendcError(describe(self.name, "argument", name, accepted))
        return [self._attribute(attribute, named) for attribute in self.definition.attributes]

    def _attribute(self, attribute: AttributeDef, named: Mapping[str, Any]) -> Any:
        if attribute.name not in named:
            if attribute.required or attribute.default is None:
                given = "missing"
                raise AscendcError(describe(self.name, f"attribute {attribute.name}", given, KINDS[attribute.kind]))
            return _float(attribute.default) if attribute.kind == 2 else attribute.default
        value = named[attribute.name]
        if isinstance(value, np.ndarray | np.generic):
            value = value.tolist()
        if isinstance(value, tuple):
            value = [list(row) if isinstance(row, tuple) else row for row in value]
        if not _fits(attribute.kind, value):
            accepted = KINDS[attribute.kind]
            raise AscendcError(describe(self.name, f"attribute {attribute.name}", repr(value), accepted))
        return value

    def _checked_shapes(self, shapes: Sequence[Sequence[int]]) -> list[Shape]:
        listed = [tuple(int(size) for size in shape) for shape in shapes]
        if len(listed) != len(self.outputs) or any(size < 0 for shape in listed for size in shape):
            accepted = f"a shape for each of {', '.join(p.name for p in self.outputs)}"
            raise AscendcError(describe(self.name, "out_shapes", str(shapes), accepted))
        return listed


def _float(value: Any) -> float:
    return float(value)  # also of "inf" and "nan", which JSON has no numbers for


def _fits(kind: int, value: Any) -> bool:
    def integer(item: Any) -> bool:
        return isinstance(item, int) and not isinstance(item, bool) and -(1 << 63) <= item < 1 << 63

    def number(item: Any) -> bool:
        return isinstance(item, int | float) and not isinstance(item, bool)

    def every(test: Any) -> bool:
        return isinstance(value, list) and all(test(item) for item in value)

    tests = (
        lambda: isinstance(value, bool),
        lambda: integer(value),
        lambda: number(value),
        lambda: isinstance(value, str) and "\0" not in value,
        lambda: every(integer),
        lambda: every(number),
        lambda: every(lambda item: isinstance(item, bool)),
        lambda: every(lambda row: isinstance(row, list) and all(integer(item) for item in row)),
    )
    return tests[kind]()


def _names(array: np.ndarray) -> tuple[str, ...]:
    """Names of the dtype an array may stand for: uint16 also for the bits of bfloat16."""
    name = array.dtype.name
    return (name, "bfloat16") if name == "uint16" else (name,)


def _storage(dtype: str, inputs: Sequence[np.ndarray | None]) -> np.dtype:
    """NumPy's dtype of an output: bfloat16 as the first input of 16 bits has it."""
    if dtype != "bfloat16":
        return np.dtype(dtype)
    for array in inputs:
        if array is not None and array.dtype.name in ("bfloat16", "uint16"):
            return array.dtype
    return np.dtype(ml_dtypes.bfloat16)
