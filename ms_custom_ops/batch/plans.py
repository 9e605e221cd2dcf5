# SPDX-License-Identifier: Apache-2.0
"""Plans of the C library (docs/aclnn_c.md) made ahead: of calls that declared cases stand for, and of listed calls."""

from __future__ import annotations

import functools
import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ms_custom_ops import aclnn
from ms_custom_ops.aclnn import interface_names, interface_of
from ms_custom_ops.aclnn.interface import ATTRIBUTE, LENGTHS, OUTPUT, Interface, Parameter
from ms_custom_ops.aclnn.plan import entry_op, make_plan, read_request, request_text
from ms_custom_ops.aclnn.tensors import Shaped
from ms_custom_ops.batch.compile import Item, call_of
from ms_custom_ops.cache import ProgramCache, file_name
from ms_custom_ops.errors import MsCustomOpsError, OpArgumentError, describe
from ms_custom_ops.registry import OpSpec, get_op
from ms_custom_ops.registry.dtypes import CODE_TO_NAME, NAME_TO_CODE
from ms_custom_ops.registry.public import chosen
from ms_custom_ops.registry.spec import Case
from ms_custom_ops.soc import use_soc
from ms_custom_ops.spread import spread

# Symbols of public forms that the primitive's cases name in another way, tried in turn.
_SAME = {"DV": ("D",), "R": ("rank", "rope_dim"), "S": ("N * C",)}
_HEADERS = Path(aclnn.__file__).parent / "c" / "include" / "aclnnop"
Made = tuple[str, str, bytes, str, str, bytes]
"""Entry and request of a plan, its text; op, key and bytes of its Program."""


@dataclass
class Plans:
    """``made``: plans that are there now; ``new``: of these, those made here; ``without``: cases that stand for no
    call, with the reason; ``failed``: request -> text; ``names``: the files of the cache that plans need."""

    made: int = 0
    new: int = 0
    without: dict[Item, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)


class _NoCallError(MsCustomOpsError):
    """A case that stands for no call from C."""


def requests_of(item: Item) -> list[str]:
    """The calls from C with the sizes of a case; raises MsCustomOpsError where there is none or C refuses it.

    Texts that have a default come in two forms, given and null, which C programs both write.
    """
    op, interface = get_op(item.op), interface_of(item.op)
    case = next(case for case in op.cases if case.name == item.case)
    values = _primitive_values(item) if op.public is None else _public_values(op, case, item, interface)
    for p in interface.parameters:
        if p.kind == ATTRIBUTE and values.get(p.name) is None and p.type != "ints":
            values[p.name] = p.default
            if p.default is None and p.type not in ("str",):
                raise _NoCallError(f"{p.name} has no number in the case")
    with use_soc(item.soc):
        interface.check({p.name: values.get(p.name) for p in interface.parameters})
    texts = [p for p in interface.parameters if p.type == "str" and p.optional and values[p.name] == p.default]
    forms = [values, values | {p.name: None for p in texts}] if texts else [values]
    return [request_text(item.op, item.soc, [form.get(p.name) for p in interface.parameters]) for form in forms]


def _primitive_values(item: Item) -> dict[str, Any]:
    call = call_of(item)
    tensors = {name: Shaped(tuple(shape), dtype) for name, shape, dtype in (*call.inputs, *call.outputs)}
    return {**tensors, **dict(call.attrs)}


def _public_values(op: OpSpec, case: Case, item: Item, interface: Interface) -> dict[str, Any]:
    assert op.public is not None
    shapes, dtypes, attrs = op.case_call(case)
    env = {**{a.name: a.default for a in op.attributes if a.has_default}, **attrs}
    env |= op.check_call(shapes, dtypes, attrs, item.soc)
    env |= {a.name: a.default for a in op.public.attributes if a.has_default and a.name not in env}
    env["S"] = env.get("S", 0) // env.get("rank", 1) or None  # rows are steps and ranks there
    env = {name: value for name, value in env.items() if name != "S" or value is not None}
    if "TND" in env.values() or "PA_BSND" in env.values():
        raise _NoCallError("lengths of packed or paged sequences are values of a call: make its plan with --calls")
    main = CODE_TO_NAME[case.dtype]
    given = {arg.name for arg in op.public.args if not arg.optional or (shapes.get(arg.name) and not arg.values)}
    env |= {f"present:{arg.name}": arg.name in given for arg in op.public.args}
    found: dict[str, Any] = {}
    for arg in op.public.args:
        if arg.name in given:
            dtype = arg.dtypes[0] if main not in arg.dtypes else main
            found[arg.name] = Shaped(_sizes(chosen(arg.shapes, env), env), found[dtype].dtype if dtype in found else
                                     dtype if dtype in NAME_TO_CODE else main)  # fmt: skip
    attributes = {a.name: env[a.name] for a in op.public.attributes if a.name in env}
    if attributes.get("scale_value", 1) is None:
        attributes["scale_value"] = float(env["D"]) ** -0.5
    for ret in op.public.returns:
        asked = ret.present_if is None or ret.present_if in given or bool(attributes.get(ret.present_if))
        if asked:
            source = ret.dtype_from
            dtype = source if source in NAME_TO_CODE else found[source].dtype
            found[ret.name] = Shaped(_sizes(chosen(ret.shapes, env), env), dtype)
    return _only({**found, **attributes}, interface.parameters)


