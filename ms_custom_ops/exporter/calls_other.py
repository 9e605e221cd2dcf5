# SPDX-License-Identifier: Apache-2.0
"""Calls that move data, that sort and gather, and those of modes and flags."""

from __future__ import annotations

from ms_custom_ops.exporter.calls_vector import COPIED, FLOAT
from ms_custom_ops.exporter.context import Call, Use
from ms_custom_ops.exporter.expressions import CPP
from ms_custom_ops.exporter.series import split
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import Expr
from ms_custom_ops.program.isa import PIPES
from ms_custom_ops.program.names import ATOMIC_MODES, BLOCK_BYTES

_WORD = 65535
_PIPE_NAMES = {number: name.removeprefix("PIPE_") for name, number in PIPES.items()}
_MASK_BYTES = 16


def _bursts(u: Use, unit: int = BLOCK_BYTES) -> str:
    sizes = ", ".join(u.units(n, unit, "DataCopyParams counts blocks of 32 bytes", _WORD)
                      for n in ("burst", "src_gap", "dst_gap"))  # fmt: skip
    return f"DataCopyParams({u.number('nburst')}, {sizes})"


def move(u: Use) -> list[str]:
    if ir.SMASK in (u.scope("dst"), u.scope("src")):
        return _mask_move(u)
    dtype = u.dtype("dst")
    if dtype in ("bool", "uint64", "int64"):
        dtype = "uint32" if SIZE[dtype] == 8 else "uint8"
    return [f"DataCopy({u.ref('dst', dtype)}, {u.ref('src', dtype)}, {_bursts(u)});"]


def _mask_move(u: Use) -> list[str]:
    """The register of compare masks, from and to a tensor."""
    if (u.known("nburst"), u.known("burst")) != (1, _MASK_BYTES):
        raise u.refuse("burst", u.number("burst"), f"the {_MASK_BYTES} bytes of the register of compare masks")
    name, tensor = ("SetCmpMask", "src") if u.scope("dst") == ir.SMASK else ("GetCmpMask", "dst")
    return [f"{name}({u.ref(tensor)});"]


def move_padded(u: Use) -> list[str]:
    dtype = u.dtype("dst")
    sizes = ", ".join(u.number(n) for n in ("nburst", "burst"))
    if u.scope("dst") == ir.GM:
        gaps = f"{u.blocks('src_gap', _WORD)}, {u.number('dst_gap')}"
        return [f"DataCopyPad({u.ref('dst')}, {u.ref('src', dtype)}, DataCopyExtParams({sizes}, {gaps}, 0));"]
    gaps = f"{u.number('src_gap')}, {u.blocks('dst_gap', _WORD)}"
    pads = f"{u.number('left_pad')}, {u.number('right_pad')}, {u.value('pad_value', dtype)}"
    return [f"DataCopyPad({u.ref('dst')}, {u.ref('src', dtype)}, DataCopyExtParams({sizes}, {gaps}, 0), "
            f"DataCopyPadExtParams<{CPP[dtype]}>(true, {pads}));"]  # fmt: skip


def matrices(u: Use) -> list[str]:
    names = (
        "nd_num",
        "nd_n",
        "nd_d",
        "src_nd_stride",
        "src_n_stride",
        "dst_c0_stride",
        "dst_n_stride",
        "dst_nd_stride",
    )
    for name in names:
        if (u.known(name) or 0) > _WORD:
            raise u.refuse(name, u.known(name), f"at most {_WORD}: Nd2NzParams holds no more")
    return [
        f"DataCopy({u.ref('dst')}, {u.ref('src', u.dtype('dst'))}, Nd2NzParams({', '.join(map(u.number, names))}));"
    ]


