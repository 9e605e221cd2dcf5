#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the TIK kernels of a folder as they are: how many load, trace and give what their goldens say.

    scripts/public_kernels.py FOLDER [--soc CHIP] [--cases FILE.yaml] [--known FILE.yaml] [--only TEXT] [--jobs 2]

Nothing is fetched: FOLDER is a tree somebody has, e.g. an operator package of CANN with its unit tests. Found are

* kernel files: those that make a ``tik.Tik(...)``; each must load (``compat.load_kernel``);
* unit-test cases in the form of ``op_test_frame`` (``OpUT.add_case``, ``add_precision_case``): a case is traced, and
  one with a golden (``calc_expect_func``) is run and compared by its ``PrecisionStandard``;
* single-op descriptions (``*.json``: a list of ``op``, ``input_desc``, ``output_desc``, ``attr``): traced and run;
* calls of ``--cases``: a list of ``{kernel: path, function: name, args: [...], soc: chip}``, traced and run.

Printed are the counts and, per failure, one line with the reason and whose fault it is: ``dsl`` (the case takes a path
in CANN's DSL, which is no TIK), ``chip`` (a chip that is not in the table), ``tool`` (a package the test needs),
``host`` (a kernel that needs the tiling data of a host function), ``slow``, else ``here``, unless the file ``--known``
(a list of ``{kernel: regex, message: regex, whose: text, why: text}``) says what was found out about it.
"""

from __future__ import annotations

import argparse
import collections
import collections.abc
import contextlib
import io
import json
import math
import multiprocessing
import multiprocessing.connection
import os
import re
import signal
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from kernel_cases import CAMEL, DTYPE_NAMES, Case, OpUT, blame, chip_of, described, install_test_frame, run_case

from ms_custom_ops import compat

_TIK = re.compile(r"\btik\.Tik\(")


@dataclass
class Result:
    """What became of a file or case: ``stage`` load, trace or golden; ``whose`` is "" for a success."""

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


def guarded(kernel: str, name: str, stage: str, timeout: int, call: Any) -> Result:
    """Result of a call that gives the text of what is wrong."""
    signal.alarm(timeout)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            reason = call()
        return Result(kernel, name, stage, "here" if reason else "", reason or "")
    except BaseException as error:
        return Result(kernel, name, stage, *blame(error))
    finally:
        signal.alarm(0)


def work_load(item: dict, options: argparse.Namespace) -> Any:
    """A kernel file is imported."""
    yield guarded(item["kernel"], "", "load", options.timeout, lambda: compat.load_kernel(item["path"]) and None)


def work_test(item: dict, options: argparse.Namespace) -> Any:
    """The cases of a unit-test file."""
    path = Path(item["path"])
    sys.path[:0] = [item["root"], str(path.parent)]
    OpUT.made.clear()
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
            yield one_case(item, test, case, options)


def one_case(item: dict, test: OpUT, case: Case, options: argparse.Namespace) -> Result:
    """Result of a case of a unit test."""
    kernel, stage = item["kernel"], "golden" if case.golden else "trace"
    soc = chip_of(case.chips, options.soc)
    if soc is None:
        return Result(kernel, case.name, stage, "chip", f"for {', '.join(map(str, case.chips))}")

    def call() -> str:
        function = getattr(compat.load_kernel(item["file"]), test.function)
        return run_case(function, case, soc)

    result = guarded(kernel, case.name, stage, options.timeout, call)
    if isinstance(case.expect, (str, type)) and case.expect != "success" and stage == "trace":
        failed = result.whose in ("here", "dsl")
        expected = "" if failed else "here"
        return Result(kernel, case.name, "refusal", expected, "" if failed else f"{case.expect} is expected")
    return result


def work_call(item: dict, options: argparse.Namespace) -> Any:
    """A call of a function of a kernel file with given arguments: traced and run."""

    def call() -> str:
        module = compat.load_kernel(item["path"])
        params = [described(p) if isinstance(p, dict) else p for p in item["args"]]
        case = Case("call", params, [], standard=(0, 0))
        return run_case(getattr(module, item["function"]), case, item.get("soc") or options.soc)

    yield guarded(item["kernel"], item.get("name", item["function"]), "run", options.timeout, call)


# ---- what a folder holds ----
def find(folder: Path, options: argparse.Namespace) -> list[dict]:
    """Items of work."""
    kernels = [p for p in sorted(folder.rglob("*.py")) if "test" not in p.name and _TIK.search(_text(p))]
    by_name = collections.defaultdict(list)
    for path in kernels:
        by_name[path.stem].append(path)
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
    items += list(single_ops(folder, by_name))
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


def single_ops(folder: Path, by_name: dict) -> Any:
    """Calls that single-op descriptions make: of every kernel the two with the fewest elements."""
    found = collections.defaultdict(dict)
    for path in sorted(folder.rglob("*.json")):
        try:
            entries = json.loads(_text(path))
        except ValueError:
            continue
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, dict) and {"op", "input_desc", "output_desc"} <= set(entry) and _plain(entry):
                stem = CAMEL.sub("_", entry["op"]).lower()
                for kernel in by_name.get(stem, []):
                    found[kernel][json.dumps(entry, sort_keys=True)] = path
    for kernel, calls in found.items():
        for text in sorted(calls, key=lambda t: _elements(json.loads(t)))[:2]:
            entry, name = json.loads(text), calls[text].name
            item = {"kind": "call", "path": str(kernel), "kernel": str(kernel.relative_to(folder))}
            yield {**item, "function": kernel.stem, "args": _arguments(entry), "name": name}


def _plain(entry: dict) -> bool:
    """Whether a description says one dtype and one shape for every tensor."""
    descs = [*entry["input_desc"], *entry["output_desc"]]
    return all(isinstance(d.get("type"), str) and isinstance(d.get("shape"), list) for d in descs)


def _elements(entry: dict) -> int:
    return sum(math.prod(d["shape"]) for d in (*entry["input_desc"], *entry["output_desc"]))


def _arguments(entry: dict) -> list:
    """Tensor dicts and attributes of a single-op description."""
    args: list = []
    for kind in ("input", "output"):
        for desc in entry[f"{kind}_desc"]:
            form, dtype = desc.get("format", "ND"), DTYPE_NAMES.get(desc["type"], desc["type"])
            tensor = {"shape": [int(d) for d in desc["shape"]], "dtype": dtype, "format": form, "ori_format": form}
            args.append({**tensor, "param_type": kind})
    return args + [a["value"] for a in entry.get("attr") or []]


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
            matches = re.search(entry["kernel"], result.kernel) and re.search(entry["message"], result.reason)
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
    parser.add_argument("--known", help="YAML list of failures that are understood")
    parser.add_argument("--only", help="kernels or tests with this text in their path")
    parser.add_argument("--goldens", action="store_true", help="of the unit tests the cases with goldens only")
    parser.add_argument("--timeout", type=int, default=60, help="seconds per case")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    folder = options.folder.resolve()
    for name in ("Iterable", "Sequence", "Mapping"):  # trees of the time of Python 3.7 find them there
        setattr(collections, name, getattr(collections.abc, name))
    compat.install(force=True)
    install_test_frame()
    results = run_all(find(folder, options), options)
    judge(results, yaml.safe_load(Path(options.known).read_text()) if options.known else [])
    print(file=sys.stderr)
    report(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
