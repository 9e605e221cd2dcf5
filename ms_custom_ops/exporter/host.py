# SPDX-License-Identifier: Apache-2.0
"""Host code: the table of traced cases, tiling, shapes and dtypes, the OpDef."""

from __future__ import annotations

from typing import Any

import numpy as np

from ms_custom_ops.exporter.kernel import CaseFacts
from ms_custom_ops.exporter.model import CONFIG, DATA_TYPE, Attribute, Case, Subject, Tensor

_KIND = {"int": "int64_t", "float": "float", "bool": "bool", "str": "const char*"}
_MAKE = {"int": "Int", "float": "Float", "bool": "Bool", "str": "String"}
_FIELD = {"int": "int64_t", "float": "float"}
MOST_AXES = 8


def compared(subject: Subject) -> list[tuple[int, Attribute]]:
    """Attributes that tell cases apart, with their place in the OpDef."""
    return [(i, a) for i, a in enumerate(subject.attributes) if not a.runtime]


def runtime(subject: Subject) -> list[tuple[int, Attribute]]:
    """Attributes that the kernel gets as tiling data."""
    return [(i, a) for i, a in enumerate(subject.attributes) if a.runtime]


def tiling_header(subject: Subject) -> str:
    """``<entry>_tiling.h``."""
    guard = f"{subject.entry.upper()}_TILING_H"
    fields = [f"TILING_DATA_FIELD_DEF({_FIELD[a.kind]}, {a.name});" for _, a in runtime(subject)]
    return "\n".join([
        f"#ifndef {guard}", f"#define {guard}", "", '#include "register/tilingdata_base.h"', "", "namespace optiling {",
        f"BEGIN_TILING_DATA_DEF({subject.type}TilingData)", "TILING_DATA_FIELD_DEF(uint32_t, blocks);  // of the case",
        *fields, "END_TILING_DATA_DEF;", "", f"REGISTER_TILING_DATA_CLASS({subject.type}, {subject.type}TilingData)",
        "}  // namespace optiling", "", f"#endif  // {guard}", "",
    ])  # fmt: skip


def cases_header(subject: Subject, facts: dict[str, CaseFacts]) -> str:
    """``<entry>_cases.h``: the traced cases, and how a call finds its own."""
    guard = f"{subject.entry.upper()}_CASES_H"
    fields = [f"    {_KIND[a.kind]} {a.name};" for _, a in compared(subject)]
    table = "\n".join(_row(subject, key, case, facts[case.name]) for key, case in enumerate(subject.cases, 1))
    needed = ", ".join("false" if p.optional else "true" for p in subject.inputs)
    conditions = "".join(
        f"\n    if (!({_condition(i, a)})) {{\n        return false;\n    }}" for i, a in compared(subject)
    )
    attributes = "    const auto* attributes = context->GetAttrs();" if compared(subject) else "    (void)context;"
    return f"""\
#ifndef {guard}
#define {guard}

#include <cmath>
#include <cstdint>
#include <cstring>

#include "register/op_def_registry.h"

// Every case was traced for shapes, dtypes and attributes of its own; its number is its tiling key.
namespace {subject.entry}_cases {{
constexpr int INPUTS = {len(subject.inputs)}, OUTPUTS = {len(subject.outputs)}, MOST_AXES = {MOST_AXES};

struct Tensor {{
    ge::DataType dtype;
    int axes;  // -1: it is not there
    int64_t sizes[MOST_AXES];
}};

struct Case {{
    uint64_t key;
    uint32_t blocks;
    uint64_t workspace;
    Tensor inputs[INPUTS];
    Tensor outputs[OUTPUTS];
{chr(10).join(fields)}
}};

constexpr bool NEEDED[INPUTS] = {{{needed}}};
constexpr Case CASES[] = {{
{table}
}};

inline const gert::Shape& Sizes(const gert::Shape& shape) {{ return shape; }}
inline const gert::Shape& Sizes(const gert::StorageShape& shape) {{ return shape.GetStorageShape(); }}

template <class Context>
bool FitsInputs(Context* context, const Case& wanted)
{{
    for (int i = 0; i < INPUTS; ++i) {{
        const Tensor& tensor = wanted.inputs[i];
        const auto* shape = NEEDED[i] ? context->GetRequiredInputShape(i) : context->GetOptionalInputShape(i);
        if (shape == nullptr || tensor.axes < 0) {{
            if (shape != nullptr || tensor.axes >= 0) {{
                return false;
            }}
            continue;
        }}
        const gert::Shape& sizes = Sizes(*shape);
        const auto* desc = NEEDED[i] ? context->GetRequiredInputDesc(i) : context->GetOptionalInputDesc(i);
        if (int(sizes.GetDimNum()) != tensor.axes || desc->GetDataType() != tensor.dtype) {{
            return false;
        }}
        for (int axis = 0; axis < tensor.axes; ++axis) {{
            if (sizes.GetDim(axis) != tensor.sizes[axis]) {{
                return false;
            }}
        }}
    }}
    return true;
}}

template <class Context>
bool FitsAttributes(Context* context, const Case& wanted)
{{
{attributes}
    (void)wanted;{conditions}
    return true;
}}

// The case of a call; null for one that was not traced.
template <class Context>
const Case* Find(Context* context)
{{
    for (const Case& c : CASES) {{
        if (FitsInputs(context, c) && FitsAttributes(context, c)) {{
            return &c;
        }}
    }}
    return nullptr;
}}
}}  // namespace {subject.entry}_cases

#endif  // {guard}
"""


