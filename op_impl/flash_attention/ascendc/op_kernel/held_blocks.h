// SPDX-License-Identifier: Apache-2.0
// Blocks of keys and of values of a head that stay in L1 while a core does its tasks on that head.
#ifndef HELD_BLOCKS_H
#define HELD_BLOCKS_H

#include "attention_task.h"

enum class Blocks : int32_t { KEYS = 0, VALUES = 1, PASSING = 2 };  // those that pass through have no place here

template <typename T>
class HeldBlocks {
public:
    // `blocks` of each kind, of so many elements; 0: none are held.
    __aicore__ inline void Init(TPipe* pipe, int64_t blocks, int64_t elements)
    {
        blocks_ = blocks, elements_ = elements;
        if (blocks > 0) {
            pipe->InitBuffer(buffer_, KINDS * blocks * elements * sizeof(T));
            memory_ = buffer_.template Get<T>();
        }
    }
    __aicore__ inline bool Holds(Blocks kind) const { return blocks_ > 0 && kind != Blocks::PASSING; }

    // Blocks of another head take the places of those before when these have gone to L0B.
    __aicore__ inline void Select(int64_t head)
    {
        if (blocks_ == 0 || head == head_) {
            return;
        }
        if (head_ >= 0) {
            const TEventID gone = GetTPipePtr()->FetchEventID(HardEvent::MTE1_MTE2);
            SetFlag<HardEvent::MTE1_MTE2>(gone);
            WaitFlag<HardEvent::MTE1_MTE2>(gone);
        }
        head_ = head;
        there_[0] = there_[1] = 0;
    }
    __aicore__ inline LocalTensor<T> Place(Blocks kind, int64_t block) const
    {
        return memory_[(static_cast<int32_t>(kind) * blocks_ + block) * elements_];
    }
    // Whether a block has yet to be loaded; from here on it counts as there.
    __aicore__ inline bool Lacks(Blocks kind, int64_t block)
    {
        uint64_t& there = there_[static_cast<int32_t>(kind)];
        const uint64_t bit = uint64_t(1) << block;
        const bool lacks = (there & bit) == 0;
        there |= bit;
        return lacks;
    }
    __aicore__ inline void Loaded() const
    {
        const TEventID there = GetTPipePtr()->FetchEventID(HardEvent::MTE2_MTE1);
        SetFlag<HardEvent::MTE2_MTE1>(there);
        WaitFlag<HardEvent::MTE2_MTE1>(there);
    }

private:
    static constexpr int32_t KINDS = 2;
    TBuf<TPosition::B1> buffer_;
    LocalTensor<T> memory_;
    int64_t blocks_ = 0, elements_ = 0, head_ = -1;
    uint64_t there_[KINDS] = {0, 0};  // a bit for each block
};

#endif  // HELD_BLOCKS_H
