# SPDX-License-Identifier: Apache-2.0
"""What ``ms-custom-ops tune`` found, where plans read it: one file per op beside the cache of Programs.

A plan asks :func:`choose` with its problem and with the choices it has. The key of a Program has :func:`digest` in it,
so that a Program of another choice is never taken for one of this.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ms_custom_ops.config import config
from ms_custom_ops.errors import TilingError, describe

Choice = Mapping[str, Any]


@dataclass
class Trial:
    """A plan made to see its choices (``choice`` None) or to try one."""

    choice: Choice | None = None
    problem: str = ""
    choices: list[Choice] = field(default_factory=list)


_trial: ContextVar[Trial | None] = ContextVar("trial", default=None)


@contextlib.contextmanager
def trying(choice: Choice | None = None) -> Iterator[Trial]:
    """Plans of this context take ``choice``, or their own default, and leave what they were asked."""
    trial = Trial(choice)
    token = _trial.set(trial)
    try:
        yield trial
    finally:
        _trial.reset(token)


def problem_key(soc: str, problem: Mapping[str, Any]) -> str:
    """Canonical text of a problem on a chip."""
    return json.dumps({"soc": soc, **problem}, sort_keys=True, separators=(",", ":"))


def choose(op: str, soc: str, problem: Mapping[str, Any], choices: Callable[[], list[Choice]]) -> Choice | None:
    """The choice to take for a problem of ``op``: that of a trial, or a stored one; None without either."""
    key, trial = problem_key(soc, problem), _trial.get()
    if trial is not None:
        trial.problem, trial.choices = key, list(choices())
        return trial.choice
    found = _stored(op).get(key)
    return None if found is None else found["choice"]


def path_of(op: str) -> Path | None:
    """File of an op; None where Programs are kept in memory only."""
    folder = config().cache_dir
    return None if folder is None else folder / "tuned" / f"{op}.json"


@functools.cache
def _stored(op: str) -> dict[str, Any]:
    path = path_of(op)
    if path is None or not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text())
        if not isinstance(found, dict) or not all(isinstance(v, dict) and "choice" in v for v in found.values()):
            raise ValueError("no choices by problem")
    except (OSError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise TilingError(describe(op, f"{path}", what, "a file that tune wrote; delete it")) from error
    return found


def found_for(op: str, problem: str) -> dict[str, Any] | None:
    """What is stored for a problem: ``choice``, ``cycles``, ``tried``."""
    return _stored(op).get(problem)


def store(op: str, problem: str, found: Mapping[str, Any] | None) -> Path:
    """Keep what was found for a problem (None: forget it); TilingError where there is no folder."""
    path = path_of(op)
    if path is None:
        raise TilingError(describe(op, "MS_CUSTOM_OPS_CACHE_DIR", "no folder", "a folder, to keep what tune found"))
    _stored.cache_clear()
    kept = dict(_stored(op))
    kept.pop(problem, None)
    if found is not None:
        kept[problem] = dict(found)
    path.parent.mkdir(parents=True, exist_ok=True)
    spare = path.with_suffix(f".{os.getpid()}")
    spare.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    os.replace(spare, path)
    _stored.cache_clear()
    return path


def digest(op: str) -> str:
    """Changes with what is stored for an op; "" without anything."""
    kept = _stored(op)
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16] if kept else ""
