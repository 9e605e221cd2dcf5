# SPDX-License-Identifier: Apache-2.0
"""Tiling of FlashAttention: block sizes of queries (Br) and keys (Bc), buffers, and the split over cores.

``auto`` takes the largest tile whose buffers fit the chip. ``sparse`` and ``xunfei`` are the 128x128 tiles of the
public TIK package, ``wukong`` its 64x64 tiles (all keys in one block when there are at most 77).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from ms_custom_ops import tuned
from ms_custom_ops.errors import BudgetError, TilingError
from ms_custom_ops.soc.table import BLOCK_BYTES, CUBE_BLOCK, VECTOR_REPEAT_BYTES, Soc
from ms_custom_ops.tiling.budget import BufferSpec, align, fits, require
from ms_custom_ops.tiling.split import CoreSplit

SPARSE_BLOCK = 128
"""Rows and columns of the blocks that prev_block_num and next_block_num count (public TIK package)."""
UNLIMITED_BLOCKS = 65536
UNLIMITED_TOKENS = 2147483647
STRATEGIES = ("auto", "sparse", "wukong", "xunfei")
_WUKONG_BLOCK = 64
_WUKONG_SINGLE_KV = 77
_SIDES = (128, 64, 32, 16)
_TUNED_SIDES = range(16, 129, 16)
_MOST_WEIGHED = 4096
"""Tasks up to which a core's work is added up; where a core has more of them it evens out."""
_F32_LANES = VECTOR_REPEAT_BYTES // 4
BuffersOf = Callable[["AttentionProblem", int, int], tuple[BufferSpec, ...]]