def _condition(index: int, a: Attribute) -> str:
    if a.kind == "str":
        return f"std::strcmp(attributes->GetStr({index}), wanted.{a.name}) == 0"
    return f"*attributes->Get{_MAKE[a.kind]}({index}) == wanted.{a.name}"


def _row(subject: Subject, key: int, case: Case, facts: CaseFacts) -> str:
    inputs, outputs = ({t.name: t for t in side} for side in (case.inputs, case.outputs))
    tensors = inputs | outputs
    row = next((row for row in subject.rows if all(row.get(n, t.dtype) == t.dtype for n, t in tensors.items())), {})
    parts = [", ".join(_tensor(there.get(p.name), row.get(p.name, "float32")) for p in wanted)
             for there, wanted in ((inputs, subject.inputs), (outputs, subject.outputs))]  # fmt: skip
    values = "".join(f", {_value(case.attributes[a.name], a.kind)}" for _, a in compared(subject))
    return (f"    {{{key}, {facts.blocks}, {facts.workspace}, {{{parts[0]}}},  // {case.name}\n"
            f"     {{{parts[1]}}}{values}}},")  # fmt: skip


def _tensor(t: Tensor | None, dtype: str) -> str:
    """A tensor of a case; one that is absent has the dtype of the case's combination: another case may ask for it."""
    if t is None:
        return f"{{{DATA_TYPE[dtype]}, -1, {{}}}}"
    return f"{{{DATA_TYPE[t.dtype]}, {len(t.shape)}, {{{', '.join(map(str, t.shape))}}}}}"


def _value(value: Any, kind: str) -> str:
    if kind == "bool":
        return "true" if value else "false"
    if kind == "str":
        escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if kind == "float":
        text = str(np.float32(value))
        if text in ("inf", "-inf"):
            return text.replace("inf", "INFINITY")
        return f"{text if any(c in text for c in '.en') else text + '.0'}f"
    return f"{int(value)}ll" if abs(int(value)) > (1 << 31) - 1 else str(int(value))


def tiling_function(subject: Subject) -> str:
    """The tiling function, in namespace optiling."""
    copies = "".join(
        f"\n    tiling.set_{a.name}(*context->GetAttrs()->Get{_MAKE[a.kind]}({i}));" for i, a in runtime(subject)
    )
    return f"""\
namespace optiling {{
static ge::graphStatus TilingFunc(gert::TilingContext* context)
{{
    const auto* found = {subject.entry}_cases::Find(context);
    if (found == nullptr) {{
        return ge::GRAPH_FAILED;
    }}
    {subject.type}TilingData tiling;
    tiling.set_blocks(found->blocks);{copies}
    tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
    context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
    context->SetTilingKey(found->key);
    context->SetBlockDim(found->blocks);
    auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    context->GetWorkspaceSizes(1)[0] = platform.GetLibApiWorkSpaceSize() + found->workspace;
    return ge::GRAPH_SUCCESS;
}}
}}  // namespace optiling
"""


