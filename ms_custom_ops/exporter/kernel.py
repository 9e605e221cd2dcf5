# SPDX-License-Identifier: Apache-2.0
"""The source of an exported kernel: one function for each case and core, and the entry that chooses by tiling key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ms_custom_ops.errors import ExportError
from ms_custom_ops.exporter.body import Body
from ms_custom_ops.exporter.cores import MAILBOX, Parts, parts_of
from ms_custom_ops.exporter.expressions import CPP
from ms_custom_ops.exporter.helpers import text_of
from ms_custom_ops.exporter.holds import written_out
from ms_custom_ops.exporter.places import ROOM
from ms_custom_ops.exporter.scopes import Names, identifier
from ms_custom_ops.program import ir
from ms_custom_ops.program.cores import CUBE, VECTOR
from ms_custom_ops.program.dtypes import SIZE

_POSITION = {ir.UB: "VECCALC", ir.L1: "A1", ir.L0A: "A2", ir.L0B: "B2", ir.L0C: "CO1"}
_MOST_VALUES = 16384  # of one table in the kernel's source
_ALIGN = 512  # bytes between tensors of the workspace
_TITLE = {"": "", CUBE: "Cube", VECTOR: "Vector"}


@dataclass(frozen=True)
class KernelCase:
    """A traced case. ``tensors``: C++ names of its inputs and then of its outputs, in the Program's order, among the
    parameters of the kernel. ``key``: its tiling key."""

    name: str
    key: int
    program: ir.Program
    tensors: tuple[str, ...]


@dataclass
class CaseFacts:
    """What host code needs of a case: blocks, bytes of workspace, kinds of cores, length of its source."""

    blocks: int
    workspace: int
    kind: str
    lines: int = 0
    waits: int = 0


@dataclass
class KernelSource:
    """``text`` of the kernel; ``facts`` by case."""

    text: str
    facts: dict[str, CaseFacts] = field(default_factory=dict)


def camel(name: str) -> str:
    """``one_chunk`` as ``OneChunk``."""
    return "".join(part[:1].upper() + part[1:] for part in identifier(name).split("_"))


def kernel_source(entry: str, parameters: Sequence[str], cases: Sequence[KernelCase], note: str = "") -> KernelSource:
    """The kernel ``entry`` whose GM parameters are ``parameters``, in order.

    Raises:
        ExportError: an instruction that cannot go to the chip, with its line.
    """
    helpers: set[str] = set()
    result = KernelSource("")
    functions: list[str] = []
    kinds = {}
    for case in cases:
        writer = _Case(case, helpers)
        functions.append(writer.text)
        result.facts[case.name] = writer.facts
        kinds[case.key] = writer
    arguments = "".join(f"GM_ADDR {p}, " for p in parameters)
    lines = [f"// {note}" for note in note.splitlines()]
    lines += ['#include "kernel_operator.h"', "", "using namespace AscendC;", ""]
    if helpers:
        lines += [text_of(helpers)]
    lines += functions
    lines += [f'extern "C" __global__ __aicore__ void {entry}({arguments}GM_ADDR workspace, GM_ADDR tiling)', "{"]
    lines += _entry(kinds)
    lines += ["}", ""]
    result.text = "\n".join(lines)
    return result


def _entry(cases: dict[int, _Case]) -> list[str]:
    """The body of the entry."""
    types = {writer.facts.kind for writer in cases.values()}
    lines = []
    if len(types) == 1:
        kind = next(iter(types))
        lines += [f"    KERNEL_TASK_TYPE_DEFAULT({kind});"] if kind else []
    else:
        lines += [
            f"    KERNEL_TASK_TYPE({key}, {writer.facts.kind});" for key, writer in cases.items() if writer.facts.kind
        ]
    if any(writer.program.input_scalars for writer in cases.values()):
        lines.append("    GET_TILING_DATA(scalars, tiling);")
    lines += ["    GM_ADDR user = GetUserWorkspace(workspace);", "    TPipe pipe;"]
    for position, (key, writer) in enumerate(cases.items()):
        lines.append(f"    {'} else ' if position else ''}if (TILING_KEY_IS({key})) {{")
        lines += [f"        {line}" for line in writer.calls]
    return [*lines, "    }"]


def _check_starts(program: ir.Program) -> None:
    """ExportError for what a kernel of Ascend C does not find in GM as a TIK kernel does."""
    for b in (program.buffers[i] for i in program.outputs):
        if b.atomic_init and b.init_value:
            raise ExportError(f"{program.name}: output {b.name} starts with an init_value other than 0; accepted: 0, "
                              "which the framework fills it with, or values that the kernel writes")  # fmt: skip


class _Case:
    """The functions of one case."""

    def __init__(self, case: KernelCase, helpers: set[str]):
        self.case, self.program, self.helpers = case, case.program, helpers
        program = case.program
        _check_starts(program)
        blocks = program.block_num
        if blocks is None:
            raise ExportError(f"{program.name}: the number of blocks is known only at run time; accepted: known "
                              "while tracing")  # fmt: skip
        parts = parts_of(program, written_out(program))
        self.offsets, size = self._workspace(parts, blocks)
        mixed = len(parts.bodies) == 2
        self.facts = CaseFacts(blocks, size, self._kind(parts), waits=len(parts.waits))
        self.calls: list[str] = []
        self.constants: dict[str, str] = {}  # by name
        texts = []
        for core, body in parts.bodies.items():
            texts.append(self._function(core, body, parts, mixed))
        self.text = "\n".join([*self.constants.values(), *([""] if self.constants else []), *texts])
        self.facts.lines = self.text.count("\n")

    def _kind(self, parts: Parts) -> str:
        if not self.program.split_cores:
            return ""
        if len(parts.bodies) == 2:
            return "KERNEL_TYPE_MIX_AIC_1_1"
        return "KERNEL_TYPE_AIC_ONLY" if CUBE in parts.bodies else "KERNEL_TYPE_AIV_ONLY"

    def _workspace(self, parts: Parts, blocks: int) -> tuple[dict[int, int], int]:
        """Place of each workspace tensor, and bytes of all."""
        places: dict[int, int] = {}
        at = 0
        for index in self.program.workspaces:
            buffer = self.program.buffers[index]
            if buffer.size_bytes < 0:
                raise ExportError(f"{self.program.name}: workspace {buffer.name} has a size of the run; "
                                  "accepted: a size known while tracing")  # fmt: skip
            places[index] = at
            at += -(-buffer.size_bytes // _ALIGN) * _ALIGN
        if parts.mailbox is not None:
            places[parts.mailbox.index] = at
            at += parts.mailbox.size_bytes * blocks
        return places, at

    def _function(self, core: str, body: list, parts: Parts, mixed: bool) -> str:
        names = Names()
        tensors = dict(zip((*self.program.inputs, *self.program.outputs), self.case.tensors, strict=True))
        for name in (*dict.fromkeys(tensors.values()), "user", "pipe", *ROOM.values()):
            names.take_top(name)
        scalars = {i: names.take_top(self.program.registers[i].name) for i in self.program.input_scalars}
        part = Body(self.program, body, core, names, self.helpers, scalars, mixed)
        cleared = self._cleared(part, core, mixed)
        part.write()
        title = f"{camel(self.case.name)}{_TITLE[core]}"
        used = [p for p in dict.fromkeys(tensors.values())
                if any(tensors.get(b) == p for b, _ in part.places.globals)]  # fmt: skip
        works = any(b not in tensors for b, _ in part.places.globals)
        arguments = [*(f"GM_ADDR {p}" for p in used), *(["GM_ADDR user"] if works else []),
                     *(f"{CPP[self.program.registers[i].dtype]} {name}" for i, name in scalars.items())]  # fmt: skip
        lines = [f"__aicore__ inline void {title}({', '.join(['TPipe& pipe', *arguments])})", "{"]
        lines += self._globals(part, tensors, parts)
        lines += self._rooms(part)
        lines += [f"    {line}" for line in (*part.head, *cleared)]
        given = [f"scalars.{self.program.registers[i].name}" for i in scalars]
        call = f"{title}({', '.join(['pipe', *used, *(['user'] if works else []), *given])});"
        if mixed:
            self.calls.append(f"if ASCEND_IS_{'AIC' if core == CUBE else 'AIV'} {{ {call} }}")
        else:
            self.calls.append(call)
        return "\n".join([*lines, *part.lines, "}", ""])

    def _cleared(self, part: Body, core: str, mixed: bool) -> list[str]:
        """Tensors of the workspace that a TIK kernel finds filled: the first block fills them, the others wait."""
        lines = []
        filled = [self.program.buffers[i] for i in self.program.workspaces]
        for b in (b for b in filled if b.atomic_init or b.init_value is not None):
            if core != CUBE and isinstance(b.init_value, bytes):
                lines += self._table(part, b)
            elif core != CUBE:
                value = part.writer.text(b.init_value or 0, b.dtype)
                count = b.size_bytes // SIZE[b.dtype]
                lines.append(f"    InitGlobalMemory({part.places.tensor(b, b.dtype)}, {count}, {value});")
        if lines or (core == CUBE and mixed and any(b.atomic_init or b.init_value is not None for b in filled)):
            inside = ["if (GetBlockIdx() == 0) {", *lines, "}"] if lines else []
            return [*inside, "PipeBarrier<PIPE_ALL>();", "SyncAll<false>();" if mixed else "SyncAll();"]
        return []

    def _table(self, part: Body, b: ir.Buffer) -> list[str]:
        """A table of values: constants of the kernel, stored by the scalar unit."""
        words = np.frombuffer(b.init_value, f"<u{SIZE[b.dtype]}").tolist()
        if len(words) > _MOST_VALUES:
            raise ExportError(f"{self.program.name}: init_value of {b.name} is a list of {len(words)} values; "
                              f"accepted: at most {_MOST_VALUES}, or an input that holds them")  # fmt: skip
        kind = f"uint{8 * SIZE[b.dtype]}"
        name = f"{camel(self.case.name)}{camel(b.name)}Values"
        suffix = "ull" if SIZE[b.dtype] == 8 else "u" if SIZE[b.dtype] == 4 else ""
        self.constants[name] = f"constexpr {kind}_t {name}[] = {{{', '.join(f'{w}{suffix}' for w in words)}}};"
        tensor = part.places.tensor(b, kind)
        return [f"    for (uint32_t i = 0; i < {len(words)}; ++i) {{ {tensor}.SetValue(i, {name}[i]); }}",
                f"    DataCacheCleanAndInvalid<{kind}_t, CacheLine::ENTIRE_DATA_CACHE>({tensor});"]  # fmt: skip

    def _globals(self, part: Body, tensors: dict[int, str], parts: Parts) -> list[str]:
        lines = []
        for (index, dtype), name in part.places.globals.items():
            mailbox = parts.mailbox if parts.mailbox is not None and parts.mailbox.index == index else None
            buffer = mailbox or self.program.buffers[index]
            kind = CPP[dtype]
            base = tensors.get(index)
            if base is None:
                at = self.offsets[index]
                base = f"user + {at}" if at else "user"
                if buffer.name == MAILBOX:
                    base = f"user + {at} + GetBlockIdx() * {buffer.size_bytes}"
            count = f", {buffer.size_bytes // SIZE[dtype]}" if buffer.size_bytes >= 0 else ""
            where = f"({base})" if " " in base else base
            lines.append(f"    GlobalTensor<{kind}> {name}; {name}.SetGlobalBuffer((__gm__ {kind}*){where}{count});")
        return lines

    @staticmethod
    def _rooms(part: Body) -> list[str]:
        """One buffer for each memory that holds a tensor: tensors keep their planned addresses in it."""
        lines = []
        for scope, end in part.places.ends.items():
            name = ROOM[scope]
            lines.append(
                f"    TBuf<TPosition::{_POSITION[scope]}> {name}; pipe.InitBuffer({name}, {-(-end // 32) * 32});"
            )
        return lines
