# SPDX-License-Identifier: Apache-2.0
"""printf, and where the debugger hangs on a Tik instance."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

from ms_custom_ops.errors import TikError, describe
from ms_custom_ops.where import user_location


class DebugMixin:
    """``Tik`` methods of the debugger."""

    _b: Any
    _disable_debug: bool

    @functools.cached_property
    def tikdb(self) -> Any:
        """The debugger of this instance. It stands on the language and the reference engine, so it is found by name."""
        return importlib.import_module("ms_custom_ops.debug").Debugger(self, self._disable_debug)

    def printf(self, format_string: str, *arg: Any) -> None:
        """C-like print each time a debugging run passes here: %d %i %u %x %o %c, %f %e %g, %s. Values are
        Scalars, expressions, tensor elements (%s prints a whole view) and numbers. Runs of other engines
        print nothing."""
        self.tikdb.printf(format_string, arg)

    def set_printf_params(
        self,
        print_workspace_size: int = 128,
        single_print_length: int = 512,
        is_printf_to_screen: bool = True,
        printf_file_path: str | None = None,
    ) -> None:
        """Settings of the ``printf`` calls that follow: characters of one call, and the screen or a file that
        they are appended to. ``print_workspace_size`` (KB on the chip) has no effect here."""
        api = "set_printf_params"
        if self._b.dead:
            return
        if not isinstance(single_print_length, int) or single_print_length < 1:
            raise TikError(describe(api, "single_print_length", single_print_length, "an int of at least 1"))
        if not is_printf_to_screen and not printf_file_path:
            raise TikError(
                describe(api, "printf_file_path", printf_file_path, "a path when is_printf_to_screen is False"),
                user_location(),
            )

        def write(text: str) -> None:
            if is_printf_to_screen:
                sys.stdout.write(text)
            if printf_file_path:
                with open(printf_file_path, "a", encoding="utf-8") as file:
                    file.write(text)

        self.tikdb.printf_to(write, single_print_length)
