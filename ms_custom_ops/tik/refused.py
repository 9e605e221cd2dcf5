# SPDX-License-Identifier: Apache-2.0
"""Public TIK methods that are refused, and why."""

from __future__ import annotations

_WINOGRAD = "Winograd transforms are not defined in the public documents"
REFUSED: dict[str, str] = {
    "data_move_quant": "no chip of this package has the instruction (v210 and 610 have it)",
    "load2dv3": "no chip of this package has the instruction (610L has it)",
    "depthwise_conv": "the layouts of its filter and result and its pad_mode are not defined in the public documents; "
    "instead: conv2d, or load3dv1 and mmad per channel block",
    "block_barrier_all": "no chip of this package has it (newer architectures have); instead: block_barrier",
    "subblock_group_barrier": "no chip of this package has it (newer architectures have); instead: block_barrier",
    "call_module": "it inlines a function of CANN's DSL (a compute and its schedule), which CANN alone can lower; "
    "instead: write the function with TIK instructions",
    "gen_cfg": "it writes a configuration of CANN's simulator; instead: tikdb.start_debug, or ms_custom_ops.run",
    "run_ops": "it runs a kernel on a device through CANN; instead: tikdb.start_debug, or ms_custom_ops.run",
    "StartProfiling": "it runs a kernel on CANN's simulator; instead: ms_custom_ops.run",
    "vdp": "its path costs are not defined in the public documents",
    "set_scalar_to_cmpmask": "which bits of the mask it writes is not defined in the public documents; instead: "
    "mov_tensor_to_cmpmask",
    "winograd_conv": f"{_WINOGRAD}; instead: load3dv1 or load3dv2, and mmad",
    "winograd_feature_map_transform": f"{_WINOGRAD}; instead: load3dv1 or load3dv2",
    "winograd_weight_transform": f"{_WINOGRAD}; instead: load2dv1 or load2dv2",
    "winograd_conv_check_params": _WINOGRAD,
}
