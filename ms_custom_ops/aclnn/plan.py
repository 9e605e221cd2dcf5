# SPDX-License-Identifier: Apache-2.0
"""What a call from C needs of Python, as data: its checks and its lowering, once for each combination of shapes, dtypes
and attributes.

A request is the text that C builds of a call (csrc/acl/request.cc), which is also the key of the plan in the program
cache: a JSON head, "|", and the parameters in order, separated by ";":

    -                     None
    float16[1,2]          a tensor; float16[1,2]:s one that is not contiguous
    [1,2,3]               integers
    =5  ~0x1.8p+1  ?1  "TND   an int, a float, a bool, a text (percent-encoded)
    <0x1p+0,nan  !1,0     floats and bools, of ops of projects
    {float16[1]&int8[2]   a list of tensors, of ops of projects

The head of an op of an Ascend C project names its folder (aclnn/custom.py).

A plan is lines of words, read by csrc/acl/plan.cc. Chains are written as
``<source> <dtype> <rank> <size>... <number of steps> <step>...``; sources are p<parameter>, c<constant>, m<tensor made
for the run>, r<result of the Program> or z (zeros).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

import ms_custom_ops
from ms_custom_ops.aclnn import custom, rtc
from ms_custom_ops.aclnn.interface import ATTRIBUTE, LENGTHS, Interface, LoweredJob, ProgramJob
from ms_custom_ops.aclnn.sparse_grad import ValidatedJob
from ms_custom_ops.aclnn.status import DEFAULT_STATUS, SUCCESS, StatusError, told
from ms_custom_ops.aclnn.tensors import Shaped
from ms_custom_ops.cache import default_cache
from ms_custom_ops.compiler import Call, CompiledOp
from ms_custom_ops.errors import AscendcBuildError, AscendcError, MsCustomOpsError, OpArgumentError, describe
from ms_custom_ops.lower.steps import Chain, Computed, Steps, load, of_zeros
from ms_custom_ops.soc import use_soc
from ms_custom_ops.sources import sources_of

VERSION = 1
CUSTOM = "cust_"
"""In front of the name of an op of a project."""
FIND_KERNEL = 561003
"""Status of a call for which C has no kernel."""
_ROOMS = ("aclnn", "lower")
_TRAPEZOID = "ms_custom_ops.op_impl.ssd_chunk_scan.public:trapezoid"  # csrc/acl/computed.cc makes it in C
_STEPS = (
    "pad", "cut", "cast", "flags", "reshape", "broadcast", "repeat", "corner", "swap", "batch", "unbatch", "take",
    "keep", "sum", "transpose", "bits", "tile", "first",
)  # fmt: skip


class NotFromC(MsCustomOpsError):
    """A call that needs Python each time."""


@dataclass(frozen=True)
class Plan:
    """``text`` of the plan; ``key`` and ``program`` of its Program, empty where it runs none."""

    text: bytes
    key: str = ""
    program: bytes = b""


def entry_op(op: str) -> str:
    """Name under which the plans of an interface stand in the program cache."""
    return f"aclnn_{op}"


def _value(text: str) -> Any:
    mark, rest = text[:1], text[1:]
    if text == "-":
        return None
    if mark == "{":
        return [_value(word) for word in rest.split("&")]
    if mark == "[":
        return [int(n) for n in rest[:-1].split(",") if n]
    if mark == "=":
        return int(rest)
    if mark == "~":
        return float.fromhex(rest)
    if mark == "?":
        return rest == "1"
    if mark == '"':
        return unquote(rest)
    if mark == "<":
        return [float.fromhex(n) for n in rest.split(",") if n]
    if mark == "!":
        return [n == "1" for n in rest.split(",") if n]
    dtype, _, dims = text.partition("[")
    sizes, _, form = dims.partition("]")
    return Shaped(tuple(int(n) for n in sizes.split(",") if n), dtype, form != ":s")


def read_request(text: str) -> tuple[dict[str, Any], list[Any]]:
    """Head and values of a request; ValueError for what is none."""
    head, _, values = text.rpartition("|")
    about = json.loads(head)
    return about, [_value(word) for word in values.split(";")]


def request_text(op: str, soc: str, values: Sequence[Any]) -> str:
    """The text that C builds of a call of ``op`` on a chip: values are None, Shaped, or attributes."""
    head = f'{{"aclnn":1,"op":"{entry_op(op)}","soc":"{soc}"}}|'
    return head + ";".join(map(_word, values))


def _word(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, Shaped):
        return f"{value.dtype}[{','.join(map(str, value.shape))}]{'' if value.contiguous else ':s'}"
    if isinstance(value, bool):
        return f"?{int(value)}"
    if isinstance(value, int):
        return f"={value}"
    if isinstance(value, float):
        return f"~{_c_hex(value)}"
    if isinstance(value, str):
        plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "%%%02X" * len(c.encode()) % (*c.encode(),)
                        for c in value)  # fmt: skip
        return f'"{plain}'
    return f"[{','.join(map(str, value))}]"


def _c_hex(value: float) -> str:
    """As C's %a writes it: no zeros behind the point, nan without a sign."""
    if value != value:
        return "nan"
    head, exponent, power = value.hex().partition("p")
    return head.rstrip("0").removesuffix(".") + exponent + power if "." in head else value.hex()


