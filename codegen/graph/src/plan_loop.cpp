// Loops: the plan of the body is written into that of the graph, and its launches run once a pass.
//
//   launch 0   copy      first value of a carried tensor  ->  slot 0
//   launch 1…  the body  slot pass % 2, slice of xs       ->  slot (pass + 1) % 2, part of ys    length times
//   launch n   copy      slot length % 2                  ->  the result
//
// A slice, and a part of a stack, is a place in the whole: pass times its bytes behind the beginning.
#include "kiln/planner/plan_graph.h"
#include "planner.h"

namespace kiln::planner {

using graph::Node;
using graph::PlannedLaunch;
using graph::PlannedLoop;

namespace {

Expr rounded_up(const Expr& bytes) {
  const Expr unit(graph::kArenaAlignment);
  return Expr::apply(dsl::AtomKind::kDiv, bytes + Expr(graph::kArenaAlignment - 1), unit) * unit;
}

Expr parity(const Expr& number) { return number - Expr::apply(dsl::AtomKind::kDiv, number, Expr(2)) * Expr(2); }

// One that no loop within has.
uint32_t free_counter(const Plan& body) {
  uint32_t out = 0;
  for (const PlannedLoop& loop : body.loops) out = std::max(out, loop.counter + 1);
  return out;
}

}  // namespace

// A copy of so many bytes of one type between two places.
Result<void> Planner::add_move(const graph::TensorType& type, const Place& from, const Place& to, graph::Location loc) {
  Grouping copy;
  copy.group_of.assign(body_.nodes.size(), kNone);
  copy.in_memory.assign(body_.values.size(), true);
  Group group;
  group.domain = type.shape;
  copy.groups.push_back(std::move(group));
  const auto source = static_cast<ValueId>(body_.values.size()), target = source + 1;
  auto written = write_copy({graph_, copy, 0, request_.target}, source, type, target, type.element);
  if (!written) return written.error();
  add_launch(*written, "copy", loc, {{source, from.buffer}, {target, to.buffer}});
  PlannedLaunch& launch = plan_.launches.back();
  launch.moved = Expr(2) * bytes_of(type);
  for (size_t i = 0; i < written->arguments.size(); ++i) {
    if (!written->arguments[i].is_tensor) continue;
    launch.arguments[i].offset = written->arguments[i].tensor == source ? from.offset : to.offset;
  }
  return {};
}

// The launches of a body's plan, with its buffers where `places` says.
void Planner::embed(const Plan& body, const std::vector<Place>& places) {
  const auto first = static_cast<uint32_t>(plan_.launches.size());
  for (const PlannedLaunch& each : body.launches) {
    PlannedLaunch launch = each;
    launch.kernel = kernel_of(body.kernels[each.kernel]);
    launch.ops.clear();
    for (PlannedArgument& argument : launch.arguments) {
      if (argument.kind != PlannedArgument::Kind::kBuffer) continue;
      const Place& place = places[argument.buffer];
      argument.buffer = place.buffer;
      argument.offset = place.offset + argument.offset;
    }
    plan_.launches.push_back(std::move(launch));
  }
  for (PlannedLoop loop : body.loops) {
    loop.first += first;
    plan_.loops.push_back(std::move(loop));
  }
}

Result<void> Planner::add_loop(uint32_t number) {
  const NodeId anchor = grouping_.groups[number].anchors[0];
  const Node& node = body_.nodes[anchor];
  const graph::AttrList& attrs = graph_.attrs(node);
  const auto carried = static_cast<size_t>(graph::int_attr(attrs, 1));
  const auto scanned = static_cast<size_t>(graph::int_attr(attrs, 2));
  const Expr length = graph::expr_attr(attrs, 3);
  const auto operands = body_.operands_of(node);

  Graph inside = graph_;
  inside.bodies[0] = graph_.bodies[static_cast<size_t>(graph::int_attr(attrs, 0))];
  inside.bodies[0].name = body_.name;
  auto body = plan_graph({std::move(inside), request_.target, {.fuse = request_.options.fuse}});
  if (!body) return placed(body.error(), grouping_.groups[number]);
  const uint32_t counter = free_counter(*body);
  if (counter >= graph::kMostCounters) return no_kernel(graph_, anchor);
  const Expr pass = Expr::constexpr_ref(static_cast<uint32_t>(plan_.dims.size()) + counter);
  const Expr slice = graph::flag_attr(attrs, 4) ? length - Expr(1) - pass : pass;

  // Two slots for each carried tensor: a pass reads one and writes the other.
  std::vector<Place> slots;
  std::vector<Expr> slot_bytes;
  for (size_t i = 0; i < carried; ++i) {
    const graph::TensorType& type = graph_.type(body_, operands[i]);
    slot_bytes.push_back(rounded_up(bytes_of(type)));
    slots.push_back({add_buffer({.home = PlannedBuffer::Home::kArena, .bytes = Expr(2) * slot_bytes[i]}), {}});
    if (graph::element_count(type.shape) == Expr()) continue;
    if (auto moved = add_move(type, {buffer_of(operands[i]), {}}, slots[i], node.loc); !moved) return moved;
  }

  const uint32_t arena = add_buffer({.home = PlannedBuffer::Home::kArena, .bytes = body->arena_bytes});
  std::vector<Place> places;
  for (const PlannedBuffer& buffer : body->buffers) {
    const uint32_t i = buffer.index;
    switch (buffer.home) {
      case PlannedBuffer::Home::kInput:
        if (i < carried) {
          places.push_back({slots[i].buffer, parity(pass) * slot_bytes[i]});
        } else {
          const bool is_slice = i < carried + scanned;
          places.push_back({buffer_of(operands[i]), is_slice ? slice * bytes_of(body->inputs[i].type) : Expr()});
        }
        break;
      case PlannedBuffer::Home::kOutput:
        if (i < carried) {
          places.push_back({slots[i].buffer, (Expr(1) - parity(pass)) * slot_bytes[i]});
        } else {
          places.push_back({buffer_of(node.first_result + i), slice * bytes_of(body->outputs[i].type)});
        }
        break;
      case PlannedBuffer::Home::kArena:
        places.push_back({arena, buffer.offset});
        break;
      case PlannedBuffer::Home::kConstant:
        plan_.constants.push_back(body->constants[i]);
        places.push_back({add_buffer({.home = PlannedBuffer::Home::kConstant,
                                      .index = static_cast<uint32_t>(plan_.constants.size() - 1),
                                      .bytes = buffer.bytes}),
                          {}});
        break;
    }
  }
  if (!body->launches.empty()) {
    const auto first = static_cast<uint32_t>(plan_.launches.size());
    const auto count = static_cast<uint32_t>(body->launches.size());
    plan_.log.push_back(std::to_string(first) + " to " + std::to_string(first + count - 1) + ": a loop of " +
                        dsl::to_string(length, graph_.expr_names()) + " passes");
    plan_.loops.push_back({first, count, length, counter});
    embed(*body, places);
  }
  for (size_t i = 0; i < carried; ++i) {
    const graph::TensorType& type = graph_.type(body_, operands[i]);
    if (graph::element_count(type.shape) == Expr()) continue;
    const Place last{slots[i].buffer, parity(length) * slot_bytes[i]};
    const Place result{buffer_of(node.first_result + static_cast<ValueId>(i)), {}};
    if (auto moved = add_move(type, last, result, node.loc); !moved) return moved;
  }
  return {};
}

}  // namespace kiln::planner
