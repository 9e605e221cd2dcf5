# SPDX-License-Identifier: Apache-2.0
"""Runs that Python unrolled, written as a table or a loop (:mod:`ms_custom_ops.exporter.series` finds them)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ms_custom_ops.exporter.expressions import CPP
from ms_custom_ops.exporter.series import COUNTER, series, stores

if TYPE_CHECKING:
    from ms_custom_ops.exporter.body import Body

_WIDTH = 120


def write_table(out: Body, body: list, index: int) -> int:
    """Constants stored one behind the other, as a table and a loop; two such runs may take turns. Index of the
    statement behind them, 0 where there are none."""
    run = stores(body, index)
    if run is None:
        return 0
    count, starts = run
    first = [body[index + k] for k in range(len(starts))]
    for k, (s, start) in enumerate(zip(first, starts, strict=True)):
        values = [body[index + i * len(starts) + k].value for i in range(count)]
        kind, name = CPP[s.ref.dtype], out.fresh("values", [])
        texts = [_entry(out, v, s.ref.dtype) for v in values]
        out.put("{", s.loc)
        out.depth += 1
        _wrapped(out, f"constexpr {kind} {name}[{count}] = {{", texts, "};")
        at = "i" if not start else f"{start} + i"
        out.put(f"for (uint32_t i = 0; i < {count}; ++i) {{")
        out.put(f"    {out.places.tensor(s.ref.buffer, s.ref.dtype)}.SetValue({at}, {name}[i]);")
        out.put("}")
        out.depth -= 1
        out.put("}")
    return index + count * len(starts)


def _entry(out: Body, value: Any, dtype: str) -> str:
    """An entry of a table; whole numbers as they are."""
    known = value if isinstance(value, int) else value.eval_value()
    whole = dtype == "float32" and known == int(known) and abs(known) < 1 << 24 and str(float(known))[0:2] != "-0"
    return str(int(known)) if whole else out.writer.text(value, dtype)


def write_series(out: Body, body: list, index: int) -> int:
    """Instructions that differ by equal steps, as a loop. Index of the statement behind them, 0 where there are
    none."""
    run = series(body, index)
    if run is None:
        return 0
    count, statements = run
    out.names.open()
    name = out.registers[COUNTER] = out.names.take("r")
    out.put(f"for (uint32_t {name} = 0; {name} < {count}; ++{name}) {{")
    out.depth += 1
    for s in statements:
        out.told(s, out.instruction)
    out.depth -= 1
    out.put("}")
    out.names.close()
    return index + count * len(statements)


def _wrapped(out: Body, head: str, items: Iterable[str], tail: str) -> None:
    line = head
    for k, item in enumerate(items):
        part = item if not k else f", {item}"
        if len(line) + len(part) + 4 * out.depth > _WIDTH - 4:
            out.put(f"{line},")
            line, part = "    ", item
        line += part
    out.put(line + tail)
