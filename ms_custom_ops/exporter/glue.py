# SPDX-License-Identifier: Apache-2.0
"""The op in MindSpore: by ops.Custom, and in the layout of MindSpore's own package of operators."""

from __future__ import annotations

from ms_custom_ops.exporter import host
from ms_custom_ops.exporter.kernel import CaseFacts
from ms_custom_ops.exporter.model import Subject

PACKAGE = "ms_custom_ops_package"
_YAML = {"int": "int", "float": "float", "bool": "bool", "str": "str"}
_GLUE_KIND = {"int": "int64_t", "float": "double", "bool": "bool", "str": "std::string"}


def custom_op(subject: Subject) -> str:
    """A module with the op as ``ops.Custom``; an object for each case, since shapes and dtypes are those of a case."""
    shapes = [f"    {case.name!r}: ({[t.shape for t in case.outputs]!r}, {[t.dtype for t in case.outputs]!r}),"
              for case in subject.cases]  # fmt: skip
    return "\n".join([
        f'"""{subject.type} in MindSpore on an Ascend, from the installed vendor package. Not run here."""', "",
        "import mindspore as ms", "from mindspore import ops", "", "OUTPUTS = {", *shapes, "}", "", "",
        "class Op(ms.nn.Cell):",
        f'    """{subject.type} for one of the cases that were exported."""', "",
        "    def __init__(self, case):", "        super().__init__()", "        shapes, dtypes = OUTPUTS[case]",
        "        types = tuple(getattr(ms, dtype) for dtype in dtypes)",
        "        one = len(shapes) == 1",
        f'        self.op = ops.Custom("aclnn{subject.type}", out_shape=shapes[0] if one else tuple(shapes),',
        '                             out_dtype=types[0] if one else types, func_type="aot")', "",
        "    def construct(self, *arguments):  # tensors, then attributes, in the order of the OpDef",
        "        return self.op(*arguments)", "",
    ])  # fmt: skip


def package(subject: Subject, kernel: str, facts: dict[str, CaseFacts]) -> dict[str, str]:
    """Files by name: the same sources, split as that package wants them, with yaml and glue."""
    entry = subject.entry
    src, out = f"{PACKAGE}/ops/ascendc/aclnn_src/{entry}", f"{PACKAGE}/ops/ascendc/ms_glue/{entry}"
    tiling = [f'#include "{entry}_tiling.h"', f'#include "{entry}_cases.h"', "",
              '#include "register/op_def_registry.h"',
              '#include "tiling/platform/platform_ascendc.h"', "", host.tiling_function(subject),
              f"namespace optiling {{\nIMPL_OP_OPTILING({subject.type}).Tiling(TilingFunc);\n}}\n"]  # fmt: skip
    proto = [f'#include "{entry}_cases.h"', "", '#include "register/op_impl_registry.h"', "",
             host.infer_functions(subject),
             f"namespace ge {{\nIMPL_OP_INFERSHAPE({subject.type})\n    .InferShape(InferShape)\n"
             "    .InferDataType(InferDataType);\n}  // namespace ge\n"]  # fmt: skip
    definition = ['#include "register/op_def_registry.h"', "", host.definition(subject, False)]
    return {
        f"{src}/CMakeLists.txt": "\n".join([
            f"set(OP_PREFIX {entry})", "target_sources(op_host_aclnn PRIVATE op_host/${OP_PREFIX}_def.cpp)",
            "target_sources(optiling PRIVATE op_host/${OP_PREFIX}_tiling.cpp)",
            "target_sources(opsproto PRIVATE op_host/${OP_PREFIX}_proto.cpp)", "",
        ]),
        f"{src}/op_host/{entry}_tiling.h": host.tiling_header(subject),
        f"{src}/op_host/{entry}_cases.h": host.cases_header(subject, facts),
        f"{src}/op_host/{entry}_tiling.cpp": "\n".join(tiling),
        f"{src}/op_host/{entry}_proto.cpp": "\n".join(proto),
        f"{src}/op_host/{entry}_def.cpp": "\n".join(definition),
        f"{src}/op_kernel/{entry}.cpp": kernel,
        f"{out}/{entry}_op.yaml": _yaml(subject),
        f"{out}/{entry}.cc": _glue(subject),
    }  # fmt: skip


def _yaml(subject: Subject) -> str:
    lines = [f"# operator {subject.entry}", f"{subject.entry}:", "  args:"]
    for p in subject.inputs:
        lines += [f"    {p.name}:", "      dtype: tensor", *(["      default: None"] if p.optional else [])]
    for a in subject.attributes:
        lines += [f"    {a.name}:", f"      dtype: {_YAML[a.kind]}"]
        lines += [f"      default: {a.default!r}"] if a.has_default else []
    if subject.in_place:
        lines += ["  args_signature:", f"    rw_write: {', '.join(subject.in_place)}"]
        lines += ["  labels:", "    side_effect_mem: True"]
    lines.append("  returns:")
    for name in _returned(subject) or ["fake_out"]:
        lines += [f"    {name}:", "      dtype: tensor"]
    return "\n".join([*lines, ""])


def _returned(subject: Subject) -> list[str]:
    """Outputs that are tensors of their own. An op that has none returns a tensor that is nothing."""
    return [p.name for p in subject.outputs if p.name not in subject.in_place]


