# SPDX-License-Identifier: Apache-2.0
"""What a deep check of an op found, as values and as text."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. ``check`` is the name of the check, ``case`` of the case, ``soc`` the chip, "" where a
    finding is about none; ``text`` ends with the file to edit where one is known."""

    check: str
    op: str
    case: str
    soc: str
    text: str

    def __str__(self) -> str:
        where = "/".join(part for part in (self.op, self.case, self.soc) if part)
        return f"{self.check}: {where}: {self.text}"


@dataclass
class Report:
    """Result of :func:`opcheck`. ``done``: check -> what it compared, in words; ``left_out``: check -> why it was not
    run."""

    ops: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    done: dict[str, list[str]] = field(default_factory=dict)
    left_out: dict[str, list[str]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Nothing was found."""
        return not self.findings

    def add(self, check: str, op: str, text: str, case: str = "", soc: str = "") -> None:
        """Notes a finding."""
        self.findings.append(Finding(check, op, case, soc, text))

    def did(self, check: str, what: str) -> None:
        """Notes what a check compared."""
        self.done.setdefault(check, []).append(what)

    def skip(self, check: str, why: str) -> None:
        """Notes why a check was not run."""
        reasons = self.left_out.setdefault(check, [])
        if why not in reasons:
            reasons.append(why)

    def extend(self, other: Report) -> None:
        """Adds the report of another op."""
        self.ops += other.ops
        self.findings += other.findings
        for mine, theirs in ((self.done, other.done), (self.left_out, other.left_out)):
            for check, texts in theirs.items():
                mine.setdefault(check, []).extend(t for t in texts if t not in mine[check])

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "ops": self.ops,
            "ok": self.ok,
            "findings": [asdict(f) for f in self.findings],
            "done": {check: len(texts) for check, texts in self.done.items()},
            "left_out": self.left_out,
        }

    def __str__(self) -> str:
        found = [f.check for f in self.findings]
        checks = dict.fromkeys((*self.done, *self.left_out, *found))
        lines = [f"opcheck of {', '.join(self.ops)}"]
        for check in checks:
            count = len(self.done.get(check, ()))
            bad = found.count(check)
            state = f"{bad} finding(s)" if bad else "good" if count else "not run"
            lines.append(f"  {check:<12} {count:>4} comparison(s)  {state}")
            lines += [f"    {f}" for f in self.findings if f.check == check]
            lines += [f"    not run: {why}" for why in self.left_out.get(check, ())]
        return "\n".join(lines)
