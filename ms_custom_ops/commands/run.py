# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops run KERNEL.py:entry``: trace a kernel file and run it from a shell."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import numpy as np

from ms_custom_ops.program.dtypes import DTYPES

_TENSOR = re.compile(r"(?P<dtype>[a-z]+[0-9]*)\[(?P<dims>[0-9, ]*)\]")
_LIKE_TENSOR = re.compile(r"[a-z]+[0-9]+\s*\[[-0-9, x*]*\]?")  # a description with a mistake in it
_NAMED = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)", re.DOTALL)


def parse_value(text: str) -> Any:
    """Value of an --arg: ``float16[2,3]`` is the dict that describes a tensor to a TBE operator, a Python
    literal is itself, ``true``, ``false`` and ``null`` are as in JSON, anything else is a string; click.UsageError for
    what is nearly a description."""
    match = _TENSOR.fullmatch(text.strip())
    if match and match.group("dtype") in DTYPES:
        shape = tuple(int(d) for d in match.group("dims").split(",") if d.strip())
        return {
            "shape": shape, "dtype": match.group("dtype"), "format": "ND", "ori_shape": shape, "ori_format": "ND",
        }  # fmt: skip
    if _LIKE_TENSOR.fullmatch(text.strip()):
        raise click.UsageError(f"--arg {text}: is no description of a tensor; accepted: DTYPE[SIZE,...] such as "
                               f"float16[2,1024], a DTYPE of {', '.join(DTYPES)}")  # fmt: skip
    words = {"true": True, "false": False, "null": None}
    if text in words:
        return words[text]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def split_arguments(items: Iterable[str]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments of --arg options; click.UsageError for a positional one after
    NAME=VALUE or a name given twice."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for item in items:
        match = _NAMED.fullmatch(item)
        if match is None:
            if kwargs:
                raise click.UsageError(f"--arg {item}: stands after NAME=VALUE; accepted: positional values first")
            args.append(parse_value(item))
        elif match.group("name") in kwargs:
            raise click.UsageError(f"--arg {item}: {match.group('name')} is given twice; accepted: once")
        else:
            kwargs[match.group("name")] = parse_value(match.group("value"))
    return args, kwargs


def _load(path: str) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--feed {path}: {error}; accepted: a .npy or .npz file") from error


def _feed_value(text: str) -> Any:
    """A number, or the array of a .npy file."""
    with contextlib.suppress(ValueError, SyntaxError):
        value = ast.literal_eval(text)
        if isinstance(value, (int, float)):
            return value
    loaded = _load(text)
    if not isinstance(loaded, np.ndarray):
        raise click.UsageError(f"--feed {text}: holds several arrays; accepted: a .npz file without a name")
    return loaded


def collect_feed(items: Iterable[str], names: list[str]) -> dict[str, Any]:
    """Feed by name: ``NAME=FILE.npy``, ``NAME=NUMBER``, all arrays of a ``FILE.npz``, and unnamed values that
    take the ``names`` not given otherwise, in order. click.UsageError for names missing, unknown or twice."""
    feed: dict[str, Any] = {}
    unnamed: list[Any] = []
    for item in items:
        match = _NAMED.fullmatch(item)
        if match:
            found = {match.group("name"): _feed_value(match.group("value"))}
        elif item.endswith(".npz"):
            with _load(item) as archive:
                found = {name: archive[name] for name in archive.files}
        else:
            unnamed.append(_feed_value(item))
            continue
        twice = sorted(set(found) & set(feed))
        if twice:
            raise click.UsageError(f"--feed {item}: {', '.join(twice)} is given twice; accepted: once")
        feed.update(found)
    free = [name for name in names if name not in feed]
    if len(free) != len(unnamed) or set(feed) - set(names):
        raise click.UsageError(
            f"--feed: given are {', '.join(feed) or 'no names'} and {len(unnamed)} unnamed values; accepted: one "
            f"value for each of {', '.join(names) or '(nothing)'}"
        )
    feed.update(zip(free, unnamed, strict=True))
    return {name: feed[name] for name in names}


def entry_of(spec: str) -> Any:
    """The function that ``FILE.py:FUNCTION`` names."""
    from ms_custom_ops.compat import load_kernel

    file, _, name = spec.rpartition(":")
    if not file or not name:
        raise click.UsageError(f"KERNEL: is {spec!r}; accepted: FILE.py:FUNCTION")
    found: Any = load_kernel(file)
    for part in name.split("."):
        if not hasattr(found, part):
            names = ", ".join(n for n, v in vars(found).items() if callable(v) and not n.startswith("_"))
            raise click.UsageError(f"KERNEL: {file} has no {part}; accepted: {names or 'a file with functions'}")
        found = getattr(found, part)
    if not callable(found):
        raise click.UsageError(f"KERNEL: {name} of {file} is {found!r}; accepted: a function")
    return found


def _summary(name: str, array: np.ndarray) -> str:
    text = f"{name}: {array.dtype}{list(array.shape)}"
    if not array.size:
        return text
    wide = array.astype(np.float64)
    good = wide[np.isfinite(wide)]
    if good.size:
        text += f" min {good.min():.6g} max {good.max():.6g} mean {good.mean():.6g}"
    return text + (f", {array.size - good.size} not finite" if good.size != array.size else "")


@click.command("run")
@click.argument("kernel")
@click.option(
    "--arg",
    "arguments",
    multiple=True,
    metavar="VALUE | NAME=VALUE",
    help="Argument of the entry: dtype[dims] for a tensor's description, a Python literal, or text.",
)
@click.option(
    "--feed",
    "feeds",
    multiple=True,
    metavar="FILE | NAME=FILE | NAME=NUMBER",
    help="Input of the kernel, in BuildCCE order or by name: .npy, .npz, or a number for an InputScalar.",
)
@click.option("--soc", default=None, help="Chip to trace for; default: the configured one.")
@click.option(
    "--engine",
    "engine_name",
    type=click.Choice(["native", "reference"]),
    default="native",
    show_default=True,
    help="Engine; tikdb.debug_print and printf of a kernel print under reference.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Folder for the outputs, one NAME.npy each.",
)
@click.option("--text", "show_text", is_flag=True, help="Print the traced Program.")
def command(
    kernel: str, arguments: tuple[str, ...], feeds: tuple[str, ...], soc: str | None, engine_name: str,
    out: Path | None, show_text: bool,
) -> None:  # fmt: skip
    """Trace the TIK kernel KERNEL (FILE.py:FUNCTION) and run it.

    The file may import tbe, te and the package impl it lies in, as on an Ascend host.

    \b
    Example:
      ms-custom-ops run kernel.py:double --arg 'float16[1024]' --arg 'float16[1024]' --feed x.npy --out results
    """
    from ms_custom_ops.engine.addressed import memory_of
    from ms_custom_ops.tik.trace import trace

    args, kwargs = split_arguments(arguments)
    program = trace(entry_of(kernel), *args, soc=soc, **kwargs)
    if show_text:
        click.echo(program.text(), nl=False)
    names = [program.buffers[i].name for i in program.inputs if i != memory_of(program)]
    names += [program.registers[i].name for i in program.input_scalars]
    outputs = _run(program, collect_feed(feeds, names), engine_name)
    click.echo(f"{program.name} on {program.soc}, {engine_name} engine")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    for index, array in zip(program.outputs, outputs, strict=True):
        name = program.buffers[index].name
        click.echo(_summary(name, array))
        if out is not None:
            np.save(out / f"{name}.npy", array)


def _run(program: Any, feed: dict[str, Any], engine_name: str) -> list[np.ndarray]:
    if engine_name == "reference":
        from ms_custom_ops.debug.debugger import run_program

        return run_program(program, feed, api="run")
    from ms_custom_ops import engine
    from ms_custom_ops.debug.points import points_of

    if points_of(program):
        click.echo("printf and debug_print of this kernel print with --engine reference only", err=True)
    return engine.run(program, feed)