def _shapes(subject: Subject) -> str:
    """C++ that lists the shapes of what is returned."""
    places = [i for i, p in enumerate(subject.outputs) if p.name not in subject.in_place]
    if not places:
        return "      shapes.push_back({1});"
    every = f"int i = 0; i < {len(places)}; ++i"
    loop = f"int i : {{{', '.join(map(str, places))}}}" if subject.in_place else every
    made = "wanted.outputs[i].sizes, wanted.outputs[i].sizes + wanted.outputs[i].axes"
    return f"      for ({loop}) {{\n        shapes.emplace_back({made});\n      }}"


def _glue(subject: Subject) -> str:
    count, names = len(_returned(subject)), [p.name for p in subject.inputs]
    types = [_output_type(subject, i) for i, p in enumerate(subject.outputs) if p.name not in subject.in_place]
    attributes = [a.name for a in subject.attributes]
    return f"""\
// {subject.type} in the graph mode of MindSpore's package of operators, after its public layout. Not compiled here.
#include <memory>
#include <string>
#include <vector>

#include "ops/ascendc/aclnn_src/{subject.entry}/op_host/{subject.entry}_cases.h"
#include "ops/framework/aclnn/graphmode/aclnn_kernel_mod.h"
#include "ops/framework/utils.h"

namespace ms_custom_ops {{
class {subject.type}OpFuncImpl : public OpFuncImpl {{
 public:
  ShapeArray InferShape(const PrimitivePtr &primitive, const InferInfoPtrList &infos) const override {{
    (void)primitive;
    for (const auto &wanted : {subject.entry}_cases::CASES) {{
      if (!Fits(infos, wanted)) continue;
      ShapeArray shapes;
{_shapes(subject)}
      return shapes;
    }}
    MS_LOG(EXCEPTION) << "{subject.type}: no case of these shapes was exported";
  }}
  std::vector<TypeId> InferType(const PrimitivePtr &primitive, const InferInfoPtrList &infos) const override {{
    (void)primitive;
    return {{{", ".join(types) or "infos[0]->GetType()"}}};
  }}
  bool GeneralInferRegistered() const override {{ return true; }}

 private:
  static bool Fits(const InferInfoPtrList &infos, const {subject.entry}_cases::Case &wanted) {{
    for (int i = 0; i < {subject.entry}_cases::INPUTS; ++i) {{
      const auto &tensor = wanted.inputs[i];
      if (infos[i]->IsNone() != (tensor.axes < 0)) return false;
      const ShapeVector sizes(tensor.sizes, tensor.sizes + (tensor.axes < 0 ? 0 : tensor.axes));
      if (tensor.axes >= 0 && infos[i]->GetShape() != sizes) return false;
    }}
    return true;
  }}
}};

class {subject.type} : public AclnnCustomKernelMod {{
 public:
  {subject.type}() : AclnnCustomKernelMod("aclnn{subject.type}") {{}}

  bool Launch(const std::vector<KernelTensor *> &inputs, const std::vector<KernelTensor *> &workspace,
              const std::vector<KernelTensor *> &outputs, void *stream_ptr) override {{
    RunOp(stream_ptr, workspace, {_arguments(names, attributes, count)});
    return true;
  }}
  void GetWorkSpaceInfo(const std::vector<KernelTensor *> &inputs,
                        const std::vector<KernelTensor *> &outputs) override {{
{_attributes(subject, len(names))}\
    GetWorkspaceForResize({_arguments(names, attributes, count)});
  }}

 private:
  DEFINE_GET_WORKSPACE_FOR_RESIZE();
{"".join(f"  {_GLUE_KIND[a.kind]} {a.name}_;{chr(10)}" for a in subject.attributes)}\
}};
}}  // namespace ms_custom_ops

REG_GRAPH_MODE_OP({subject.entry}, ms_custom_ops::{subject.type}OpFuncImpl, ms_custom_ops::{subject.type});
"""


def _output_type(subject: Subject, index: int) -> str:
    """An output's type: that of the first input that it always agrees with, else a constant."""
    name = subject.outputs[index].name
    for k, p in enumerate(subject.inputs):
        if not p.optional and all(row[p.name] == row[name] for row in subject.rows):
            return f"infos[{k}]->GetType()"
    kinds = {"float32": "kNumberTypeFloat32", "float16": "kNumberTypeFloat16", "bfloat16": "kNumberTypeBFloat16",
             "int32": "kNumberTypeInt32", "int64": "kNumberTypeInt64", "uint8": "kNumberTypeUInt8",
             "int8": "kNumberTypeInt8",
             "bool": "kNumberTypeBool", "int16": "kNumberTypeInt16", "uint16": "kNumberTypeUInt16",
             "uint32": "kNumberTypeUInt32", "uint64": "kNumberTypeUInt64"}  # fmt: skip
    return kinds[subject.rows[0][name]]


def _arguments(names: list[str], attributes: list[str], outputs: int) -> str:
    given = [f"inputs[{i}]" for i in range(len(names))] + [f"{a}_" for a in attributes]
    return ", ".join([*given, *(f"outputs[{i}]" for i in range(outputs))])


def _attributes(subject: Subject, first: int) -> str:
    return "".join(
        f"    {a.name}_ = inputs[{first + i}]->GetValueWithCheck<{_GLUE_KIND[a.kind]}>();\n"
        for i, a in enumerate(subject.attributes)
    )