def make_plan(request: str, interface_of: Any) -> Plan:
    """Plan of a request, put into the program cache, as the Program is, where the call succeeds.

    ``interface_of``: name of an op -> its Interface. Whatever a caller could have caused becomes a status.
    """
    about, values = read_request(request)
    op = about["op"].removeprefix("aclnn_")
    project = about.get("project")
    interface = None if project else interface_of(op)
    name, status = (interface.name, interface.status) if interface else (op.removeprefix(CUSTOM), DEFAULT_STATUS)
    try:
        with use_soc(about["soc"]):
            plan = _plan(interface, values) if interface else _custom_plan(str(project), about["soc"], op, values)
    except NotFromC as error:
        return Plan(_failed(FIND_KERNEL, f"{FIND_KERNEL} (find kernel): {error}"))
    except AscendcBuildError as error:
        return Plan(_failed(FIND_KERNEL, f"{FIND_KERNEL} (find kernel): {name}: {error}"))
    except AscendcError as error:  # of the project's host functions
        return Plan(_failed(*told(name, StatusError("tiling", str(error)), status)))
    except Exception as error:  # a C interface: whatever a caller passes ends in a status
        return Plan(_failed(*told(name, error, status)))
    default_cache().put(entry_op(op), request, plan.text)
    return plan


def _custom_plan(project: str, soc: str, op: str, values: Sequence[Any]) -> Plan:
    found = custom.op_of(project, soc, op.removeprefix(CUSTOM))
    lines = [f"plan {VERSION}", f"status {SUCCESS} 0", "", *custom.plan_lines(found, project, values)]
    return _done(lines, None)


def _failed(status: int, text: str) -> bytes:
    raw = text.encode()
    return f"plan {VERSION}\nstatus {status} {len(raw)}\n".encode() + raw + b"\n"


def _plan(interface: Interface, values: Sequence[Any]) -> Plan:
    names = [p.name for p in interface.parameters]
    given = {
        p.name: p.default if p.kind == ATTRIBUTE and value is None else value
        for p, value in zip(interface.parameters, values, strict=True)
    }
    job = interface.prepare(given)
    lines = [f"plan {VERSION}", f"status {SUCCESS} 0", "", f"workspace {job.workspace_size}"]
    files = "\n".join(f"{digest} {path}" for path, digest in _files(interface)).encode()
    lines += [f"files {len(files)}", files.decode()]
    if isinstance(job, ValidatedJob):
        raise NotFromC(describe(interface.name, "product", job.product, "A2 or A3"))
    lines += _lengths(interface, given, names)
    if isinstance(job, ProgramJob):
        return _of_program(job, names, lines)
    assert isinstance(job, LoweredJob)
    return _of_steps(interface, job, names, lines)


def _of_program(job: ProgramJob, names: Sequence[str], lines: list[str]) -> Plan:
    lines += _program(job.call, job.compiled)
    for name, shape, dtype in job.call.inputs:
        lines.append("input " + _words(Chain(name, shape, dtype), {n: f"p{i}" for i, n in enumerate(names)}))
    for i, (name, shape, dtype) in enumerate(job.call.outputs):
        chain = _words(Chain(name, shape, dtype), {name: f"r{i}"})
        lines += [f"result {_shape(shape, dtype)}", f"output p{names.index(name)} {chain}"]
    return _done(lines, job.compiled)


def _of_steps(interface: Interface, job: LoweredJob, names: Sequence[str], lines: list[str]) -> Plan:
    steps = job.steps
    sources = {name: f"p{i}" for i, name in enumerate(names)}
    lengths = {name: f"p{names.index(own)}" for own, name in _length_names(interface, job).items()}
    sources |= lengths
    if not steps.empty:
        lines += _computed(interface, steps, sources)
        lines += _program(job.call, job.compiled)
        for name, _, _ in job.call.inputs:
            chain = steps.inputs[name]
            assert chain is not None
            lines.append("input " + _words(chain, sources, lines))
        results = {name: f"r{i}" for i, (name, _, _) in enumerate(job.call.outputs)}
        lines += [f"result {_shape(shape, dtype)}" for _, shape, dtype in job.call.outputs]
        sources |= results
    for name, chain in (steps.answers if steps.empty else steps.outputs).items():
        if chain is not None and name in job.given.outputs:
            lines.append(f"output p{names.index(name)} " + _words(chain, sources, lines))
    return _done(lines, None if steps.empty else job.compiled)


def _done(lines: list[str], compiled: CompiledOp | None) -> Plan:
    text = ("\n".join([*lines, "end"]) + "\n").encode()
    return Plan(text) if compiled is None else Plan(text, compiled.key, compiled.program_bytes)


def _program(call: Call, compiled: CompiledOp) -> list[str]:
    return [f"program {call.spec.name} {len(compiled.key.encode())}", compiled.key]


