# SPDX-License-Identifier: Apache-2.0
"""One entry of an op_info file as an OpSpec."""

from __future__ import annotations

from types import MappingProxyType

from ms_custom_ops.registry.public_read import read_public
from ms_custom_ops.registry.schema import (
    MS_TOP,
    OUR_TOP,
    OpReader,
    check_symbols,
    identifier,
    read_args,
    read_constraints,
    read_returns,
    read_symbols,
)
from ms_custom_ops.registry.sections import read_sections
from ms_custom_ops.registry.spec import OpSpec
from ms_custom_ops.registry.yaml_source import Findings, Source


def read_op(source: Source, name: str, findings: Findings) -> tuple[OpSpec, bool]:
    """What could be read of one op, and whether it can be used; the reasons against it are in ``findings``."""
    before = len(findings.items)
    reader = OpReader(source, name, findings)
    identifier(reader, name, (), "op name")
    reader.keys(reader.raw, MS_TOP + OUR_TOP, ())
    symbols = read_symbols(reader)
    args = read_args(reader, set(symbols))
    attributes = {arg.name for arg in args if not arg.is_tensor}
    returns = read_returns(reader, args, attributes | set(symbols))
    names = check_symbols(reader, args, returns, symbols)
    tensors = {arg.name for arg in args if arg.is_tensor}
    for name_twice in sorted(tensors & {ret.name for ret in returns}):
        reader.bad(("returns", name_twice), f"'{name_twice}' is both an argument and a return")
    if not tensors:
        reader.bad(("args",), "there is no tensor argument")
    parts = read_sections(reader, args, returns)
    constraints = read_constraints(reader, names, tensors)
    public = read_public(reader, args, constraints)
    good = len(findings.items) == before
    spec = OpSpec(
        name=name,
        args=args,
        returns=returns,
        symbols=MappingProxyType(symbols),
        constraints=constraints,
        location=source.where(name),
        raw=MappingProxyType(reader.raw),
        public=public,
        **parts,
    )
    return spec, good
