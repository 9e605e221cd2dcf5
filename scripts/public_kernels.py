#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the TIK kernels of a folder as they are: how many load, trace and give what their goldens say.

    scripts/public_kernels.py FOLDER [--soc CHIP] [--cases FILE.yaml] [--known FILE.yaml] [--only TEXT] [--jobs 2]

Nothing is fetched: FOLDER is a tree somebody has, e.g. an operator package of CANN with its unit tests. Found are

* kernel files: those that make a ``tik.Tik(...)``; each must load (``compat.load_kernel``);
* unit-test cases in the form of ``op_test_frame`` (``OpUT.add_case``, ``add_precision_case``): a case is traced; one
  that its author runs (``add_precision_case``) is compared with its golden (``calc_expect_func``) by its
  ``PrecisionStandard``: stage ``golden``; a golden that a case names which is compiled only is compared too:
  ``compiled``. Where an error is expected the operator must refuse the arguments, or the run stop: ``refusal``;
* with ``--run-traced`` cases without a golden are run on random data too: ``ran``; those with no more than
  ``--reference`` elements by both engines;
* single-op descriptions (``*.json``: a list of ``op``, ``input_desc``, ``output_desc``, ``attr``): traced and run
  (``run``), or traced only where they have more than ``--elements`` in all (``large``);
* calls of ``--cases``: a list of ``{kernel: path, function: name, args: [...], attrs: {...}, soc: chip, name: text,
  golden: FILE.py:FUNCTION, standard: [deviation, share, least]}``: the same; a golden is called with the arguments,
  each tensor's data under ``value``.

Printed are the counts and, per failure, one line with the reason and whose fault it is:

| word | the fault |
|---|---|
| kernel | of the kernel: it raises the error itself; or reaches beyond its arguments, and meets the golden (or runs)
  where unspecified bytes lie behind them; or beyond a local tensor |
| test | of the case: its golden raises; more by ``--known`` |
| expects | a refusal is expected; neither the kernel nor a rule of TIK that is written down refuses |
| dsl | a path in CANN's DSL, which is no TIK |
| chip | a chip that is not in the table, or has no such instruction |
| tool | a package that the test needs |
| host | a kernel that needs the tiling data of a host function |
| form | a single-op description that does not say how its parts become arguments (lists of tensors, missing ones) or
  what its integers are: they are 0; or a case of a tensor that cannot be the kernel's |
| slow | longer than ``--timeout`` |
| here | none of these: of this package, until shown otherwise |

