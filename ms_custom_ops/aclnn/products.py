# SPDX-License-Identifier: Apache-2.0
"""Products whose documented constraints differ: A2 (Ascend910B), A3 (Ascend910_93) and 950."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

from ms_custom_ops.errors import SocError, describe
from ms_custom_ops.soc import current_soc

PRODUCTS = ("A2", "A3", "950")
VALIDATED_ONLY = ("950",)
"""Products without kernels here: the first phase checks a call and gives its workspace, the second phase refuses."""
# The documents have no set for 910A and 310P, where this package runs in float16: they follow A2.
_FAMILY = {"910_93": "A3"}
_scoped: contextvars.ContextVar[str | None] = contextvars.ContextVar("ms_custom_ops_product", default=None)


def current_product() -> str:
    """The product in force: that of :func:`use_product`, else that of the chip."""
    return _scoped.get() or _FAMILY.get(current_soc().family, "A2")


@contextlib.contextmanager
def use_product(name: str) -> Iterator[str]:
    """Checks calls against the constraints of ``name`` in the body of a ``with`` statement, whatever the chip is.

    With "950", for which there are no kernels here, calls are checked only: their second phase ends in 361001.

    Raises:
        SocError: an unknown product.
    """
    if name not in PRODUCTS:
        raise SocError(describe("use_product", "name", repr(name), ", ".join(PRODUCTS)))
    token = _scoped.set(name)
    try:
        yield name
    finally:
        _scoped.reset(token)
