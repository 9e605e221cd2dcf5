// SPDX-License-Identifier: Apache-2.0
// Matrices on their way from GM to L0A and L0B.
#ifndef CUBE_MOVES_H
#define CUBE_MOVES_H

#include "attention_task.h"

template <typename T>
class CubeMoves {
protected:
    // Rows of a matrix in GM to columns of fractals in L1.
    __aicore__ inline void ToL1(const LocalTensor<T>& to, const GlobalTensor<T>& from, int64_t rows, int64_t columns,
                                int64_t pitch)
    {
        Nd2NzParams p;
        p.ndNum = 1;
        p.nValue = rows;
        p.dValue = columns;
        p.srcDValue = pitch;
        p.dstNzC0Stride = Align(rows, FRACTAL);
        p.dstNzNStride = 1;
        DataCopy(to, from, p);
    }
    // The same, one fractal row after the other: fractals in the order of L0A, and of L0B before each is transposed.
    __aicore__ inline void ToL1ByRows(const LocalTensor<T>& to, const GlobalTensor<T>& from, int64_t rows,
                                      int64_t columns, int64_t pitch)
    {
        const int64_t whole = rows / FRACTAL, row = FRACTAL * Align(columns, FRACTAL);
        Nd2NzParams p;
        p.ndNum = whole;
        p.nValue = FRACTAL;
        p.dValue = columns;
        p.srcNdMatrixStride = FRACTAL * pitch;
        p.srcDValue = pitch;
        p.dstNzC0Stride = FRACTAL;
        p.dstNzNStride = 1;
        p.dstNzMatrixStride = row;
        if (whole > 0) {
            DataCopy(to, from, p);
        }
        if (rows % FRACTAL > 0) {
            p.ndNum = 1;
            p.nValue = rows % FRACTAL;
            DataCopy(to[whole * row], from[whole * FRACTAL * pitch], p);
        }
    }
    __aicore__ inline void ToL0(const LocalTensor<T>& to, const LocalTensor<T>& from, int64_t rows, int64_t columns,
                                bool transposed)
    {
        LoadData2DParams p;
        p.repeatTimes = rows * Align(columns, FRACTAL) / (FRACTAL * FRACTAL);
        p.srcStride = 1;
        p.ifTranspose = transposed;
        LoadData(to, from, p);
    }
};

#endif  // CUBE_MOVES_H
