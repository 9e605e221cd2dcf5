// SPDX-License-Identifier: Apache-2.0
// Numbers that tiling keys of templates are declared with, for op_host and kernels: types and formats of the manual,
// widths, kinds of kernels.
#ifndef MCO_HOST_TEMPLATE_NAMES_H_
#define MCO_HOST_TEMPLATE_NAMES_H_

#define C_DT_FLOAT 0
#define C_DT_FLOAT16 1
#define C_DT_INT8 2
#define C_DT_INT32 3
#define C_DT_UINT8 4
#define C_DT_INT16 6
#define C_DT_UINT16 7
#define C_DT_UINT32 8
#define C_DT_INT64 9
#define C_DT_UINT64 10
#define C_DT_DOUBLE 11
#define C_DT_BOOL 12
#define C_DT_BF16 27
#define C_FORMAT_NCHW 0
#define C_FORMAT_NHWC 1
#define C_FORMAT_ND 2
#define C_FORMAT_NC1HWC0 3
#define C_FORMAT_FRACTAL_Z 4
#define C_FORMAT_NDHWC 27
#define C_FORMAT_FRACTAL_NZ 29
#define C_FORMAT_NCDHW 30
#define C_FORMAT_NDC1HWC0 32

#define ASCENDC_TPL_1_BW 1
#define ASCENDC_TPL_2_BW 2
#define ASCENDC_TPL_3_BW 3
#define ASCENDC_TPL_4_BW 4
#define ASCENDC_TPL_5_BW 5
#define ASCENDC_TPL_6_BW 6
#define ASCENDC_TPL_7_BW 7
#define ASCENDC_TPL_8_BW 8
#define ASCENDC_TPL_9_BW 9
#define ASCENDC_TPL_10_BW 10
#define ASCENDC_TPL_11_BW 11
#define ASCENDC_TPL_12_BW 12
#define ASCENDC_TPL_13_BW 13
#define ASCENDC_TPL_14_BW 14
#define ASCENDC_TPL_15_BW 15
#define ASCENDC_TPL_16_BW 16
#define ASCENDC_TPL_32_BW 32

// How the numbers behind it are meant: a count of ranges and their ends, a list, or ranges and then a list.
#define ASCENDC_TPL_UI_RANGE 0
#define ASCENDC_TPL_UI_LIST 1
#define ASCENDC_TPL_UI_MIX 2

#define ASCENDC_TPL_AIV_ONLY 0
#define ASCENDC_TPL_AIC_ONLY 1
#define ASCENDC_TPL_MIX_AIV_1_0 2
#define ASCENDC_TPL_MIX_AIC_1_0 3
#define ASCENDC_TPL_MIX_AIC_1_1 4
#define ASCENDC_TPL_MIX_AIC_1_2 5

#endif  // MCO_HOST_TEMPLATE_NAMES_H_
