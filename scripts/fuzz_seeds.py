# SPDX-License-Identifier: Apache-2.0
"""Programs to start fuzzing from: ``python scripts/fuzz_seeds.py FOLDER`` writes those of the ops' smoke cases on every
chip family, and random ones that have each instruction of the engine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from ms_custom_ops import compiler
from ms_custom_ops.program import ir
from ms_custom_ops.registry import get_op, list_ops
from ms_custom_ops.registry.dtypes import CODE_TO_NAME
from ms_custom_ops.soc import get_soc

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


def random_kernels() -> Iterator[tuple[str, ir.Program]]:
    """The random Programs of the differential tests."""
    sys.path.insert(0, str(ROOT / "tests" / "tik"))
    from random_programs import random_program

    for seed in range(RANDOM):
        yield f"random-{seed}", random_program(seed, 4 + seed % 12)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    for source in (kernels, random_kernels):
        for name, program in source():
            raw = program.to_bytes()
            if len(raw) <= MOST_BYTES:
                (folder / name).write_bytes(raw)
                written += 1
    print(f"{written} programs in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
