# SPDX-License-Identifier: Apache-2.0
"""From calls of the sparse-attention functions to their primitives: TND tensors get a batch axis of 1, rows come in
whole blocks."""

from __future__ import annotations

from ms_custom_ops.lower.steps import Chain, Lowering, Steps, missing

_CUBE, _BLOCK = 16, 8  # rows of statistics and weights; index rows, lengths and pages
_PAGED = "PA_BSND"


class Rows:
    """Rows of a call in either layout. ``lengths``: names of the lengths of queries and keys."""

    def __init__(self, of: Lowering, layout: str, layout_kv: str, lengths: tuple[str, str]):
        self.of, self.layout = of, layout
        self.packed, self.paged = layout == "TND", layout_kv == _PAGED
        self.names = lengths
        query, key = of.need("query"), of.need("key")
        self.lead, self.lead_k = query.shape[:-2], key.shape[:-2]
        self.heads, self.key_heads = query.shape[-2], key.shape[-2]
        self.group = self.heads // self.key_heads
        self.dtype = query.dtype
        self.empty = 0 in (*self.lead, *self.lead_k, self.heads)

    def batched(self, chain: Chain | None) -> Chain | None:
        """With a batch axis of 1 in TND."""
        return None if chain is None else chain.batch(self.packed)

    def query_side(self, name: str) -> Chain | None:
        return self.batched(self.of.tensor(name))

    def key_side(self, name: str) -> Chain | None:
        chain = self.of.tensor(name)
        return chain if self.paged else self.batched(chain)

    def indices(self) -> Chain | None:
        """Index rows, padded with ids that end a row."""
        chain = self.of.need("sparse_indices").stop()
        return self.batched(chain.pad(-1, missing(chain.shape[-1], _BLOCK), -1.0))

    def statistics(self, name: str) -> Chain | None:
        return self.batched(self.of.need(name).pad(-1, missing(self.group, _CUBE)))

    def lengths(self) -> dict[str, Chain | None]:
        """int32 in whole blocks; prefix sums by repeating the last: sequences without tokens."""
        found: dict[str, Chain | None] = {}
        for name, side in zip(self.names, ("query", "kv"), strict=True):
            chain = self.of.constant(name)
            if chain is not None:
                count = missing(chain.shape[0], _BLOCK)
                sums = self.packed and not (side == "kv" and self.paged)
                chain = chain.repeat(count) if sums else chain.pad(0, count)
            found[f"actual_seq_lengths_{side}"] = chain
        return found

    def pages(self) -> Chain | None:
        chain = self.of.constant("block_table")
        return chain if chain is None else chain.pad(-1, missing(chain.shape[-1], _BLOCK))

    def result(self, name: str, shape: tuple[int, ...], dtype: str) -> Chain:
        """A result of the primitive of ``shape`` as the function gives it, or longer in the last axis: cut by the
        caller."""
        return Chain(name, (1, *shape) if self.packed else shape, dtype)

    def attributes(self, *own: str) -> dict[str, object]:
        """The call's attributes but those that the function alone has."""
        return {name: value for name, value in self.of.call.attrs.items() if name not in own}


def _nothing(answers: dict[str, Chain | None]) -> Steps:
    return Steps({}, {}, {}, empty=True, answers=answers)


def _attention(rows: Rows) -> dict[str, Chain | None]:
    """What attention and its gradient share."""
    value = "value" if rows.of.tensor("value") is not None else "key"
    return {
        "query": rows.query_side("query"),
        "key": rows.key_side("key"),
        "value": rows.key_side(value),
        "sparse_indices": rows.indices(),
        **rows.lengths(),
        "query_rope": rows.query_side("query_rope"),
        "key_rope": rows.key_side("key_rope"),
    }


def _forms(rows: Rows) -> dict[str, object]:
    rope = rows.of.tensor("query_rope")
    return {"rope_dim": 0 if rope is None else rope.shape[-1], "kv_merged": rows.of.tensor("value") is None}


def _sink_rows(rows: Rows) -> Chain | None:
    """Sinks (N1,) as rows (B, N2, S1, G padded) of the statistics; the gradient is summed back."""
    sinks = rows.of.tensor("sinks")
    if sinks is None:
        return None
    behind = missing(rows.group, _CUBE)
    chain = sinks.reshape((1, rows.key_heads, 1, rows.group)).pad(-1, behind)
    lead = (1, *rows.lead) if rows.packed else rows.lead
    return chain.broadcast((lead[0], rows.key_heads, lead[1], rows.group + behind))