def _steps(u: Use, side: str) -> int | None:
    """Elements from one of 16 rows to the next, where they lie at equal distances in one tensor."""
    refs = [u.refs[f"{side}{i}"] for i in range(16)]
    first = refs[0]
    places = [_distance(first.offset, r.offset) for r in refs]
    if any(r.buffer is not first.buffer or r.dtype != first.dtype for r in refs) or None in places:
        return None
    step = places[1]
    return step if step is not None and step >= 0 and places == [i * step for i in range(16)] else None


def _distance(a: int | Expr, b: int | Expr) -> int | None:
    """b - a where it is known."""
    (left, more), (right, others) = split(a), split(b)
    return others - more if repr(left) == repr(right) else None


def turn(u: Use) -> list[str]:
    """16 rows of blocks, transposed."""
    params = (f"TransDataTo5HDParams({'true' if u.attrs['dst_high'] else 'false'}, "
              f"{'true' if u.attrs['src_high'] else 'false'}, {u.number('repeat')}, {u.blocks('dst_rep', _WORD)}, "
              f"{u.blocks('src_rep', _WORD)})")  # fmt: skip
    dst, src = _steps(u, "dst"), _steps(u, "src")
    if dst is not None and src is not None:
        u.writer.helpers.add("Turn")
        return [f"Turn({u.ref('dst0')}, {dst}, {u.ref('src0')}, {src}, {params});"]
    names = [u.fresh("dstRows"), u.fresh("srcRows")]
    for name, side in zip(names, ("dst", "src"), strict=True):
        rows = ", ".join(u.ref(f"{side}{i}") for i in range(16))
        u.before.append(f"LocalTensor<{u.kind('dst0')}> {name}[16] = {{{rows}}};")
    return [f"TransDataTo5HD<{u.kind('dst0')}>({names[0]}, {names[1]}, {params});"]


def transpose(u: Use) -> list[str]:
    return [f"Transpose({u.ref('dst', 'uint16')}, {u.ref('src', 'uint16')});"]


def broadcast(u: Use) -> list[str]:
    u.need("dst", *COPIED)
    if u.known("dst_blk") == 0:
        raise u.refuse("dst_blk", 0, "at least 32 bytes: the call takes 0 for one block")
    return [f"Brcb({u.ref('dst')}, {u.ref('src', u.dtype('dst'))}, {u.number('repeat')}, "
            f"BrcbRepeatParams({u.blocks('dst_blk', _WORD)}, {u.blocks('dst_rep', _WORD)}));"]  # fmt: skip


def gather(u: Use) -> list[str]:
    u.need("dst", *COPIED)
    if u.known("dst_blk") != BLOCK_BYTES:
        raise u.refuse("dst_blk", u.known("dst_blk"), f"{BLOCK_BYTES} bytes: blocks of dst follow each other")
    return [f"Gather({u.ref('dst')}, {u.ref('src', u.dtype('dst'))}, {u.ref('offset', 'uint32')}, {u.number('base')}, "
            f"{u.mask()}, {u.repeat()}, {u.blocks('dst_rep', _WORD)});"]  # fmt: skip


def scatter(u: Use) -> list[str]:
    if u.program.split_cores:
        raise u.refuse("chip", u.program.soc, "Ascend310P; here vgather by the inverse offsets, or set_as of elements")
    u.need("dst", *COPIED)
    if u.known("src_blk") != BLOCK_BYTES:
        raise u.refuse("src_blk", u.known("src_blk"), f"{BLOCK_BYTES} bytes: blocks of src follow each other")
    return [f"Scatter({u.ref('dst')}, {u.ref('src', u.dtype('dst'))}, {u.ref('offset', 'uint32')}, {u.number('base')}, "
            f"{u.mask()}, {u.repeat()}, {u.blocks('src_rep')});"]  # fmt: skip


def gather_blocks(u: Use) -> list[str]:
    return [f"Gatherb({u.ref('dst')}, {u.ref('src', u.dtype('dst'))}, {u.ref('offset', 'uint32')}, "
            f"{u.number('repeat')}, GatherRepeatParams({u.blocks('dst_blk')}, {u.blocks('dst_rep')}));"]  # fmt: skip


