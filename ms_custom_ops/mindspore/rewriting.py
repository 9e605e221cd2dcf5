# SPDX-License-Identifier: Apache-2.0
"""What MindSpore's source rewriting (mixed precision O1) leaves as it is: the functions and layers of this package.

It copies the source of a network's functions into a file of its own, without the names they use from their modules. Its
lists of what is not copied are private, so they are named only here; a MindSpore without them copies nothing of ours.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

from mindspore.rewrite.common import namespace
from mindspore.rewrite.parsers.assign_parser import AssignParser

_FUNCTIONS = "_function_parse_black_list"
_CELLS = "_subtree_black_list"
_OWN = ("ms_custom_ops.mindspore.", "ms_custom_ops.mco_generated_ops")


def leave_functions() -> None:
    """Functions of all modules of this package that are loaded."""
    known: list[Any] = getattr(AssignParser, _FUNCTIONS, [])
    for name in [name for name in sys.modules if name.startswith(_OWN)]:
        own = [x for x in vars(sys.modules[name]).values() if inspect.isfunction(x) and x.__module__ == name]
        known += [x for x in own if x not in known]


def leave_cells(*cells: Any) -> None:
    """Layers inside a network; one that is the network itself is copied, its functions are not."""
    known: list[Any] = getattr(namespace, _CELLS, [])
    known += cells
