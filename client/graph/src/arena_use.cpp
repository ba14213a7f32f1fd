#include "arena_use.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "graph_state.h"
#include "kiln/graph/sizes.h"

namespace kiln::client {
namespace {

using graph::kNone;
using graph::Plan;

uint64_t rounded(uint64_t bytes) {
  constexpr auto kUnit = static_cast<uint64_t>(graph::kArenaAlignment);
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

// The launches that a launch may run among.
std::pair<uint32_t, uint32_t> span_of(const Plan& plan, uint32_t launch) {
  for (const graph::PlannedLoop& loop : plan.loops) {
    if (loop.first <= launch && launch < loop.first + loop.count) return {loop.first, loop.first + loop.count - 1};
  }
  return {launch, launch};
}

bool lives_at(const ArenaValue& value, uint32_t launch) { return value.first <= launch && launch <= value.last; }

void add_values(const Plan& plan, const SizedPlan& sized, ArenaUse& out) {
  std::vector<uint32_t> number(plan.buffers.size(), kNone);
  for (uint32_t i = 0; i < plan.launches.size(); ++i) {
    const auto [first, last] = span_of(plan, i);
    const auto& params = plan.kernels[plan.launches[i].kernel].kernel.params;
    for (size_t a = 0; a < params.size(); ++a) {
      const graph::PlannedArgument& argument = plan.launches[i].arguments[a];
      if (argument.kind != graph::PlannedArgument::Kind::kBuffer) continue;
      if (plan.buffers[argument.buffer].home != graph::PlannedBuffer::Home::kArena) continue;
      uint32_t& here = number[argument.buffer];
      if (here == kNone) {
        here = static_cast<uint32_t>(out.values.size());
        const SizedPlan::Buffer& buffer = sized.buffers[argument.buffer];
        out.values.push_back({first, last, kNone, buffer.offset, buffer.bytes});
      }
      ArenaValue& value = out.values[here];
      value.last = last;
      if (value.writer == kNone && !params[a].readonly) value.writer = i;
    }
  }
  for (ArenaValue& value : out.values) value.writer = value.writer == kNone ? value.first : value.writer;
  std::ranges::sort(out.values, {}, [](const ArenaValue& value) { return std::tuple(value.first, value.offset); });
}

}  // namespace

ArenaUse arena_use(const Plan& plan, const SizedPlan& sized) {
  ArenaUse out;
  add_values(plan, sized, out);
  out.live.assign(plan.launches.size(), 0);
  for (const ArenaValue& value : out.values) {
    for (uint32_t i = value.first; i <= value.last; ++i) out.live[i] += rounded(value.bytes);
  }
  if (out.live.empty()) return out;
  out.peak = static_cast<uint32_t>(std::ranges::max_element(out.live) - out.live.begin());
  for (size_t i = 0; i < out.values.size(); ++i) {
    if (lives_at(out.values[i], out.peak)) out.largest.push_back(i);
  }
  std::ranges::stable_sort(out.largest, std::ranges::greater(), [&](size_t i) { return out.values[i].bytes; });
  if (out.largest.size() > 3) out.largest.resize(3);
  return out;
}

std::string largest_text(const Plan& plan, const ArenaUse& use) {
  std::string out;
  for (const size_t i : use.largest) {
    out += (out.empty() ? "" : "; ") + std::to_string(use.values[i].bytes) + " bytes of " +
           launch_text(plan, use.values[i].writer);
  }
  return out;
}

namespace {

// A line a value, with a column a launch, or one for several.
class Timeline {
 public:
  Timeline(const Plan& plan, const SizedPlan& sized) : plan_(plan), sized_(sized), use_(arena_use(plan, sized)) {}

  std::string run() {
    std::string out = "graph " + plan_.name + ": arena of " + std::to_string(sized_.arena_bytes) + " bytes for " +
                      std::to_string(use_.values.size()) + (use_.values.size() == 1 ? " value" : " values") + "; " +
                      std::to_string(sized_.output_bytes) + " bytes of results\n";
    if (use_.values.empty()) return out;
    out += "most at " + launch_text(plan_, use_.peak) + ": " + std::to_string(use_.live[use_.peak]) + " bytes live\n";
    for (const size_t i : use_.largest) {
      out +=
          "  " + std::to_string(use_.values[i].bytes) + " bytes of " + launch_text(plan_, use_.values[i].writer) + "\n";
    }
    out += "\n" + header() + "\n";
    for (const ArenaValue& value : use_.values) out += line(value) + "\n";
    return out;
  }

 private:
  static constexpr size_t kMostColumns = 64;

  size_t per_column() const { return (plan_.launches.size() + kMostColumns - 1) / kMostColumns; }
  size_t columns() const { return (plan_.launches.size() + per_column() - 1) / per_column(); }

  // In front of the columns: "offset bytes".
  static std::string padded(const std::string& text) {
    return std::string(text.size() < 14 ? 14 - text.size() : 0, ' ') + text;
  }
  std::string header() const {
    const std::string what =
        per_column() == 1 ? "a column a launch" : std::to_string(per_column()) + " launches a column";
    std::string out = padded("offset") + padded("bytes") + "  " + std::string(columns(), ' ') + "  (" + what + ")\n";
    out += padded("") + padded("most") + "  ";
    for (size_t column = 0; column < columns(); ++column) out += column == use_.peak / per_column() ? 'v' : ' ';
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
  }
  std::string line(const ArenaValue& value) const {
    std::string out = padded(std::to_string(value.offset)) + padded(std::to_string(value.bytes)) + "  ";
    for (size_t column = 0; column < columns(); ++column) {
      const size_t first = column * per_column(), last = first + per_column() - 1;
      out += value.first <= last && first <= value.last ? '#' : '.';
    }
    return out + "  " + launch_text(plan_, value.writer);
  }

  const Plan& plan_;
  const SizedPlan& sized_;
  const ArenaUse use_;
};

}  // namespace

Result<std::string> CompiledGraph::memory_timeline(const std::map<std::string, int64_t>& sizes) const {
  if (!state_) return invalid_argument("timeline of an empty handle of a graph");
  const Plan& plan = state_->plan;
  std::map<std::string, int64_t> known = sizes;
  for (const std::string& dim : state_->unused_dims) known.erase(dim);
  known.insert(state_->bound.sizes.begin(), state_->bound.sizes.end());
  auto dims = graph::bind_sizes(plan.name, plan.dims, {}, {}, known);
  if (!dims) return dims.error();
  std::vector<std::vector<int64_t>> shapes;
  std::vector<graph::GivenTensor> inputs;
  for (const graph::PlannedTensor& input : plan.inputs) {
    std::vector<int64_t>& shape = shapes.emplace_back();
    for (const graph::Expr& extent : input.type.shape) {
      auto size = extent.evaluate(*dims);
      if (!size) return invalid_argument("input `" + input.name + "`: the sizes of its dims are not all given");
      shape.push_back(*size);
    }
  }
  for (size_t i = 0; i < shapes.size(); ++i) inputs.push_back({plan.inputs[i].type.element, shapes[i]});
  auto sized = size_plan(plan, state_->constant_bytes, inputs, known);
  if (!sized) return sized.error();
  return Timeline(plan, **sized).run();
}

}  // namespace kiln::client
