# SPDX-License-Identifier: Apache-2.0
"""The files of an exported project."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ms_custom_ops.errors import ExportError
from ms_custom_ops.exporter import glue, host, texts
from ms_custom_ops.exporter.kernel import CaseFacts, KernelCase, kernel_source
from ms_custom_ops.exporter.model import Subject, check
from ms_custom_ops.exporter.scopes import identifier

PROGRAMS = "programs"


@dataclass(frozen=True)
class Exported:
    """A project on disk. ``facts`` by case."""

    subject: Subject
    folder: Path
    facts: dict[str, CaseFacts]

    @property
    def kernel(self) -> Path:
        """The source of the kernel."""
        return self.folder / "op_kernel" / f"{self.subject.entry}.cpp"


def write(subject: Subject, folder: Path) -> Exported:
    """Writes the project of ``subject`` into ``folder``, which is new or empty.

    Raises:
        ExportError: an instruction that cannot go to the chip, with its line; a folder that holds something.
    """
    check(subject)
    if folder.exists() and any(folder.iterdir()):
        raise ExportError(f"export: folder is {folder} with files in it; accepted: a new or an empty one")
    inputs, outputs = _parameters(subject)
    cases = [
        KernelCase(case.name, key, case.program,
                   (*(inputs[t.name] for t in case.inputs), *(outputs[t.name] for t in case.outputs)))
        for key, case in enumerate(subject.cases, 1)
    ]  # fmt: skip
    note = (f"{subject.type} for {subject.soc}, exported from the TIK kernel {subject.origin}.\n"
            "Comments name the line of the kernel that a statement comes from. One function for each traced case; the\n"
            "tiling key chooses.")  # fmt: skip
    source = kernel_source(subject.entry, [*inputs.values(), *outputs.values()], cases, note)
    files = {
        f"op_kernel/{subject.entry}.cpp": source.text,
        f"op_host/{subject.entry}.cpp": host.host_source(subject),
        f"op_host/{subject.entry}_tiling.h": host.tiling_header(subject),
        f"op_host/{subject.entry}_cases.h": host.cases_header(subject, source.facts),
        f"{subject.entry}.json": json.dumps(texts.msopgen(subject), indent=2) + "\n",
        "CMakeLists.txt": texts.cmake(subject),
        "README.md": texts.readme(subject, source.facts),
        f"test_{subject.entry}.py": texts.golden_test(subject),
        **({} if subject.in_place else {f"{subject.entry}_mindspore.py": glue.custom_op(subject)}),
        **glue.package(subject, source.text, source.facts),
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    store = folder / PROGRAMS
    store.mkdir()
    for case in subject.cases:
        (store / f"{case.name}.program").write_bytes(case.program.to_bytes())
    return Exported(subject, folder, source.facts)


def _parameters(subject: Subject) -> tuple[dict[str, str], dict[str, str]]:
    """C++ names of the inputs and of the outputs, in the order of the kernel's parameters. A tensor that is both comes
    twice: the kernel gets one memory by two parameters."""
    names = [p.name for p in (*subject.inputs, *subject.outputs)]
    for what, name in (*(("tensor", n) for n in names), *(("attribute", a.name) for a in subject.attributes)):
        if identifier(name) != name:
            raise ExportError(f"{subject.name}: name of {what} is {name!r}; accepted: a name that C++ and Ascend C "
                              "leave free, since the op's parameters have it")  # fmt: skip
    inputs = {p.name: p.name for p in subject.inputs}
    outputs: dict[str, str] = {}
    for p in subject.outputs:
        outputs[p.name] = f"{p.name}Out" if p.name in inputs else p.name
        while p.name in inputs and outputs[p.name] in names:
            outputs[p.name] += "_"
    return inputs, outputs
