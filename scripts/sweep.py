# SPDX-License-Identifier: Apache-2.0
"""Long test runs in parts, here or on a Dask cluster, with one report in the order of a single run:

    python scripts/sweep.py tests --scheduler tcp://HOST:8786 -- tests/ops tests/graph -m nightly
    python scripts/sweep.py fuzz --seconds 1800 --jobs 4 --scheduler tcp://HOST:8786 --folder runs/fuzz

The machines of the cluster have this checkout and its environment at the same place, and share FOLDER. The part of a
worker that is lost is done again.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from ms_custom_ops.errors import MsCustomOpsError
from ms_custom_ops.spread import spread

ROOT = Path(__file__).resolve().parents[1]
Results = list[tuple[str, str, str]]


class Recorder:
    """Plugin of pytest: the tests that it finds, the folder that their names start from, and what comes of each."""

    def __init__(self) -> None:
        self.tests: list[str] = []
        self.root = ""
        self.found: dict[str, tuple[str, str]] = {}

    def pytest_collection_finish(self, session: Any) -> None:
        self.tests = [item.nodeid for item in session.items]
        self.root = str(session.config.rootpath)

    def pytest_runtest_logreport(self, report: Any) -> None:
        before = self.found.get(report.nodeid)
        if before is None or before[0] == "passed":
            self.found[report.nodeid] = report.outcome, "" if report.passed else str(report.longrepr)


def run_pytest(arguments: list[str], folder: str) -> tuple[dict[str, Any], str]:
    """(what a Recorder has, None of it where the process ended on the way; exit code and the end of what it said)."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "found.json"
        command = [sys.executable, str(Path(__file__).resolve()), "part", str(out)]
        done = subprocess.run(command, input=json.dumps(arguments), capture_output=True, text=True, cwd=folder)
        said = f"exit code {done.returncode}: {(done.stdout + done.stderr)[-2000:]}"
        return json.loads(out.read_text()) if out.exists() else {}, said


def run_tests(folder: str, tests: tuple[str, ...]) -> Results:
    """The results of tests in a process of their own, in their order."""
    found, said = run_pytest(["--rootdir", folder, "-m", "nightly or not nightly", *tests], folder)
    return [(test, *found.get("found", {}).get(test, ("lost", said))) for test in tests]


def collected(arguments: tuple[str, ...]) -> tuple[str, list[str]]:
    """(folder that the names start from, names) of the tests that pytest finds."""
    found, said = run_pytest(["--collect-only", *arguments], str(Path.cwd()))
    if not found.get("tests"):
        raise click.ClickException(f"pytest finds no test with {' '.join(arguments)}; {said}")
    return found["root"], found["tests"]


@click.group(context_settings={"show_default": True})
def main() -> None:
    """Long test runs in parts."""


@main.command("part")
@click.argument("out", type=click.Path(path_type=Path))
def part(out: Path) -> None:
    """Runs pytest with the arguments on standard input; for the other verbs."""
    import pytest

    recorder = Recorder()
    arguments = json.loads(sys.stdin.read())
    pytest.main(["-q", "-p", "no:cacheprovider", *arguments], plugins=[recorder])
    out.write_text(json.dumps(vars(recorder)))


@main.command("tests")
@click.argument("arguments", nargs=-1)
@click.option("--scheduler", default=None, metavar="tcp://HOST:PORT", help="A Dask cluster in place of this machine.")
@click.option("--workers", type=click.IntRange(1), default=1, help="Processes of this machine.")
@click.option("--size", type=click.IntRange(1), default=20, help="Tests in a part.")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), default=None, help="Write a JSON file.")
@click.pass_context
def tests(
    ctx: click.Context, arguments: tuple[str, ...], scheduler: str | None, workers: int, size: int, report: Path | None
) -> None:
    """Runs the tests that pytest finds with ARGUMENTS, part by part."""
    folder, names = collected(arguments)
    parts = [(folder, tuple(names[i : i + size])) for i in range(0, len(names), size)]
    results: Results = []
    try:
        for found in spread("sweep", run_tests, parts, workers=workers, scheduler=scheduler):
            results += found
            for name, outcome, text in found:
                if outcome not in ("passed", "skipped"):
                    click.echo(f"{outcome}: {name}\n{text}")
    except MsCustomOpsError as error:
        raise click.ClickException(str(error)) from None
    if report is not None:
        rows = [{"test": name, "outcome": outcome, "text": text} for name, outcome, text in results]
        report.write_text(json.dumps(rows, indent=1) + "\n")
    count = {
        kind: sum(outcome == kind for _, outcome, _ in results) for kind in ("passed", "skipped", "failed", "lost")
    }
    click.echo(f"{len(results)} tests: " + ", ".join(f"{n} {kind}" for kind, n in count.items()))
    if count["failed"] or count["lost"]:
        ctx.exit(1)


def fuzz_job(root: str, binary: str, folder: str, seconds: int, seed: int) -> tuple[int, list[str], str]:
    """(inputs that were run, files that were found, end of what was printed) of one run with a seed of its own."""
    own = Path(folder) / f"seed{seed}"
    environ = {**os.environ, "FUZZ": binary, "FUZZ_SEED": str(seed), "PYTHON": sys.executable}
    command = ["bash", str(Path(root) / "scripts" / "fuzz.sh"), str(seconds), str(own)]
    done = subprocess.run(command, capture_output=True, text=True, env=environ)
    ran = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
    found = sorted(str(path) for path in (own / "found").iterdir()) if (own / "found").exists() else []
    if done.returncode != 0 and not found:
        found = [f"exit code {done.returncode}, nothing kept"]
    return int(ran[1]) if ran else 0, found, done.stderr[-2000:]


@main.command("fuzz")
@click.option("--seconds", type=click.IntRange(1), default=1800, help="Of each job.")
@click.option("--jobs", type=click.IntRange(1), default=2, help="Runs, each with a seed and a corpus of its own.")
@click.option("--scheduler", default=None, metavar="tcp://HOST:PORT", help="A Dask cluster in place of this machine.")
@click.option("--workers", type=click.IntRange(1), default=1, help="Processes of this machine.")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default=Path("runs/fuzz"))
@click.pass_context
def fuzz(ctx: click.Context, seconds: int, jobs: int, scheduler: str | None, workers: int, folder: Path) -> None:
    """scripts/fuzz.sh with a seed for each job; the target is built once, here."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    binary = folder / "fuzz"
    environ = {**os.environ, "CXX": os.environ.get("CXX", "clang++"), "MAIN": "fuzz"}
    environ["SANITIZE"] = "fuzzer,address,undefined"
    built = subprocess.run(["bash", str(ROOT / "scripts" / "build_sanitized.sh"), str(binary)], env=environ)
    if built.returncode != 0:
        raise click.ClickException("the target could not be built; accepted: clang++ with libFuzzer (CXX)")
    tasks: list[tuple] = [(str(ROOT), str(binary), str(folder), seconds, seed) for seed in range(1, jobs + 1)]
    wrong = False
    try:
        for seed, (ran, found, said) in enumerate(
            spread("sweep", fuzz_job, tasks, workers=workers, scheduler=scheduler), start=1
        ):
            click.echo(
                f"seed {seed}: {ran} inputs, " + (f"found {', '.join(found)}\n{said}" if found else "nothing found")
            )
            wrong = wrong or bool(found)
    except MsCustomOpsError as error:
        raise click.ClickException(str(error)) from None
    if wrong:
        ctx.exit(1)


if __name__ == "__main__":
    main()
