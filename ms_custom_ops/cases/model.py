# SPDX-License-Identifier: Apache-2.0
"""What a case file holds, one planned case, and the result of running it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ms_custom_ops.errors import MsCustomOpsError
from ms_custom_ops.registry.expr import Expr
from ms_custom_ops.registry.spec import OpSpec, Shape

if TYPE_CHECKING:
    from ms_custom_ops.cases.reference import Reference
    from ms_custom_ops.compat import atk


class CaseFileError(MsCustomOpsError, ValueError):
    """A case file breaks its schema (all findings are reported together), or gives no case."""


@dataclass(frozen=True)
class Fill:
    """Values of a tensor: ``kind`` uniform (``low``, ``high``), normal (``high`` = standard deviation) or
    constant (``high``). ``upper`` and ``lower`` replace what is on and above, on and below the diagonal of the
    last two axes."""

    kind: str
    low: float
    high: float
    upper: float | None = None
    lower: float | None = None

    def __str__(self) -> str:
        text = {"uniform": f"[{self.low:g}, {self.high:g}]", "normal": f"normal {self.high:g}"}.get(
            self.kind, f"{self.high:g}"
        )
        extra = [f"{n} {v:g}" for n, v in (("upper", self.upper), ("lower", self.lower)) if v is not None]
        return ", ".join((text, *extra))


@dataclass(frozen=True)
class AttrValue:
    """Value of an attribute: an expression over the shape symbols, a range to draw from, or a literal."""

    literal: Any = None
    expr: Expr | None = None
    drawn: tuple[float, float] | None = None

    def __str__(self) -> str:
        return self.expr.text if self.expr else str(list(self.drawn)) if self.drawn else repr(self.literal)


@dataclass(frozen=True)
class InputCases:
    """One entry of ``inputs``. Empty ``fills`` stand for the op's usual values, empty ``dtypes`` for every
    dtype of the op. The ``invalid_*`` give one case each, which must be refused."""

    name: str
    required: bool
    dtypes: tuple[str, ...] = ()
    fills: tuple[Fill, ...] = ()
    values: tuple[AttrValue, ...] = ()
    layouts: tuple[str, ...] = ("contiguous",)
    max_length: int | None = None
    invalid_fills: tuple[Fill, ...] = ()
    invalid_values: tuple[AttrValue, ...] = ()
    invalid_dtypes: tuple[str, ...] = ()
    invalid_shapes: tuple[tuple[Expr, ...], ...] = ()
    expected_error: str = ""


@dataclass(frozen=True)
class Standard:
    """One comparator of ``standard.acc`` and its numbers by full dtype name."""

    name: str
    numbers: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class DesignInput:
    """One entry of ``inputs`` as ATK draws it: ``argument`` of the op ("" of an attribute that only the file's code
    knows), ``name`` ("" of a positional one), ``dtypes`` and ``ranges`` as they are written, ``sizes``: (low, high)
    choices of every axis or of each, ``max_length`` in elements."""

    argument: str
    name: str
    kind: str
    required: bool
    dtypes: tuple[Any, ...]
    ranges: tuple[Any, ...]
    ranks: tuple[int, ...]
    sizes: tuple[tuple[tuple[int, int], ...], ...]
    max_length: int | None


@dataclass(frozen=True)
class Design:
    """What a file in the form of the operators' home has beside it in ``folder``: the classes of its ``generate`` and
    its ``api_type``, None where there is none. ``config``: the file, its keys as attributes."""

    folder: Path
    api_name: str
    generator: type[atk.CaseGenerator] | None
    reference: type[atk.BaseApi] | None
    inputs: tuple[DesignInput, ...]
    config: Any

    @property
    def called(self) -> tuple[tuple[str, str, str], ...]:
        """(argument, name, kind) of each input."""
        return tuple((i.argument, i.name, i.kind) for i in self.inputs)


@dataclass(frozen=True)
class CaseFile:
    """A read case file. ``form`` is "function" (arguments of the public function) or "primitive" (arguments
    of the op_info file). ``shapes`` are listed sizes of ``symbols``, ``candidates`` what random sizes are
    drawn from, ``count`` the random cases per dtype combination (with ``design``: all of them), ``notes`` keys that
    have no effect here. ``design``: of a file in the form of the operators' home."""

    path: str
    op: OpSpec
    form: str
    inputs: tuple[InputCases, ...]
    symbols: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    candidates: Mapping[str, tuple[int, ...]]
    count: int
    standards: tuple[Standard, ...]
    notes: tuple[str, ...] = ()
    design: Design | None = None


@dataclass(frozen=True)
class PlannedCase:
    """One call: everything but the arrays, which ``seed`` makes. ``invalid`` says what is wrong on purpose,
    and then the call must be refused with ``expected_error`` in the text. ``reference``: the file's own."""

    name: str
    op: OpSpec
    form: str
    symbols: Mapping[str, int]
    shapes: Mapping[str, Shape | None]
    dtypes: Mapping[str, str | None]
    attrs: Mapping[str, Any]
    fills: Mapping[str, Fill]
    layouts: Mapping[str, str]
    seed: tuple[int, ...]
    standards: tuple[Standard, ...] = ()
    invalid: str = ""
    expected_error: str = ""
    reference: Reference | None = None

    @property
    def present(self) -> list[str]:
        """Names of the tensors that are there, in the order of the op."""
        return [arg.name for arg in self.op.tensors if self.shapes.get(arg.name) is not None]


@dataclass(frozen=True)
class OutputError:
    """Distance of one output from another: rms of the difference over rms of the other, largest absolute difference and
    where it is, and the share of elements within the tolerance (of equal ones, for integers)."""

    name: str
    rms: float
    worst: float
    matched: float = 1.0
    at: tuple[int, ...] = ()


def _figures(comparison: Any) -> dict[str, Any]:
    """Its values, to nine digits: the last bits of a golden in float64 depend on the threads that its products have."""
    return {n: float(f"{v:.9g}") if isinstance(v, float) else v for n, v in vars(comparison).items()}


@dataclass
class Result:
    """A case on a chip. ``verdict``: "pass", "fail" (wrong values, or accepted although invalid) or "error"
    (an error where there should be none); ``message`` explains the latter two and quotes refusals. ``outputs`` is the
    kernel's distance from the golden; a file's own reference adds the kernel's from it, and its from the golden."""

    case: PlannedCase
    soc: str
    way: str
    verdict: str = "pass"
    message: str = ""
    outputs: list[OutputError] = field(default_factory=list)
    from_reference: list[OutputError] = field(default_factory=list)
    reference_from_golden: list[OutputError] = field(default_factory=list)
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Plain values for a report."""
        case = self.case
        return {
            "name": case.name, "op": case.op.name, "form": case.form, "soc": self.soc, "way": self.way,
            "shapes": {n: list(case.shapes[n] or ()) for n in case.present},
            "dtypes": {n: case.dtypes[n] for n in case.present},
            "attrs": dict(case.attrs), "fills": {n: str(f) for n, f in case.fills.items()},
            "layouts": dict(case.layouts), "seed": list(case.seed), "invalid": case.invalid,
            "verdict": self.verdict, "message": self.message, "seconds": round(self.seconds, 4),
            "outputs": [_figures(o) for o in self.outputs],
            "from_reference": [_figures(o) for o in self.from_reference],
            "reference_from_golden": [_figures(o) for o in self.reference_from_golden],
        }  # fmt: skip
