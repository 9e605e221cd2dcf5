# SPDX-License-Identifier: Apache-2.0
"""Sorting: groups of 16 proposals or 32 scores, and merges of sorted lists.

Descending, equal scores keep their order (lower list first in a merge), NaN behind every number.
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import Expr
from ms_custom_ops.soc.support import SHORT, require
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import as_tensor, check_same_dtype, flag, number, ranged
from ms_custom_ops.tik.gather import check_operand, known
from ms_custom_ops.tik.special import MERGE_LISTS, read_special, special
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.tik.vector import MAX_REPEAT

PROPOSAL, GROUP, SORT32, RECORD_BYTES = 8, 16, 32, 8
_MAX_PROPOSALS, _MAX_RECORDS = 4095, 65535
_VALID_BITS = {1: 1, 3: 2, 7: 3, 15: 4}


class MergeState:
    """Records taken from each list by the latest merge (``get_vm4_value``)."""


class SortMixin:
    """``Tik`` methods of this module."""

    _b: Builder

    def vrpsort16(self, dst, src, repeat_times):
        """Each group of 16 proposals of src sorted by score."""
        b, api = self._b, "vrpsort16"
        if b.dead:
            return
        dst, src = self._pair(api, "vbitsort", dst, src)
        r = ranged(repeat_times, api, "repeat_times", 1, MAX_REPEAT)
        need = r * GROUP * PROPOSAL * SIZE[dst.dtype] if known(r) else None
        check_operand(b, src, api, "src", need)
        check_operand(b, dst, api, "dst", need)
        b.body.append(ir.Instr(api, (dst.ref(), src.ref()), (r,), (), b.loc()))

    def _pair(self, api: str, instruction: str, dst: Any, src: Any) -> tuple[Tensor, Tensor]:
        b = self._b
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        check_same_dtype(b, api, dst, src)
        require(b, api, instruction, SHORT[dst.dtype], dst.dtype)
        return dst, src

    def vsort32(self, dst, src0, src1, repeat_times):
        """32 scores of src0 per repeat with their uint32 indices of src1 as sorted records of 8 bytes: the score
        first, the index in the last 4 bytes."""
        b, api = self._b, "vsort32"
        if b.dead:
            return
        dst, src0 = self._pair(api, "vbitsort32", dst, src0)
        src1 = as_tensor(src1, api, "src1")
        if src1.dtype != "uint32":
            raise b.fail(TikError, api, "dtype of src1", src1.dtype, "uint32")
        r = ranged(repeat_times, api, "repeat_times", 1, MAX_REPEAT)
        for t, name, size in ((src0, "src0", SIZE[src0.dtype]), (src1, "src1", 4), (dst, "dst", RECORD_BYTES)):
            check_operand(b, t, api, name, r * SORT32 * size if known(r) else None)
        b.body.append(ir.Instr(api, (dst.ref(), src0.ref(), src1.ref()), (r,), (), b.loc()))

    def vmrgsort4(
        self,
        dst,
        src_list,
        element_lengths,
        if_exhausted_suspension,
        valid_bit,
        repeat_times=1,
        vms4_sr_scalar_array=None,
    ):
        """Merge of 2 to 4 sorted lists of proposals (``valid_bit`` 3, 7, 15, or 1, also as "1111" or a Scalar). With
        ``if_exhausted_suspension`` it stops when a list runs out; the four scalars receive how many proposals were
        taken from each list."""
        b, api = self._b, "vmrgsort4"
        if b.dead:
            return MergeState()
        bits = valid_bit
        if isinstance(bits, str) and bits and set(bits) <= {"0", "1"}:
            bits = int(bits, 2)
        if isinstance(bits, Expr):
            bits = number(bits, api, "valid_bit")  # the engine refuses what is none of them
        elif bits.__class__ is not int or bits not in _VALID_BITS:
            raise b.fail(TikError, api, "valid_bit", repr(valid_bit), "1, 3, 7, 15")
        if known(bits) and bits == 1 and b.family in ("310", "910A"):
            raise b.fail(TikError, api, f"valid_bit on {b.soc.name}", bits, "3, 7, 15")
        given = min(len(src_list), MERGE_LISTS) if isinstance(src_list, (list, tuple)) else 1
        self._merge(
            api,
            "vmrgsort4",
            dst,
            src_list,
            element_lengths,
            if_exhausted_suspension,
            _VALID_BITS[bits] if known(bits) else max(given, 1),
            bits,
            repeat_times,
            vms4_sr_scalar_array,
            0,
            _MAX_PROPOSALS,
        )
        return MergeState()

    def vmrgsort(
        self, dst, src_list, element_count_list, if_exhausted_suspension, repeat_times=1, vms4_sr_scalar_array=None
    ):
        """Merge of 2 to 4 sorted lists of the 8-byte records of vsort32."""
        b, api = self._b, "vmrgsort"
        if b.dead:
            return MergeState()
        lists = len(src_list) if isinstance(src_list, (list, tuple)) else 0
        if not 2 <= lists <= MERGE_LISTS:
            raise b.fail(TikError, api, "src_list", f"{lists} tensors", "a list of 2..4 tensors")
        self._merge(
            api,
            "vmrgsort4v2",
            dst,
            src_list,
            element_count_list,
            if_exhausted_suspension,
            lists,
            (1 << lists) - 1,
            repeat_times,
            vms4_sr_scalar_array,
            1,
            _MAX_RECORDS,
        )
        return MergeState()

    def _merge(
        self,
        api: str,
        instruction: str,
        dst: Any,
        src_list: Any,
        lengths: Any,
        suspend: Any,
        lists: int,
        valid: Any,
        repeat: Any,
        taken: Any,
        pairs: int,
        most: int,
    ) -> None:
        b = self._b
        if not isinstance(src_list, (list, tuple)) or len(src_list) < lists:
            given = f"{len(src_list)} tensors" if isinstance(src_list, (list, tuple)) else type(src_list).__name__
            raise b.fail(TikError, api, "src_list", given, f"a list of {lists} tensors or more")
        dst = as_tensor(dst, api, "dst")
        sources = [as_tensor(t, api, f"src_list[{i}]") for i, t in enumerate(src_list[:lists])]
        for i, t in enumerate(sources):
            check_same_dtype(b, api, dst, t, f"src_list[{i}]")
        require(b, api, instruction, SHORT[dst.dtype], dst.dtype)
        items = list(lengths) if isinstance(lengths, (list, tuple)) else [lengths] * lists
        name = "element_count_list" if pairs else "element_lengths"
        if len(items) < lists:
            raise b.fail(TikError, api, name, f"{len(items)} numbers", f"one number, or {lists} of them")
        counts = [ranged(v, api, f"{name}[{i}]", 0, most) for i, v in enumerate(items[:lists])]
        stop = flag(suspend, api, "if_exhausted_suspension")
        r = ranged(repeat, api, "repeat_times", 1, MAX_REPEAT)
        record = RECORD_BYTES if pairs else PROPOSAL * SIZE[dst.dtype]
        if known(r) and r > 1:
            self._check_repeated_merge(api, name, sources, counts, stop, lists, record)
        step = sum(counts) * record
        if known(r, step, valid):
            for i, (t, n) in enumerate(zip(sources, counts, strict=True)):
                check_operand(b, t, api, f"src_list[{i}]", (r - 1) * step + n * record)
            check_operand(b, dst, api, "dst", r * step)
        else:
            for i, t in enumerate((*sources, dst)):
                check_operand(b, t, api, f"src_list[{i}]" if i < lists else "dst", None)
        fill = [sources[0].ref()] * (MERGE_LISTS - lists)
        refs = (dst.ref(), *[t.ref() for t in sources], *fill, special(b, "merge"))
        args = (*counts, *[0] * (MERGE_LISTS - lists), valid, r)
        b.body.append(ir.Instr("vmrgsort", refs, args, (lists, int(stop), pairs), b.loc()))
        if taken is not None:
            self._store_taken(api, "vms4_sr_scalar_array", taken)

    def _check_repeated_merge(
        self, api: str, name: str, sources: list[Tensor], counts: list, stop: bool, lists: int, record: int
    ) -> None:
        b = self._b
        if lists != MERGE_LISTS or stop:
            given = f"{lists} lists" + (", if_exhausted_suspension" if stop else "")
            raise b.fail(TikError, api, "repeat_times > 1 with", given, "4 lists, no suspension")
        if known(*counts) and len(set(counts)) > 1:
            raise b.fail(TikError, api, f"{name} with repeat_times > 1", counts, "equal lengths")
        offsets = [t.offset for t in sources]
        if known(*counts, *offsets):
            step = counts[0] * record // SIZE[sources[0].dtype]
            if any(
                t.storage is not sources[0].storage or t.offset != offsets[0] + i * step for i, t in enumerate(sources)
            ):
                raise b.fail(
                    TikError,
                    api,
                    "src_list with repeat_times > 1",
                    f"offsets {offsets}",
                    "lists that follow each other in one tensor",
                )

    def _store_taken(self, api: str, name: str, scalars: Any) -> None:
        b = self._b
        count = len(scalars) if hasattr(scalars, "__len__") else 0
        if count != MERGE_LISTS:
            raise b.fail(TikError, api, name, f"{count} scalars", f"{MERGE_LISTS} Scalars or a ScalarArray of them")
        for i in range(MERGE_LISTS):
            scalars[i].set_as(read_special(b, "merge", i))

    def get_vm4_value(self):
        """The state of the latest merge, for mov_vmrgsort4_sr_to_scalar."""
        return MergeState()

    def mov_vmrgsort4_sr_to_scalar(self, scalar_list, vms4_sr):
        """Four Scalars = the records the latest merge took from each list."""
        b, api = self._b, "mov_vmrgsort4_sr_to_scalar"
        if b.dead:
            return
        if not isinstance(vms4_sr, MergeState):
            raise b.fail(TikError, api, "vms4_sr", type(vms4_sr).__name__, "the value of get_vm4_value or vmrgsort4")
        self._store_taken(api, "scalar_list", scalar_list)
