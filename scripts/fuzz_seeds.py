# SPDX-License-Identifier: Apache-2.0
"""Programs to start fuzzing from: ``python scripts/fuzz_seeds.py FOLDER`` writes those of the ops' smoke cases on every
chip family, small ones of forms that no op has, and random ones that have each instruction of the engine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from ms_custom_ops import compiler, tik
from ms_custom_ops.program import ir
from ms_custom_ops.registry import get_op, list_ops
from ms_custom_ops.registry.dtypes import CODE_TO_NAME
from ms_custom_ops.soc import get_soc
from ms_custom_ops.tik.trace import trace

ROOT = Path(__file__).resolve().parent.parent
RANDOM = 120
MOST_BYTES = 1 << 16  # as scripts/fuzz.sh allows


def kernels() -> Iterator[tuple[str, ir.Program]]:
    """The first smoke case of each dtype and set of optional tensors, per op and chip family."""
    for op in list_ops():
        spec = get_op(op)
        for family in spec.target.soc:
            chosen = {(case.dtype, case.present): case for case in reversed(spec.cases)}
            for case in chosen.values():
                if CODE_TO_NAME.get(case.dtype, case.dtype) in spec.soc_dtypes(family):
                    call = compiler.describe_call(spec, *spec.case_call(case), get_soc(family).name)
                    yield f"{op}-{family}-{case.name}", compiler._trace(call)


def forms() -> Iterator[tuple[str, ir.Program]]:
    """Forms that no op of the library has: tables of values, addresses, and what is chosen while running."""
    yield "table", trace(_table, soc="Ascend910B1")
    yield "addresses", trace(_addresses, soc="Ascend910A")
    yield "choices", trace(_choices, soc="Ascend310P3")


def _table() -> None:
    t = tik.Tik()
    y = t.Tensor("float16", (48,), tik.scope_gm, "y")
    table = t.Tensor("float16", (3, 16), tik.scope_gm, "table", init_value=list(range(48)))
    ends = t.Tensor("uint64", (4,), tik.scope_gm, "ends", init_value=[2**64 - 1, 0, 1, 2**63])
    u, w = (t.Tensor(d, (n,), tik.scope_ubuf, "u") for d, n in (("float16", 48), ("uint64", 4)))
    t.data_move(u, table, 0, 1, 3, 0, 0)
    t.data_move(w, ends, 0, 1, 1, 0, 0)
    t.data_move(y, u, 0, 1, 3, 0, 0)
    t.BuildCCE("table", [], [y])


def _addresses() -> None:
    t = tik.Tik()
    places = t.TensorAddrList(4, tik.scope_gm, "places")
    local = t.TensorAddrList(4, tik.scope_ubuf, "local")
    u = t.Tensor("float32", (8,), tik.scope_ubuf, "u")
    t.data_move(local, places, 0, 1, 1, 0, 0)
    with t.for_range(0, 4) as i:
        t.data_move(u, local[i].value + i * 8, 0, 1, 1, 0, 0)
        t.data_move(local[i].value, u, 0, 1, 1, 0, 0)
    t.BuildCCE("addresses", [places], [])


def _choices() -> None:
    t = tik.Tik()
    x = t.Tensor("uint8", (4096,), tik.scope_gm, "x")
    y = t.Tensor("float16", (64, 8), tik.scope_gm, "y")
    n = t.InputScalar("int32", "n")
    u = t.Tensor("float16", (64, 8), tik.scope_ubuf, "u")
    v = t.Tensor("float16", (64, 8), tik.scope_ubuf, "v")
    image = t.Tensor("uint8", (64, 32), tik.scope_cbuf, "image")
    t.load_image(image, x, None, n, n, {"src_horizontal_size": 8, "src_vertical_size": 8}, None, None, [n, n, n],
                 *[None] * 5, *[None] * 3, None, 0)  # fmt: skip
    t.data_move(u, x, 0, 1, 32, 0, 0)
    t.vmrgsort4(v, [u[i * 128] for i in range(4)], 16, False, n, 1)
    t.vextract(v, u, 1, n)
    t.vec_reduce_max(128, v, u, v, n, n, True)
    t.data_move(y, v, 0, 1, 32, 0, 0)
    t.BuildCCE("choices", [x, n], [y])


def random_kernels() -> Iterator[tuple[str, ir.Program]]:
    """The random Programs of the differential tests."""
    sys.path.insert(0, str(ROOT / "tests" / "tik"))
    from random_programs import random_program

    for seed in range(RANDOM):
        yield f"random-{seed}", random_program(seed, 4 + seed % 12)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    for source in (kernels, forms, random_kernels):
        for name, program in source():
            raw = program.to_bytes()
            if len(raw) <= MOST_BYTES:
                (folder / name).write_bytes(raw)
                written += 1
    print(f"{written} programs in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