def infer_functions(subject: Subject) -> str:
    """Shapes and dtypes of the outputs, in namespace ge."""
    return f"""\
namespace ge {{
static graphStatus InferShape(gert::InferShapeContext* context)
{{
    const auto* found = {subject.entry}_cases::Find(context);
    if (found == nullptr) {{
        return GRAPH_FAILED;
    }}
    for (int i = 0; i < {subject.entry}_cases::OUTPUTS; ++i) {{
        gert::Shape* shape = context->GetOutputShape(i);
        shape->SetDimNum(found->outputs[i].axes);
        for (int axis = 0; axis < found->outputs[i].axes; ++axis) {{
            shape->SetDim(axis, found->outputs[i].sizes[axis]);
        }}
    }}
    return GRAPH_SUCCESS;
}}

static graphStatus InferDataType(gert::InferDataTypeContext* context)
{{
    for (const auto& wanted : {subject.entry}_cases::CASES) {{
        bool fits = true;
        for (int i = 0; i < {subject.entry}_cases::INPUTS; ++i) {{
            const bool there = wanted.inputs[i].axes >= 0;
            fits = fits && (!there || !{subject.entry}_cases::NEEDED[i] ||
                            context->GetRequiredInputDataType(i) == wanted.inputs[i].dtype);
        }}
        if (!fits) {{
            continue;
        }}
        for (int i = 0; i < {subject.entry}_cases::OUTPUTS; ++i) {{
            context->SetOutputDataType(i, wanted.outputs[i].dtype);
        }}
        return GRAPH_SUCCESS;
    }}
    return GRAPH_FAILED;
}}
}}  // namespace ge
"""


def definition(subject: Subject, infers: bool) -> str:
    """The OpDef. ``infers``: with shapes, dtypes and tiling; else they are registered in files of their own."""
    lines = ["namespace ops {", f"class {subject.type} : public OpDef {{", "public:",
             f"    explicit {subject.type}(const char* name) : OpDef(name)", "    {"]  # fmt: skip
    formats = ", ".join(["ge::FORMAT_ND"] * len(subject.rows))
    zeroed = {case.outputs[i].name for case in subject.cases for i, index in enumerate(case.program.outputs)
              if case.program.buffers[index].atomic_init}  # fmt: skip
    for side, parameters in (("Input", subject.inputs), ("Output", subject.outputs)):
        for p in parameters:
            types = ", ".join(DATA_TYPE[row[p.name]] for row in subject.rows)
            need = "OPTIONAL" if p.optional else "REQUIRED"
            start = ".InitValue(0)" if side == "Output" and p.name in zeroed else ""
            lines.append(
                f'        this->{side}("{p.name}").ParamType({need}).DataType({{{types}}})'
                f".Format({{{formats}}}){start};"
            )
    for a in subject.attributes:
        need = "OPTIONAL" if a.has_default else "REQUIRED"
        value = _value(a.default, a.kind) if a.has_default else ""
        lines.append(f'        this->Attr("{a.name}").AttrType({need}).{_MAKE[a.kind]}({value});')
    if infers:
        lines += ["        this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);",
                  "        this->AICore().SetTiling(optiling::TilingFunc);"]  # fmt: skip
    lines += [f'        this->AICore().AddConfig("{CONFIG[subject.family]}");', "    }", "};", "",
              f"OP_ADD({subject.type});", "}  // namespace ops", ""]  # fmt: skip
    return "\n".join(lines)


def host_source(subject: Subject) -> str:
    """``op_host/<entry>.cpp``: all of it."""
    includes = [f'#include "{subject.entry}_tiling.h"', f'#include "{subject.entry}_cases.h"', "",
                '#include "register/op_def_registry.h"',
                '#include "tiling/platform/platform_ascendc.h"', ""]  # fmt: skip
    return "\n".join([*includes, tiling_function(subject), infer_functions(subject), definition(subject, True)])
