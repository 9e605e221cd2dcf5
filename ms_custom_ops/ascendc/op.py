# SPDX-License-Identifier: Apache-2.0
"""An op of a project: its own shape inference and tiling, then its kernel."""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ms_custom_ops.ascendc import compile as compiler
from ms_custom_ops.ascendc.arguments import (
    Array,
    arrays_of,
    attribute_values,
    contiguous,
    descriptor,
    dtype_names,
    start_values,
    storage,
)
from ms_custom_ops.ascendc.build import build
from ms_custom_ops.ascendc.definition import DYNAMIC, combination, config_name, kernel_header
from ms_custom_ops.ascendc.definition import Definition as OpDefinition
from ms_custom_ops.ascendc.host import HostCall, HostLibrary, Tensor, Tiling
from ms_custom_ops.ascendc.kernel import SYSTEM_WORKSPACE, Kernel
from ms_custom_ops.ascendc.variants import Variants, templates_of
from ms_custom_ops.cost.chip import CostChip
from ms_custom_ops.cost.result import Profile
from ms_custom_ops.engine.findings import Report
from ms_custom_ops.errors import AscendcBuildError, AscendcError, describe
from ms_custom_ops.soc.table import Soc

Shape = tuple[int, ...]
Shapes = Shape | list[Shape] | None
"""Of one input, as :data:`Array`."""


