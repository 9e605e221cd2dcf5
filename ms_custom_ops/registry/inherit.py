# SPDX-License-Identifier: Apache-2.0
"""``grad_of: forward_op``: the entry of a gradient op says only what differs from its forward op.

Arguments, derived symbols, constraints, dtype rows, dtype group, chips, accuracy and tiling come from the forward op.
``args`` adds tensors and attributes, ``omit`` takes arguments away, ``constraints`` adds constraints. What results is
an entry like any other: nothing behind this module knows that it was written shorter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ms_custom_ops.registry.dtypes import NAME_TO_CODE
from ms_custom_ops.registry.expr import ExpressionError, parse_expr
from ms_custom_ops.registry.yaml_source import Findings, Source, nearest

KEY, OMIT, LIKE = "grad_of", "omit", "like"
Entry = dict[str, Any]


def inherit(sources: Mapping[str, Source], base: Mapping[str, Mapping[str, Any]], findings: Findings) -> set[str]:
    """Completes every op of ``sources`` that has ``grad_of``, in place. ``base`` holds entries of other folders.

    Returns the names that could not be completed; the reasons are in ``findings``.
    """
    written = {**base, **{name: source.data[name] for name, source in sources.items()}}
    failed = set()
    for name, source in sources.items():
        if not isinstance(written[name], dict) or KEY not in written[name]:
            continue
        before = len(findings.items)
        entry = _Gradient(source, name, written[name], findings).complete(written)
        if len(findings.items) > before or entry is None:
            failed.add(name)
        else:
            source.data[name] = entry
    return failed


def _part(entry: Any, key: str, kind: type) -> Any:
    """A section of a forward op; its own faults are reported where it is read."""
    value = entry.get(key) if isinstance(entry, dict) else None
    return value if isinstance(value, kind) else kind()


def _is_tensor(arg: Any) -> bool:
    return isinstance(arg, dict) and arg.get("dtype") == "tensor"


class _Gradient:
    def __init__(self, source: Source, name: str, raw: Entry, findings: Findings):
        self.source, self.name, self.raw, self.findings = source, name, raw, findings
        self.dtypes: dict[str, str] = {}
        """Of tensors and returns that the gradient adds: a dtype, or a tensor of the forward op that has it."""

    def bad(self, path: tuple[Any, ...], text: str) -> None:
        self.findings.add(self.source.where(self.name, *path), f"op {self.name}: {text}", self.name)

    def complete(self, written: Mapping[str, Any]) -> Entry | None:
        forward = written.get(str(self.raw[KEY]))
        if forward is None or self.raw[KEY] == self.name:
            self.bad((KEY,), f"grad_of is {self.raw[KEY]!r}; {nearest(str(self.raw[KEY]), set(written) - {self.name})}")
            return None
        if not isinstance(forward, dict) or KEY in forward:
            self.bad((KEY,), f"grad_of is {self.raw[KEY]!r}, a gradient itself; accepted: an op without grad_of")
            return None
        self.args, self.returns = _part(forward, "args", dict), _part(forward, "returns", dict)
        self.omitted = self._omitted()
        entry = {key: value for key, value in self.raw.items() if key != OMIT}
        entry["args"] = self._arguments()
        entry["returns"] = self._results()
        entry["symbols"] = {**_part(forward, "symbols", dict), **_part(self.raw, "symbols", dict)}
        entry["constraints"] = self._constraints(forward)
        for key in ("accuracy", "target"):
            if key in forward:
                entry[key] = {**_part(forward, key, dict), **_part(self.raw, key, dict)}
        entry["impl"] = {**{k: v for k, v in _part(forward, "impl", dict).items() if k == "tiling"},
                         **_part(self.raw, "impl", dict)}  # fmt: skip
        entry["args_signature"] = {**self._signature(forward, entry["args"]), **_part(self.raw, "args_signature", dict)}
        entry.setdefault("bprop", "none")
        if "dtype_format" not in entry:
            entry["dtype_format"] = self._rows(forward, entry)
        order = ("doc", KEY, "args", "args_signature", "symbols", "returns")
        return {key: entry[key] for key in (*order, *entry) if key in entry}

    def _omitted(self) -> set[str]:
        value = self.raw.get(OMIT, [])
        if not isinstance(value, list):
            self.bad((OMIT,), f"omit is {value!r}; accepted: a list of arguments of {self.raw[KEY]}")
            return set()
        for name in value:
            if name not in tuple(self.args):
                self.bad(
                    (OMIT,), f"omit names {name!r}, no argument of {self.raw[KEY]}; {nearest(str(name), self.args)}"
                )
        return set(map(str, value))

    def _section(self, key: str) -> dict[str, Entry]:
        """Own entries of args or returns, those that are mappings."""
        value = self.raw.get(key) or {}
        if not isinstance(value, dict):
            self.bad((key,), f"{key} is {value!r}; accepted: a mapping")
            return {}
        for name, item in value.items():
            if not isinstance(item, dict):
                self.bad((key, name), f"{key}.{name} is {item!r}; accepted: a mapping, {{}} for that of the forward op")
        return {name: item for name, item in value.items() if isinstance(item, dict)}

    def _like(self, path: tuple[Any, ...], item: Entry) -> tuple[str, Entry] | None:
        """Name and entry of the tensor that ``like`` names."""
        tensors = {name: arg for name, arg in {**self.returns, **self.args}.items() if _is_tensor(arg)}
        if item[LIKE] in tuple(tensors):
            return item[LIKE], tensors[item[LIKE]]
        self.bad((*path, LIKE), f"like is {item[LIKE]!r}; {nearest(str(item[LIKE]), tensors)}")
        return None

    def _arguments(self) -> dict[str, Entry]:
        """Tensors before attributes and, among tensors, required before optional; within each, those of the forward op
        that ``args`` does not name, then ``args`` in its order. Own attributes stand behind the forward op's."""
        own = {name: self._argument(name, item) for name, item in self._section("args").items()}
        kept = {n: a for n, a in self.args.items() if n not in self.omitted and n not in own}

        def rank(arg: Any) -> int:
            return 2 if not _is_tensor(arg) else 1 if "default" in arg else 0

        first, behind = (lambda side, r: {n: a for n, a in side.items() if rank(a) == r}), {}
        for r, sides in ((0, (kept, own)), (1, (own, kept)), (2, (kept, own))):
            for side in sides:
                behind.update(first(side, r))
        return behind

    def _argument(self, name: str, item: Entry) -> Entry:
        path = ("args", name)
        if name in self.omitted:
            self.bad(path, f"argument '{name}' is omitted and stated; accepted: one of the two")
        if name in self.args:
            return {**self.args[name], **item}
        if LIKE in item:
            found = self._like(path, item)
            if found is None:
                return item
            like, of = found
            made = {"dtype": "tensor", "shape": of.get("shape"), "doc": f"gradient of {like}"}
        elif name in self.returns and "dtype" not in item:
            like, of = name, self.returns[name]
            made = {"dtype": "tensor", "shape": of.get("shape"), "doc": f"{name} of the forward call"}
        else:
            if _is_tensor(item):
                self._dtype_of(path, name, item.get("dtype_from"))
            return {key: value for key, value in item.items() if key != "dtype_from"}
        self._dtype_of(path, name, item.get("dtype_from", of.get("dtype_from", like)))
        return {**made, **{key: value for key, value in item.items() if key not in (LIKE, "dtype_from")}}

    def _dtype_of(self, path: tuple[Any, ...], name: str, source: Any) -> None:
        if "dtype_format" in self.raw:
            return
        known = [n for n, arg in self.args.items() if _is_tensor(arg) and n not in self.omitted]
        if source not in known and source not in tuple(NAME_TO_CODE):  # it may be a list
            self.bad(path, f"dtype_from of '{name}' is {source!r}; accepted: a tensor argument of {self.raw[KEY]}, or "
                           f"one of {', '.join(NAME_TO_CODE)}")  # fmt: skip
            return
        self.dtypes[name] = source

    def _results(self) -> dict[str, Entry]:
        result = {}
        for name, item in self._section("returns").items():
            if LIKE in item and (found := self._like(("returns", name), item)) is not None:
                like, of = found
                made: Entry = {"dtype": "tensor", "shape": of.get("shape"), "dtype_from": like}
                if "default" in of:
                    made["present_if"] = like
                item = {**made, "doc": f"gradient of {like}", **{k: v for k, v in item.items() if k != LIKE}}
            self._dtype_of(("returns", name), name, item.get("dtype_from"))
            result[name] = item
        return result

    def _constraints(self, forward: Any) -> list[Any]:
        """The own ones, whose lines are known by their place, then the forward op's without omitted arguments."""
        kept = []
        for item in _part(forward, "constraints", list):
            try:
                expr = parse_expr(str(item.get("expr"))) if isinstance(item, dict) else None
            except ExpressionError:
                continue
            if expr is not None and not (expr.names | expr.tensors) & self.omitted:
                kept.append(item)
        return _part(self.raw, "constraints", list) + kept

    def _signature(self, forward: Any, args: Mapping[str, Entry]) -> Entry:
        """The forward op's, whose dtype group takes in the added tensors that have the dtype of one of the group."""
        signature = dict(_part(forward, "args_signature", dict))
        names = re.findall(r"\w+", str(signature.get("dtype_group", "")).split(")")[0])
        if names:
            group = [n for n in args if n in names or self.dtypes.get(n) in names]
            signature["dtype_group"] = "(" + ", ".join(group) + ")"
        return signature

    def _rows(self, forward: Any, entry: Entry) -> list[Entry]:
        rows = []
        for row in _part(forward, "dtype_format", list):
            if not isinstance(row, dict):
                continue
            names = [n for n, arg in entry["args"].items() if _is_tensor(arg)] + list(entry["returns"])
            found = {}
            for name in names:
                source = self.dtypes.get(name, name)
                code = NAME_TO_CODE.get(source, row.get(source))
                if code is not None:
                    found[name] = code
            rows.append({**found, "format": row.get("format", "ND")})
        return rows
