# SPDX-License-Identifier: Apache-2.0
"""The parts of a call that are no shapes: the chip, the attributes, the dtypes."""

from __future__ import annotations

import numbers
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from ms_custom_ops.errors import OpArgumentError, OpDtypeError, SocError, describe
from ms_custom_ops.registry.dtypes import CODE_TO_NAME, NAME_TO_CODE
from ms_custom_ops.registry.public import PublicSpec
from ms_custom_ops.registry.spec import ArgSpec, DtypeRow, Dtypes, OpSpec


def match_soc(soc: str, keys: Sequence[str]) -> str | None:
    """The key of an op_info file that covers chip ``soc``: its name, else its family's ("Ascend" + family).

    The one place that knows how op_info files name chips.

    Raises:
        SocError: the chip table does not have ``soc``.
    """
    from ms_custom_ops.soc import get_soc  # on call, so that loading op_info files needs no chip table

    chip = get_soc(soc)
    return next((key for key in (chip.name, f"Ascend{chip.family}") if key in keys), None)


def soc_key(spec: OpSpec, soc: str) -> str:
    """The key of ``target.soc`` for a chip.

    Raises:
        SocError: the chip is unknown, or the op has no kernel for it.
    """
    key = match_soc(soc, list(spec.target.soc))
    if key is None:
        raise SocError(describe(spec.name, "soc", repr(soc), ", ".join(spec.target.soc)))
    return key


_KIND_TEXT = {"int": "an int", "float": "a float", "bool": "True or False", "str": "a str"}


def _attr_value(spec: OpSpec | PublicSpec, arg: ArgSpec, value: Any) -> Any:
    if value is None and arg.optional:
        return None
    is_bool = isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")
    if arg.kind == "bool" and is_bool:
        return bool(value)
    if arg.kind == "str" and isinstance(value, str):
        return value
    if arg.kind == "int" and isinstance(value, numbers.Integral) and not is_bool:
        return operator.index(value)
    if arg.kind == "float" and isinstance(value, numbers.Real) and not is_bool:
        return float(value)
    raise OpArgumentError(describe(spec.name, arg.name, f"{value!r} ({type(value).__name__})", _kind_text(arg)))


def _kind_text(arg: ArgSpec) -> str:
    return _KIND_TEXT[arg.kind] + (" or None" if arg.optional else "")


def full_attrs(spec: OpSpec | PublicSpec, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes in declared order with defaults filled in and types checked.

    Raises:
        OpArgumentError: an unknown attribute, a missing one without a default, or a wrong type.
    """
    known = [arg.name for arg in spec.attributes]
    for name in attrs:
        if name not in known:
            raise OpArgumentError(
                describe(
                    spec.name,
                    f"attribute '{name}'",
                    repr(attrs[name]),
                    "the attributes " + (", ".join(known) or "(none)"),
                )
            )
    result = {}
    for arg in spec.attributes:
        if arg.name not in attrs and not arg.has_default:
            raise OpArgumentError(describe(spec.name, arg.name, "missing", _KIND_TEXT[arg.kind]))
        result[arg.name] = _attr_value(spec, arg, attrs.get(arg.name, arg.default))
    return result


def known_tensors(spec: OpSpec | PublicSpec, given: Mapping[str, Any], what: str) -> None:
    names = [arg.name for arg in spec.tensors]
    for name in given:
        if name not in names:
            raise OpArgumentError(
                describe(spec.name, f"{what} of '{name}'", given[name], "the tensor arguments " + ", ".join(names))
            )


def _row(spec: OpSpec, given: Mapping[str, str]) -> DtypeRow:
    """The dtype row that the given full dtype names match."""
    best: DtypeRow | None = None
    best_hits = -1
    for row in spec.dtype_rows:
        hits = sum(CODE_TO_NAME[row.codes[name]] == dtype for name, dtype in given.items())
        if hits == len(given):
            return row
        if hits > best_hits:
            best, best_hits = row, hits
    assert best is not None  # the schema refuses an op without rows
    wrong = next(name for name, dtype in given.items() if CODE_TO_NAME[best.codes[name]] != dtype)
    names = sorted({CODE_TO_NAME[row.codes[wrong]] for row in spec.dtype_rows})
    accepted = (
        " or ".join(names)
        + "; combinations: "
        + "; ".join(", ".join(f"{name} {CODE_TO_NAME[row.codes[name]]}" for name in given) for row in spec.dtype_rows)
    )
    mix = ", ".join(f"{name} {dtype}" for name, dtype in given.items())
    raise OpDtypeError(describe(spec.name, f"dtype of {wrong}", f"{given[wrong]} (given: {mix})", accepted))


def check_dtypes(spec: OpSpec, present: Sequence[str], dtypes: Dtypes, soc: str, key: str) -> DtypeRow:
    known_tensors(spec, dtypes, "dtype")
    given: dict[str, str] = {}
    for name in present:
        dtype = dtypes.get(name)
        if dtype is None or dtype not in NAME_TO_CODE:
            raise OpDtypeError(describe(spec.name, f"dtype of {name}", dtype, ", ".join(NAME_TO_CODE)))
        given[name] = dtype
    row = _row(spec, given)
    for name in spec.dtype_group:
        if name in given and NAME_TO_CODE[given[name]] not in spec.target.soc[key]:
            raise OpDtypeError(
                describe(
                    spec.name,
                    f"dtype of {name}",
                    f"{given[name]} on {soc}",
                    " or ".join(spec.soc_dtypes(key)) + f" on {key}",
                )
            )
    return row
