# SPDX-License-Identifier: Apache-2.0
"""The TIK language: ``from ms_custom_ops import tik`` gives what kernels import as ``tik``."""

from __future__ import annotations

from ms_custom_ops.program.expr import Expr
from ms_custom_ops.tik.control import all_ as all
from ms_custom_ops.tik.control import any_ as any
from ms_custom_ops.tik.control import negate
from ms_custom_ops.tik.dprofile import Dprofile
from ms_custom_ops.tik.kernel import Tik, is_tik_var
from ms_custom_ops.tik.product import set_product_version, unset_product_version
from ms_custom_ops.tik.scalar import InputScalar, Scalar, ScalarArray
from ms_custom_ops.tik.scopes import (
    scope_bt,
    scope_ca,
    scope_cb,
    scope_cbuf,
    scope_cbuf_out,
    scope_cc,
    scope_fb0,
    scope_fb1,
    scope_fb2,
    scope_fb3,
    scope_gm,
    scope_reg,
    scope_smask,
    scope_ubuf,
)
from ms_custom_ops.tik.tensor import Tensor

__all__ = [
    "Dprofile",
    "Expr",
    "InputScalar",
    "Scalar",
    "ScalarArray",
    "Tensor",
    "Tik",
    "all",
    "any",
    "is_tik_var",
    "negate",
    "scope_bt",
    "scope_ca",
    "scope_cb",
    "scope_cbuf",
    "scope_cbuf_out",
    "scope_cc",
    "scope_fb0",
    "scope_fb1",
    "scope_fb2",
    "scope_fb3",
    "scope_gm",
    "scope_reg",
    "scope_smask",
    "scope_ubuf",
    "set_product_version",
    "unset_product_version",
]
