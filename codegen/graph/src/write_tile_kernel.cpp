// A tile kernel of the user's as a node: launched as it is, or as the code that the user has for the target, on results
// that are zeros where it does not write.
#include "kernel_writer.h"

namespace kiln::planner {

using graph::TileKernel;

Result<WrittenGroup> write_tile_kernel(const GroupContext& context) {
  const graph::Graph& graph = context.graph;
  const graph::Node& node = graph.main().nodes[context.group().anchors[0]];
  const TileKernel& tile = graph.kernels[static_cast<size_t>(graph::int_attr(graph.attrs(node), 0))];
  const auto operands = graph.main().operands_of(node);
  WrittenGroup out;
  for (uint32_t i = 0; i < node.result_count; ++i) {
    const graph::TensorType& type = context.type(node.first_result + i);
    if (graph::element_count(type.shape) == Expr()) continue;
    auto zeros = write_zeros(context, node.first_result + i, type);
    if (!zeros) return zeros.error();
    out.kernels.push_back(std::move(*zeros));
  }
  WrittenKernel launched{{tile.kernel, {}}, {}};
  if (const dsl::CustomCode* code = tile.code_for(context.target)) {
    launched.kernel.kernel = dsl::declaration_of(tile.kernel);
    launched.kernel.code = *code;
  } else if (const std::string why = tile.no_ops(); !why.empty()) {
    return error(ErrorCode::kCompileFailed, "`" + tile.kernel.name + "` " + why + " that run elsewhere");
  }
  for (const TileKernel::Argument& argument : tile.arguments) {
    switch (argument.kind) {
      case TileKernel::Argument::Kind::kOperand:
        launched.arguments.push_back({.tensor = operands[argument.index]});
        break;
      case TileKernel::Argument::Kind::kResult:
        launched.arguments.push_back({.tensor = node.first_result + argument.index});
        break;
      case TileKernel::Argument::Kind::kScalar:
        launched.arguments.push_back({.is_tensor = false, .scalar = argument.scalar});
        break;
    }
  }
  out.kernels.push_back(std::move(launched));
  return out;
}

}  // namespace kiln::planner
