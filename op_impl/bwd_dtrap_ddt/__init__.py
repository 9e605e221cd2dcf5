# SPDX-License-Identifier: Apache-2.0
"""bwd_dtrap_ddt: gradients of dt and trap of the trapezoid rule."""
