# SPDX-License-Identifier: Apache-2.0
"""Calls the reference of a case file: the class that its ``api_type`` names, on torch CPU tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ms_custom_ops.cases.model import PlannedCase
from ms_custom_ops.cases.names import short_dtype
from ms_custom_ops.cases.user_code import UserCodeError, user_code
from ms_custom_ops.compat import atk
from ms_custom_ops.compat.mindspeed import to_numpy, to_torch


@dataclass(frozen=True)
class Reference:
    """``api``: a BaseApi of the file ``folder``. ``inputs``: (argument of the op or "", name or "", type) in order;
    ``extras``: values of those that the op does not have, by position. ``config``: the case as its generator left
    it, None without one."""

    api: type[atk.BaseApi]
    folder: Path
    name: str
    inputs: tuple[tuple[str, str, str], ...]
    extras: Mapping[int, Any] = field(default_factory=dict)
    config: atk.CaseConfig | None = None

    def outputs(self, case: PlannedCase, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Its results, in order, for a case and its data; they may be changed in place, ``arrays`` are not.

        Raises:
            UserCodeError: it failed, or returned something else than tensors; with file:line.
        """
        data = atk.InputDataset()
        for index, (argument, name, _) in enumerate(self.inputs):
            if argument in arrays:
                value: Any = to_torch(arrays[argument])
            elif argument:
                value = case.attrs.get(argument)
                if argument not in case.attrs and name:
                    continue
            else:
                value = self.extras.get(index)
            if name:
                data.kwargs[name] = value
            else:
                data.args.append(value)
        what = f"reference {self.api.__name__} of {case.name}"
        with user_code(what, self.folder):
            api = self.api(atk.TaskResult(self.config or self.described(case)))
            api.init_by_input_data(data)
            found = api(data, with_output=True)
        return self.arrays(what, found)

    def described(self, case: PlannedCase) -> atk.CaseConfig:
        """A CaseConfig of a case that no generator made."""
        items = [
            atk.InputCaseConfig(name or None, kind, short_dtype(case.dtypes.get(argument)), case.shapes.get(argument),
                                case.attrs.get(argument))
            for argument, name, kind in self.inputs
        ]  # fmt: skip
        return atk.CaseConfig(items, 0, self.name)

    def arrays(self, what: str, found: Any) -> list[np.ndarray]:
        results = list(found) if isinstance(found, (tuple, list)) else [found]
        try:
            return [x if isinstance(x, np.ndarray) else to_numpy("reference", f"output {i}", x)
                    for i, x in enumerate(results)]  # fmt: skip
        except TypeError as error:
            code = self.api.__call__.__code__
            place = f"{code.co_filename}:{code.co_firstlineno}"
            raise UserCodeError(f"cases: {what}: {error} or a tuple of them [{place}]") from error