def _length_names(interface: Interface, job: LoweredJob) -> dict[str, str]:
    """Parameter -> the argument of the public form that its lengths are."""
    if interface.lengths_are_tensors:
        return {}
    own = {"actual_seq_qlen": "actual_seq_q", "actual_seq_kvlen": "actual_seq_kv"}
    return {own[name]: name for name in job.given.lengths}


def _lengths(interface: Interface, given: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Lengths that C reads and checks at each call: their parameter, the form and the tokens they are about."""
    if interface.lengths_are_tensors:
        return []
    packed = given["layout"] == "TND"
    found = []
    for p in interface.parameters:
        if p.kind == LENGTHS and given[p.name] is not None:
            side, axis = ("query", 1) if p.name.endswith("_q") else ("key", 2)
            tokens = given[side].shape[-3]
            found.append(f"lengths p{names.index(p.name)} {'sums' if packed else 'counts'} {tokens} {axis} {p.name}")
    return found


def _computed(interface: Interface, steps: Steps, sources: dict[str, str]) -> list[str]:
    """Computed tensors by number: values of those that read no tensor, and what C makes of others at each run."""
    lines: list[str] = []
    known: dict[str, np.ndarray] = {}
    for item in steps.computed:
        if item.function == _TRAPEZOID:
            lines.append(_trapezoid(item, sources, known, sum(line.startswith("trapezoid") for line in lines)))
            continue
        if any(isinstance(source, str) and source not in known for source in item.sources):
            raise NotFromC(
                f"{interface.name}: {', '.join(item.names)} are computed from tensors by Python in each call; accepted "
                f"from C: a call without ({item.function.partition(':')[2]})"
            )
        for name, array in zip(item.names, item.values(item.arrays(known)), strict=True):
            known[name] = np.asarray(array)
            sources[name] = f"c{len(known) - 1}"
            lines.append(_constant(known[name]))
    return lines


def _trapezoid(item: Computed, sources: dict[str, str], known: Mapping[str, np.ndarray], count: int) -> str:
    trap, dt, *places = (sources[str(name)] for name in item.sources)
    sources.update({name: f"m{2 * count + k}" for k, name in enumerate(item.names)})
    assert all(name in known for name in item.sources[2:])
    return " ".join(["trapezoid", trap, dt, str(len(places)), *places, *map(str, item.parameters)])


def _constant(array: np.ndarray) -> str:
    values = " ".join(str(int(value)) for value in array.ravel())
    return f"constant {_shape(array.shape, array.dtype.name)} {values}".rstrip()


def _shape(shape: Sequence[int], dtype: str) -> str:
    return " ".join([dtype, str(len(shape)), *map(str, shape)])


def _words(chain: Chain, sources: Mapping[str, str], lines: list[str] | None = None) -> str:
    """A chain; constants among its sources are added to ``lines``."""
    steps = [step for step in chain.steps if step[0] != "stop"]
    if chain.source is None:
        source, steps = "z", list(of_zeros(chain)[1])
    elif isinstance(chain.source, str):
        source = sources[chain.source]
    else:
        assert lines is not None
        count = sum(line.startswith("constant ") for line in lines)
        lines.append(_constant(np.array(chain.source, np.int32)))
        source = f"c{count}"
    words = [source, _shape(chain.shape, chain.dtype), str(len(steps))]
    for kind, *rest in steps:
        assert kind in _STEPS, kind
        words.append(kind)
        if kind in ("take", "keep"):
            words += [sources[rest[0]], str(rest[1])]
        elif kind in ("reshape", "broadcast", "transpose"):
            words += [str(len(rest[0])), *map(str, rest[0])]
        else:
            words += [repr(float(n)) if isinstance(n, float) else str(n) for n in rest]
    return " ".join(words)


def _files(interface: Interface) -> list[tuple[Path, str]]:
    """Files that the plan depends on, with their SHA-256."""
    found = dict(sources_of(interface.spec).files)
    package = Path(ms_custom_ops.__file__).parent
    paths = [path for room in _ROOMS for path in sorted((package / room).glob("*.py"))]
    if interface.spec.public is not None:
        paths.append(Path(load(interface.spec.public.lower).__code__.co_filename))
    for path in paths:
        found.setdefault(path, hashlib.sha256(path.read_bytes()).hexdigest())
    return sorted(found.items())


def serve(take: Any, give: Any, interface_of: Any) -> None:
    """Answers requests until ``take`` ends. A request is its length, a new line and its text; an answer the lengths of
    plan, key and Program in one line, and these.

    Raises:
        OpArgumentError: a request that ends early.
    """
    while line := take.readline():
        size = int(line)
        raw = take.read(size)
        if len(raw) != size:
            raise OpArgumentError(describe("aclnn", "request", f"{len(raw)} bytes", f"{size} bytes"))
        if raw.startswith(rtc.MARK):
            text, program = rtc.answered(raw[len(rtc.MARK) :])
            key = b""
        else:
            plan = make_plan(raw.decode(), interface_of)
            text, key, program = plan.text, plan.key.encode(), plan.program
        give.write(f"{len(text)} {len(key)} {len(program)}\n".encode() + text + key + program)
        give.flush()