def sort(u: Use) -> list[str]:
    u.need("src0", *FLOAT)
    return [
        f"Sort32({u.ref('dst', u.dtype('src0'))}, {u.ref('src0')}, {u.ref('src1', 'uint32')}, {u.number('repeat')});"
    ]


def proposals(name: str) -> Call:
    def call(u: Use) -> list[str]:
        if u.program.split_cores:
            raise u.refuse("chip", u.program.soc, "Ascend310P: this chip sorts records, by vsort32")
        u.need("dst", *FLOAT)
        more = f", {u.number('field')}" if "field" in u.args else ""
        return [f"{name}({u.ref('dst')}, {u.ref('src')}, {u.number('repeat')}{more});"]

    return call


def merge(u: Use) -> list[str]:
    """Sorted lists into one."""
    u.need("dst", *FLOAT)
    lists, records = u.attrs["lists"], u.attrs["record"]
    valid = u.number("valid_bit")
    if lists < 2 or valid == "1":
        raise u.refuse("lists", 1, "2 to 4")
    kind = u.kind("dst")
    sizes = ", ".join(f"uint16_t({u.number(f'len{i}')})" for i in range(4))
    names = u.fresh("lengths"), u.fresh("info")
    u.before.append(f"const uint16_t {names[0]}[4] = {{{sizes}}};")
    stops = "true" if u.attrs["suspend"] else "false"
    u.before.append(f"const MrgSort4Info {names[1]}({names[0]}, {stops}, {valid}, {u.number('repeat')});")
    sources = ", ".join(u.ref(f"src{i if i < lists else 0}", u.dtype("dst")) for i in range(4))
    if u.scope("sr") != ir.SMASK:
        raise u.refuse("sr", f"in {u.scope('sr')}", "the special register")
    counts = u.places.merged()
    if counts:
        u.after.append(f"GetMrgSortResult({', '.join(counts)});")
    return [
        f"{'MrgSort' if records else 'MrgSort4'}<{kind}>({u.ref('dst')}, "
        f"MrgSortSrcList<{kind}>({sources}), {names[1]});"
    ]


def atomic(u: Use) -> list[str]:
    dtype = ATOMIC_MODES[u.attrs["mode"]]
    return ["SetAtomicNone();" if dtype is None else f"SetAtomicAdd<{CPP[dtype]}>();"]


def flag(name: str) -> Call:
    def call(u: Use) -> list[str]:
        source, target = _PIPE_NAMES[u.attrs["pipe"]], _PIPE_NAMES[u.attrs["trigger"]]
        return [f"{name}<HardEvent::{source}_{target}>({u.number('event')});"]

    return call


def pipe_barrier(u: Use) -> list[str]:
    pipe = _PIPE_NAMES[u.attrs["pipe"]]
    return [] if pipe == "S" else [f"PipeBarrier<PIPE_{pipe}>();"]


def block_barrier(u: Use) -> list[str]:
    return ["PipeBarrier<PIPE_ALL>();", "SyncAll<false>();" if u.mixed else "SyncAll();"]


CALLS: dict[str, Call] = {
    "data_move": move, "data_move_pad": move_padded, "nd2nz": matrices, "vnchwconv": turn, "vtranspose": transpose,
    "vbcb": broadcast, "vgather": gather, "vgatherb": gather_blocks, "vscatter": scatter, "vsort32": sort,
    "vrpsort16": proposals("RpSort16"),
    "vconcat": proposals("ProposalConcat"), "vextract": proposals("ProposalExtract"), "vmrgsort": merge,
    "set_atomic_add": atomic, "set_flag": flag("SetFlag"), "wait_flag": flag("WaitFlag"),
    "pipe_barrier": pipe_barrier, "block_barrier": block_barrier,
}  # fmt: skip
"""Rows that another call says."""
