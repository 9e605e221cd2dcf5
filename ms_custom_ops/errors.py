# SPDX-License-Identifier: Apache-2.0
"""Every error this package raises: one base class, one subclass per stage.

An error text names the op or API, the argument, what was given, what is accepted and, where kernel code is at
fault, the user's ``file:line``. :func:`describe` builds that text so that all stages read alike.
"""

from __future__ import annotations


class MsCustomOpsError(Exception):
    """Base class of every error of ms_custom_ops."""


class OpInfoError(MsCustomOpsError):
    """An op_info YAML file breaks the schema (all findings of a file are reported together)."""


class OpArgumentError(MsCustomOpsError, ValueError):
    """A call of an op breaks its constraints: rank, shape, value of an attribute."""


class OpDtypeError(MsCustomOpsError, TypeError):
    """A call of an op with a dtype combination that the op or the chip does not have."""


class SignatureError(MsCustomOpsError, TypeError):
    """A kernel's entry, a golden, a plan, case data or a lowering that has not the form of docs/signatures.md."""

    def __init__(self, message: str, location: str | None = None):
        super().__init__(f"{message} [{location}]" if location else message)


class SocError(MsCustomOpsError, ValueError):
    """An unknown chip, or a chip that cannot do what was asked."""


class TilingError(MsCustomOpsError, ValueError):
    """No tiling plan exists for the shapes, dtype and chip."""


class BudgetError(TilingError):
    """A tiling plan needs more on-chip memory than the chip has."""


class EngineError(MsCustomOpsError, RuntimeError):
    """A Program failed while it ran, or the engine refused to load it."""


class EngineMissingError(EngineError):
    """The native engine was not built (no C++ compiler at install time)."""


class AscendcError(MsCustomOpsError, RuntimeError):
    """An Ascend C kernel failed while it ran, or was called in a way it cannot be."""


class AscendcBuildError(AscendcError):
    """Ascend C sources do not compile. The text begins with the user's ``file:line``."""


class ExportError(MsCustomOpsError, RuntimeError):
    """A kernel that cannot leave as Ascend C: the instruction, its line, what to do instead."""


class CacheError(MsCustomOpsError, RuntimeError):
    """The on-disk program cache cannot be used as asked."""


class TikError(MsCustomOpsError, RuntimeError, SystemExit):
    """A kernel broke a rule of the TIK language while it was traced.

    TIK ends a failed check in SystemExit (``err_msg_level=0``) or RuntimeError (``err_msg_level=1``); kernels in the
    field catch either, so this class is both. Its text ends with the kernel's ``file:line``.
    """

    def __init__(self, message: str, location: str | None = None):
        text = f"{message} [{location}]" if location else message
        super().__init__(text)
        self.location = location
        self.code = text

    def __str__(self) -> str:
        return str(self.code)


class TikCapacityError(TikError):
    """The live tensors of an on-chip buffer exceed its size."""


class TikOverflowError(TikError):
    """An instruction reads or writes beyond its tensor."""


class TikAlignError(TikError):
    """A start address breaks the alignment of its buffer."""


class TikSupportError(TikError):
    """An instruction, dtype or route that the chip does not have."""


class TikScopeError(TikError):
    """A tensor in the wrong buffer, or used after its scope ended."""


def describe(op: str, argument: str, given: object, accepted: object) -> str:
    """One sentence in the order every message of the package has: op, argument, given, accepted."""
    return f"{op}: {argument} is {given}; accepted: {accepted}"


class DebuggerQuit(MsCustomOpsError, SystemExit):
    """The user left the debugger before the kernel ended: a script that does not catch it ends, without a traceback."""

    code = 0