@dataclass(frozen=True)
class Launch:
    """One call, ready to run. ``lists`` and ``groups``: for each input and output of the OpDef how many tensors its
    list has, 0 where it is one tensor; ``outputs`` has those of all lists. ``slots``: what each parameter of the kernel
    gets: ("input", i), ("output", i) or None.

    ``copies``: outputs that start as a copy of an input (output -> input); ``init``: the value others start with.
    ``call``: the host's call where tiling depends on values that are not known yet, so that ``tiling`` is none.
    """

    kernel: Kernel
    tiling: Tiling
    outputs: tuple[tuple[Shape, str], ...]
    lists: tuple[int, ...]
    groups: tuple[int, ...]
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

    Inputs come in the order of the OpDef, an absent optional one as None; attributes by name. The result is one
    array, or a tuple where there are several outputs or none. An output of the same name as an input is a copy of
    it that the kernel changed; what a kernel writes into an input itself changes that array, where it is
    C-contiguous. bfloat16 comes as ml_dtypes.bfloat16 or, for inputs that do not take uint16, as its bits in
    uint16. Outputs start as zeros.

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
        optimize: bool = True,
    ):
        self.definition, self.soc = definition, soc
        self.inputs, self.outputs = definition.for_soc(soc.family)
        self._host, self._source, self._folders, self._defines = host, source, folders, defines
        self._optimize = optimize
        self._variants = Variants(definition, host.structs, templates_of(definition, host.templates), source, folders)
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

    def mindspore(
        self,
        bprop: Any = None,
        inputs: Sequence[str] | None = None,
        lists: Mapping[str, int] | None = None,
        **attributes: Any,
    ) -> Any:
        """The op as a MindSpore operator with these attributes, for GRAPH_MODE and PYNATIVE.

        ``bprop(*inputs, out, dout)`` returns one gradient per tensor; it is a plain ``def`` in a source file, since the
        graph compiler reads it. ``inputs``: names of the inputs it will be called with, None for all. ``lists``: for
        each DYNAMIC input how many tensors its list has; the operator is called with the tensors one by one, those of a
        list in its place, and so are its results. Shapes and dtypes are inferred, and the kernel is built, when a graph
        is compiled.
        """
        module = importlib.import_module("ms_custom_ops.mindspore.ascendc")
        return module.operator(self, attributes, bprop, inputs, lists or {})

    def _checked(
        self, values: bool, time_limit: float | None, launch: Launch, arrays: Sequence[Array], **given: Any
    ) -> Report:
        reports: list[Report] = []

        def check(*args: Any, threads: int, **named: Any) -> None:
            reports.append(launch.kernel.check(*args, values=values, time_limit=time_limit, **named))

        results = self.run(launch, arrays, call=check, **given)
        report = reports[0] if reports else Report(self.name)
        report.outputs = list(results) if isinstance(results, tuple) else [results]
        return report

    def __call__(
        self,
        *tensors: Any,
        out_shapes: Sequence[Any] | None = None,
        out_values: Mapping[str, Any] | None = None,
        _run: Callable[..., Any] | None = None,
        **named: Any,
    ) -> Any:
        """See the class. ``out_shapes``: for ops whose shape inference is none or not right, one shape for each output,
        a list of shapes for a DYNAMIC one. ``out_values``: arrays that outputs start as copies of, by name, where a
        kernel goes on from what the caller's memory holds."""
        if any(type(item).__module__.startswith("mindspore.") for tensor in tensors for item in _flat(tensor)):
            if out_values:
                raise AscendcError(describe(self.name, "out_values", "beside MindSpore tensors", "NumPy arrays"))
            return importlib.import_module("ms_custom_ops.mindspore.ascendc").call(self, tensors, named)
        arrays = arrays_of(self.name, self.inputs, tensors, named)
        attributes = self.attribute_values(named)
        values = [
            contiguous(array) if param.reads_values else None for param, array in zip(self.inputs, arrays, strict=True)
        ]
        launch = self.launch(
            [_shapes(array) for array in arrays], [dtype_names(a) for a in arrays], attributes, values, out_shapes
        )
        return (_run or self.run)(launch, arrays, **({"out_values": out_values} if out_values else {}))

    def check(
        self,
        *tensors: Any,
        out_shapes: Sequence[Any] | None = None,
        values: bool = False,
        time_limit: float | None = None,
        **named: Any,
    ) -> Report:
        """A call with every access of the kernel looked at; see :meth:`Kernel.check`. Outputs without an InitValue hold
        nothing before the kernel has written them."""
        return self(*tensors, out_shapes=out_shapes, **named, _run=functools.partial(self._checked, values, time_limit))

    def profile(
        self,
        *tensors: Any,
        out_shapes: Sequence[Any] | None = None,
        chip: CostChip | None = None,
        traced_blocks: int = 2,
        traced_slices: int = 100_000,
        time_limit: float | None = None,
        **named: Any,
    ) -> Profile:
        """Modelled time of a call; see :meth:`Kernel.profile`."""
        run = functools.partial(
            self.profile_launch, chip=chip, traced_blocks=traced_blocks, traced_slices=traced_slices,
            time_limit=time_limit,
        )  # fmt: skip
        return self(*tensors, out_shapes=out_shapes, **named, _run=run)

    def profile_launch(
        self, launch: Launch, arrays: Sequence[Array], out_values: Mapping[str, Any] | None = None, **how: Any
    ) -> Profile:
        """Modelled time of a prepared call; ``how``: keywords of :meth:`Kernel.profile`."""
        found: list[Profile] = []

        def take(block_dim: int, *args: Any, threads: int, reverse: bool, outputs: Any, **named: Any) -> None:
            found.append(launch.kernel.profile(block_dim, *args, **named, **how))

        self.run(launch, arrays, call=take, out_values=out_values)
        if not found:
            raise AscendcError(describe(self.name, "outputs", "without elements", "a call that runs a kernel"))
        return found[0]

    def launch(
        self,
        shapes: Sequence[Shapes],
        dtypes: Sequence[Sequence[str]],
        attributes: Sequence[Any],
        values: Sequence[Array] = (),
        out_shapes: Sequence[Any] | None = None,
    ) -> Launch:
        """A call of these shapes and dtypes (for each input the names it may have), None and () where absent; of a
        DYNAMIC input a list of shapes.

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
        shapes: Sequence[Shapes],
        dtypes: Sequence[Sequence[str]],
        attributes: Sequence[Any],
        values: Sequence[Array],
        out_shapes: Sequence[Shape | list[Shape]] | None,
    ) -> Launch:
        op = self.definition
        fitting, out_types, in_types = combination(op, self.inputs, self.outputs, dtypes)
        chosen = ["" if not names else names[0] for names in fitting]
        call = self._host.call(op, self.soc.name)
        for number, (shape, dtype) in enumerate(zip(shapes, chosen, strict=True)):
            for item, value in zip(_listed(shape), _listed(values[number] if values else None, shape), strict=True):
                call.add_input(number, Tensor(tuple(item), dtype, value))
        call.add_attributes(attributes)
        instances = next((len(shape) for shape in shapes if isinstance(shape, list)), 0)
        given = [None] * len(self.outputs) if out_shapes is None else out_shapes
        groups = tuple(
            0 if param.option != DYNAMIC else len(shape) if isinstance(shape, list) else instances
            for param, shape in zip(self.outputs, given, strict=True)
        )
        owners = [n for n in range(len(out_types)) for _ in range(groups[n] or 1)]
        fixed = None if out_shapes is None else [tuple(one) for shape in out_shapes for one in _listed(shape)]
        inferred = call.infer([(n, out_types[n]) for n in owners], fixed)
        # The kernel is compiled for the combination of the OpDef, whatever its InferDataType says.
        settled = [bool(dtype) and not param.listed for dtype, param in zip(out_types, self.outputs, strict=True)]
        outputs = [
            (shape, out_types[n] if settled[n] else dtype) for n, (shape, dtype) in zip(owners, inferred, strict=True)
        ]
        later = not values and any(
            param.reads_values and shape is not None for param, shape in zip(self.inputs, shapes, strict=True)
        )
        if later and self._variants.several:
            accepted = "one kernel and one tiling structure for all keys, in a graph"
            raise AscendcError(describe(op.name, "tiling", "of values, with kernels by tiling key", accepted))
        tiling = Tiling(1, 0, b"", 0) if later else call.tile()
        types = dict(zip((p.name for p in self.inputs), in_types, strict=True))
        firsts = [sum(count or 1 for count in groups[:n]) for n in range(len(groups))]
        types |= {p.name: outputs[first][1] for p, first in zip(self.outputs, firsts, strict=True)}
        kernel = self._kernel(types, tiling.tiling_key)
        slots: list[tuple[str, int] | None] = [
            ("input", i) if shape is not None else None for i, shape in enumerate(shapes)
        ]
        in_place = op.in_place
        copies = {n: in_place[p.name] for n, p in enumerate(self.outputs) if p.name in in_place}
        for output, source in copies.items():  # one memory, which the kernel gets twice
            slots[source] = ("output", output)
        slots += [("output", i) for i in range(len(groups))]
        init = {n: p.init for n, p in enumerate(self.outputs) if p.init is not None and n not in copies}
        lists = tuple(len(shape) if isinstance(shape, list) else 0 for shape in shapes)
        return Launch(
            kernel, tiling, tuple(outputs), lists, groups, tuple(slots), copies, init, call if later else None
        )

    def _warn_of_chip(self) -> None:
        """Once, where the op does not name the chip it runs on."""
        op, chip = self.definition, config_name(self.soc.family)
        if op.configs and chip not in op.configs:
            text = describe(op.name, "AddConfig", ", ".join(sorted(op.configs)), chip)
            warnings.warn(f"{op.file}:{op.line}: {text}; it runs all the same", RuntimeWarning, stacklevel=5)

    def _kernel(self, dtypes: Mapping[str, str], tiling_key: int) -> Kernel:
        """The kernel for dtypes, built when first needed."""
        op, structs = self.definition, self._host.structs
        variant = self._variants.of(tiling_key)
        known = self._kernels.get((tuple(dtypes.items()), variant.key))
        if known is not None:
            return known
        if self._source is None:
            accepted = f"op_kernel/{op.entry}.cpp, the name of the op in lower case"
            at = f"{op.file}:{op.line}: "
            raise AscendcBuildError(at + describe(op.name, "kernel", "missing", accepted))
        self._warn_of_chip()
        text = kernel_header(op, dtypes, structs, variant.key)
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        header = compiler.store() / "tiling" / name / f"{op.entry}_of_op_host.h"
        if not header.is_file():
            header.parent.mkdir(parents=True, exist_ok=True)
            temporary = header.with_suffix(f".{os.getpid()}")
            temporary.write_text(text)
            os.replace(temporary, header)  # others may read it at any time
        kernel = build([self._source, header], variant.entry, self.soc.name, self._folders,
                       (*self._defines, *variant.defines), optimize=self._optimize)  # fmt: skip
        self._kernels[tuple(dtypes.items()), variant.key] = kernel
        return kernel

    def run(
        self,
        launch: Launch,
        arrays: Sequence[Array],
        *,
        threads: int = 0,
        reverse: bool = False,
        call: Callable[..., Any] | None = None,
        out_values: Mapping[str, Any] | None = None,
    ) -> Any:
        """Outputs of a prepared call; ``arrays``: one entry for each input of the OpDef. ``threads`` and ``reverse``
        are those of :class:`Kernel`; ``call``: what runs the kernel in place of itself; ``out_values``: what outputs
        hold before, by name."""
        inputs = [contiguous(array) for array in arrays]
        flat = iter(launch.outputs)
        outputs = [self._output(launch, number, inputs, flat) for number in range(len(launch.groups))]
        made = [None if count else memory for memory, count in zip(outputs, launch.groups, strict=True)]
        starts = start_values(self.name, self.outputs, launch.copies, made, out_values or {})
        for number, start in starts.items():
            outputs[number][...] = start
        if not outputs or any(array.size for output in outputs for array in _listed(output)):
            sides = {"input": inputs, "output": outputs}
            entries = [None if slot is None else sides[slot[0]][slot[1]] for slot in launch.slots]
            tiling = launch.tiling
            empty = [
                array
                for number, output in enumerate(outputs)
                if number not in launch.copies and number not in launch.init and number not in starts
                for array in _listed(output)
                if array.size
            ]
            (call or launch.kernel)(
                tiling.block_dim,
                *(descriptor(entry) if isinstance(entry, list) else entry for entry in entries),
                tiling=tiling.data,
                tiling_key=tiling.tiling_key,
                workspace=launch.user_workspace,
                threads=threads,
                reverse=reverse,
                reachable=[array for entry in entries if isinstance(entry, list) for array in entry],
                outputs=empty,
            )
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _output(self, launch: Launch, number: int, inputs: Sequence[Array], flat: Iterator[tuple[Shape, str]]) -> Any:
        """Memory of one output, as it is before the kernel runs."""
        if number in launch.copies:
            source = inputs[launch.copies[number]]
            for _ in range(launch.groups[number] or 1):
                next(flat)
            return [array.copy() for array in source] if isinstance(source, list) else source.copy()  # type: ignore
        made = []
        for _ in range(launch.groups[number] or 1):
            shape, dtype = next(flat)
            made.append(np.zeros(shape, storage(dtype, inputs)))
            if launch.init.get(number):
                made[-1][...] = launch.init[number]
        return made if launch.groups[number] else made[0]

    def attribute_values(self, named: Mapping[str, Any]) -> list[Any]:
        """One value for each attribute of the OpDef, checked, defaults filled in."""
        return attribute_values(self.definition, self.inputs, named)

    def _checked_shapes(self, shapes: Sequence[Any]) -> list[Shape | list[Shape]]:
        """One entry for each output, a list of shapes for a DYNAMIC one."""
        try:
            listed = [
                [tuple(map(int, one)) for one in shape] if param.option == DYNAMIC else tuple(map(int, shape))
                for param, shape in zip(self.outputs, shapes, strict=True)
            ]
            if all(size >= 0 for shape in listed for one in _listed(shape) for size in one):
                return listed
        except (TypeError, ValueError):
            pass
        names = ", ".join(p.name + (" (a list of shapes)" if p.option == DYNAMIC else "") for p in self.outputs)
        raise AscendcError(describe(self.name, "out_shapes", str(shapes), f"a shape for each of {names}"))


def _shapes(entry: Array) -> Shapes:
    if isinstance(entry, list):
        return [array.shape for array in entry]
    return None if entry is None else entry.shape


def _flat(entry: Any) -> Sequence[Any]:
    return entry if isinstance(entry, list | tuple) else [entry]


def _listed(entry: Any, like: Shapes = ()) -> list[Any]:
    """Entries of one input or output; as many None as ``like`` has where there are none."""
    if entry is None:
        return [None] * (len(like) if isinstance(like, list) else like is not None and like != ())
    return entry if isinstance(entry, list) else [entry]
