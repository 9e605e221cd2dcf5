# SPDX-License-Identifier: Apache-2.0
"""``BuildCCE``: the arguments of a kernel and the end of its Program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ms_custom_ops.errors import TikError, TikScopeError
from ms_custom_ops.program import ir, limits
from ms_custom_ops.tik.addresses import TensorAddrList
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.registers import record_atomic_modes
from ms_custom_ops.tik.scalar import InputScalar
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.where import user_location


class BuildMixin:
    """``Tik`` method BuildCCE and its checks."""

    _b: Builder
    programs: list[ir.Program]
    kernel_names: list[str]

    def BuildCCE(
        self,
        kernel_name,
        inputs,
        outputs,
        output_files_path=None,
        enable_l2=False,
        config=None,
        flowtable=None,
        evaluates=None,
        extend_params=None,
    ):
        """Finish the kernel: arguments are inputs, outputs, flowtable, workspaces. Returns the instance. The
        options of the compiler (output_files_path, enable_l2, config, evaluates, extend_params) have no
        effect here."""
        b = self._b
        if len(b.frames) > 1:
            raise TikScopeError("BuildCCE: is called inside an open scope", user_location())
        if not isinstance(kernel_name, str) or not kernel_name:
            raise b.fail(TikError, "BuildCCE", "kernel_name", repr(kernel_name), "a non-empty string")
        if config is not None and not (isinstance(config, dict) and all(isinstance(k, str) for k in config)):
            raise b.fail(TikError, "BuildCCE", "config", type(config).__name__, "a dict with string keys")
        ins, outs = self._arguments("inputs", inputs), self._arguments("outputs", outputs)
        table = self._arguments("flowtable", flowtable)
        self._keep_constants({id(a.storage) for a in (*ins, *outs, *table) if isinstance(a, Tensor)})
        self._check_arguments(ins, outs, table)
        program = b.program
        if b.cmpmask is not None and b.cmpmask.storage.used and not self.programs:
            program.body.insert(0, ir.Alloc(b.cmpmask.storage.buffer, 0))
        if "atomic_add" in b.modes and not self.programs:
            record_atomic_modes(program.body, b.modes["atomic_add"])
        program.body[:0] = b.prologue
        b.prologue = []
        program.name = kernel_name
        program.meta = {"kernel": kernel_name}
        self._leave_out_placed()
        program.inputs = [a.storage.buffer.index for a in (*ins, *table) if isinstance(a, Tensor)]
        program.inputs += [
            a.storage.buffer.index
            for a in outs
            if isinstance(a, TensorAddrList) and a.storage.buffer.index not in program.inputs
        ]  # the addresses are there at the start
        if b.memory is not None:
            program.inputs.append(b.memory.buffer.index)
            program.meta[ir.MEMORY_META] = str(b.memory.buffer.index)
        program.outputs = [a.storage.buffer.index for a in outs]
        program.input_scalars = [a.value for a in (*ins, *table) if isinstance(a, InputScalar)]
        program.workspaces = [x.index for x in program.buffers if x.scope == ir.GM and x.kind == "workspace"]
        for buffer in program.buffers:
            if buffer.kind == "output":
                buffer.kind = "input"  # of an earlier call
        for index in program.outputs:
            if index not in program.inputs:
                program.buffers[index].kind = "output"
        self.kernel_names.append(kernel_name)
        if not self.programs:
            self.programs.append(program)
        return self

    def _leave_out_placed(self) -> None:
        """Tensors at addresses are places of device memory: they have no buffer of their own."""
        program = self._b.program
        placed = {id(s.buffer) for s in self._b.frames[0].storages if s.address is not None}
        if placed:
            program.buffers[:] = [x for x in program.buffers if id(x) not in placed]
            for index, buffer in enumerate(program.buffers):
                buffer.index = index

    def _arguments(self, what: str, items: Any) -> list:
        if items is None:
            return []
        if isinstance(items, (Tensor, InputScalar)):
            items = [items]
        if not isinstance(items, (list, tuple)):
            raise self._b.fail(TikError, "BuildCCE", what, type(items).__name__, "a list of GM tensors")
        seen_scalar = False
        for k, item in enumerate(items):
            if isinstance(item, InputScalar) and what != "outputs":
                seen_scalar = True
                continue
            if not isinstance(item, Tensor):
                raise self._b.fail(
                    TikError,
                    "BuildCCE",
                    f"{what}[{k}]",
                    type(item).__name__,
                    "a GM Tensor" + ("" if what == "outputs" else " or an InputScalar"),
                )
            if item.storage.buffer.scope != ir.GM:
                raise self._b.fail(
                    TikScopeError, "BuildCCE", f"scope of {what}[{k}] ({item.name})", item.storage.buffer.scope, "gm"
                )
            if seen_scalar and what == "inputs":
                raise self._b.fail(
                    TikError,
                    "BuildCCE",
                    f"inputs[{k}]",
                    "a tensor after an InputScalar",
                    "InputScalars after all tensors",
                )
        return list(items)

    def _check_arguments(self, ins: Sequence, outs: Sequence, table: Sequence) -> None:
        b = self._b
        spaces = [x for x in b.program.buffers if x.scope == ir.GM and x.kind == "workspace"]
        names = {id(a.storage.buffer) if isinstance(a, Tensor) else id(a): a.name for a in (*ins, *outs, *table)}
        names.update({id(x): x.name for x in spaces})
        if len(names) > limits.ARGUMENTS:
            raise b.fail(
                TikError,
                "BuildCCE",
                "number of arguments",
                f"{len(names)} ({', '.join(names.values())})",
                f"at most {limits.ARGUMENTS} inputs, outputs, flowtable entries and workspaces",
            )
        for what, items in (("inputs", ins), ("outputs", outs)):
            ids = [id(a.storage.buffer) if isinstance(a, Tensor) else id(a) for a in items]
            twice = sorted({a.name for a, i in zip(items, ids, strict=False) if ids.count(i) > 1})
            if twice:
                raise b.fail(TikError, "BuildCCE", what, f"{', '.join(twice)} more than once", "each argument once")
        values = list(names.values())
        twice = sorted({n for n in values if values.count(n) > 1})
        if twice:
            raise b.fail(
                TikError, "BuildCCE", "argument names", f"{', '.join(twice)} more than once", "different names"
            )
        placed = sorted(a.name for a in (*ins, *outs) if isinstance(a, Tensor) and a.storage.address is not None)
        if placed:
            given, accepted = f"{', '.join(placed)}, placed at an address", "tensors with memory of their own"
            raise b.fail(TikError, "BuildCCE", "inputs and outputs", given, accepted)
        both = sorted(a.name for a in (*ins, *outs) if isinstance(a, Tensor) and a.storage.is_workspace)
        if both:
            raise b.fail(
                TikError,
                "BuildCCE",
                "inputs and outputs",
                f"workspace {', '.join(both)}",
                "tensors made without is_workspace",
            )
        self._check_unlisted(names)

    def _keep_constants(self, listed: set[int]) -> None:
        """A GM tensor with a value of its own that is no argument is a workspace that starts with it; of arguments the
        framework fills those of atomic adds alone."""
        for storage in self._b.frames[0].storages:
            buffer = storage.buffer
            if buffer.scope == ir.GM and buffer.init_value is not None and id(storage) not in listed:
                storage.is_workspace, buffer.kind = True, "workspace"
            elif buffer.scope == ir.GM and id(storage) in listed and not buffer.atomic_init:
                buffer.init_value = None  # the caller's memory is as it is

    def _check_unlisted(self, names: dict[int, str]) -> None:
        b = self._b
        lost = [
            s
            for s in b.frames[0].storages
            if s.buffer.scope == ir.GM and s.used and s.address is None and id(s.buffer) not in names
        ]
        if lost:
            raise b.fail(
                TikError,
                "BuildCCE",
                "GM tensors used but not listed",
                ", ".join(f"{s.buffer.name} (created at {s.location})" for s in lost),
                "every GM tensor in inputs or outputs, or made with is_workspace=True or an init_value",
            )
