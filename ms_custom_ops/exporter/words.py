# SPDX-License-Identifier: Apache-2.0
"""Names that an exported kernel cannot give: those of C++, and of what its statements call."""

from __future__ import annotations

CPP_WORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const const_cast
    consteval constexpr constinit continue co_await co_return co_yield decltype default delete do double
    dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace
    new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires
    return short signed sizeof static static_assert static_cast struct switch template this thread_local throw true
    try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
    """.split()
)
TAKEN = CPP_WORDS | frozenset(
    """
    ubBuf l1Buf l0aBuf l0bBuf l0cBuf half bfloat16_t int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t
    uint64_t size_t std AscendC NULL linux unix sqrt pipe workspace tiling user scalars A1
    A2 B2 CO1 Abs Add AddRelu Adds And Axpy BinaryRepeatParams BitsAs BlockMode BlockReduceMax BlockReduceMin
    BlockReduceSum Brcb BrcbRepeatParams CacheLine Cast CFG_NZ CMPMODE Compare CompareScalar Copy CopyRepeatParams
    CreateVecIndex CrossCoreSetFlag CrossCoreWaitFlag DataCacheCleanAndInvalid DataCopy DataCopyEnhancedParams
    DataCopyExtParams DataCopyPad DataCopyPadExtParams DataCopyParams Div Duplicate Exp Fixpipe FixpipeParamsV220
    F322F16 FusedMulAdd FusedMulAddRelu Gather GatherMask GatherMaskParams GatherRepeatParams Gatherb GetBlockIdx
    GetCmpMask GetMrgSortResult GetUserWorkspace GlobalTensor GM_ADDR HardEvent InitGlobalMemory Larger LeakyRelu Ln
    LoadData LoadData2DParams LoadData3DParamsV1 LoadData3DParamsV2 LocalTensor Magnitude MaskMode Max Maxs Min Mins
    Mmad MmadParams MrgSort MrgSort4 MrgSort4Info MrgSortSrcList Mul MulAddDst MulCast Muls Nd2NzParams Not Or
    PairReduceSum PipeBarrier ProductOfImage ProductOfTiles ProposalConcat ProposalExtract Reciprocal ReduceOrder
    Relu RoundMode RpSort16 Rsqrt ScalarCountLeadingZero ScalarGetCountOfValue Scatter SELMODE Select SetAtomicAdd
    SetAtomicNone SetCmpMask SetDeqScale SetFlag SetMaskCount SetMaskNorm SetVectorMask ShiftLeft ShiftRight Smaller
    Sort Sort32 Sqrt Sub SubRelu SyncAll TBuf ToBfloat16 ToFloat ToInteger TPipe TPosition TransDataTo5HD
    TransDataTo5HDParams Transpose Turn UnaryRepeatParams WaitFlag WholeReduceMax WholeReduceMin WholeReduceSum
    EVENT_ID0 EVENT_ID1 EVENT_ID2 EVENT_ID3 EVENT_ID4 EVENT_ID5 EVENT_ID6 EVENT_ID7 PIPE_S PIPE_V PIPE_M PIPE_MTE1
    PIPE_MTE2 PIPE_MTE3 PIPE_FIX PIPE_ALL
    """.split()
)
