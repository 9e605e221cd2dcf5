# SPDX-License-Identifier: Apache-2.0
"""``TikCustom``: the ``ops.Custom`` behind every generated primitive, and the primitive cache of functional
ops.

MindSpore calls ``__infer__`` with concrete shapes and dtypes: at graph compile in GRAPH mode, at each call in
PYNATIVE mode. There the call is checked and its Program traced or found, so that an error of the op, the
tiling plan or the kernel surfaces with its own type and full text. The exported function ``mco_op`` of the
extension then finds the Program by the same key. docs/mindspore.md lists the properties of MindSpore that
shape this file.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from mindspore import Tensor, ops
from mindspore.common import dtype as mstype

# What MindSpore's own functional ops use to build a primitive inside construct; private, so it is named only
# here.
from mindspore.ops._primitive_cache import _get_cache_prim as prim_cache

from ms_custom_ops import compiler, engine
from ms_custom_ops.cache import default_cache
from ms_custom_ops.errors import OpArgumentError, describe
from ms_custom_ops.registry import ABSENT_DTYPE, ABSENT_SHAPE, OpSpec, get_op
from ms_custom_ops.registry.call_values import full_attrs
from ms_custom_ops.soc import current_soc
from ms_custom_ops.sources import sources_of

__all__ = ["ABSENT", "DTYPES", "OpPrimitive", "TikCustom", "dtype_name", "no_gradient", "prim_cache"]

# What an absent optional tensor is at the primitive: integers, which mixed precision leaves alone.
ABSENT = Tensor(np.zeros(ABSENT_SHAPE, ABSENT_DTYPE))

_FUNCTION = "mco_op"
DTYPES = {
    name: getattr(mstype, name)
    for name in (
        "float16",
        "bfloat16",
        "float32",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
    )
}
DTYPES["bool"] = mstype.bool_
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def dtype_name(dtype: Any) -> str:
    """Full lower-case name of a MindSpore dtype or of the dtype inside a TensorType: ``float16``."""
    element = dtype.element_type() if isinstance(dtype, mstype.TensorType) else dtype
    return _NAMES.get(element) or str(element).lower()


@functools.cache
def _extension() -> ctypes.CDLL:
    """The extension, told the folder of the program cache."""
    path = str(engine.library_path())
    if ":" in path:
        raise OpArgumentError(
            describe(
                "ms_custom_ops",
                "path of the extension",
                path,
                "a path without ':', which MindSpore takes for the end of the file name",
            )
        )
    library = ctypes.CDLL(path)
    library.mco_publish.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    library.mco_publish.restype = None
    library.mco_set_cache_folder.argtypes = [ctypes.c_char_p]
    library.mco_set_cache_folder.restype = None
    folder = default_cache().folder
    library.mco_set_cache_folder(str(folder or "").encode())
    return library


class EngineCustom(ops.Custom):
    """A primitive whose function is one of the extension.

    Args:
        name: what errors call it.
        bprop: gradient function; a plain ``def`` in a source file, since the graph compiler reads it.
        function: its name in the extension.
    """

    def __init__(self, name: str, bprop: Any = None, function: str = _FUNCTION):
        self._mco_name = name
        _extension()  # which refuses a path that MindSpore would misread
        super().__init__(
            f"{engine.library_path()}:{function}",
            self._separate_infer,
            self._separate_infer,
            func_type="aot",
            bprop=bprop,
        )

    def _separate_infer(self, *_: Any) -> Any:
        """Shape and dtype are inferred together by ``__infer__``; only its absence could call this."""
        accepted = "MindSpore calling ops.Custom.__infer__"
        raise OpArgumentError(describe(self._mco_name, "shape inference", "apart from dtype inference", accepted))

    def add_keys(
        self, source: str, files: str, inputs: Sequence[int], outputs: Sequence[int], params: int, results: int
    ) -> None:
        """Attributes that ``mco_op`` reads. ``source`` and ``files``: hash and list of what the kernel was made of;
        ``inputs`` and ``outputs``: the tensors that it has, of ``params`` and ``results``."""
        # From here on this process answers for the op's sources; before, mco_op compares the files on disk.
        _extension().mco_publish(self._mco_name.encode(), source.encode())
        self.add_prim_attr("mco_op", self._mco_name)
        self.add_prim_attr("mco_source", source)
        self.add_prim_attr("mco_files", files)
        self.add_prim_attr("mco_cache", str(default_cache().folder or ""))
        self.add_prim_attr("mco_inputs", list(inputs))
        self.add_prim_attr("mco_outputs", list(outputs))
        self.add_prim_attr("mco_params", params)
        self.add_prim_attr("mco_results", results)

    def add_prefix(self, prefix: str, launches: bool) -> None:
        """The part of the key without shapes, and whether it is that of a compiled kernel."""
        self.add_prim_attr("mco_prefix", prefix)
        self.add_prim_attr("mco_launches", int(launches))

    def tensor_types(self, names: Sequence[str], args: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[str, ...]]:
        """Shapes and dtypes of the arguments of ``__infer__``; ``names`` say, in errors, what each should be."""
        for name, given in zip(names, args, strict=True):
            if not isinstance(given["dtype"], mstype.TensorType):
                value = given["value"]
                kind = "numpy.ndarray" if isinstance(value, np.ndarray) else type(value).__name__
                what = "None" if value is None else f"a {kind}"
                argument, _, shape = name.partition(" ")
                raise OpArgumentError(
                    describe(self._mco_name, argument, what, f"a tensor{shape and f' of shape {shape}'}")
                )
        return tuple(tuple(arg["shape"]) for arg in args), tuple(dtype_name(arg["dtype"]) for arg in args)


def inferred(returns: Sequence[tuple[Sequence[int], str]]) -> dict[str, Any]:
    """What ``__infer__`` answers for results of these shapes and dtypes."""
    shapes = tuple(tuple(shape) for shape, _ in returns)
    dtypes = tuple(mstype.TensorType(DTYPES[dtype]) for _, dtype in returns)
    if len(returns) == 1:
        return {"shape": shapes[0], "dtype": dtypes[0], "value": None}
    return {"shape": shapes, "dtype": dtypes, "value": None}


class TikCustom(EngineCustom):
    """Primitive of one op with fixed attributes.

    Args:
        op_name: name of the op in the registry.
        attrs: attribute -> value; attributes with a default may be left out.
        present: one flag per OPTIONAL tensor argument, in order; absent ones are passed as the placeholder
            (``ABSENT_SHAPE``, ``ABSENT_DTYPE``).
        bprop: gradient function; a plain ``def`` in a source file, since the graph compiler reads it.

    Called with all tensor arguments, positionally; returns a tensor, or a tuple of them for several returns.
    """

    def __init__(self, op_name: str, attrs: Mapping[str, Any], present: Sequence[bool], bprop: Any = None):
        self._spec: OpSpec = get_op(op_name)
        self._attrs = full_attrs(self._spec, attrs)
        self._present = tuple(bool(flag) for flag in present)
        self._inferred: dict[Any, dict[str, Any]] = {}
        self._chosen = ("", "")
        names = [arg.name for arg in self._spec.tensors]
        there = self._spec.named_inputs(names, self._present)
        self._given = [name for name in there if there[name]]
        self._places = [names.index(name) for name in self._given]
        self._passed = self._passed_places()
        tensors = self._spec.tensors
        self._expected = [f"{tensors[place].name} {tensors[place].shape_text}" for place in self._passed]
        super().__init__(op_name, bprop)
        self._add_attributes()

    def _passed_places(self) -> list[int]:
        """The tensor arguments that a call has."""
        return list(range(len(self._spec.tensors)))

    def _add_attributes(self) -> None:
        spec = self._spec
        inputs = [self._passed.index(place) for place in self._places]
        outputs = [i for i, ret in enumerate(spec.returns) if ret.present_if is None or ret.present_if in self._given]
        sources = sources_of(spec)
        files = "".join(f"{digest} {path}\n" for path, digest in sources.files)
        self.add_keys(sources.hash, files, inputs, outputs, len(self._passed), len(spec.returns))
        self._follow()

    def _follow(self) -> None:
        """The key carries the chip and the implementation; PYNATIVE keeps one primitive per set of attributes,
        whatever ``set_soc`` and ``set_impl`` say."""
        spec, soc = self._spec, current_soc().name
        chosen = soc, compiler.impl_of(spec, self._attrs, self._given, soc)
        if chosen == self._chosen:
            return
        self._chosen = chosen
        self.add_prefix(compiler.key_prefix(spec, self._attrs, self._given, *chosen), chosen[1] != "tik")

    def __infer__(self, *args: Any) -> dict[str, Any]:
        """Checks shapes and dtypes, makes sure that the Program exists, and returns the output types."""
        self._follow()
        key = self._known_by(args)
        known = self._inferred.get(key) if key else None
        if known is None:
            known = self._infer(*self.tensor_types(self._expected, args))
            self._inferred[key] = known
        return dict(known)

    def _known_by(self, args: Sequence[Any]) -> tuple[Any, ...] | None:
        """What tells one call from another, quick to make; None for a call with what is no tensor."""
        if not all(isinstance(arg["dtype"], mstype.TensorType) for arg in args) or len(args) != len(self._expected):
            return None
        there = (arg for place, arg in zip(self._passed, args, strict=True) if place in self._places)
        return (self._chosen, *((tuple(arg["shape"]), arg["dtype"].element_type()) for arg in there))

    def _infer(self, shapes: tuple[tuple[int, ...], ...], dtypes: tuple[str, ...]) -> dict[str, Any]:
        spec = self._spec
        call = compiler.describe_call(spec, self._by_name(shapes), self._by_name(dtypes), self._attrs, self._chosen[0])
        if any(0 not in shape for _, shape, _ in call.outputs):
            compiler.publish(call)
        return inferred(call.returns)

    def _by_name(self, values: Sequence[Any]) -> dict[str, Any]:
        """One value for each tensor of a call -> {argument: value, None where it is absent}."""
        every: list[Any] = [None] * len(self._spec.tensors)
        for place, value in zip(self._passed, values, strict=True):
            every[place] = value
        return self._spec.named_inputs(every, self._present)


class _Present(TikCustom):
    """A primitive as Python calls it: with the tensors that are there, and none in the place of the others. MindSpore
    spends 3 us on every tensor of such a call.

    Args:
        full: the primitive with all tensors, whose attributes and gradient it has.
    """

    def __init__(self, full: OpPrimitive):
        names = [arg.name for arg in full._spec.tensors]
        self._there = [names.index(name) for name in full._given]
        super().__init__(full.OP, full._attrs, full._present, self._gradient(full, self._there, len(names)))

    def _passed_places(self) -> list[int]:
        return self._there

    @staticmethod
    def _gradient(full: OpPrimitive, there: list[int], count: int) -> Any:
        whole = full.gradient(full._present, *full._attrs.values())
        order = tuple(there.index(place) if place in there else -1 for place in range(count))
        wanted = tuple(there)

        def bprop(*args):
            tensors = ()
            for at in order:
                tensors = tensors + (ABSENT if at < 0 else args[at],)
            every = whole(*tensors, args[-2], args[-1])
            gradients = ()
            for place in wanted:
                gradients = gradients + (every[place],)
            return gradients

        return bprop


@ops.constexpr(check=False)
def no_gradient(op):
    """What the bprop of an op without a gradient answers; a graph comes here only for what reaches its result."""
    given = "asked for, and it has no gradient of its own"
    accepted = "gradients of first order (grad, value_and_grad, GradOperation); not of second order, jvp or jacfwd"
    raise OpArgumentError(describe(op, "derivative", given, accepted))


class OpPrimitive(TikCustom):
    """Base of the generated primitives: the primitive of the op called ``OP``.

    Args:
        present: one flag per OPTIONAL tensor argument, in order; absent ones are passed as ABSENT.
        values: attributes in the op's order; those with a default may be left out.
        named: attributes by name.
    """

    OP = ""

    def __init__(self, present: Sequence[bool] = (), *values: Any, **named: Any):
        spec = get_op(self.OP)
        names = [arg.name for arg in spec.attributes]
        if len(values) > len(names) or set(named) & set(names[: len(values)]):
            given = f"{len(values)} values and {', '.join(named) or 'no names'}"
            raise OpArgumentError(describe(self.OP, "attributes", given, f"one of each: {', '.join(names) or 'none'}"))
        attrs = full_attrs(spec, {**dict(zip(names, values, strict=False)), **named})
        present = tuple(bool(flag) for flag in present)
        self._short: _Present | None = None
        super().__init__(self.OP, attrs, present, self.gradient(present, *attrs.values()))
        self._absent = [place for place in self._passed if place not in self._places]

    def __call__(self, *args: Any) -> Any:
        """A call from Python; graphs have calls of their own."""
        if len(args) != len(self._passed) or not self._absent:
            return super().__call__(*args)
        if not all(isinstance(args[place], Tensor) for place in self._absent):
            return super().__call__(*args)  # which says what is wrong with them
        if self._short is None:
            self._short = _Present(self)
        return self._short(*[args[place] for place in self._places])

    def gradient(self, present: tuple[bool, ...], *values: Any) -> Any:
        """The bprop for these flags and attributes, a plain ``def`` in the generated file."""
        raise NotImplementedError