def sparse_flash_attention(of: Lowering) -> Steps:
    rows = Rows(of, of["layout_query"], of["layout_kv"], ("actual_seq_lengths_query", "actual_seq_lengths_kv"))
    answers = of.zeros()
    if rows.empty:
        return _nothing(answers)
    inputs = {**_attention(rows), "block_table": rows.pages(), "sinks": _sink_rows(rows)}
    out = answers["attention_out"]
    assert out is not None
    outputs: dict[str, Chain | None] = {
        "attention_out": rows.result("attention_out", out.shape, rows.dtype).unbatch(rows.packed)
    }
    for name in ("softmax_max", "softmax_sum"):
        asked = answers[name]
        outputs[name] = None
        if asked is not None:
            wide = (*asked.shape[:-1], rows.group + missing(rows.group, _CUBE))
            outputs[name] = rows.result(name, wide, "float32").cut(-1, rows.group).unbatch(rows.packed)
    return Steps(inputs, {**rows.attributes("return_softmax_lse"), **_forms(rows)}, outputs)


def sparse_flash_attention_grad(of: Lowering) -> Steps:
    rows = Rows(of, of["layout"], of["layout"], ("actual_seq_qlen", "actual_seq_kvlen"))
    answers = of.zeros()
    if rows.empty:
        return _nothing(answers)
    inputs = {
        **_attention(rows),
        "d_out": rows.query_side("d_out"),
        "attention_out": rows.query_side("out"),
        "softmax_max": rows.statistics("softmax_max"),
        "softmax_sum": rows.statistics("softmax_sum"),
        **dict.fromkeys(("sinks", "d_softmax_max", "d_softmax_sum")),
    }
    outputs: dict[str, Chain | None] = {}
    for name, wanted in answers.items():
        outputs[name] = None
        if wanted is not None:
            dtype = wanted.dtype if name in ("d_query", "d_query_rope") else "float32"
            outputs[name] = rows.result(name, wanted.shape, dtype).unbatch(rows.packed).cast(wanted.dtype)
    return Steps(inputs, {**rows.attributes(), **_forms(rows)}, outputs)


def lightning_indexer(of: Lowering) -> Steps:
    """No gradient flows through."""
    rows = Rows(of, of["layout_query"], of["layout_key"], ("actual_seq_lengths_query", "actual_seq_lengths_key"))
    answers, count = of.zeros(), of["sparse_count"]
    indices, scores = answers["sparse_indices"], answers["sparse_values"]
    assert indices is not None
    if rows.empty:
        lead = (*indices.shape[:-1], 0)
        return _nothing({**answers, "sparse_indices": Chain(None, lead, "int32").pad(-1, count, -1.0)})
    query, key = of.need("query").stop(), of.need("key").stop()
    weights = of.need("weights").stop().cast("float32").pad(-1, missing(rows.heads, _CUBE))
    lengths = rows.lengths()
    inputs = {
        "query": rows.batched(query),
        "key": key if rows.paged else rows.batched(key),
        "weights": rows.batched(weights),
        "actual_seq_lengths_query": lengths["actual_seq_lengths_query"],
        "actual_seq_lengths_key": lengths["actual_seq_lengths_kv"],
        "block_table": rows.pages(),
    }
    wide = (*indices.shape[:-1], count + missing(count, _BLOCK))
    found = rows.result("sparse_indices", wide, "int32").cut(-1, count).unbatch(rows.packed)
    values = rows.result("sparse_values", wide, "float32").cut(-1, count).unbatch(rows.packed).cast(rows.dtype)
    attributes = rows.attributes("return_value", "pre_tokens", "next_tokens")
    return Steps(inputs, attributes, {"sparse_indices": found, "sparse_values": None if scores is None else values})


def indexer_kl_loss(of: Lowering) -> Steps:
    rows = Rows(of, of["layout"], of["layout"], ("actual_seq_qlen", "actual_seq_klen"))
    if rows.empty:
        return _nothing(of.zeros())
    weights, key_index, query_index = (of.need(name) for name in ("weights", "key_index", "query_index"))
    heads = weights.shape[-1]
    behind = missing(heads, _CUBE)
    inputs = {
        **{name: rows.query_side(name) for name in ("query", "query_index", "query_rope")},
        **{name: rows.key_side(name) for name in ("key", "key_index", "key_rope")},
        "weights": rows.batched(weights.cast("float32").pad(-1, behind)),
        "sparse_indices": rows.indices(),
        "softmax_max": rows.statistics("softmax_max"),
        "softmax_sum": rows.statistics("softmax_sum"),
        **rows.lengths(),
    }
    d_key = rows.result("d_key_index", key_index.shape, "float32").unbatch(rows.packed)
    d_weights = rows.result("d_weights", (*weights.shape[:-1], heads + behind), "float32").cut(-1, heads)
    outputs = {
        "d_query_index": rows.result("d_query_index", query_index.shape, query_index.dtype).unbatch(rows.packed),
        "d_key_index": d_key.cast(key_index.dtype),
        "d_weights": d_weights.unbatch(rows.packed).cast(weights.dtype),
        "loss": rows.result("row_loss", (*rows.lead, 8), "float32").cut(-1, 1).sum(),
    }
    return Steps(inputs, rows.attributes(), outputs)