@dataclass(frozen=True)
class AttentionProblem:
    """Shapes, dtype and masks of one call, at the primitive level (D a multiple of 16)."""

    batch: int
    q_heads: int
    kv_heads: int
    q_len: int
    kv_len: int
    head_dim: int
    dtype: str
    scale_value: float = 1.0
    keep_prob: float = 1.0
    seed: int = 0
    sparse_mode: int = 0
    pre_tokens: int = UNLIMITED_TOKENS
    next_tokens: int = UNLIMITED_TOKENS
    prev_block_num: int = UNLIMITED_BLOCKS
    next_block_num: int = UNLIMITED_BLOCKS
    high_precision: bool = True
    has_q_lengths: bool = False
    has_kv_lengths: bool = False
    has_attn_mask: bool = False
    has_real_shift: bool = False
    has_drop_mask: bool = False
    has_seed_words: bool = False
    has_row_bounds: bool = False

    @property
    def has_masks(self) -> bool:
        """Some mask or bias is read from GM."""
        return self.has_attn_mask or self.has_real_shift or self.has_drop_mask

    @property
    def seeded_dropout(self) -> bool:
        """The keep pattern is made from the seed (no explicit drop_mask)."""
        return self.keep_prob < 1.0 and not self.has_drop_mask

    @property
    def group(self) -> int:
        """Query heads per key head."""
        return self.q_heads // self.kv_heads

    @property
    def q_rows_padded(self) -> int:
        """Row length of the statistics in GM (S1 rounded up to whole blocks)."""
        return align(self.q_len)

    @property
    def kv_padded(self) -> int:
        """Row length of masks in GM (S2 rounded up to whole blocks)."""
        return align(self.kv_len)

    @property
    def block_sparse(self) -> bool:
        """A window of 128x128 blocks is in force."""
        q_blocks, kv_blocks = -(-self.q_len // SPARSE_BLOCK), -(-self.kv_len // SPARSE_BLOCK)
        return self.prev_block_num < q_blocks - 1 or self.next_block_num < kv_blocks - 1

    @property
    def upper_tokens(self) -> int | None:
        """Keys up to ``row + (S2 - S1) + upper_tokens`` are visible; None without that bound."""
        if self.sparse_mode == 3:
            return 0
        if self.sparse_mode == 4 and self.next_tokens < self.kv_len + self.q_len:
            return max(self.next_tokens, -(self.kv_len + self.q_len))
        return None

    @property
    def lower_tokens(self) -> int | None:
        """Keys from ``row + (S2 - S1) - lower_tokens`` on are visible; None without that bound."""
        if self.sparse_mode == 4 and self.pre_tokens < self.kv_len + self.q_len:
            return max(self.pre_tokens, -(self.kv_len + self.q_len))
        return None


@dataclass(frozen=True)
class AttentionPlan:
    """Block sizes, buffers and core split of one kernel. ``q_block`` and ``kv_block`` are multiples of 16."""

    problem: AttentionProblem
    soc: Soc
    q_block: int
    kv_block: int
    buffers: tuple[BufferSpec, ...]
    split: CoreSplit
    ahead: bool = False
    """Forward: scores of the next key block start before the softmax of one, whose product is added during the next."""

    @property
    def q_full(self) -> int:
        """Query blocks of full height."""
        return self.problem.q_len // self.q_block

    @property
    def q_tail(self) -> int:
        """Rows of the last, shorter query block; 0 without one."""
        return self.problem.q_len % self.q_block

    @property
    def q_blocks(self) -> int:
        """Query blocks in all."""
        return self.q_full + (self.q_tail > 0)

    @property
    def kv_full(self) -> int:
        """Key blocks of full width."""
        return self.problem.kv_len // self.kv_block

    @property
    def kv_tail(self) -> int:
        """Columns of the last, narrower key block; 0 without one."""
        return self.problem.kv_len % self.kv_block

    @property
    def kv_blocks(self) -> int:
        """Key blocks in all."""
        return self.kv_full + (self.kv_tail > 0)

    def buffer(self, name: str) -> BufferSpec:
        """The buffer called ``name``; KeyError when the plan has none."""
        for b in self.buffers:
            if b.name == name:
                return b
        raise KeyError(f"plan has no buffer {name!r}; it has {[b.name for b in self.buffers]}")


def _common_buffers(p: AttentionProblem, br: int) -> list[BufferSpec]:
    """Vectors and constants that both passes keep: rows (Br,), lanes (Br, 16)."""
    lanes = br * CUBE_BLOCK
    rows = [BufferSpec(n, "ub", "float32", br) for n in ("row_a", "row_b", "row_c")]
    wide = [BufferSpec(n, "ub", "float32", lanes) for n in ("turn", "wide_a", "wide_b")]
    constants = [BufferSpec(n, "ub", "float32", _F32_LANES) for n in ("zeros", "ones", "penalty", "columns", "line")]
    out = rows + wide + constants + [BufferSpec("diagonal", "ub", "float32", lanes)]
    if p.has_q_lengths:
        out.append(BufferSpec("q_lengths", "ub", "int32", align(p.batch, 8)))
    if p.has_kv_lengths:
        out.append(BufferSpec("kv_lengths", "ub", "int32", align(p.batch, 8)))
    if p.seeded_dropout:
        out += [
            BufferSpec("counter_base", "ub", "int32", lanes),
            BufferSpec("counter", "ub", "int32", lanes),
            BufferSpec("counter_shift", "ub", "int32", lanes),
            BufferSpec("keep", "ub", "float32", lanes),
        ]
        out += [BufferSpec(n, "ub", "int32", _F32_LANES) for n in ("hash_key", "hash_at")]
        if p.has_seed_words:
            out.append(BufferSpec("seed_words", "ub", "int32", BLOCK_BYTES // 4))
    if p.has_masks:
        out += [
            BufferSpec("mask_slice", "ub", "float16", lanes),
            BufferSpec("shift_slice", "ub", p.dtype, lanes),
            BufferSpec("mask_wide", "ub", "float32", lanes),
        ]
    return out


def _clean_buffers(p: AttentionProblem, br: int, bc: int) -> list[BufferSpec]:
    """A slice of an operand, where what is not finite is taken out of it."""
    lanes = max(br, bc) * CUBE_BLOCK
    return [
        BufferSpec("operand", "ub", p.dtype, lanes, "clean"),
        BufferSpec("operand_wide", "ub", "float32", lanes, "clean"),
    ]


def forward_buffers(p: AttentionProblem, br: int, bc: int) -> tuple[BufferSpec, ...]:
    """On-chip buffers of the forward kernel for tiles of ``br`` x ``bc``."""
    d, t = p.head_dim, p.dtype
    return (
        *_common_buffers(p, br),
        BufferSpec("sum_lanes", "ub", "float32", br * CUBE_BLOCK),
        BufferSpec("out", "ub", "float32", br * d),
        BufferSpec("scores", "ub", "float32", br * bc, "scores"),
        BufferSpec("probs", "ub", t, br * bc, "scores"),
        *_clean_buffers(p, br, bc),
        BufferSpec("product", "ub", "float32", br * d, "product"),
        BufferSpec("out_cast", "ub", t, br * d, "finish"),
        BufferSpec("q", "l1", t, br * d),
        BufferSpec("k", "l1", t, bc * d),
        BufferSpec("v", "l1", t, bc * d),
        BufferSpec("p", "l1", t, br * bc),
        BufferSpec("left_q", "l0a", t, br * d, "scores"),
        BufferSpec("right_k", "l0b", t, bc * d, "scores"),
        BufferSpec("acc_s", "l0c", "float32", br * bc, "scores"),
        BufferSpec("left_p", "l0a", t, br * bc, "product"),
        BufferSpec("right_v", "l0b", t, bc * d, "product"),
        BufferSpec("acc_o", "l0c", "float32", br * d, "product"),
    )


_AHEAD = ("left_q", "right_k", "acc_s", "acc_o")


def ahead_buffers(p: AttentionProblem, br: int, bc: int) -> tuple[BufferSpec, ...]:
    """The same for a kernel that works ahead: what starts scores lives beside what ends them."""
    return tuple(replace(b, phase="") if b.name in _AHEAD else b for b in forward_buffers(p, br, bc))


def backward_buffers(p: AttentionProblem, br: int, bc: int) -> tuple[BufferSpec, ...]:
    """On-chip buffers of the backward kernel for tiles of ``br`` x ``bc``."""
    d, t = p.head_dim, p.dtype
    lanes = br * CUBE_BLOCK
    return (
        *_common_buffers(p, br),
        BufferSpec("delta_lanes", "ub", "float32", lanes),
        BufferSpec("inverse_lanes", "ub", "float32", lanes),
        BufferSpec("peak_total", "ub", "float32", BLOCK_BYTES // 4),
        BufferSpec("scores", "ub", "float32", br * bc, "scores"),
        BufferSpec("d_probs", "ub", "float32", br * bc, "scores.grad"),
        BufferSpec("cast", "ub", t, br * bc, "scores.cast"),
        *_clean_buffers(p, br, bc),
        BufferSpec("marks", "ub", "float32", bc * CUBE_BLOCK, "marks"),
        BufferSpec("dq_tile", "ub", "float32", br * d, "dq"),
        BufferSpec("dq_sum", "ub", "float32", lanes, "dq"),
        BufferSpec("kv_tile", "ub", "float32", bc * d, "kv"),
        BufferSpec("kv_cast", "ub", t, bc * d, "kv"),
        BufferSpec("o_cast", "ub", t, lanes, "delta"),
        BufferSpec("do_cast", "ub", t, lanes, "delta"),
        BufferSpec("o_wide", "ub", "float32", lanes, "delta"),
        BufferSpec("do_wide", "ub", "float32", lanes, "delta"),
        *(BufferSpec(name, "ub", "float32", br, "delta") for name in ("peak", "peak_size", "peak_spare")),
        BufferSpec("dq_final", "ub", "float32", br * d, "final"),
        BufferSpec("dq_cast", "ub", t, br * d, "final"),
        BufferSpec("q", "l1", t, br * d),
        BufferSpec("do", "l1", t, br * d),
        BufferSpec("k", "l1", t, bc * d),
        BufferSpec("v", "l1", t, bc * d),
        BufferSpec("p", "l1", t, br * bc),
        BufferSpec("ds", "l1", t, br * bc),
        BufferSpec("left_rows", "l0a", t, br * d, "scores"),
        BufferSpec("right_rows", "l0b", t, bc * d, "scores"),
        BufferSpec("left_turned", "l0a", t, br * bc, "kv_sum"),
        BufferSpec("right_turned", "l0b", t, br * d, "kv_sum"),
        BufferSpec("left_seen", "l0a", t, br * bc, "marks"),
        BufferSpec("right_marks", "l0b", t, br * CUBE_BLOCK, "marks"),
        BufferSpec("left_ds", "l0a", t, br * bc, "dq"),
        BufferSpec("right_k", "l0b", t, bc * d, "dq"),
        BufferSpec("acc_dk", "l0c", "float32", bc * d),
        BufferSpec("acc_dv", "l0c", "float32", bc * d),
        BufferSpec("acc_s", "l0c", "float32", br * bc, "scores"),
        BufferSpec("acc_dq", "l0c", "float32", br * d, "dq"),
        BufferSpec("acc_marks", "l0c", "float32", bc * CUBE_BLOCK, "marks"),
    )


def _named_blocks(p: AttentionProblem, strategy: str) -> tuple[int, int]:
    """(Br, Bc) of a strategy of the public TIK package."""
    if strategy == "wukong":
        bc = p.kv_len if p.kv_len <= _WUKONG_SINGLE_KV else _WUKONG_BLOCK
        return align(min(p.q_len, _WUKONG_BLOCK)), align(bc)
    return align(min(p.q_len, SPARSE_BLOCK)), align(min(p.kv_len, SPARSE_BLOCK))


def _candidates(p: AttentionProblem) -> list[tuple[int, int]]:
    """Tiles from the largest area down; among equal areas the one with more rows, which re-reads K and V less."""
    rows = sorted({min(s, align(p.q_len)) for s in _SIDES}, reverse=True)
    cols = sorted({min(s, align(p.kv_len)) for s in _SIDES}, reverse=True)
    pairs = [(r, c) for r in rows for c in cols]
    if p.block_sparse:  # a tile must not cross the edge of a 128-block
        pairs = [
            (r, c)
            for r, c in pairs
            if (SPARSE_BLOCK % r == 0 or r >= p.q_len) and (SPARSE_BLOCK % c == 0 or c >= p.kv_len)
        ]
    return sorted(pairs, key=lambda rc: (rc[0] * rc[1], rc[0]), reverse=True)


def _fitting(p: AttentionProblem, soc: Soc, buffers_of: BuffersOf) -> dict[str, tuple[int, int]]:
    """(Br, Bc) of the strategies that fit, ``auto`` first."""
    tiles = {name: _named_blocks(p, name) for name in STRATEGIES if name != "auto"}
    largest = next((tile for tile in _candidates(p) if fits(buffers_of(p, *tile), soc)), None)
    found = {} if largest is None else {"auto": largest}
    return found | {name: tile for name, tile in tiles.items() if fits(buffers_of(p, *tile), soc)}


def _choices(p: AttentionProblem, soc: Soc, buffers_of: BuffersOf) -> list[tuned.Choice]:
    """Tiles that fit, for ``ms-custom-ops tune``."""
    rows, cols = (sorted({min(s, align(length)) for s in _TUNED_SIDES}) for length in (p.q_len, p.kv_len))
    return [
        {"q_block": r, "kv_block": c}
        for r in rows
        for c in cols
        if not (p.block_sparse and (SPARSE_BLOCK % r or SPARSE_BLOCK % c)) and fits(buffers_of(p, r, c), soc)
    ]


def _tuned(op: str, p: AttentionProblem, soc: Soc, strategy: str, buffers_of: BuffersOf) -> tuple[int, int]:
    """(Br, Bc): of ``auto`` what ``ms-custom-ops tune`` found, where it did."""
    if strategy == "auto":
        found = tuned.choose(op, soc.name, asdict(p), lambda: _choices(p, soc, buffers_of))
        if found is not None:
            br, bc = found["q_block"], found["kv_block"]
            accepted = f"a tile that tune finds; ms-custom-ops tune {op} --forget drops this one"
            require(buffers_of(p, br, bc), soc, f"{op}: the stored tile {br}x{bc}", accepted)
            return br, bc
    return _choose(p, soc, strategy, buffers_of)


def _choose(p: AttentionProblem, soc: Soc, strategy: str, buffers_of: BuffersOf) -> tuple[int, int]:
    if strategy not in STRATEGIES:
        raise TilingError(f"flash_attention: tiling_stgy_name is {strategy!r}; accepted: {', '.join(STRATEGIES)}")
    fitting = _fitting(p, soc, buffers_of)
    if strategy not in fitting:
        if strategy == "auto":
            raise BudgetError(f"flash_attention: no tile of D={p.head_dim} {p.dtype} fits {soc.name}")
        br, bc = _named_blocks(p, strategy)
        accepted = ", ".join(f"{name!r} ({r}x{c})" for name, (r, c) in fitting.items()) or "none"
        what = f"flash_attention: tiling_stgy_name {strategy!r} ({br}x{bc}) at head size {p.head_dim}"
        require(buffers_of(p, br, bc), soc, what, accepted)
    return fitting[strategy]


def plan_forward(p: AttentionProblem, soc: Soc, strategy: str = "auto") -> AttentionPlan:
    """Plan of the forward kernel: one task per (batch, query head, query block). Where tasks are dealt, the last blocks
    of all heads come first.

    Raises BudgetError when a named strategy does not fit the chip, TilingError for an unknown strategy.
    """
    br, bc = _tuned("flash_attention", p, soc, strategy, forward_buffers)
    tasks = p.batch * p.q_heads * -(-p.q_len // br)
    buffers = ahead_buffers(p, br, bc)
    ahead = p.kv_len >= 2 * bc and bc >= 2 * CUBE_BLOCK and fits(buffers, soc)
    if not ahead:
        buffers = forward_buffers(p, br, bc)
    return AttentionPlan(p, soc, br, bc, buffers, _forward_split(p, soc, tasks), ahead)


def _forward_split(p: AttentionProblem, soc: Soc, tasks: int) -> CoreSplit:
    """Tasks of a head stay together, unless later query blocks see more keys and a core would have more of them."""
    together = CoreSplit(tasks, soc.core_count)
    uneven = p.upper_tokens is not None and p.lower_tokens is None and not p.has_row_bounds
    if not uneven or tasks > _MOST_WEIGHED:
        return together
    dealt, heads = replace(together, dealt=True), p.batch * p.q_heads
    blocks = tasks // heads
    heaviest = together.heaviest(lambda task: task % blocks + 1)
    return dealt if dealt.heaviest(lambda task: blocks - task // heads) < heaviest else together


def plan_backward(p: AttentionProblem, soc: Soc, strategy: str = "auto") -> AttentionPlan:
    """Plan of the backward kernel: one task per (batch, key head), so that every sum has one owner and one order.

    Raises BudgetError when a named strategy does not fit the chip, TilingError for an unknown strategy.
    """
    br, bc = _tuned("flash_attention_grad", p, soc, strategy, backward_buffers)
    buffers = tuple(
        replace(b, elements=br * p.head_dim) if b.name == "dq_sum" else b for b in backward_buffers(p, br, bc)
    )
    if not fits(buffers, soc):  # a slice of 16 columns at a time
        buffers = backward_buffers(p, br, bc)
    return AttentionPlan(p, soc, br, bc, buffers, CoreSplit(p.batch * p.kv_heads, soc.core_count))
