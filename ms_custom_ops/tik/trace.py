# SPDX-License-Identifier: Apache-2.0
"""From a kernel function to a Program."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

from ms_custom_ops.errors import SignatureError, TikError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.program.passes import apply
from ms_custom_ops.soc import current_soc, use_soc
from ms_custom_ops.tik.kernel import _collector


def _named(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any], name: str) -> dict[str, Any]:
    """The keyword arguments, with the function's own name for a ``kernel_name`` that it requires and nobody gave."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return kwargs
    for place, parameter in enumerate(parameters):
        if parameter.name == "kernel_name" and parameter.default is parameter.empty:
            if place >= len(args) and "kernel_name" not in kwargs:
                return {**kwargs, "kernel_name": name.rpartition(".")[2]}
    return kwargs


def _check_arguments(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any], name: str) -> None:
    """SignatureError unless a plain function takes the arguments; a decorated one says that itself."""
    if not inspect.isfunction(function) or hasattr(function, "__wrapped__"):
        return
    try:
        inspect.signature(function).bind(*args, **_named(function, args, kwargs, name))
    except TypeError as error:
        parameters = ", ".join(inspect.signature(function).parameters)
        code = function.__code__
        raise SignatureError(
            describe(f"trace: {name}", "arguments", f"{len(args) + len(kwargs)}, {error}", f"({parameters})"),
            f"{code.co_filename}:{code.co_firstlineno}",
        ) from None


def trace(function: Callable[..., Any], *args: Any, soc: str | None = None, **kwargs: Any) -> ir.Program:
    """Program of the kernel that ``function(*args, **kwargs)`` builds for chip ``soc`` (default: the current
    one).

    A ``kernel_name`` that the function requires and that is not given is the function's name. The Tik instance is
    found whether or not the function returns it. Raises TikError when the function built no kernel or more than one,
    SocError for an unknown chip, and whatever the kernel itself raises.
    """
    name = getattr(function, "__qualname__", None) or type(function).__name__
    _check_arguments(function, args, kwargs, name)
    chip = use_soc(soc) if soc is not None else contextlib.nullcontext()
    collected: list[Any] = []
    token = _collector.set(collected)
    try:
        with chip:
            current_soc()
            function(*args, **_named(function, args, kwargs, name))
    finally:
        _collector.reset(token)
    programs = [p for instance in collected for p in instance.programs]
    if not programs:
        made = "no Tik instance was made" if not collected else "its Tik instance was not finished"
        raise TikError(
            f"trace: {name} built no kernel ({made}); accepted: a function that calls tik_instance.BuildCCE(...), or "
            "build() of its kernel's class, once"
        )
    # A second BuildCCE of one instance under one name is a kernel built again, not another one.
    names = [n for instance in collected for n in dict.fromkeys(instance.kernel_names)]
    if len(names) > 1:
        raise TikError(
            f"trace: {name} built {len(names)} kernels ({', '.join(names)}); "
            "accepted: a function that calls tik_instance.BuildCCE(...) once"
        )
    program = programs[0]
    # Print points of a kernel that is debugged belong to its statements, and read scalars that nothing else may.
    program = apply(program, ("verify",)) if "debug_points" in vars(program) else apply(program)
    program.final = True
    return program


__all__ = ["trace"]