def _only(values: Mapping[str, Any], parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Values of the parameters, those of required tensors there."""
    for p in parameters:
        if p.kind not in (ATTRIBUTE, LENGTHS) and not p.optional and p.kind != OUTPUT and p.name not in values:
            raise _NoCallError(f"{p.name} has no shape in the case")
    return {p.name: values[p.name] for p in parameters if p.name in values}


def _sizes(dims: Any, env: dict[str, Any]) -> tuple[int, ...]:
    return tuple(_size(dim, env) for dim in dims)


def _size(dim: Any, env: dict[str, Any]) -> int:
    expr = dim.alternatives[-1]
    for name in sorted(expr.names - env.keys()):
        known = [same.split(" * ") for same in _SAME.get(name, ()) if all(part in env for part in same.split(" * "))]
        if not known:
            raise _NoCallError(f"size {name} is none of the case")
        env[name] = math.prod(env[part] for part in known[0])
    return int(expr.evaluate(env))


def make_item(request: str) -> tuple[Made | None, str]:
    """A plan and its Program, or what is wrong with the call; runs in any process."""
    about, _ = read_request(request)
    plan = make_plan(request, interface_of)
    status, _, rest = plan.text.decode(errors="replace").partition("\n")[2].partition("\n")
    if not status.startswith("status 0 "):
        return None, rest.strip()
    return (about["op"], request, plan.text, _program_op(about), plan.key, plan.program), ""


def make_plans(
    items: Sequence[Item], requests: Sequence[str], cache: ProgramCache, jobs: int = 1, scheduler: str | None = None,
    folders: Sequence[str] = (), progress: Callable[[int], None] = lambda count: None,
) -> Plans:  # fmt: skip
    """Plans of the calls that cases stand for and of ``requests``, in the folder of ``cache``; those that are there and
    current are not made again. Arguments as of :func:`ms_custom_ops.batch.compile.compile_items`."""
    plans, wanted = Plans(), dict.fromkeys(requests)
    for item in items:
        if not (_HEADERS / f"aclnn_{item.op}.h").is_file():  # an op of a user's: the library has no functions of it
            continue
        try:
            wanted |= dict.fromkeys(requests_of(item))
        except MsCustomOpsError as error:
            plans.without[item] = str(error)
    files: dict[str, bool] = {}
    missing = [request for request in wanted if not _current(cache, request, files, plans.names)]
    plans.made = len(wanted) - len(missing)
    progress(plans.made)
    tasks = [(request,) for request in missing]
    made = spread("compile", make_item, tasks, workers=jobs, scheduler=scheduler, folders=folders) if tasks else ()
    for request, (found, wrong) in zip(missing, made, strict=True):
        progress(1)
        if found is None:
            plans.failed[request] = wrong
            continue
        entry, key, text, op, program_key, program = found
        if program_key:
            if cache.get(op, program_key) is None:  # the manifest may name the one that is there
                cache.put(op, program_key, program)
            plans.names.add(file_name(op, program_key))
        cache.put(entry, key, text)
        plans.names.add(file_name(entry, key))
        plans.made, plans.new = plans.made + 1, plans.new + 1
    return plans


def _current(cache: ProgramCache, request: str, files: dict[str, bool], names: set[str]) -> bool:
    """Whether a plan and its Program are there, made of the files as they are; ``files``: what is known of the lists of
    files that plans have in common; ``names`` takes the names of both in the cache."""
    about, _ = read_request(request)
    text = cache.get(about["op"], request)
    if text is None:
        return False
    listed = _block(text, "files")
    if listed not in files:
        files[listed] = all(
            _digest(path) == digest for digest, _, path in (line.partition(" ") for line in listed.splitlines())
        )
    if not files[listed]:
        return False
    if "project" in about:
        return False  # its kernels are kept beside the cache: the plan is made again, which builds those that are gone
    op = _program_op(about)
    key = _block(text, f"program {op}")
    if key and cache.get(op, key) is None:
        return False
    names.update(file_name(*each) for each in ((about["op"], request), (op, key)) if each[1])
    return True


def _digest(path: str) -> str:
    """SHA-256 of a file, "" without one."""
    try:
        stat = os.stat(path)
    except OSError:
        return ""
    return _digest_of(path, stat.st_size, stat.st_mtime_ns)


@functools.lru_cache(maxsize=4096)
def _digest_of(path: str, size: int, changed: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _program_op(about: Mapping[str, str]) -> str:
    """The op whose Program a plan runs, "" of an op of a project."""
    return "" if "project" in about else interface_of(about["op"].removeprefix(entry_op(""))).spec.name


def _block(plan: bytes, word: str) -> str:
    """The text behind a line ``<word> <bytes>`` of a plan, "" without one."""
    at = plan.find(f"\n{word} ".encode())
    if at < 0:
        return ""
    head, _, rest = plan[at + 1 :].partition(b"\n")
    return rest[: int(head.split()[-1])].decode()


def read_calls(path: Path) -> Iterator[str]:
    """Requests of a file, one a line, as MS_CUSTOM_OPS_ACL_CALLS has the C library write them.

    Raises:
        OpArgumentError: a line that is no request.
    """
    for number, line in enumerate(path.read_bytes().decode(errors="replace").splitlines(), 1):
        if not line.strip():
            continue
        try:
            about, _ = read_request(line)
            known = "project" in about or about["op"].removeprefix(entry_op("")) in interface_names()
        except (ValueError, KeyError, TypeError, AttributeError):
            known = False
        if not known:
            accepted = "a call as the C library writes it (MS_CUSTOM_OPS_ACL_CALLS)"
            raise OpArgumentError(describe("compile", f"line {number} of {path}", repr(line[:80]), accepted))
        yield line
