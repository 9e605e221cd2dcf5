# SPDX-License-Identifier: Apache-2.0
"""Tensors of a kernel: views of a storage with TIK's indexing rules.

An index of an n-dimensional tensor by one index flattens it; otherwise each dimension needs an index and the
rank is kept. A view's capacity reaches from its start to the end of the underlying tensor.
"""

from __future__ import annotations

import operator
from typing import Any

from ms_custom_ops.errors import TikAlignError, TikError, TikOverflowError, TikScopeError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import DTYPES, FLOATS, SIZE
from ms_custom_ops.program.expr import Expr, as_expr, binary, cast
from ms_custom_ops.tik.builder import Storage
from ms_custom_ops.tik.memory import memory, place
from ms_custom_ops.tik.scopes import TIK_SCOPE
from ms_custom_ops.where import user_location

Index = Any  # int, Expr or slice
_GM_WRITE_FAMILIES = ("910B",)
_RAW = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}


def product(shape: tuple) -> Any:
    """Product of a shape: int, or Expr when a dimension is known only at run time."""
    total: Any = 1
    for dim in shape:
        total = total * dim
    return total


def as_index(value: Any) -> Any:
    """int of a Python or NumPy integer or constant expression, Expr otherwise."""
    if value.__class__ is int:
        return value
    if isinstance(value, Expr):
        e = value.get()
        return int(e.value) if e.op == "const" else e
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        raise TikError(
            f"tensor index is {type(value).__name__}; accepted: int, Scalar, expression or slice", user_location()
        ) from None


def difference(stop: Any, start: Any) -> Any:
    """``stop - start``; an int also where both are expressions that differ by a constant (``t[i : i + 8]``)."""
    if stop.__class__ is int and start.__class__ is int:
        return stop - start
    constant = 0
    terms: dict[Any, int] = {}
    for sign, side in ((1, stop), (-1, start)):
        linear = linear_form(side)
        if linear is None:
            return stop - start
        constant += sign * linear[0]
        for key, factor in linear[1].items():
            terms[key] = terms.get(key, 0) + sign * factor
    return stop - start if any(terms.values()) else constant


def linear_form(e: Any) -> tuple[int, dict[Any, int]] | None:
    """An integer expression as (constant, factor of each register or other term); None for a float."""
    if e.__class__ is int:
        return e, {}
    if e.dtype in FLOATS:
        return None
    if e.op == "const":
        return int(e.value), {}
    if e.op == "cast" and e.a.dtype not in FLOATS and SIZE[e.dtype] >= SIZE[e.a.dtype]:
        return linear_form(e.a)
    if e.op in ("+", "-", "*"):
        a, b = linear_form(e.a), linear_form(e.b)
        if a is None or b is None:
            return None
        if e.op != "*":
            sign = 1 if e.op == "+" else -1
            return a[0] + sign * b[0], {k: a[1].get(k, 0) + sign * b[1].get(k, 0) for k in {**a[1], **b[1]}}
        if not b[1] or not a[1]:
            factor, other = (b[0], a) if not b[1] else (a[0], b)
            return other[0] * factor, {k: v * factor for k, v in other[1].items()}
    return 0, {("var", e.value) if e.op == "var" else id(e): 1}


def contiguous_strides(shape: tuple) -> tuple:
    """Row-major strides in elements."""
    strides: list = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        strides[k] = strides[k + 1] * shape[k + 1]
    return tuple(strides)


