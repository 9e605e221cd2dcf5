# SPDX-License-Identifier: Apache-2.0
"""op_info files that were written to do harm: an OpInfoError, soon and in little memory; generated code stays code of
ours, whatever text a file holds."""

from __future__ import annotations

import ast
import copy
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ms_custom_ops.errors import OpInfoError
from ms_custom_ops.registry import load_registry
from ms_custom_ops.registry.export import doc_table
from ms_custom_ops.registry.generate import generate

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9)
)
HOSTILE_FILES = {  # name: (text, part of the error)
    "alias_into_itself": ("op: &x [*x]\n", "nested deeper than 16 levels"),
    "alias_into_itself_as_mapping": ("op: &x {args: {a: *x}}\n", "nested deeper than 16 levels"),
    "billion_laughs": (LAUGHS, "more than 10000 values, each use of an alias counted"),
    "many_faulty_ops": ("".join(f"op{i}: {i}\n" for i in range(20_000)), "bytes; accepted: at most 65536"),
    "as_many_as_fit": ("".join(f"o{i}:\n" for i in range(9_000)), "and more"),
    "impossible_date": ("op: {args: {a: {dtype: 2001-13-45}}}\n", "'2001-13-45' is no timestamp"),
    "impossible_time": ("op: {args: {a: {dtype: 2001-12-14T99:59:43}}}\n", "is no timestamp"),
    "long_number": (
        f"op: {{args: {{a: {{default: {'9' * 5000}}}}}}}\n",
        "a value of 5000 characters that is no string",
    ),
    "long_hex": (f"op: {{args: {{a: {{default: 0x{'F' * 5000}}}}}}}\n", "a value of 5002 characters that is no string"),
    "no_number": ("op: {args: {a: {default: !!int zebra}}}\n", "'zebra' is no int"),
    "no_float": ("op: {args: {a: {default: !!float zebra}}}\n", "'zebra' is no float"),
    "no_bool": ("op: {args: {a: {default: !!bool zebra}}}\n", "'zebra' is no bool"),
    "python_object": ("op: !!python/object/apply:os.system [ls]\n", "the op is ['ls']"),
    "python_name": ("op: {doc: !!python/name:os.system ''}\n", "could not determine a constructor"),
    "flow_too_deep": ("op: " + "[" * 60_000, "not valid YAML"),
    "blocks_too_deep": ("- " * 30_000, "not valid YAML"),
    "long_word": (f"op: {{{'x' * 60_000}: 1}}\n", "not valid YAML"),
}

CHILD = """
import resource, sys, time
from ms_custom_ops.errors import OpInfoError
from ms_custom_ops.registry import load_registry
load_registry()  # what loading costs at all is no matter here
kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.process_time()
try:
    load_registry(sys.argv[1])
except OpInfoError as error:
    print(time.process_time() - start, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - kib) / 1024)
    print(error)
"""


@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_hostile_file_is_refused_soon_and_in_little_memory(tmp_path: Path, name: str) -> None:
    text, part = HOSTILE_FILES[name]
    (tmp_path / "toy.yaml").write_text(text)
    done = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    figures, _, error = done.stdout.partition("\n")
    seconds, mib = map(float, figures.split())
    assert part in error and len(error) < 600_000
    assert seconds < 1 and mib < 200


def test_twenty_thousand_files(tmp_path: Path) -> None:
    for i in range(1001):
        (tmp_path / f"{i}.yaml").write_text("op: 1\n")
    with pytest.raises(OpInfoError, match="folder is .* with 1001 files; accepted: at most 1000"):
        load_registry(tmp_path)


def test_what_is_no_plain_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "endless.yaml").symlink_to("/dev/zero")
    with pytest.raises(OpInfoError) as error:
        load_registry(tmp_path)
    assert str(error.value).count("no plain file; accepted: a YAML file") == 3


OPS = """
scale:
  doc: Some text.
  args:
    x: {dtype: tensor, shape: [N], doc: a tensor}
    w: {dtype: tensor, default: None, shape: ["1|N"], doc: another}
    factor: {dtype: float, default: 2.0, prim_init: True, doc: a number}
    count: {dtype: int, default: 3, prim_init: True}
    mode: {dtype: str, default: "'plain'", prim_init: True, doc: a word}
  returns: {y: {dtype: tensor, shape: [M], dtype_from: x, doc: the result}}
  symbols: {M: "N + 0"}
  constraints: [{expr: "N >= 1 and mode in ('plain', 'fast')", msg: not empty}]
  dtype_format: [{x: F16, w: F16, y: F16}]
  bprop: {x: "scale_grad(x, dout[0], factor=factor)", w: non_differentiable}
  class: {name: Scale}
  function: {name: scale}
  impl: {tik: {entry: "t:f", kernel_name: f}, golden: "t:f", tiling: "t"}
  target: {soc: {Ascend910A: {dtypes: [F16]}}}
  accuracy: {fp16: {rms: 0.1}}
  cases: [{name: small, N: 64, dtype: F16, present: [w], mode: fast}]
scale_root:
  grad_of: scale
  omit: [w]
  args: {dy: {like: y}, z: {dtype: tensor, shape: [N], dtype_from: x}}
  returns: {dx: {like: x}, dz: {dtype: tensor, shape: [N], dtype_from: x}}
  impl: {tik: {entry: "t:f"}, golden: "t:f"}
scale_grad:
  args:
    x: {dtype: tensor, shape: [N]}
    dy: {dtype: tensor, shape: [N]}
    factor: {dtype: float, prim_init: True}
  returns: {dx: {dtype: tensor, shape: [N], dtype_from: x}}
  dtype_format: [{x: F16, dy: F16, dx: F16}]
  bprop: none
  impl: {tik: {entry: "t:f"}, golden: "t:f", tiling: "t"}
  target: {soc: {Ascend910A: {dtypes: [F16]}}}
"""
HOSTILE_TEXTS = (
    'x """; PWNED(); """ y',
    '"""\nPWNED()\n"""',
    'ends in """"',
    "'''; PWNED(); '''",
    "'PWNED()'",
    "\\",
    '\\"""\nPWNED()\n',
    "\\N{DIGIT ONE} \\x41 %s {0}",
    "a\nPWNED()",
    "a\rPWNED()",
    "a\u2028PWNED()",
    "a\x00b\x1b[31m",
    "\ud800 lone",
    "\u202egnp.exe",
    "\U0001f600",
    "PWNED)",
    "#",
    "",
    " ",
    "None",
    "class",
    "Tensor",
    "OpPrimitive",
    "prim_cache",
    "__init__",
    "ABSENT",
    "tuple",
    "é",
    float("inf"),
    float("nan"),
    10**30,
    True,
    None,
    [],
    {},
    [["x"]],
    {"x": {"x": 1}},
)


