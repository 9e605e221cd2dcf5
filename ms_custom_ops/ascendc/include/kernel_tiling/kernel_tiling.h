// SPDX-License-Identifier: Apache-2.0
// Tiling structs of library functions. Their layout is that of this project: host and kernel of one build share it. The
// functions read the first fields; others are there for sources that fill a struct themselves.
#pragma once

#include <cstdint>

namespace AscendC {
namespace tiling {

// How a product is split: in the order of include_host/mco_host/cube_tiling_fields.inc.
struct alignas(8) TCubeTiling {
  int32_t usedCoreNum, M, N, Ka, Kb, singleCoreM, singleCoreN, singleCoreK, baseM, baseN, baseK, depthA1, depthB1,
      stepM, stepN, isBias, transLength, iterateOrder, shareMode, shareL1Size, shareL0CSize, shareUbSize, batchM,
      batchN, singleBatchM, singleBatchN, stepKa, stepKb, depthAL1CacheUB, depthBL1CacheUB, dbL0A, dbL0B, dbL0C,
      ALayoutInfoB, ALayoutInfoS, ALayoutInfoN, ALayoutInfoG, ALayoutInfoD, BLayoutInfoB, BLayoutInfoS, BLayoutInfoN,
      BLayoutInfoG, BLayoutInfoD, CLayoutInfoB, CLayoutInfoS1, CLayoutInfoN, CLayoutInfoG, CLayoutInfoS2, BatchNum,
      mxTypePara;
};
struct alignas(8) SoftMaxTiling {
  uint32_t srcM, srcK, srcSize, outMaxM, outMaxK, outMaxSize, splitM, splitK, splitSize, reduceM, reduceK, reduceSize,
      rangeM, tailM, tailSplitSize, tailReduceSize;
};
struct alignas(8) LayerNormTiling {
  uint32_t bLength, sLength, hLength, originalHLength, inputXSize, meanVarSize, numberOfTmpBuf, meanTmpTensorPos,
      meanTmpTensorSize, varianceTmpTensorPos, varianceTmpTensorSize, tmpBufSize, oneTmpSize, firstTmpStartPos,
      secondTmpStartPos, thirdTmpStartPos, loopRound, inputRoundSize, inputTailSize, inputTailPos, meanVarRoundSize,
      meanVarTailSize, meanVarTailPos, bshCurLength, bsCurLength;
  float lastDimValueBack;
};
struct alignas(8) LayerNormSeparateTiling {
  uint32_t aLength, rLength, halfAddRepeatTimes, rHeadLength, inputXSize, meanVarSize, numberOfTmpBuf,
      varianceTmpTensorPos, varianceTmpTensorSize, tmpBufSize, oneTmpSize, firstTmpStartPos, secondTmpStartPos,
      thirdTmpStartPos, loopRound, inputRoundSize, inputTailSize, inputTailPos, meanVarRoundSize, meanVarTailSize,
      meanVarTailPos, arCurLength, aCurLength;
  float k2Rec, k2RRec, rValueBack;
};
struct alignas(8) RmsNormTiling {
  uint32_t bLength, sLength, hLength, originalHLength;
};
struct alignas(8) LayerNormGradTiling {
  uint32_t bLength, sLength, hLength, originalHLength, stackBufferSize, oneCalSize, nohCalSize, loopNum, tailSize,
      nohTailSize, tmpTensorBSHPos, tmpTensorBSHSize, pdVarTensorPos, pdVarTensorSize, pdMeanTensorPos,
      pdMeanTensorSize, x1TensorPos, x1TensorSize, x2TensorPos, x2TensorSize, x3TensorPos, x3TensorSize, tmpTensorPos,
      tmpTensorSize, tmpTensor1Pos, tmpTensor1Size, tmpTensor2Pos, tmpTensor2Size, lastDimValueBack,
      lastDimValueBackMulTwo;
};
struct alignas(8) LayerNormGradBetaTiling {
  uint32_t bLength, sLength, hLength, originalHLength, stackBufferSize, bshLength, bsLength, oneCalSize, numberOfTmpBuf,
      loopRound, inputTailSize, inputTailPos, bsTailSize, bshCurLength, bsCurLength, gammaTempTensorPos,
      betaTempTensorPos, inputDyTmpTensorPos, resForGammaTmpTensorPos, reserved;
};
struct alignas(8) DeepNormTiling {
  uint32_t bLength, sLength, hLength, originalHLength, inputXSize, meanVarSize, numberOfTmpBuf, meanTmpTensorPos,
      meanTmpTensorSize, varianceTmpTensorPos, varianceTmpTensorSize, tmpBufSize, oneTmpSize, firstTmpStartPos,
      secondTmpStartPos, thirdTmpStartPos, loopRound, inputRoundSize, inputTailSize, inputTailPos, meanVarRoundSize,
      meanVarTailSize, meanVarTailPos, bshCurLength, bsCurLength;
  float lastDimValueBack;
};
struct alignas(8) GroupNormTiling {
  uint32_t n, c, hw, g, d, hwAlignSize, dhwAlignSize, oneTmpSize, inputXSize, meanVarSize, numberOfTmpBuf,
      meanTmpTensorPos, meanTmpTensorSize, varianceTmpTensorPos, varianceTmpTensorSize, tmpBufSize, firstTmpStartPos,
      secondTmpStartPos, thirdTmpStartPos, loopRound, inputRoundSize, inputTailSize, inputTailPos, meanVarRoundSize,
      meanVarTailSize, meanVarTailPos, bshCurLength, bsCurLength, smallShape;
  float factor;
};
struct alignas(8) BatchNormTiling {
  uint32_t originalBLength, meanVarSize, meanTmpTensorPos, varianceTmpTensorPos, tmpBufSize, oneTmpSize,
      firstTmpStartPos, secondTmpStartPos, thirdTmpStartPos, loopRound, inputTailSize, inputTailPos, meanVarTailSize,
      meanVarTailPos, bshCurLength, shCurLength, castHalfRepStride, shCurLengthBlockNum, castHalfOutRepStride;
  float firstDimValueBack;
};
struct alignas(8) LogSoftMaxTiling {
  uint32_t srcM, srcK, srcSize, outMaxM, outMaxK, outMaxSize, splitM, splitK, splitSize, reduceM, reduceK, reduceSize,
      rangeM, tailM, tailSplitSize, tailReduceSize;
};
struct alignas(8) TopkTiling {
  uint32_t tmpLocalSize, allDataSize, innerDataSize, outter, k;
};
struct alignas(8) ConfusionTransposeTiling {
  uint32_t b, n, s, d;
};
struct alignas(8) PadTiling {
  uint32_t srcHeight, srcWidth, srcOriWidth;
};
struct alignas(8) UnPadTiling {
  uint32_t srcHeight, srcWidth;
};

}  // namespace tiling
}  // namespace AscendC

using AscendC::tiling::BatchNormTiling;
using AscendC::tiling::ConfusionTransposeTiling;
using AscendC::tiling::DeepNormTiling;
using AscendC::tiling::GroupNormTiling;
using AscendC::tiling::LayerNormGradBetaTiling;
using AscendC::tiling::LayerNormGradTiling;
using AscendC::tiling::LayerNormSeparateTiling;
using AscendC::tiling::LayerNormTiling;
using AscendC::tiling::LogSoftMaxTiling;
using AscendC::tiling::PadTiling;
using AscendC::tiling::RmsNormTiling;
using AscendC::tiling::SoftMaxTiling;
using AscendC::tiling::TCubeTiling;
using AscendC::tiling::TopkTiling;
using AscendC::tiling::UnPadTiling;
