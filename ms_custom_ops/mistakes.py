# SPDX-License-Identifier: Apache-2.0
"""What went wrong in the code of an op's author, in one line: the failure, its ``file:line``, and what to write.

An author's code is what an op_info file names: kernel, plan, golden, case data, lowering. It runs inside the library:
a traceback of thirty frames would hide the one line that matters.
"""

from __future__ import annotations

import difflib
import os
import re
import sysconfig
import traceback
from types import FrameType

from ms_custom_ops import where
from ms_custom_ops.errors import MsCustomOpsError

_LIBRARY = os.path.dirname(os.path.abspath(__file__)) + os.sep
_SHARED = tuple(os.sep + part for part in (f"op_impl{os.sep}common{os.sep}", f"tiling{os.sep}budget.py",
                                           f"tiling{os.sep}split.py"))  # fmt: skip
_OP_FOLDERS = tuple(_LIBRARY + name + os.sep for name in ("op_impl", "tiling"))
_INSTALLED = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})

_THIRD_PARTY = {"site-packages", "dist-packages"}

#: (error class, pattern of its text, what to write): ``{0}`` is the first group of the pattern.
_HINTS: tuple[tuple[type[BaseException], str, str], ...] = (
    (TypeError, r"^(\w+)\(\) takes no arguments",
     "@dataclass(frozen=True) above class {0}, or an __init__ that takes them"),
    (TypeError, r"^(.+?)\(\) missing \d+ required .*?arguments?: (.*)",
     "{1} in this call, or a default for it where {0} is defined"),
    (TypeError, r"^(.+?)\(\) got an unexpected keyword argument '(\w+)'",
     "a parameter {1} where {0} is defined, or a call without it"),
    (TypeError, r"^(.+?)\(\) takes .*positional arguments? but \d+ (?:was|were) given",
     "as many arguments as {0} is defined with"),
    (AttributeError, r"object has no attribute '(tik|vector|scalar|buffers|gm|plan|call|problem|core)'",
     "super().__init__(call, plan) first in the __init__ of the kernel's class, or no __init__ at all"),
    (AttributeError, r"object has no attribute '(\w+)'", "an attribute that it has, or define {0}"),
    (ImportError, r"attempted relative import", "absolute imports in a kernel file that is run by its path, or run "
     "the op: ms-custom-ops test OP"),
    (ModuleNotFoundError, r"No module named '([\w.]+)'",
     "a module that exists; inside a folder of ops imports are relative: from ...tiling.NAME import plan"),
    (ImportError, r"cannot import name '(\w+)'", "a name that the module defines, or define {0} there"),
    (NameError, r"name '(\w+)' is not defined", "an import or a definition of {0} above this line"),
    (ValueError, r"not enough values to unpack \(expected (\d+), got (\d+)\)",
     "as many names at the left as the shape has axes: {1}"),
    (ValueError, r"too many values to unpack \(expected (\d+)",
     "as many names at the left as the shape has axes"),
)  # fmt: skip


def _is_authors(file: str) -> bool:
    if file.startswith("<") or any(part in file for part in _SHARED):
        return False
    if file.startswith(_OP_FOLDERS):
        return True
    return not file.startswith((_LIBRARY, *_INSTALLED)) and not _THIRD_PARTY & set(file.split(os.sep))


def author_frame(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost frame of an author's file below the first frame of the library; None where there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = next((i for i, frame in enumerate(frames) if frame.filename.startswith(_LIBRARY)), len(frames))
    frames = [frame for frame in frames[inside:] if not frame.filename.startswith("<")]  # Python's own
    ours = [frame for frame in frames if _is_authors(os.path.abspath(frame.filename))]
    return ours[-1] if ours else None


def author_location() -> str | None:
    """``file:line`` of the innermost running frame of an author, helpers of ``op_impl/common`` left out."""
    frame: FrameType | None = where.user_frame()
    while frame is not None and not _is_authors(os.path.abspath(frame.f_code.co_filename)):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else None


def _nearest(error: BaseException) -> str:
    """The names that an object has and the author may have meant, "" without one."""
    name, owner = getattr(error, "name", None), getattr(error, "obj", None)
    if not isinstance(error, AttributeError) or not isinstance(name, str) or owner is None:
        return ""
    return " or ".join(difflib.get_close_matches(name, [n for n in dir(owner) if not n.startswith("_")], n=2))


def _hint(error: BaseException) -> str:
    text = str(error)
    if nearest := _nearest(error):
        return f"; write: {nearest}"
    if match := re.search(r"^Tik\.\w+\(\) missing \d+ required .*?arguments?: (.*)", text):
        return f"; write: {match[1]} in this call"
    for kind, pattern, write in _HINTS:
        match = re.search(pattern, text) if isinstance(error, kind) else None
        if match:
            return f"; write: {write.format(*match.groups())}"
    return ""


def explain(error: BaseException) -> str | None:
    """One line about a failure in an author's file; None when no author's code took part in it.

    An error of this package keeps its text and gets the place where it says none itself.
    """
    if isinstance(error, SyntaxError) and error.filename and _is_authors(os.path.abspath(error.filename)):
        source = (error.text or "").strip()
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}: {source}; write: valid Python"
    frame = author_frame(error)
    if isinstance(error, SystemExit) and not isinstance(error, MsCustomOpsError) and frame is not None:
        place = f"[{frame.filename}:{frame.lineno}]"
        return (
            f"{frame.name}: the process is asked to end (SystemExit {error.code}); write: raise ValueError(...) {place}"
        )
    if isinstance(error, MsCustomOpsError):
        first, *rest = str(error).splitlines() or [""]
        placed = frame is None or f"{frame.filename}:" in first
        return "\n".join([first if placed or frame is None else f"{first} [{frame.filename}:{frame.lineno}]", *rest])
    if frame is None:
        return None
    said = str(error) or (frame.line or "")
    if isinstance(error, KeyError):
        said = f"no entry {error} in: {frame.line}"
    return f"{frame.name}: {type(error).__name__}: {said}{_hint(error)} [{frame.filename}:{frame.lineno}]"