class Tensor:
    """A view: ``offset`` elements of ``dtype`` into a storage, with a shape and strides."""

    __slots__ = ("storage", "_dtype", "_shape", "strides", "offset", "total", "dense", "point", "_ref")

    def __init__(
        self,
        storage: Storage,
        dtype: str,
        shape: tuple,
        strides: tuple,
        offset: Any,
        total: int | None,
        dense: bool = True,
        point: bool = False,
    ):
        self.storage = storage
        self._dtype = dtype
        self._shape = shape
        self.strides = strides
        self.offset = offset
        self.total = total
        self.dense = dense
        self.point = point
        self._ref: ir.Ref | None = None

    # ---- attributes ----
    @property
    def name(self) -> str:
        """Name given when the tensor was made."""
        return self.storage.buffer.name

    @property
    def dtype(self) -> str:
        """dtype of the view."""
        return self._dtype

    @property
    def shape(self) -> tuple:
        """Shape of the view; dimensions known only at run time are expressions."""
        return self._shape

    @property
    def scope(self) -> str:
        """Scope string, e.g. ``tik.scope_ubuf``."""
        return TIK_SCOPE[self.storage.buffer.scope]

    @property
    def size(self) -> Any:
        """Elements of the view."""
        return product(self._shape)

    @property
    def buffer_size(self) -> Any:
        """Bytes of the view."""
        return self.size * SIZE[self._dtype]

    def ref(self) -> ir.Ref:
        """IR operand of the view's start."""
        if self._ref is None:
            self._ref = self.ref_as(self._dtype)
        return self._ref

    def ref_as(self, dtype: str) -> ir.Ref:
        """The same, of a dtype of the same width."""
        address = self.storage.address
        if address is None:
            return ir.Ref(self.storage.buffer, dtype, self.offset)
        return ir.Ref(memory(self.storage.builder).buffer, dtype, place(address, self.offset, dtype))

    def bytes_left(self) -> int | None:
        """Bytes from the view's start to the end of the tensor; None when that is known only at run time."""
        if self.total is None or self.offset.__class__ is not int:
            return None
        return (self.total - self.offset) * SIZE[self._dtype]

    def is_tensor_slice(self) -> bool:
        """Whether the view is not a whole, densely stored tensor."""
        size = self.size
        return not self.dense or self.total is None or size.__class__ is not int or size != self.total

    def is_single_point(self) -> bool:
        """Whether the view came from integer indices only (``t[i]``)."""
        return self.point

    def is_same_tensor(self, second_tensor: Tensor) -> bool:
        """Whether both are views of one tensor."""
        return self.storage is second_tensor.storage

    # ---- views ----
    def shifted(self, elements: Any) -> Tensor:
        """The single element ``elements`` after the view's start."""
        offset = self.offset + as_index(elements)
        return Tensor(self.storage, self._dtype, (1,), (1,), offset, self.total, True, True)

    def __getitem__(self, key: Index) -> Tensor:
        if key.__class__ is not tuple:
            key = tuple(key) if key.__class__ is list else (key,)
        shape, strides = self._shape, self.strides
        if len(key) != len(shape):
            if len(key) != 1:
                raise TikError(
                    describe(f"tensor {self.name}", "number of indices", len(key), f"1 or its rank {len(shape)}"),
                    user_location(),
                )
            if not self.dense:
                raise TikError(
                    f"tensor {self.name}: a non-contiguous slice of rank {len(shape)} takes "
                    f"{len(shape)} indices, not one",
                    user_location(),
                )
            shape, strides = (product(shape),), (1,)
            key = (self._own_index(key[0], shape[0]),)
        offset = self.offset
        new_shape, new_strides = [], []
        dense, point, seen = True, True, False
        for k, item in enumerate(key):
            dim = shape[k]
            start, length, step, is_slice = self._dimension(item, dim, k)
            offset = offset + start * strides[k]
            new_shape.append(length)
            new_strides.append(strides[k] * step)
            point = point and not is_slice
            # Dense: once a dimension is longer than one, all later ones must be whole.
            whole = length is dim or length.__class__ is int and dim.__class__ is int and length == dim
            if seen and not whole or step != 1 and not (length.__class__ is int and length == 1):
                dense = False
            seen = seen or not (length.__class__ is int and length == 1)
        return Tensor(
            self.storage,
            self._dtype,
            tuple(new_shape),
            tuple(new_strides),
            offset,
            self.total,
            dense and self.dense,
            point,
        )

    def _own_index(self, item: Any, extent: Any) -> Any:
        """The one index of a slice of several dimensions. One behind the slice counts from the tensor's start: helpers
        of public kernels write ``part[part.offset + k]`` for them, and ``part[k]`` for slices of one dimension."""
        if isinstance(item, slice):
            return item
        i, start = as_index(item), self.offset
        if all(v.__class__ is int for v in (i, start, extent)):
            return i - start if i >= extent and start <= i < start + extent else i
        return 0 if i is start else i

    def _dimension(self, item: Any, dim: Any, axis: int) -> tuple[Any, Any, int, bool]:
        if not isinstance(item, slice):
            i = as_index(item)
            if i.__class__ is int:
                if i == -1:
                    return dim - 1, 1, 1, False
                if dim.__class__ is int and not 0 <= i < dim and not self.storage.builder.dead:
                    raise self._bounds("index", i, dim - 1, axis)
            return i, 1, 1, False
        step = 1 if item.step is None else item.step
        if step.__class__ is not int or step < 1:
            raise TikError(
                describe(f"tensor {self.name}", f"step of slice in dimension {axis}", item.step, "a Python int >= 1"),
                user_location(),
            )
        start = 0 if item.start is None else as_index(item.start)
        stop = dim if item.stop is None else as_index(item.stop)
        if dim.__class__ is int:
            start = start + dim if start.__class__ is int and start < 0 else start
            stop = stop + dim if stop.__class__ is int and stop < 0 else stop
        if not self.storage.builder.dead:
            self._check_slice(start, stop, dim, axis)
        length = difference(stop, start)
        if step != 1:
            length = (length + step - 1) // step
        return start, length, step, True

    def _check_slice(self, start: Any, stop: Any, dim: Any, axis: int) -> None:
        if dim.__class__ is int:
            for what, v in (("start of slice", start), ("stop of slice", stop)):
                if v.__class__ is int and not 0 <= v <= dim:
                    raise self._bounds(what, v, dim, axis)
        if start.__class__ is int and stop.__class__ is int and stop < start:
            raise TikError(
                describe(
                    f"tensor {self.name}", f"stop of slice in dimension {axis}", stop, f"at least its start {start}"
                ),
                user_location(),
            )

    def _bounds(self, what: str, value: int, top: int, axis: int) -> TikOverflowError:
        return TikOverflowError(
            describe(f"tensor {self.name}", f"{what} in dimension {axis}", value, f"0..{top}"), user_location()
        )

    def reshape(self, new_shape: Any) -> Tensor:
        """A view of the same elements with another shape; the view must be contiguous."""
        shape = tuple(as_index(d) for d in (new_shape if isinstance(new_shape, (list, tuple)) else (new_shape,)))
        if not self.dense:
            raise TikError(
                f"tensor {self.name}.reshape: the view is a non-contiguous slice; accepted: contiguous views",
                user_location(),
            )
        old, new = product(self._shape), product(shape)
        if old.__class__ is int and new.__class__ is int and old != new:
            raise TikError(
                describe(
                    f"tensor {self.name}.reshape",
                    "new_shape",
                    f"{shape} of {new} elements",
                    f"shapes of {old} elements",
                ),
                user_location(),
            )
        return Tensor(self.storage, self._dtype, shape, contiguous_strides(shape), self.offset, self.total)

    def flatten(self) -> Tensor:
        """The view as one dimension."""
        return self.reshape((product(self._shape),))

    def reinterpret_cast_to(self, dtype: str) -> Tensor:
        """The same bits as another dtype. A narrower dtype appends a dimension of the size ratio, a wider
        one divides the last dimension."""
        if dtype not in DTYPES:
            raise TikError(
                describe(f"tensor {self.name}.reinterpret_cast_to", "dtype", dtype, ", ".join(DTYPES)), user_location()
            )
        old, new = SIZE[self._dtype], SIZE[dtype]
        if not self.dense:
            raise TikError(
                f"tensor {self.name}.reinterpret_cast_to: the view is a non-contiguous slice; accepted: "
                "contiguous views",
                user_location(),
            )
        if old == new:
            return Tensor(self.storage, dtype, self._shape, self.strides, self.offset, self.total, True, self.point)
        if old > new:
            ratio = old // new
            shape = (*self._shape, ratio)
            total = None if self.total is None else self.total * ratio
            return Tensor(self.storage, dtype, shape, contiguous_strides(shape), self.offset * ratio, total)
        return self._widen(dtype, new // old)

    def _widen(self, dtype: str, ratio: int) -> Tensor:
        last = self._shape[-1]
        api = f"tensor {self.name}.reinterpret_cast_to"
        if last.__class__ is int and last % ratio:
            raise TikError(
                describe(api, f"last dimension for {self._dtype} to {dtype}", last, f"multiples of {ratio}"),
                user_location(),
            )
        if self.offset.__class__ is int and self.offset % ratio:
            raise TikAlignError(
                describe(api, f"offset for {self._dtype} to {dtype}", self.offset, f"multiples of {ratio} elements"),
                user_location(),
            )
        shape = (*self._shape[:-1], last // ratio)
        total = None if self.total is None else self.total // ratio
        return Tensor(self.storage, dtype, shape, contiguous_strides(shape), self.offset // ratio, total)

    def set_address_value(self, value: Any) -> None:
        """Place a GM tensor that is no argument of the kernel at an address of a TensorAddrList, from here on."""
        storage, api = self.storage, f"tensor {self.name}.set_address_value"
        b = storage.builder
        if not isinstance(value, Expr) or SIZE[value.dtype] != 8 or value.dtype in FLOATS:
            raise b.fail(TikError, api, "value", type(value).__name__, "the value of an element of a TensorAddrList")
        scope = storage.buffer.scope
        if scope != ir.GM or storage.is_workspace or storage.used and storage.address is None:
            given = scope if scope != ir.GM else "a workspace" if storage.is_workspace else "used before"
            raise b.fail(TikScopeError, api, "the tensor", given, "a GM tensor without memory of its own")
        base, elements = getattr(value, "base", value.get()), getattr(value, "elements", 0)
        if b.dead:
            return
        if storage.address is None:
            storage.address = b.temporary("uint64", f"{self.name}_address")
        first = place(cast(base, "uint64"), elements * SIZE[self._dtype], "uint8")
        b.body.append(ir.Assign(storage.address.value, first, b.loc()))

    # ---- elements ----
    def set_as(self, value: Any, dst_offset: Any = 0, src_offset: Any = None) -> None:
        """Write one element: the bits of a tensor element, or a number, Scalar or expression converted to
        the dtype."""
        b = self.storage.builder
        if b.dead:
            return
        api = f"tensor {self.name}.set_as"
        target = self if dst_offset.__class__ is int and dst_offset == 0 else self.shifted(dst_offset)
        _check_element(target, api, _GM_WRITE_FAMILIES)
        if isinstance(value, Tensor):
            source = value if src_offset is None else value.shifted(src_offset)
            _check_element(source, api, _GM_WRITE_FAMILIES)
            raw = _RAW[SIZE[self._dtype]]
            register = b.temporary(raw)
            loc = b.loc()
            b.body.append(ir.Load(register.value, source.ref(), loc))
            b.body.append(ir.Store(target.ref_as(raw), register, loc))
            return
        b.body.append(ir.Store(target.ref(), cast(as_expr(value), self._dtype), b.loc()))

    def __setitem__(self, key: Index, value: Any) -> None:
        self[key].set_as(value)

    def __tik_expr__(self) -> Expr:
        """The first element, loaded into a temporary register."""
        b = self.storage.builder
        register = b.temporary(self._dtype)
        if not b.dead:
            _check_element(self, f"tensor {self.name} in an expression", _GM_WRITE_FAMILIES)
            b.body.append(ir.Load(register.value, self.ref(), b.loc()))
        return register

    def _compare(self, op: str, other: Any) -> Any:
        right = other.__tik_expr__() if isinstance(other, Tensor) else other
        return binary(op, self.__tik_expr__(), right)

    def __lt__(self, other: Any) -> Any:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Any:
        return self._compare(">=", other)

    def __eq__(self, other: Any) -> Any:
        return False if other is None else self._compare("==", other)

    def __ne__(self, other: Any) -> Any:
        return True if other is None else self._compare("!=", other)

    def _arithmetic(self, *_: Any) -> Any:
        raise TikError(
            f"tensor {self.name} in scalar arithmetic; accepted: a Scalar that its element was loaded into "
            f"(scalar.set_as({self.name}[i])), or vector instructions",
            user_location(),
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _arithmetic
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __neg__ = __abs__ = __invert__ = _arithmetic
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __and__ = __rand__ = __or__ = __ror__ = _arithmetic
    __xor__ = __rxor__ = _arithmetic

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        """A tensor or slice is there (``if tensor:`` asks whether one was given); an element is a value."""
        if not self.point:
            return True
        raise TikError(
            f"an element of tensor {self.name} has no Python truth value: compare it in tik_instance.if_scope(...)",
            user_location(),
        )

    def __repr__(self) -> str:
        return f"Tensor({self.name}, {self._dtype}, {self._shape}, {self.scope}, offset={self.offset})"


def _check_element(tensor: Tensor, api: str, gm_families: tuple[str, ...]) -> None:
    storage = tensor.storage
    b = storage.builder
    b.check_alive(storage, api)
    storage.used = True
    scope = storage.buffer.scope
    if scope not in (ir.UB, ir.GM) or scope == ir.GM and b.family not in gm_families:
        raise b.fail(
            TikScopeError,
            api,
            f"scope of tensor {tensor.name} on {b.soc.name}",
            scope,
            "ub and gm" if b.family in gm_families else "ub",
        )
    left = tensor.bytes_left()
    if left is not None and left < SIZE[tensor.dtype]:
        raise TikOverflowError(
            f"{api}: tensor {tensor.name} overflow: bytes needed {SIZE[tensor.dtype]}, bytes there {left}",
            user_location(),
        )
