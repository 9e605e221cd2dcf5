# SPDX-License-Identifier: Apache-2.0
"""Binding of a feed by names to the arguments of a Program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ms_custom_ops.engine.addressed import give_back, lay_out, memory_of
from ms_custom_ops.engine.reference.memory import POISON
from ms_custom_ops.errors import TikError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import DTYPES, FLOATS, INT_RANGE, SIZE
from ms_custom_ops.program.isa import ISA

_API = "tikdb.start_debug"


def written_buffers(program: ir.Program) -> set[int]:
    """Indices of the buffers that some statement writes."""
    found: set[int] = set()
    bodies = [program.body]
    while bodies:
        for s in bodies.pop():
            if isinstance(s, ir.Instr):
                row = ISA[s.op]
                found.update(r.buffer.index for i, r in enumerate(s.tensors) if row.writes(i))
            elif isinstance(s, ir.Store):
                found.add(s.ref.buffer.index)
            else:
                bodies += ir.bodies(s)
    return found


class Feed:
    """Arrays of one run. ``inputs``, ``scalars`` and ``outputs`` are in the order of the Program;
    :meth:`finish` writes results of in-place arguments back into the arrays that were given."""

    def __init__(self, program: ir.Program, feed: Any, shapes: Any, api: str = _API):
        if not isinstance(feed, Mapping):
            raise TikError(describe(api, "feed_dict", type(feed).__name__, "a dict of argument name to array"))
        self.program, self.api = program, api
        memory = memory_of(program)
        fed = [i for i in program.inputs if i != memory]
        names = [program.buffers[i].name for i in fed]
        names += [program.registers[i].name for i in program.input_scalars]
        self._check_names(names, feed)
        written = written_buffers(program)
        self.given = {i: feed[program.buffers[i].name] for i in fed}
        reached: list[np.ndarray] = []
        if memory is not None:
            values, laid_out = lay_out(program, [program.buffers[i] for i in fed], list(self.given.values()))
            self.given = dict(zip(fed, values, strict=True))
            reached = [laid_out]
        self.inputs = [self._input(program.buffers[i], self.given[i], i in written) for i in fed] + reached
        self.scalars = [
            self._scalar(program.registers[i], feed[program.registers[i].name]) for i in program.input_scalars
        ]
        held = dict(zip(program.inputs, self.inputs, strict=True))
        self.outputs = [held[i] if i in held else self._output(program.buffers[i], shapes) for i in program.outputs]

    def finish(self) -> list[np.ndarray]:
        """The outputs, in order; an output that repeats an input is the array that was given for it."""
        give_back(self.inputs)
        for index, array in zip(self.program.inputs, self.inputs, strict=True):
            given = self.given.get(index)
            if array is not given and isinstance(given, np.ndarray) and given.flags.writeable:
                given[...] = array
        return [
            self.given[i] if i in self.given else array
            for i, array in zip(self.program.outputs, self.outputs, strict=True)
        ]

    def _check_names(self, names: list[str], feed: Mapping[str, Any]) -> None:
        missing = [n for n in names if n not in feed]
        unknown = [str(n) for n in feed if n not in names]
        if missing or unknown:
            parts = [f"without {', '.join(missing)}"] * bool(missing)
            parts += [f"with unknown {', '.join(unknown)}"] * bool(unknown)
            raise TikError(
                describe(f"{self.api} of {self.program.name}", "feed_dict", " and ".join(parts), ", ".join(names))
            )

    def _input(self, buffer: ir.Buffer, given: Any, written: bool) -> np.ndarray:
        what = f"{self.api} of {self.program.name}"
        if not isinstance(given, np.ndarray):
            raise TikError(describe(what, buffer.name, type(given).__name__, "a NumPy array"))
        wanted = DTYPES[buffer.dtype].numpy
        if given.dtype != wanted:
            raise TikError(describe(what, f"dtype of {buffer.name}", given.dtype, wanted))
        self._check_shape(what, buffer, given.shape)
        if written and not given.flags.writeable:
            raise TikError(describe(what, f"{buffer.name}, which the kernel writes,", "read-only", "a writeable array"))
        return np.ascontiguousarray(given).reshape(given.shape)

    def _check_shape(self, what: str, buffer: ir.Buffer, shape: tuple[int, ...]) -> None:
        wanted = tuple(buffer.shape)
        if len(shape) != len(wanted) or any(w not in (-1, s) for s, w in zip(shape, wanted, strict=True)):
            raise TikError(describe(what, f"shape of {buffer.name}", list(shape), list(wanted)))

    def _scalar(self, register: ir.Register, given: Any) -> int | float:
        what = f"{self.api} of {self.program.name}"
        array = np.asarray(given)
        if array.size != 1 or array.dtype.kind not in "iufb":
            raise TikError(describe(what, register.name, repr(given), f"one number ({register.dtype})"))
        value = array.reshape(-1)[0].item()
        if register.dtype in FLOATS:
            return float(value)
        low, high = INT_RANGE[register.dtype]
        if value != int(value) or not low <= value <= high:
            raise TikError(describe(what, register.name, value, f"an integer of {low}..{high} ({register.dtype})"))
        return int(value)

    def _output(self, buffer: ir.Buffer, shapes: Any) -> np.ndarray:
        shape = tuple(buffer.shape)
        if any(d < 0 for d in shape):
            what = f"{self.api} of {self.program.name}"
            if not isinstance(shapes, Mapping) or buffer.name not in shapes:
                raise TikError(
                    describe(
                        what,
                        f"shape of output {buffer.name}",
                        f"{list(shape)} (known at run time only)",
                        f"desc_tensor={{{buffer.name!r}: [...]}}",
                    )
                )
            asked = tuple(int(d) for d in shapes[buffer.name])
            self._check_shape(what, buffer, asked)
            shape = asked
        # Undefined until the kernel writes it: a result that reads NaN or -1 was never written.
        raw = np.full(int(np.prod(shape)) * SIZE[buffer.dtype], POISON, np.uint8)
        return raw.view(DTYPES[buffer.dtype].numpy).reshape(shape)
