#include "run_plan.h"

#include <functional>

#include "kiln/dsl/conditions.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/instantiate.h"

namespace kiln::test {
namespace {

// With the blocks that are the defaults of `target`.
Result<void> interpret_kernel(const graph::PlannedKernel& planned, const std::string& target,
                              std::span<const dsl::Argument> arguments) {
  auto values = dsl::complete_constexprs(planned.kernel, planned.constexprs, target);
  if (!values) return values.error();
  auto concrete = dsl::instantiate(planned.kernel, *values, {});
  if (!concrete) return concrete.error();
  dsl::Bindings bindings;
  dsl::bind_ints(*concrete, arguments, bindings.params);
  auto grid = dsl::evaluate_grid(concrete->grid, bindings, &*concrete);
  if (!grid) return grid.error();
  return dsl::interpret(*concrete, arguments, *grid);
}

}  // namespace

Result<std::vector<graph::Array>> run_plan(const graph::Plan& plan, std::span<const graph::Array> inputs,
                                           const std::map<std::string, int64_t>& sizes, const LaunchKernel& launch) {
  dsl::Bindings dims;  // then the counters of loops
  for (const graph::DimInfo& dim : plan.dims) {
    const auto size = sizes.find(dim.name);
    dims.constexprs.push_back(size == sizes.end() ? std::optional<int64_t>() : size->second);
  }
  dims.constexprs.resize(plan.dims.size() + graph::kMostCounters);
  const auto number = [&](const dsl::Expr& expr) { return expr.evaluate(dims); };
  std::vector<graph::Array> outputs;
  for (const graph::PlannedTensor& output : plan.outputs) {
    std::vector<int64_t> shape;
    for (const dsl::Expr& extent : output.type.shape) {
      auto here = number(extent);
      if (!here) return here.error();
      shape.push_back(*here);
    }
    outputs.push_back(graph::own(output.type.element, shape));
    std::fill(outputs.back().storage->begin(), outputs.back().storage->end(), std::byte{0x5a});
  }
  auto arena_bytes = number(plan.arena_bytes);
  if (!arena_bytes) return arena_bytes.error();
  std::vector<std::byte> arena(static_cast<size_t>(*arena_bytes), std::byte{0xa5});
  const auto run_one = [&](const graph::PlannedLaunch& each) -> Result<void> {
    const graph::PlannedKernel& kernel = plan.kernels[each.kernel];
    std::vector<dsl::Argument> arguments;
    for (size_t i = 0; i < each.arguments.size(); ++i) {
      const graph::PlannedArgument& argument = each.arguments[i];
      if (argument.kind == graph::PlannedArgument::Kind::kScalar) {
        auto value = number(argument.scalar);
        if (!value) return value.error();
        arguments.push_back({.bits = static_cast<uint64_t>(*value)});
        continue;
      }
      const graph::PlannedBuffer& buffer = plan.buffers[argument.buffer];
      auto bytes = number(buffer.bytes), offset = number(buffer.offset), inside = number(argument.offset);
      if (!bytes || !offset || !inside) return internal_error("a buffer of the plan has no size");
      std::byte* base = nullptr;
      switch (buffer.home) {
        case graph::PlannedBuffer::Home::kInput:
          base = const_cast<std::byte*>(inputs[buffer.index].data);
          break;
        case graph::PlannedBuffer::Home::kOutput:
          base = outputs[buffer.index].storage->data();
          break;
        case graph::PlannedBuffer::Home::kArena:
          if (*offset < 0 || *offset + *bytes > *arena_bytes) return internal_error("a buffer beyond the arena");
          base = arena.data() + *offset;
          break;
        case graph::PlannedBuffer::Home::kConstant:
          base = const_cast<std::byte*>(plan.constants[buffer.index].data());
          break;
      }
      const int64_t element = std::max(1, dsl::info(kernel.kernel.params[i].type.element).bits / 8);
      arguments.push_back({.data = base + *inside, .extent = (*bytes - *inside) / element});
    }
    if (auto done = launch ? launch(kernel, arguments) : interpret_kernel(kernel, plan.target, arguments); !done) {
      Error failure = done.error();
      failure.message = "launch `" + each.name + "`: " + failure.message;
      return failure;
    }
    return {};
  };
  // Launches [first, last), and the loops among them from the given one on.
  const std::function<Result<void>(uint32_t, uint32_t, size_t)> run_range = [&](uint32_t first, uint32_t last,
                                                                                size_t loop) -> Result<void> {
    for (uint32_t i = first; i < last;) {
      while (loop < plan.loops.size() && plan.loops[loop].first < i) ++loop;
      if (loop == plan.loops.size() || plan.loops[loop].first != i) {
        if (auto done = run_one(plan.launches[i++]); !done) return done;
        continue;
      }
      const graph::PlannedLoop& here = plan.loops[loop++];
      auto length = number(here.length);
      if (!length) return length.error();
      for (int64_t pass = 0; pass < *length; ++pass) {
        dims.constexprs[plan.dims.size() + here.counter] = pass;
        if (auto done = run_range(here.first, here.first + here.count, loop); !done) return done;
      }
      i += here.count;
    }
    return {};
  };
  if (auto done = run_range(0, static_cast<uint32_t>(plan.launches.size()), 0); !done) return done.error();
  return outputs;
}

}  // namespace kiln::test
