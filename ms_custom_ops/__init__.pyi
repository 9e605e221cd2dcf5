# SPDX-License-Identifier: Apache-2.0
"""What ``import ms_custom_ops`` has, for type checkers; at run time each name is imported when it is first used."""

from typing import Any

from ms_custom_ops import aclnn as aclnn
from ms_custom_ops import ascendc as ascendc
from ms_custom_ops import testing as testing
from ms_custom_ops import tik as tik
from ms_custom_ops._version import __version__ as __version__
from ms_custom_ops.compiler import compile_op as compile_op
from ms_custom_ops.debug.check import check as check
from ms_custom_ops.engine import get_check as get_check
from ms_custom_ops.engine import get_num_threads as get_num_threads
from ms_custom_ops.engine import run as run
from ms_custom_ops.engine import set_check as set_check
from ms_custom_ops.engine import set_num_threads as set_num_threads
from ms_custom_ops.mindspore import nn as nn
from ms_custom_ops.mindspore import ops as ops
from ms_custom_ops.mindspore.patch import patch as patch
from ms_custom_ops.mindspore.patch import unpatch as unpatch
from ms_custom_ops.registry import get_op as get_op
from ms_custom_ops.registry import list_ops as list_ops
from ms_custom_ops.registry.implementation import set_impl as set_impl
from ms_custom_ops.registry.implementation import use_impl as use_impl
from ms_custom_ops.soc import current_soc
from ms_custom_ops.soc import set_soc as set_soc
from ms_custom_ops.tik.trace import trace as trace
from ms_custom_ops.user_ops import load as load

IMPORTED_NS: int
get_soc = current_soc

def __getattr__(name: str) -> Any: ...  # what is not named above