def _leaves(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """Paths of every value, and of every key as ``(path, key, "key")``."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key, "key")
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _leaves(item, (*path, i))
    else:
        yield path


def _shape(source: str) -> list[str]:
    """The statements of a module with constants and the arguments' names left out."""
    tree = ast.parse(source)
    return [type(node).__name__ for node in ast.walk(tree) if isinstance(node, (ast.stmt, ast.Call))]


def _top(data: Any, path: tuple, text: Any) -> Any:
    whole = copy.deepcopy(data)
    target = whole
    steps = path[:-2] if path[-1] == "key" else path[:-1]
    for step in steps:
        target = target[step]
    if path[-1] == "key":
        changed = {text if key == path[-2] else key: value for key, value in target.items()}
        target.clear()
        target.update(changed)
    else:
        target[path[-1]] = text
    return whole


def _dumped(data: Any) -> str:
    """allow_unicode off: what YAML cannot hold as it is, it holds as an escape. libyaml takes a quarter of the time and
    no lone surrogates."""
    try:
        return yaml.dump(data, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False)
    except UnicodeEncodeError:
        return yaml.safe_dump(data, sort_keys=False)


PLAIN = yaml.safe_load(OPS)
FIELDS = [path for path in _leaves(PLAIN) if path[0] != "scale_grad"]


@pytest.mark.parametrize("path", FIELDS, ids=lambda path: ".".join(map(str, path)))
def test_no_text_of_a_file_becomes_code(tmp_path: Path, path: tuple) -> None:
    """Every field in turn holds every text: the file is refused, or the generated module has the same statements."""
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(PLAIN, sort_keys=False))
    wanted = [_shape(source) for source in generate(load_registry(tmp_path)).values()]
    accepted = 0
    for text in HOSTILE_TEXTS:
        if path[-1] == "key" and isinstance(text, (list, dict)):
            continue
        file = _dumped(_top(PLAIN, path, text)).encode("utf-8", "surrogatepass")
        (tmp_path / "toy.yaml").write_bytes(file)
        try:
            registry = load_registry(tmp_path)
        except OpInfoError as error:
            str(error).encode()
            continue
        accepted += 1
        sources = generate(registry).values()
        assert [_shape(source) for source in sources] == wanted, (path, text)
        for source in sources:
            source.encode()
            compile(source, "generated", "exec")
            assert all(c == "\n" or c.isprintable() for c in source)
        for spec in registry.ops.values():
            doc_table(spec)
    assert accepted >= (len(HOSTILE_TEXTS) - 12 if path[-1] in ("doc", "msg") else 0)


def test_a_text_reads_back_as_it_was(tmp_path: Path) -> None:
    doc, default = 'tab\t"""quoted""" \\n \u00e9\u202e end"', '"""\\'
    data = _top(_top(PLAIN, ("scale", "args", "x", "doc"), doc), ("scale", "args", "mode", "default"), repr(default))
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    tree = ast.parse(generate(load_registry(tmp_path))["mco_generated_ops.py"])
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "scale")
    assert " ".join(doc.split()) in " ".join((ast.get_docstring(function) or "").split())
    assert ast.literal_eval(function.args.kw_defaults[-1]) == default  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        (("args", "factor", "default"), float("inf"), "default inf is not finite; accepted: a finite number"),
        (("args", "factor", "default"), float("nan"), "default nan is not finite; accepted: a finite number"),
        (("args", "count", "default"), 2**63, "default 9223372036854775808 is wider than 64 bits"),
        (("bprop", "x"), "scale_grad(x, dout[0], factor=1e999)", "the literal 1e309 is not finite"),
        (("class", "name"), "OpPrimitive", "class name 'OpPrimitive' is reserved in generated code"),
        (("class", "name"), "lambda", "class name 'lambda' is no identifier"),
        (("class", "name"), "scale", "function_name 'scale' is also the class_name of op scale"),
        (("class", "name"), "x", "argument 'x' has the class_name of op scale"),
        (("class", "name"), "__scale", "class name '__scale' is reserved in generated code"),
        (("function", "name"), "prim_cache", "function name 'prim_cache' is reserved in generated code"),
        (("function", "name"), "ScaleGrad", "class_name 'ScaleGrad' is also the function_name of op scale"),
    ],
)
def test_what_generated_code_cannot_hold_is_refused(tmp_path: Path, field: tuple, value: Any, text: str) -> None:
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(_top(PLAIN, ("scale", *field), value), sort_keys=False))
    with pytest.raises(OpInfoError) as error:
        load_registry(tmp_path)
    assert text in str(error.value)
