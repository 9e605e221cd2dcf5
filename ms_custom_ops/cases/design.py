# SPDX-License-Identifier: Apache-2.0
"""What the form of the operators' home adds to a case file: inputs as ATK draws them, a generator, a reference."""

from __future__ import annotations

import types
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ms_custom_ops.cases.model import Design, DesignInput
from ms_custom_ops.cases.user_code import find_generator, find_reference, has_files

if TYPE_CHECKING:
    from ms_custom_ops.cases.yaml_values import CaseReader

KINDS = ("tensor", "tensors", "tensor_tuple", "attr", "attrs", "attr_tuple", "scalar", "scalars", "scalar_tuple")
PREFIXES = ("torch_", "torch.")
_LONGEST = 64  # of an axis that nothing limits
_RANKS = (1, 2, 3, 4, 5)


def is_upstream(data: dict) -> bool:
    """Whether a file is of that form: it names Python code beside it, or a Triton kernel."""
    generate = data.get("generate", "default")
    named = isinstance(generate, str) and generate != "default"
    return named or "triton_name" in data or "triton_api_type" in data or data.get("api_type", "function") != "function"


@dataclass
class _Text:
    """Reads one entry of ``inputs`` for drawing; what the op's own reading finds wrong is not found twice."""

    section: dict

    def values(self, *path: str) -> tuple[Any, ...]:
        found: Any = self.section
        for key in (*path, "values"):
            found = found.get(key) if isinstance(found, dict) else None
        return tuple(found) if isinstance(found, list) else ()

    def sizes(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """(low, high) choices of all axes, or of each: ``dim_values`` is a mapping, or a list of one per axis."""
        shapes = self.section.get("shapes")
        given = shapes.get("dim_values") if isinstance(shapes, dict) else None
        axes = given if isinstance(given, list) else [given]
        return tuple(_choices(axis, shapes if isinstance(shapes, dict) else {}) for axis in axes)

    def read(self, argument: str, kind: str) -> DesignInput:
        shapes = self.section.get("shapes")
        longest = shapes.get("max_length") if isinstance(shapes, dict) else None
        ranks = tuple(rank for rank in self.values("shapes", "dim_numbers") if isinstance(rank, int))
        return DesignInput(
            argument, str(self.section.get("name") or ""), kind, bool(self.section.get("required", True)),
            self.values("dtypes"), self.values("ranges", "valid"), ranks or _RANKS, self.sizes(),
            longest if isinstance(longest, int) else None,
        )  # fmt: skip


def _choices(axis: Any, shapes: dict) -> tuple[tuple[int, int], ...]:
    values = axis.get("values", ()) if isinstance(axis, dict) else ()
    found = []
    for value in values if isinstance(values, list) else ():
        low, high = value if isinstance(value, list) and len(value) == 2 else (value, value)
        if isinstance(low, int) and isinstance(high, int) and 1 <= low <= high:
            found.append((low, high))
    limits = [shapes.get(key, default) for key, default in (("min", 1), ("max", _LONGEST))]
    return tuple(found) or ((limits[0], limits[1]),)


def read_input(section: dict, argument: str, kind: str) -> DesignInput:
    """One entry of ``inputs``; ``argument``: what it is to the op, "" for nothing."""
    return _Text(section).read(argument, kind)


def read_design(reader: CaseReader, data: dict, path: Path, inputs: tuple[DesignInput, ...]) -> Design | None:
    """Generator and reference of a file of that form, found beside it.

    A name that no file beside it registers is a finding; where no Python file lies beside it at all, or torch is not
    installed, a note says what is left out.
    """
    folder = path.resolve().parent
    api_name, generate = str(data.get("name")), data.get("generate", "default")
    generator = reference = None
    if isinstance(generate, str) and generate != "default":
        if has_files(folder):
            generator = find_generator(folder, generate)
            if generator is None:
                reader.bad(("generate",), f"generate is '{generate}', which no Python file in {folder} registers; "
                           "accepted: default, or a class under @GENERATOR_REGISTRY.register(name)")  # fmt: skip
        else:
            reader.unused.append(f"generate '{generate}' (no Python file beside; sizes are drawn by the op's rules)")
    api_type = data.get("api_type", "function")
    if api_type == "function":  # ATK's own, unless a file beside registers one under this name
        reference = find_reference(folder, api_type, by_name=True) if has_files(folder) and _torch() else None
    else:
        if not has_files(folder):
            reader.unused.append(f"api_type '{api_type}' (no Python file beside; no reference)")
        elif not _torch():
            reader.unused.append(f"api_type '{api_type}' (torch is not installed; the reference is not run)")
        else:
            reference = find_reference(folder, str(api_type))
            if reference is None:
                reader.bad(("api_type",), f"api_type is '{api_type}', which no Python file in {folder} registers; "
                           "accepted: function, or a class under @register(name)")  # fmt: skip
    return Design(folder, api_name, generator, reference, inputs, _attributes(data))


def _torch() -> bool:
    import importlib.util

    return importlib.util.find_spec("torch") is not None


def _attributes(value: Any) -> Any:
    """Mappings as objects with their keys as attributes, as generators read the design of a file."""
    if isinstance(value, dict):
        return types.SimpleNamespace(**{str(key): _attributes(item) for key, item in value.items()})
    return [_attributes(item) for item in value] if isinstance(value, list) else value
