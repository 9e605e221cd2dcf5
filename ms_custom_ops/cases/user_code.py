# SPDX-License-Identifier: Apache-2.0
"""Python files beside a case file: found by what they register, run with a seed, their failures with file:line."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import random
import sys
import traceback
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np

from ms_custom_ops import compat
from ms_custom_ops.cases.model import CaseFileError
from ms_custom_ops.compat import atk
from ms_custom_ops.compat.upstream import ServedModule
from ms_custom_ops.errors import describe

_NO_CASE_CODE = ("conftest.py", "test_", "setup.py")


class UserCodeError(CaseFileError):
    """Code beside a case file failed, or gave what no case can be made of."""


def has_files(folder: Path) -> bool:
    """Whether Python files lie in ``folder``, unit tests aside."""
    return bool(_files(folder))


def find_generator(folder: Path, name: str) -> type[atk.CaseGenerator] | None:
    """The class that a file in ``folder`` registers as generator ``name``."""
    return _find(folder, name, atk.GENERATOR_REGISTRY, atk.CaseGenerator)


def find_reference(folder: Path, name: str, by_name: bool = False) -> type[atk.BaseApi] | None:
    """The class that a file in ``folder`` registers as API ``name``; ``by_name``: in so many words."""
    return _find(folder, name, atk.API_REGISTRY, atk.BaseApi, by_name)


def _find(folder: Path, name: str, registry: atk._Register, base: type, by_name: bool = False) -> type | None:
    """Runs the files that register ``name`` in so many words, or else those that compute a name, until one has it."""
    compat.install()
    if not isinstance(sys.modules.get("atk"), ServedModule):
        place = getattr(sys.modules.get("atk"), "__file__", "sys.path")
        raise UserCodeError(describe("cases", "atk", f"a real one at {place}", "an environment without it: files "
                                     "beside a case file register with ours"))  # fmt: skip
    names = {file: _registered(file) for file in _files(folder)}
    literal = [file for file, known in names.items() if name in known]
    computed = [] if by_name else [file for file, known in names.items() if None in known]
    for file in literal or computed:
        load(file, folder)
        found = registry.get(name, str(folder))
        if found is not None and not issubclass(found, base):
            raise UserCodeError(describe("cases", f"'{name}' of {file}", f"the class {found.__name__}",
                                         f"a class derived from {base.__name__}"))  # fmt: skip
        if found is not None:
            return found
    return None


def _files(folder: Path) -> list[Path]:
    """Generators by name first, then the others."""
    files = [f for f in sorted(folder.glob("*.py")) if not f.name.startswith(_NO_CASE_CODE)]
    return sorted(files, key=lambda f: (not f.name.startswith("generate_"), "generator" not in f.name))


def _registered(file: Path) -> set[str | None]:
    """Names that calls of ``register`` in a file give; None for one that is computed."""
    with user_code(f"reading {file.name}", file.parent):
        tree = ast.parse(file.read_bytes(), str(file))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    given = [
        argument
        for call in calls
        if ast.unparse(call.func).rpartition(".")[2] == "register"
        for argument in (*call.args, *(k.value for k in call.keywords))
    ]
    return {a.value if isinstance(a, ast.Constant) and isinstance(a.value, str) else None for a in given}


def load(file: Path, folder: Path) -> ModuleType:
    """Runs ``file`` as a module of its own, under its name where that is free: siblings import each other."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # stays: APIs import siblings when they are called
    known = sys.modules.get(file.stem)
    ours = known is None or getattr(known, "__file__", None) == str(file)
    name = file.stem if ours else f"ms_custom_ops_case_{zlib.crc32(str(file).encode()):08x}_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with user_code(f"import of {file.name}", folder), seeded(0):
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return module


@contextlib.contextmanager
def user_code(what: str, folder: Path) -> Iterator[None]:
    """Turns a failure of the body into one UserCodeError that ends with the user's file:line."""
    try:
        yield
    except UserCodeError:
        raise
    except (Exception, SystemExit) as error:
        raise UserCodeError(
            f"cases: {what} failed: {type(error).__name__}: {error} [{_place(error, folder)}]"
        ) from error


def _place(error: BaseException, folder: Path) -> str:
    """The innermost line of a file in ``folder``, else the innermost of all."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).parent == folder]
    frame = (ours or frames)[-1]
    return f"{frame.filename}:{frame.lineno}"


@contextlib.contextmanager
def seeded(*seed: int) -> Iterator[None]:
    """``random``, NumPy's and a loaded torch's global generators start from ``seed``, and go on afterwards as if
    nothing had been drawn."""
    number = zlib.crc32(repr(seed).encode())
    torch = sys.modules.get("torch")
    states = random.getstate(), np.random.get_state(), None if torch is None else torch.get_rng_state()
    random.seed(number)
    np.random.seed(number)
    if torch is not None:
        torch.manual_seed(number)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        if torch is not None:
            torch.set_rng_state(states[2])
