# SPDX-License-Identifier: Apache-2.0
"""What an op is, as frozen values: the result of loading one entry of an op_info file.

Nothing here imports MindSpore or a kernel; functions named in the file are resolved only when asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ms_custom_ops.registry.dtypes import CODE_TO_NAME
from ms_custom_ops.registry.expr import Expr

if TYPE_CHECKING:
    from ms_custom_ops.registry.public import PublicSpec

Shape = tuple[int, ...]
Shapes = Mapping[str, "Sequence[int] | None"]
Dtypes = Mapping[str, "str | None"]

# The form of an absent optional tensor (or of a return whose `present_if` argument is absent) at the
# primitive.
ABSENT_SHAPE: Shape = (1,)
ABSENT_DTYPE = "uint8"


@dataclass(frozen=True)
class Dim:
    """One entry of a shape: a symbol that is bound, or one or more expressions of which one must hold."""

    text: str
    symbol: str | None
    alternatives: tuple[Expr, ...]


@dataclass(frozen=True)
class ArgSpec:
    """One argument: a tensor (``shape`` set) or an attribute (``kind`` int, float, bool or str)."""

    name: str
    kind: str
    optional: bool
    has_default: bool
    default: Any
    shape: tuple[Dim, ...]
    doc: str

    @property
    def is_tensor(self) -> bool:
        return self.kind == "tensor"

    @property
    def shape_text(self) -> str:
        return "(" + ", ".join(dim.text for dim in self.shape) + ")"


@dataclass(frozen=True)
class ReturnSpec:
    """One output. ``dtype_from`` names a tensor argument or a dtype; ``present_if`` an optional argument."""

    name: str
    shape: tuple[Dim, ...]
    dtype_from: str
    present_if: str | None
    inplace: str | None
    doc: str

    @property
    def shape_text(self) -> str:
        return "(" + ", ".join(dim.text for dim in self.shape) + ")"


@dataclass(frozen=True)
class Constraint:
    """A condition on symbols, attributes, present() and dtype(); ``msg`` says it in words."""

    expr: Expr
    msg: str


@dataclass(frozen=True)
class DtypeRow:
    """One supported combination: dtype code of every tensor argument and return."""

    codes: Mapping[str, str]
    format: str


@dataclass(frozen=True)
class BpropArg:
    """One operand of a formula: ``kind`` is "input", "out" (``index``), "dout" (``index``), "attr" or "literal"
    (``value``). ``zeros``: not the tensor itself, but zeros of its shape and dtype."""

    kind: str
    name: str
    index: int = 0
    value: Any = None
    zeros: bool = False


@dataclass(frozen=True)
class BpropRule:
    """``inputs`` get, in order, the outputs of ``op`` called with ``args`` (target argument -> operand)."""

    inputs: tuple[str, ...]
    op: str
    args: Mapping[str, BpropArg]
    text: str


@dataclass(frozen=True)
class Bprop:
    """The gradient of an op: formula lines, inputs without a gradient, and which outputs carry one."""

    rules: tuple[BpropRule, ...]
    non_differentiable: tuple[str, ...]
    output_differentiability: tuple[bool, ...]


@dataclass(frozen=True)
class AscendcImpl:
    """An Ascend C project that computes the same: its folder as a dotted name, the name of the OpDef, the chip families
    it is written for, and (``when``) a condition on attributes and present() for the calls that it takes."""

    project: str
    op: str
    families: tuple[str, ...]
    when: Expr | None = None


@dataclass(frozen=True)
class Impl:
    """Dotted names ("module:function") of the kernel and the golden, and the module of the tiling plan."""

    entry: str
    kernel_name: str
    golden: str
    tiling: str
    ascendc: AscendcImpl | None = None


@dataclass(frozen=True)
class Target:
    """Chips (or chip families) and the dtype codes each of them has for this op."""

    soc: Mapping[str, tuple[str, ...]]
    deterministic: bool


@dataclass(frozen=True)
class Tolerance:
    """|a - g| <= atol + rtol * |g| for at least ``matched`` of the elements, |a - g| / max(1, |g|) <=
    ``worst``.

    ``rms`` (optional) caps rms(a - g) / rms(g). Source of the defaults: design/OP_INFO rule 3, the mixed
    tolerance of the public operator-accuracy standard of the CANN ecosystem.
    """

    rtol: float
    atol: float
    worst: float
    matched: float = 0.99
    rms: float | None = None


@dataclass(frozen=True)
class Case:
    """A smoke case: values of the symbols, attributes that differ from their defaults, optional tensors
    given."""

    name: str
    dtype: str
    symbols: Mapping[str, int]
    attrs: Mapping[str, Any]
    present: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class OpSpec:
    """One op. ``args`` are in call order; tensors and attributes are also available apart. ``package`` is the import
    name of the package of ops that it belongs to."""

    name: str
    class_name: str
    function_name: str
    args: tuple[ArgSpec, ...]
    returns: tuple[ReturnSpec, ...]
    symbols: Mapping[str, Expr]
    constraints: tuple[Constraint, ...]
    dtype_rows: tuple[DtypeRow, ...]
    dtype_group: tuple[str, ...]
    bprop: Bprop | None
    impl: Impl
    target: Target
    accuracy: Mapping[str, Tolerance]
    status: Mapping[str, int]
    cases: tuple[Case, ...]
    doc: str
    location: str
    raw: Mapping[str, Any]
    public: PublicSpec | None = None
    """What the public function takes, where it is not the primitive."""
    package: str = "ms_custom_ops"
    composition: str = ""
    """"module:function" of the same op in MindSpore's own operators, for comparison; "" where there is none."""

    @property
    def tensors(self) -> tuple[ArgSpec, ...]:
        return tuple(arg for arg in self.args if arg.is_tensor)

    @property
    def optional_tensors(self) -> tuple[ArgSpec, ...]:
        return tuple(arg for arg in self.args if arg.is_tensor and arg.optional)

    @property
    def attributes(self) -> tuple[ArgSpec, ...]:
        return tuple(arg for arg in self.args if not arg.is_tensor)

    def check_call(self, shapes: Shapes, dtypes: Dtypes, attrs: Mapping[str, Any], soc: str) -> dict[str, int]:
        """Checks a call and returns the shape symbols, derived ones included.

        Args:
            shapes: tensor argument -> shape, or None (or no entry) for an absent optional tensor.
            dtypes: tensor argument -> full dtype name ("float16"), None where absent.
            attrs: attribute -> value; attributes with a default may be left out.
            soc: full chip name, for example "Ascend910B1".

        Raises:
            OpArgumentError: rank, shape, attribute or constraint.
            OpDtypeError: no such dtype combination, or not on this chip.
            SocError: the op has no kernel for the chip.
        """
        from ms_custom_ops.registry.call import check_call

        return check_call(self, shapes, dtypes, attrs, soc)[0]

    def infer(self, shapes: Shapes, dtypes: Dtypes, attrs: Mapping[str, Any], soc: str) -> list[tuple[Shape, str]]:
        """(shape, full dtype name) of every return; arguments and errors as for :meth:`check_call`."""
        from ms_custom_ops.registry.call import infer

        return infer(self, shapes, dtypes, attrs, soc)

    def named_inputs(self, values: Sequence[Any], present: Sequence[bool]) -> dict[str, Any]:
        """Positional tensor inputs of the primitive -> {argument: value, or None where absent}.

        Args:
            values: one value per tensor argument, in order; absent optional tensors hold their placeholder.
            present: one flag per OPTIONAL tensor argument, in order.
        """
        from ms_custom_ops.registry.call import named_inputs

        return named_inputs(self, values, present)

    def case_call(self, case: Case) -> tuple[dict[str, Shape | None], dict[str, str | None], dict[str, Any]]:
        """Shapes, dtypes and attributes of a smoke case, ready for :meth:`check_call`."""
        from ms_custom_ops.registry.call import case_call

        return case_call(self, case)

    def tolerance(self, dtype: str) -> Tolerance | None:
        """Tolerance for a full dtype name; None means exact (integers and bool)."""
        return self.accuracy.get(dtype)

    def soc_dtypes(self, soc_key: str) -> tuple[str, ...]:
        """Full dtype names the op has on a chip key of ``target.soc``."""
        return tuple(CODE_TO_NAME[code] for code in self.target.soc[soc_key])
