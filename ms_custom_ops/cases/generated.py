# SPDX-License-Identifier: Apache-2.0
"""Cases that the generator beside a case file makes: inputs are drawn one by one, and it brings them into agreement."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ms_custom_ops.cases.model import CaseFile, Design, DesignInput, Fill, PlannedCase
from ms_custom_ops.cases.names import DTYPES, full_dtype, short_dtype
from ms_custom_ops.cases.reference import Reference
from ms_custom_ops.cases.user_code import UserCodeError, find_generator, seeded, user_code
from ms_custom_ops.compat import atk
from ms_custom_ops.errors import MsCustomOpsError, OpDtypeError
from ms_custom_ops.registry.spec import ArgSpec, Shape

_TRIES = 100
_NO_SHAPE = "null"


class Generated:
    """The cases of ``file`` on one chip. ``dtypes``: argument -> what it can be there; ``check`` raises what is wrong
    with a case."""

    def __init__(
        self, file: CaseFile, design: Design, seed: int, dtypes: Mapping[str, Sequence[str]],
        check: Callable[[PlannedCase], None],
    ):  # fmt: skip
        assert design.generator is not None
        self.file, self.design, self.seed, self.dtypes, self.check = file, design, seed, dtypes, check
        self.args = {arg.name: arg for arg in file.op.args}
        code = design.generator.after_case_config.__code__
        self.place = f"{code.co_filename}:{code.co_firstlineno}"
        self.what = f"generator {design.generator.__name__}"
        # Run anew: tables of the module itself start again for every chip.
        kind = find_generator(design.folder, str(design.config.generate)) or design.generator
        with user_code(f"{self.what}.__init__", design.folder), seeded(seed):
            self.generator = kind(design.config)

    def cases(self) -> Iterator[PlannedCase]:
        """``dtype_numbers`` cases. One that breaks the op's rules is planned all the same: running it says which; only
        combinations of dtypes that the op or the chip does not have are drawn again."""
        for number in range(self.file.count):
            yield self.case(number)

    def case(self, number: int) -> PlannedCase:
        for attempt in range(_TRIES):
            case = self.planned(number, attempt)
            try:
                self.check(case)
            except OpDtypeError as error:
                reason = error
            except MsCustomOpsError:
                return case
            else:
                return case
        raise UserCodeError(f"cases: {self.what}: {_TRIES} cases of dtypes that the op does not have, the last one "
                            f"with '{reason}'; accepted: dtypes that agree [{self.place}]")  # fmt: skip

    def planned(self, number: int, attempt: int) -> PlannedCase:
        rng = np.random.default_rng((self.seed, number, attempt))
        with seeded(self.seed, number, attempt):
            config = self.config(rng, number + attempt)
            config.id = number
            with user_code(f"{self.what}.after_case_config of case {number}", self.design.folder):
                config = self.generator.after_case_config(config)
        items = getattr(config, "inputs", None)
        if not isinstance(items, list) or len(items) != len(self.design.inputs):
            self.bad("after_case_config", f"a {type(config).__name__}",
                     f"the CaseConfig with its {len(self.design.inputs)} inputs")  # fmt: skip
        return self.plan(rng, number, config)

    def config(self, rng: np.random.Generator, number: int) -> atk.CaseConfig:
        items = []
        for index, given in enumerate(self.design.inputs):
            item = self.draw(rng, given, number)
            with user_code(f"{self.what}.after_input_config of input {index}", self.design.folder):
                items.append(self.generator.after_input_config(index, item))
        top = {k: v for k, v in vars(self.design.config).items() if k != "inputs"}
        return atk.CaseConfig(items, **{**top, "name": self.design.api_name})

    def draw(self, rng: np.random.Generator, given: DesignInput, number: int) -> atk.InputCaseConfig:
        """One input, by itself. Dtypes come in turn, so that every one is there."""
        able = self.dtypes.get(given.argument, ())
        choices = [d for d in given.dtypes if not able or full_dtype(d) in able]
        choices = choices or [short_dtype(d) for d in able]
        dtype = str(choices[number % len(choices)]) if choices else ""
        value: Any = given.ranges[int(rng.integers(len(given.ranges)))] if given.ranges else None
        tensor = given.kind.startswith("tensor")
        if not tensor and _pair(value) and all(isinstance(v, int) for v in value):
            value = int(rng.integers(value[0], value[1] + 1))
        shape = self.shape(rng, given) if tensor else None
        return atk.InputCaseConfig(given.name or None, given.kind, dtype, shape, value, given.required)

    @staticmethod
    def shape(rng: np.random.Generator, given: DesignInput) -> list[int]:
        rank = int(given.ranks[int(rng.integers(len(given.ranks)))])
        sizes: list[int] = []
        for axis in range(rank):
            choices = given.sizes[min(axis, len(given.sizes) - 1)]
            low, high = choices[int(rng.integers(len(choices)))]
            sizes.append(int(rng.integers(low, high + 1)))
        while given.max_length and math.prod(sizes) > given.max_length:
            largest = sizes.index(max(sizes))
            sizes[largest] = (sizes[largest] + 1) // 2 if sizes[largest] > 1 else 1
        return sizes

    def plan(self, rng: np.random.Generator, number: int, config: atk.CaseConfig) -> PlannedCase:
        shapes: dict[str, Shape | None] = {}
        dtypes: dict[str, str | None] = {}
        fills: dict[str, Fill] = {}
        attrs: dict[str, Any] = {}
        extras: dict[int, Any] = {}
        for index, (given, item) in enumerate(zip(self.design.inputs, config.inputs, strict=True)):
            arg = self.args.get(given.argument)
            if arg is None:
                extras[index] = self.value(rng, item.range_values, "")
            elif not arg.is_tensor:
                attrs[arg.name] = self.value(rng, item.range_values, arg.kind)
            elif not (arg.has_default and item.range_values in (_NO_SHAPE, [_NO_SHAPE])):
                shapes[arg.name] = self.sizes(index, item.shape)
                dtypes[arg.name] = full_dtype(item.dtype)
                if dtypes[arg.name] is None:
                    self.bad(f"inputs[{index}].dtype", repr(item.dtype), ", ".join(DTYPES))
                fill = self.fill(index, item.range_values)
                if fill is not None:
                    fills[arg.name] = fill
        env = self.symbols(shapes)
        name = "-".join((f"generated{number}", *(f"{n}{s}" for n, s in env.items()),
                         *dict.fromkeys(str(d) for d in dtypes.values())))  # fmt: skip
        reference = None
        if self.design.reference is not None:
            reference = Reference(self.design.reference, self.design.folder, self.design.api_name,
                                  self.design.called, extras, config)  # fmt: skip
        layouts = {n: "contiguous" for n in shapes}
        return PlannedCase(name, self.file.op, self.file.form, env, shapes, dtypes, attrs, fills, layouts,
                           (self.seed, number), self.file.standards, reference=reference)  # fmt: skip

    def symbols(self, shapes: Mapping[str, Shape | None]) -> dict[str, int]:
        """Sizes of the op's axes, as far as the shapes say."""
        env: dict[str, int] = {}
        for name, shape in shapes.items():
            dims = self.args[name].shape if isinstance(self.args[name], ArgSpec) else ()
            for dim, size in zip(dims, shape or (), strict=False):
                if dim.symbol:
                    env.setdefault(dim.symbol, size)
        return env

    def sizes(self, index: int, shape: Any) -> Shape:
        if isinstance(shape, (list, tuple)) and all(_whole(s) and s >= 0 for s in shape):
            return tuple(int(s) for s in shape)
        return self.bad(f"inputs[{index}].shape", repr(shape), "a list of ints of 0 or more")

    def value(self, rng: np.random.Generator, given: Any, kind: str) -> Any:
        """An attribute's value: one of two numbers is drawn, a list of one is that one."""
        if isinstance(given, (list, tuple)) and len(given) == 1:
            given = given[0]
        if _pair(given):
            low, high = given
            given = int(rng.integers(int(low), int(high) + 1)) if kind == "int" else float(rng.uniform(low, high))
        if isinstance(given, np.generic):
            given = given.item()
        return int(given) if kind == "int" and isinstance(given, float) and given.is_integer() else given

    def fill(self, index: int, given: Any) -> Fill | None:
        if isinstance(given, (list, tuple)) and len(given) == 1:
            given = given[0]
        if given is None:
            return None
        if _pair(given) and given[0] <= given[1] and all(map(math.isfinite, given)):
            return Fill("uniform", float(given[0]), float(given[1]))
        if _number(given):
            return Fill("constant", 0.0, float(given))
        return self.bad(f"inputs[{index}].range_values", repr(given), "[low, high], a number or None")

    def bad(self, what: str, given: str, accepted: str) -> Any:
        raise UserCodeError(f"cases: {self.what}: {what} is {given}; accepted: {accepted} [{self.place}]")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _pair(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(map(_number, value))
