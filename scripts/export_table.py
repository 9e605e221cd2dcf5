#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports ops of the registry as Ascend C, compiles them here, runs every case and compares every bit with TIK's.

python scripts/export_table.py [OP ...] [--soc Ascend910B1 --soc Ascend310P3] [--case CASE]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from ms_custom_ops.errors import MsCustomOpsError, OpInfoError, SocError
from ms_custom_ops.exporter import op_subject, write
from ms_custom_ops.exporter.proof import prove
from ms_custom_ops.registry import get_op, load_registry

CHIPS = ("Ascend310P3", "Ascend910B1")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--soc", action="append")
    parser.add_argument("--case", action="append", default=[])
    options = parser.parse_args()
    start, failed = time.perf_counter(), 0
    print(
        f"{'op':42} {'chip':12} {'cases':>5} {'compiled':>8} {'bit-equal':>9} {'lines':>11} {'seconds':>7}", flush=True
    )
    for soc in options.soc or CHIPS:
        for name in options.ops or load_registry().ops:
            failed += not _row(name, soc, options.case)
    print(f"{time.perf_counter() - start:.0f} s in all")
    return 1 if failed else 0


def _row(name: str, soc: str, cases: list[str]) -> bool:
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        try:
            subject = op_subject(get_op(name), soc, cases)
        except (SocError, OpInfoError) as error:
            print(f"{name:42} {soc:12} not on this chip: {error}", flush=True)
            return True
        try:
            exported = write(subject, Path(folder) / "project")
            rows = prove(exported.folder, subject.entry, subject.soc, subject.op)
        except MsCustomOpsError as error:
            print(f"{name:42} {soc:12} {type(error).__name__}: {error}", flush=True)
            return False
    equal = [row for row in rows if row.equal]
    lines = [facts.lines for facts in exported.facts.values()]
    span = f"{min(lines)}-{max(lines)}"
    print(f"{name:42} {soc:12} {len(subject.cases):5} {len(rows):8} {len(equal):9} {span:>11} "
          f"{time.perf_counter() - start:7.1f}", flush=True)  # fmt: skip
    for row in rows:
        if not row.equal:
            print(f"    {row.case}: {row.different}", flush=True)
    return len(equal) == len(subject.cases)


if __name__ == "__main__":
    sys.exit(main())
