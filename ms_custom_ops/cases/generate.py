# SPDX-License-Identifier: Apache-2.0
"""Case files and smoke lists as planned cases of one chip. The same seed gives the same cases."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ms_custom_ops.cases.base import case_data
from ms_custom_ops.cases.generated import Generated
from ms_custom_ops.cases.model import AttrValue, CaseFile, CaseFileError, InputCases, PlannedCase
from ms_custom_ops.cases.reference import Reference
from ms_custom_ops.errors import MsCustomOpsError, SocError, describe
from ms_custom_ops.lower.steps import lower_call
from ms_custom_ops.registry.call_values import match_soc
from ms_custom_ops.registry.dtypes import CODE_TO_NAME
from ms_custom_ops.registry.public import Operand
from ms_custom_ops.registry.spec import DtypeRow, OpSpec, Shape

_TRIES = 1000
_LARGEST = 64  # of a random size whose tensors have no max_length


def _rng(seed: int, *parts: str) -> np.random.Generator:
    return np.random.default_rng((seed, *(zlib.crc32(part.encode()) for part in parts)))


def _case_seed(seed: int, name: str) -> tuple[int, ...]:
    return seed, zlib.crc32(name.encode())


def _chip_codes(op: OpSpec, soc: str) -> tuple[str, ...]:
    key = match_soc(soc, list(op.target.soc))
    if key is None:
        raise SocError(describe(op.name, "soc", repr(soc), ", ".join(op.target.soc)))
    return op.target.soc[key]


def smoke_cases(op: OpSpec, soc: str, seed: int = 0) -> list[PlannedCase]:
    """The ``cases`` of an op_info file whose dtype chip ``soc`` has, at the primitive, with the op's usual data.

    Raises:
        SocError: the op has no kernel for the chip.
        OpInfoError: the cases.py of the op's folder leaves it out.
    """
    case_data(op)
    codes, result = _chip_codes(op, soc), []
    for case in op.cases:
        if case.dtype not in codes:
            continue
        shapes, dtypes, attrs = op.case_call(case)
        symbols = op.check_call(shapes, dtypes, attrs, soc)
        result.append(PlannedCase(case.name, op, "primitive", symbols, shapes, dtypes, attrs, {}, {},
                                  _case_seed(seed, case.name)))  # fmt: skip
    return result


def file_cases(file: CaseFile, soc: str, seed: int = 0) -> list[PlannedCase]:
    """The cases of a file that chip ``soc`` has dtypes for: listed shapes, random shapes, invalid calls.

    Every listed shape runs with every dtype combination and, in rounds, with every entry of every input's ranges,
    values and layouts; the lists advance together and the shorter ones start again. A random shape takes one
    random entry of each. The generator of a file in the form of the operators' home makes all but the invalid calls.

    Raises:
        CaseFileError: no dtype combination, or no random shape, obeys the op. UserCodeError: the generator failed.
        SocError: as for smoke_cases.
    """
    maker = _Maker(file, soc, seed)
    cases = [*maker.listed(), *maker.random(), *maker.invalid()]
    if not cases:
        raise CaseFileError(
            describe("cases", file.path, f"no case for {soc}", "dtypes " + ", ".join(_chip_codes(file.op, soc)))
        )
    return cases


class _Maker:
    def __init__(self, file: CaseFile, soc: str, seed: int):
        self.file, self.op, self.soc, self.seed = file, file.op, soc, seed
        self.tensors = [i for i in file.inputs if self.is_tensor(i.name)]
        self.attributes = [i for i in file.inputs if not self.is_tensor(i.name)]
        self.rows = self.dtype_rows()

    def is_tensor(self, name: str) -> bool:
        return any(arg.name == name for arg in self.op.tensors)

    def dtype_rows(self) -> list[DtypeRow]:
        """Combinations of the op that the file's dtypes allow and the chip has."""
        names = {i.name: i.dtypes or tuple(CODE_TO_NAME.values()) for i in self.tensors}
        allowed = [row for row in self.op.dtype_rows if all(CODE_TO_NAME[row.codes[n]] in d for n, d in names.items())]
        if not allowed:
            given = "; ".join(f"{n} {', '.join(d)}" for n, d in names.items())
            raise CaseFileError(describe("cases", f"dtypes in {self.file.path}", given, f"a row of {self.op.location}"))
        codes = _chip_codes(self.op, self.soc)
        return [row for row in allowed if all(row.codes[n] in codes for n in self.op.dtype_group)]

    def rounds(self) -> int:
        sizes = [max(len(i.fills), len(i.values), len(i.layouts), 1 if i.required else 2) for i in self.file.inputs]
        return max(sizes, default=1)

    def listed(self) -> Iterator[PlannedCase]:
        for sizes in self.file.shapes:
            symbols = dict(zip(self.file.symbols, sizes, strict=True))
            for row in self.rows:
                for step in range(self.rounds()):
                    yield self.plan(symbols, row, [step] * len(self.file.inputs), f"r{step}")

    def random(self) -> Iterator[PlannedCase]:
        generated = self.generated()
        if generated is not None:
            yield from generated.cases()
            return
        for row in self.rows:
            rng = _rng(self.seed, "random", *row.codes.values())
            for number in range(self.file.count):
                yield self.draw(rng, row, f"random{number}")

    def generated(self) -> Generated | None:
        """The file's generator, None without one, and where the chip has none of the dtypes."""
        design = self.file.design
        if design is None or design.generator is None or not self.rows:
            return None
        known = {i.name: {CODE_TO_NAME[row.codes[i.name]] for row in self.op.dtype_rows} for i in self.tensors}
        there = {i.name: {CODE_TO_NAME[row.codes[i.name]] for row in self.rows} for i in self.tensors}
        # What no row has is brought to one by the public function, before the kernel.
        dtypes = {
            i.name: [d for d in i.dtypes or sorted(there[i.name]) if d in there[i.name] or d not in known[i.name]]
            for i in self.tensors
        }
        return Generated(self.file, design, self.seed, dtypes, self.check)

    def draw(self, rng: np.random.Generator, row: DtypeRow, label: str) -> PlannedCase:
        reason = ""
        for _ in range(_TRIES):
            symbols = {name: self.size(rng, name) for name in self.file.symbols}
            steps = [int(step) for step in rng.integers(0, 60, len(self.file.inputs))]
            case = self.plan(symbols, row, steps, label)
            too_long = self.too_long(case)
            if too_long:
                reason = too_long
                continue
            try:
                self.check(case)
            except MsCustomOpsError as error:
                reason = str(error)
                continue
            return case
        raise CaseFileError(
            describe("cases", f"random shapes in {self.file.path}", f"{_TRIES} that break the op's rules, the last "
                     f"one with '{reason}'", "sizes in generate.random or max_length that obey them")
        )  # fmt: skip

    def size(self, rng: np.random.Generator, symbol: str) -> int:
        """A random size. Where ``max_length`` counts elements, small ones are as likely as large ones."""
        sizes = self.sizes(symbol)
        if self.file.design is None:
            return int(rng.choice(sizes))
        return sizes[int(len(sizes) ** rng.random()) - 1]

    def too_long(self, case: PlannedCase) -> str:
        """What has more elements than the ``max_length`` of a file in the form of the operators' home."""
        for i in self.tensors if self.file.design is not None else ():
            length = math.prod(case.shapes.get(i.name) or ())
            if i.max_length and length > i.max_length:
                return f"{i.name} of {length} elements, max_length is {i.max_length}"
        return ""

    def sizes(self, symbol: str) -> Sequence[int]:
        """What a random size is drawn from."""
        limits = [
            i.max_length
            for i in self.tensors
            for arg in self.op.tensors
            if arg.name == i.name and i.max_length and any(dim.symbol == symbol for dim in arg.shape)
        ]
        longest = min(limits, default=_LARGEST)
        listed = self.file.candidates.get(symbol)
        return [s for s in listed if not limits or s <= longest] if listed else range(1, longest + 1)

    def check(self, case: PlannedCase) -> None:
        """The op's check of the call as its primitive would see it."""
        if case.form == "primitive":
            self.op.check_call(case.shapes, case.dtypes, case.attrs, self.soc)
            return
        operands = {n: Operand(case.shapes[n], case.dtypes[n]) for n in case.present}
        steps = lower_call(self.op.name, operands, case.attrs)[1]
        if not steps.empty:
            chains = steps.inputs.items()
            shapes = {n: None if x is None else x.shape for n, x in chains}
            dtypes = {n: None if x is None else x.dtype for n, x in chains}
            self.op.check_call(shapes, dtypes, steps.attributes, self.soc)

    def plan(self, symbols: Mapping[str, int], row: DtypeRow, steps: Sequence[int], label: str) -> PlannedCase:
        env: dict[str, Any] = dict(symbols)
        for name, expr in self.op.symbols.items():
            if expr.names <= env.keys():
                env[name] = expr.evaluate(env)
        sizes = "-".join(f"{n}{s}" for n, s in symbols.items())
        name = "-".join((sizes, *dict.fromkeys(row.codes[i.name] for i in self.tensors), label))
        rng = _rng(self.seed, name)
        shapes: dict[str, Shape | None] = {}
        dtypes: dict[str, str | None] = {}
        fills, layouts, attrs = {}, {}, {}
        chosen = [(i, step) for i, step in zip(self.file.inputs, steps, strict=True) if i.required or step % 2]
        for given, step in chosen:
            if not self.is_tensor(given.name) and given.values:
                attrs[given.name] = _attr(given.values[step % len(given.values)], env, rng, self.kind(given.name))
        known = {**{arg.name: arg.default for arg in self.op.attributes if arg.has_default}, **env, **attrs}
        for given, step in chosen:
            if not self.is_tensor(given.name):
                continue
            shapes[given.name] = self.shape(given.name, known)
            dtypes[given.name] = CODE_TO_NAME[row.codes[given.name]]
            layouts[given.name] = given.layouts[step % len(given.layouts)]
            if given.fills:
                fills[given.name] = given.fills[step % len(given.fills)]
        design, reference = self.file.design, None
        if design is not None and design.reference is not None:
            reference = Reference(design.reference, design.folder, design.api_name, design.called)
        return PlannedCase(name, self.op, self.file.form, env, shapes, dtypes, attrs, fills, layouts,
                           _case_seed(self.seed, name), self.file.standards, reference=reference)  # fmt: skip

    def kind(self, name: str) -> str:
        return next(arg.kind for arg in self.op.attributes if arg.name == name)

    def shape(self, name: str, env: Mapping[str, Any]) -> Shape:
        arg = next(arg for arg in self.op.tensors if arg.name == name)
        return tuple(dim.alternatives[-1].evaluate(env) for dim in arg.shape)

    def invalid(self) -> Iterator[PlannedCase]:
        """One case for each invalid entry: a good call with that one thing wrong."""
        wrong = [(i.invalid_values, i.invalid_fills, i.invalid_dtypes, i.invalid_shapes) for i in self.file.inputs]
        if not self.rows or not any(map(any, wrong)):
            return
        generated = self.generated()
        if generated is not None:
            base = generated.case(0)
        elif self.file.shapes:
            symbols = dict(zip(self.file.symbols, self.file.shapes[0], strict=True))
            base = self.plan(symbols, self.rows[0], [1 if not i.required else 0 for i in self.file.inputs], "")
        else:
            base = self.draw(_rng(self.seed, "invalid"), self.rows[0], "")
        for given in self.file.inputs:
            for what, changed in self.broken(base, given):
                name = f"invalid-{given.name}-{what}"
                yield replace(base, name=name, invalid=f"{given.name}: {what}", expected_error=given.expected_error,
                              seed=_case_seed(self.seed, name), **changed)  # fmt: skip

    def broken(self, base: PlannedCase, given: InputCases) -> Iterator[tuple[str, dict[str, Any]]]:
        name = given.name
        for value in given.invalid_values:
            rng = _rng(self.seed, name, str(value))
            attr = _attr(value, base.symbols, rng, self.kind(name))
            yield str(value), {"attrs": {**base.attrs, name: attr}}
        for fill in given.invalid_fills:
            yield str(fill), {"fills": {**base.fills, name: fill}}
        for dtype in given.invalid_dtypes:
            yield dtype, {"dtypes": {**base.dtypes, name: dtype}}
        for dims in given.invalid_shapes:
            shape = tuple(dim.evaluate(base.symbols) for dim in dims)
            what = "x".join(dim.text for dim in dims) or "scalar"
            # Layouts and filled triangles speak of axes that the wrong shape may lack.
            fills = {n: f for n, f in base.fills.items() if n != name}
            yield what, {"shapes": {**base.shapes, name: shape}, "fills": fills,
                         "layouts": {**base.layouts, name: "contiguous"}}  # fmt: skip


def _attr(value: AttrValue, env: Mapping[str, Any], rng: np.random.Generator, kind: str) -> Any:
    if value.expr is not None:
        return value.expr.evaluate(env)
    if value.drawn is None:
        return value.literal
    low, high = value.drawn
    return int(rng.integers(int(low), int(high) + 1)) if kind == "int" else float(rng.uniform(low, high))
