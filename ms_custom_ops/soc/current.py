# SPDX-License-Identifier: Apache-2.0
"""The chip that kernels are traced for: a process default and a scoped override."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

from ms_custom_ops.errors import SocError
from ms_custom_ops.soc.table import Soc, get_soc, list_socs

_default: Soc | None = None
_unmodelled: str | None = None
_scoped: contextvars.ContextVar[Soc | None] = contextvars.ContextVar("ms_custom_ops_soc", default=None)


def current_soc() -> Soc:
    """The chip in force: of :func:`use_soc`, else of :func:`set_soc`, else of the configuration. SocError where a
    kernel has named one that the table does not have."""
    scoped = _scoped.get()
    if scoped is not None:
        return scoped
    if _unmodelled is not None:
        raise SocError(
            f"soc is {_unmodelled!r}, a chip that a kernel has named and that is not modelled; accepted: another one "
            f"by trace(..., soc=), use_soc or set_soc: {', '.join(list_socs())}"
        )
    if _default is not None:
        return _default
    from ms_custom_ops.config import config

    return get_soc(config().soc)


def scoped_soc() -> Soc | None:
    """The chip of :func:`use_soc`, None outside of one."""
    return _scoped.get()


def set_soc(name: str) -> Soc:
    """Make ``name`` the chip of this process; SocError for an unknown chip."""
    global _default, _unmodelled
    _default, _unmodelled = get_soc(name), None
    return _default


def set_unmodelled(name: str | None) -> None:
    """The chip of this process is ``name``, which the table does not have: it can be compared with, and whoever needs
    more of it is refused. None: the chip before it again."""
    global _unmodelled
    _unmodelled = name


def unmodelled_soc() -> str | None:
    """The name of :func:`set_unmodelled` where it is in force."""
    return _unmodelled if _scoped.get() is None else None


@contextlib.contextmanager
def use_soc(name: str) -> Iterator[Soc]:
    """The chip ``name`` for the body of a ``with`` statement, in this thread only."""
    token = _scoped.set(get_soc(name))
    try:
        yield _scoped.get()  # type: ignore[misc]
    finally:
        _scoped.reset(token)