The file ``--known`` (a list of ``{kernel: regex, message: regex, whose: text, why: text}``) replaces the word by what
was found out about a failure.
"""

from __future__ import annotations

import argparse
import collections
import collections.abc
import contextlib
import copy
import inspect
import io
import math
import multiprocessing
import multiprocessing.connection
import os
import re
import runpy
import signal
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from kernel_cases import (
    CAMEL,
    Case,
    OpUT,
    blame,
    chip_of,
    described,
    install_test_frame,
    older_names,
    run_case,
    tensorflow_1,
    tensors_of,
)
from single_ops import single_ops

from ms_custom_ops import compat
from ms_custom_ops.errors import EngineError

_TIK = re.compile(r"\btik\.Tik\(")
_IMPORT = re.compile(r"^(?:from|import)\s.*$", re.MULTILINE)
_BEYOND = re.compile(r" needs bytes | overflow: elements needed ")
_FORM = re.compile(
    r"^SignatureError|^OpParamError: \w+: (arguments|type of |\w+ is \{)"
    r"|^EngineError: (\w+: \w+ needs bytes \[-|scalar: integer division by zero|data_move: burst is 0)"
)
_MEANS = {"golden": "the golden is met", "compiled": "the golden is met", "run": "it runs", "ran": "it runs"}
_ROOM = 1 << 24  # bytes behind every argument, to judge a kernel that reaches beyond them


@dataclass
class Result:
    """What became of a file or case: ``stage`` load, trace, golden, ...; ``whose`` is "" for a success."""

    kernel: str
    case: str
    stage: str
    whose: str = ""
    reason: str = ""


# ---- work: one item per child process ----
def _alarm(*_: Any) -> None:
    raise TimeoutError("the time of one case is over")


def work(item: dict, options: argparse.Namespace, results: Any) -> None:
    """Child process: every result of an item goes through the pipe as soon as it is known."""
    signal.signal(signal.SIGALRM, _alarm)
    warnings.simplefilter("ignore")
    for result in globals()[f"work_{item['kind']}"](item, options):
        results.send(asdict(result))


def guarded(kernel: str, name: str, stage: str, options: argparse.Namespace, call: Any) -> Result:
    """Result of a call that gives the text of what is wrong."""
    signal.alarm(options.timeout)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            reason = call()
        return Result(kernel, name, stage, "here" if reason else "", reason or "")
    except BaseException as error:
        return Result(kernel, name, stage, *blame(error, options.tree))
    finally:
        signal.alarm(0)


def judged(kernel: str, name: str, stage: str, options: argparse.Namespace, call: Any) -> Result:
    """Result of ``call(room)``. One that reaches beyond a tensor is called again with room behind its arguments."""
    result = guarded(kernel, name, stage, options, lambda: call(0))
    if result.whose == "here" and _BEYOND.search(result.reason):
        again = guarded(kernel, name, stage, options, lambda: call(_ROOM))
        if again.whose == "":
            what = _MEANS.get(stage, "it traces")
            result.whose, result.reason = "kernel", f"{result.reason}; with room behind its arguments {what}"
        elif "overflow: elements" in again.reason or again.whose in ("test", "tool"):
            result.whose = "kernel"
        elif again.reason != result.reason:
            result.reason += f"; with room behind its arguments: {again.reason}"
    return result


def work_load(item: dict, options: argparse.Namespace) -> Any:
    """A kernel file is imported."""
    yield guarded(item["kernel"], "", "load", options, lambda: compat.load_kernel(item["path"]) and None)


def work_test(item: dict, options: argparse.Namespace) -> Any:
    """The cases of a unit-test file."""
    path = Path(item["path"])
    sys.path[:0] = [item["root"], str(path.parent)]
    OpUT.made.clear()
    if "tensorflow" in path.read_text():
        tensorflow_1()
    namespace: dict[str, Any] = {"__name__": "unit_test", "__file__": str(path)}
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            signal.alarm(options.timeout)
            exec(compile(path.read_text(), str(path), "exec"), namespace)
        except BaseException as error:
            yield Result(item["kernel"], path.name, "test file", *blame(error))
        finally:
            signal.alarm(0)
    for test in OpUT.made:
        for case in test.cases:
            if options.goldens and case.golden is None:
                continue
            result = one_case(item, test, case, options)
            yield result
            if options.run_traced and result.stage == "trace" and not result.whose and small(case.params, options):
                yield run_traced(item, test, case, options)


def run_traced(item: dict, test: OpUT, case: Case, options: argparse.Namespace) -> Result:
    """Result of a case that is compiled only, run on random data; where that fails with integers of 0, which are
    indices and counts that every kernel takes."""
    soc = str(chip_of(case.chips, options.soc))
    both = small(case.params, options, options.reference)

    def call(room: int = 0) -> str:
        function = getattr(compat.load_kernel(item["file"]), test.function)
        try:
            return run_case(function, copy.deepcopy(case), soc, True, room, both=both)
        except EngineError:
            return run_case(function, copy.deepcopy(case), soc, True, room, True, both)

    return judged(item["kernel"], case.name, "ran", options, call)


def one_case(item: dict, test: OpUT, case: Case, options: argparse.Namespace) -> Result:
    """Result of a case of a unit test."""
    kernel, compared = item["kernel"], case.golden is not None
    stage = "refusal" if case.fails else "trace" if not compared else "golden" if case.precise else "compiled"
    soc = chip_of(case.chips, options.soc)
    if soc is None:
        return Result(kernel, case.name, stage, "chip", f"for {', '.join(map(str, case.chips))}")

    def call(room: int = 0) -> str:
        function = getattr(compat.load_kernel(item["file"]), test.function)
        runs = compared or case.fails and small(case.params, options)
        return run_case(function, copy.deepcopy(case), soc, runs, room)  # operators write into what describes a tensor

    if not case.fails:
        return judged(kernel, case.name, stage, options, call)
    case.golden = None
    result = guarded(kernel, case.name, stage, options, call)
    refused = result.whose in ("here", "kernel", "dsl")
    return Result(kernel, case.name, stage, *(("", "") if refused else ("expects", f"{case.expect} is expected")))


def work_call(item: dict, options: argparse.Namespace) -> Any:
    """A call of a function of a kernel file with given arguments: traced and run."""

    runs, attrs = small(item["args"], options), item.get("attrs", {})
    golden = named_function(item["golden"]) if "golden" in item else None

    def call(room: int) -> str:
        function = getattr(compat.load_kernel(item["path"]), item["function"])
        params = [described(p) if isinstance(p, dict) else p for p in item["args"]]
        by_name = attrs if attrs.keys() <= inspect.signature(function).parameters.keys() else {}
        case = Case("call", params if by_name else params + list(attrs.values()), [], golden=golden, more=by_name)
        case.standard = tuple(item.get("standard", case.standard))
        return run_case(function, case, item.get("soc") or options.soc, runs, room)

    stage = "large" if not runs else "golden" if golden else "run"
    result = judged(item["kernel"], item.get("name", item["function"]), stage, options, call)
    if "attrs" in item and result.whose == "here" and _FORM.search(result.reason):
        result.whose = "form"
    yield result


def named_function(name: str) -> Any:
    """The function that ``FILE.py:NAME`` says."""
    path, _, function = name.rpartition(":")
    return runpy.run_path(path)[function]


def small(params: list, options: argparse.Namespace, most: int | None = None) -> bool:
    """Whether tensors of a call are few enough to run it where it has no golden; ``most`` in place of --elements."""
    with contextlib.suppress(TypeError):  # shapes that an operator is to refuse
        return sum(math.prod(t["shape"]) for t in tensors_of(params)) <= (options.elements if most is None else most)
    return False


# ---- what a folder holds ----
def find(folder: Path, options: argparse.Namespace) -> list[dict]:
    """Items of work."""
    kernels = [p for p in sorted(folder.rglob("*.py")) if "test" not in p.name and _TIK.search(_text(p))]
    items = [{"kind": "load", "path": str(p), "kernel": str(p.relative_to(folder))} for p in kernels]
    named = collections.defaultdict(list)
    for path in sorted(folder.rglob("*.py")):
        named[path.stem].append(path)
    for path in sorted(folder.rglob("*.py")):
        text = _text(path)
        if "op_test_frame" in text and "OpUT" in text and (not options.goldens or "calc_expect_func" in text):
            kernel = kernel_of_test(path, text, named)
            if kernel is not None:
                item = {"kind": "test", "path": str(path), "root": str(_root(kernel)), "file": str(kernel)}
                items.append({**item, "kernel": str(kernel.relative_to(folder))})
    items += list(single_ops(folder, operators(named, {p.stem for p in kernels})))
    for entry in yaml.safe_load(Path(options.cases).read_text()) if options.cases else []:
        items.append({"kind": "call", **entry, "path": str(folder / entry["kernel"])})
    return [i for i in items if not options.only or options.only in i["kernel"] or options.only in i["path"]]


def _text(path: Path) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text()
    return ""


def _root(kernel: Path) -> Path:
    tops = [p for p in kernel.parents if p.name == "impl"]
    return tops[-1].parent if tops else kernel.parent


def kernel_of_test(test: Path, text: str, by_name: dict) -> Path | None:
    """Kernel file of a test by the arguments of its OpUT: of several of that name the nearest in the tree, None if that
    one makes no kernel (an operator in CANN's DSL)."""
    found = re.search(r"""OpUT\(\s*["'](\w+)["']\s*(?:,\s*(?:["']([\w.]+)["']|None))?""", text)
    if not found:
        return None
    module = found.group(2) or f"impl.{CAMEL.sub('_', found.group(1)).lower()}"
    candidates = by_name.get(module.rpartition(".")[2], [])
    suffix = "/".join(module.split(".")) + ".py"
    named = [p for p in candidates if str(p).endswith(f"/{suffix}")]
    nearest = max(named, key=lambda p: len(os.path.commonpath([p, test])), default=None)
    return nearest if nearest is not None and _TIK.search(_text(nearest)) else None


def operators(named: dict, kernels: set[str]) -> dict[str, list[Path]]:
    """Files of operators by their op's name in lower case: those that make a kernel, or take one from a file that
    does, e.g. by inheritance."""
    found = collections.defaultdict(list)
    for stem, paths in named.items():
        for path in paths:
            text = _text(path)
            bases = {name for line in _IMPORT.findall(text) for name in re.findall(r"\w+", line)}
            if re.search(rf"^def {stem}\(", text, re.MULTILINE) and (_TIK.search(text) or bases & kernels):
                found[stem.replace("_", "")].append(path)
    return found


# ---- the run ----
def run_all(items: list[dict], options: argparse.Namespace) -> list[Result]:
    """Results of every item; each runs in a process of its own, ``jobs`` at a time."""
    context = multiprocessing.get_context("fork")
    first = next((i for i in items if i["kind"] == "load"), None)
    if first is not None:
        # The package of most kernels is imported once, before the children part.
        with contextlib.suppress(BaseException), contextlib.redirect_stdout(io.StringIO()):
            compat.load_kernel(first["path"])
    waiting, running, results = list(reversed(items)), [], []
    while waiting or running:
        while waiting and len(running) < options.jobs:
            item = waiting.pop()
            ours, theirs = context.Pipe(False)
            process = context.Process(target=work, args=(item, options, theirs))
            process.start()
            theirs.close()
            running.append((process, ours, item))
        for entry in multiprocessing.connection.wait([r[1] for r in running]):
            process, ours, item = next(r for r in running if r[1] is entry)
            try:
                results.append(Result(**ours.recv()))
            except EOFError:
                process.join()
                if process.exitcode:
                    text = f"the process ended with {process.exitcode}"
                    results.append(Result(item["kernel"], "", item["kind"], "here", text))
                running.remove((process, ours, item))
                if not options.quiet:
                    print(f"\r{len(items) - len(waiting) - len(running)} of {len(items)}", end="", file=sys.stderr)
    return results


def judge(results: list[Result], known: list[dict]) -> None:
    """What is known about a failure replaces the first guess."""
    for result in results:
        for entry in known:
            name = f"{result.kernel} {result.case}"
            matches = re.search(entry["kernel"], name) and re.search(entry["message"], result.reason)
            if result.whose and matches:
                result.whose, result.reason = entry["whose"], f"{entry['why']} ({result.reason})"
                break


def report(results: list[Result]) -> None:
    """Counts per stage, kernels with goldens, and a line per failure."""
    for stage in dict.fromkeys(r.stage for r in results):
        group = [r for r in results if r.stage == stage]
        whose = collections.Counter(r.whose for r in group if r.whose)
        good = sum(not r.whose for r in group)
        print(f"{stage:10} {good} of {len(group)}" + "".join(f", {n} {w}" for w, n in whose.most_common()))
    goldens = collections.defaultdict(list)
    for r in results:
        if r.stage == "golden" and r.whose not in ("dsl", "chip", "tool", "host"):
            goldens[r.kernel].append(not r.whose)
    if goldens:
        print(f"kernels with goldens: {sum(map(all, goldens.values()))} of {len(goldens)} pass all of theirs")
    for r in sorted(results, key=lambda r: (r.stage, r.whose, r.kernel)):
        if r.whose and r.whose != "dsl":
            print(f"{r.stage} | {r.whose} | {r.kernel} {r.case} | {r.reason}")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--soc", default="Ascend910A")
    parser.add_argument("--cases", help="YAML list of calls")
    parser.add_argument("--known", help="YAML list of failures that are understood; public_kernels.yaml by default")
    parser.add_argument("--only", help="kernels or tests with this text in their path")
    parser.add_argument("--goldens", action="store_true", help="of the unit tests the cases with goldens only")
    parser.add_argument("--run-traced", action="store_true", help="of the unit tests also run the cases without golden")
    parser.add_argument("--reference", type=int, default=0, help="of those, the most elements for both engines")
    parser.add_argument("--elements", type=int, default=1 << 24, help="a call without golden with more is not run")
    parser.add_argument("--timeout", type=int, default=60, help="seconds per case")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    folder = options.folder.resolve()
    for name in ("Iterable", "Sequence", "Mapping"):  # trees of the time of Python 3.7 find them there
        setattr(collections, name, getattr(collections.abc, name))
    compat.install(force=True)
    install_test_frame()
    older_names()
    options.tree = str(folder)
    results = run_all(find(folder, options), options)
    known = Path(options.known or Path(__file__).with_suffix(".yaml"))
    judge(results, yaml.safe_load(known.read_text()))
    print(file=sys.stderr)
    report(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
