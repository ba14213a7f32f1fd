#include "split_plan.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "kiln/graph/sizes.h"

namespace kiln::client {
namespace {

using graph::Expr;
using graph::kNone;
using graph::Plan;
using graph::PlannedArgument;
using graph::PlannedBuffer;
using graph::PlannedLaunch;
using Home = PlannedBuffer::Home;

// Launches that run together: one, or those of a loop that is in no other.
struct Unit {
  uint32_t first = 0, count = 0;
  bool is_once = true;
};

class Splitter {
 public:
  Splitter(const Plan& plan, std::span<const uint32_t> bound, const dsl::Bindings& sizes, size_t constants)
      : plan_(plan),
        bound_(bound),
        sizes_(sizes),
        constants_(static_cast<uint32_t>(constants)),
        constant_of_(plan.inputs.size(), kNone),
        varies_(plan.buffers.size(), false),
        kept_as_(plan.buffers.size(), kNone) {
    for (size_t i = 0; i < bound.size(); ++i) constant_of_[bound[i]] = constants_ + static_cast<uint32_t>(i);
  }

  SplitPlan run() {
    make_units();
    for (bool more = true; more;) {
      more = false;
      for (Unit& unit : units_) {
        if (!unit.is_once || may_run_once(unit)) continue;
        unit.is_once = false;
        for_buffers(unit, [&](uint32_t buffer, bool writes) { varies_[buffer] = varies_[buffer] || writes; });
        more = true;
      }
    }
    find_kept();
    SplitPlan out;
    out.once = once(out.once_kernels);
    out.rest = rest(out.rest_kernels);
    return out;
  }

 private:
  void make_units() {
    size_t loop = 0;
    for (uint32_t i = 0; i < plan_.launches.size(); i += units_.back().count) {
      while (loop < plan_.loops.size() && plan_.loops[loop].first < i) ++loop;
      const bool is_loop = loop < plan_.loops.size() && plan_.loops[loop].first == i;
      units_.push_back({i, is_loop ? plan_.loops[loop].count : 1});
    }
  }

  template <class Visit>  // (buffer, whether it may be written)
  void for_buffers(const Unit& unit, const Visit& visit) const {
    for (uint32_t i = unit.first; i < unit.first + unit.count; ++i) {
      const PlannedLaunch& launch = plan_.launches[i];
      const auto& params = plan_.kernels[launch.kernel].kernel.params;
      for (size_t a = 0; a < launch.arguments.size(); ++a) {
        const PlannedArgument& argument = launch.arguments[a];
        if (argument.kind == PlannedArgument::Kind::kBuffer) visit(argument.buffer, !params[a].readonly);
      }
    }
  }

  // Counters of loops stand behind the dims, and run with their loop.
  bool is_known(const Expr& expr) const {
    return std::ranges::all_of(graph::mentioned_dims(expr), [&](uint32_t dim) {
      return dim >= plan_.dims.size() || sizes_.constexprs[dim].has_value();
    });
  }

  bool may_run_once(const Unit& unit) const {
    for (uint32_t i = unit.first; i < unit.first + unit.count; ++i) {
      for (const PlannedArgument& argument : plan_.launches[i].arguments) {
        if (!is_known(argument.offset) || !is_known(argument.scalar)) return false;
      }
    }
    for (const graph::PlannedLoop& loop : plan_.loops) {
      const bool is_here = loop.first >= unit.first && loop.first < unit.first + unit.count;
      if (is_here && !is_known(loop.length)) return false;
    }
    bool may = true;
    for_buffers(unit, [&](uint32_t number, bool) {
      const PlannedBuffer& buffer = plan_.buffers[number];
      const bool is_free_input = buffer.home == Home::kInput && constant_of_[buffer.index] == kNone;
      const bool changes = is_free_input || buffer.home == Home::kOutput || varies_[number];
      may = may && !changes && is_known(buffer.bytes);
    });
    return may;
  }

  // Buffers of the arena that are written once, and that launches of later runs read.
  void find_kept() {
    std::vector<bool> is_written_once(plan_.buffers.size(), false);
    for (const Unit& unit : units_) {
      for_buffers(unit, [&](uint32_t buffer, bool writes) {
        if (unit.is_once) {
          is_written_once[buffer] = is_written_once[buffer] || writes;
          return;
        }
        const bool is_kept = is_written_once[buffer] && plan_.buffers[buffer].home == Home::kArena;
        if (is_kept && kept_as_[buffer] == kNone) {
          kept_as_[buffer] = static_cast<uint32_t>(kept_.size());
          kept_.push_back(buffer);
        }
      });
    }
  }

  Plan frame() const {
    Plan out;
    out.name = plan_.name;
    out.target = plan_.target;
    out.dims = plan_.dims;
    return out;
  }

  Plan once(std::vector<uint32_t>& kernels) const {
    Plan out = frame();
    for (const uint32_t buffer : kept_) {
      out.outputs.push_back({"a buffer that is kept", {dsl::ElementType::kU8, {plan_.buffers[buffer].bytes}}});
      out.in_place.push_back(kNone);
    }
    add_launches(out, true, kernels, [&](uint32_t number) {
      PlannedBuffer buffer = with_constants(plan_.buffers[number]);
      if (kept_as_[number] != kNone) return PlannedBuffer{Home::kOutput, kept_as_[number], {}, buffer.bytes};
      return buffer;
    });
    lay_out(out);
    return out;
  }

  // One behind the other, since places in the whole arena may depend on sizes that are not known.
  void lay_out(Plan& out) const {
    for (PlannedBuffer& buffer : out.buffers) {
      if (buffer.home != Home::kArena) continue;
      const Expr bytes = buffer.bytes.substitute(sizes_), unit(graph::kArenaAlignment);
      buffer.offset = out.arena_bytes;
      out.arena_bytes =
          out.arena_bytes + Expr::apply(dsl::AtomKind::kDiv, bytes + (graph::kArenaAlignment - 1), unit) * unit;
    }
  }

  Plan rest(std::vector<uint32_t>& kernels) const {
    Plan out = frame();
    out.outputs = plan_.outputs;
    std::vector<uint32_t> input_of(plan_.inputs.size(), kNone);
    for (uint32_t i = 0; i < plan_.inputs.size(); ++i) {
      if (constant_of_[i] != kNone) continue;
      input_of[i] = static_cast<uint32_t>(out.inputs.size());
      out.inputs.push_back(plan_.inputs[i]);
      for (Expr& extent : out.inputs.back().type.shape) extent = extent.substitute(sizes_);
    }
    for (const uint32_t input : plan_.in_place) out.in_place.push_back(input == kNone ? kNone : input_of[input]);
    add_launches(out, false, kernels, [&](uint32_t number) {
      PlannedBuffer buffer = with_constants(plan_.buffers[number]);
      if (buffer.home == Home::kInput) buffer.index = input_of[buffer.index];
      if (kept_as_[number] == kNone) return buffer;
      const auto first = constants_ + static_cast<uint32_t>(bound_.size());
      return PlannedBuffer{Home::kConstant, first + kept_as_[number], {}, buffer.bytes};
    });
    out.arena_bytes = plan_.arena_bytes;
    shrink_arena(out);
    out.log = plan_.log;
    out.log.push_back(bound_text(plan_.launches.size() - out.launches.size()));
    return out;
  }

  std::string bound_text(size_t launches) const {
    std::string names;
    for (const uint32_t input : bound_) names += (names.empty() ? "" : ", ") + plan_.inputs[input].name;
    return "bound: " + (names.empty() ? "nothing" : names) + "; " + std::to_string(launches) +
           (launches == 1 ? " launch" : " launches") + " of the plan ran once, and " + std::to_string(kept_.size()) +
           (kept_.size() == 1 ? " buffer is kept" : " buffers are kept");
  }

  PlannedBuffer with_constants(PlannedBuffer buffer) const {
    if (buffer.home != Home::kInput || constant_of_[buffer.index] == kNone) return buffer;
    return {Home::kConstant, constant_of_[buffer.index], {}, std::move(buffer.bytes)};
  }

  // The launches of a half with the kernels, buffers and loops that they have.
  template <class Buffer>
  void add_launches(Plan& out, bool once, std::vector<uint32_t>& used, const Buffer& buffer_of) const {
    std::vector<uint32_t> kernels(plan_.kernels.size(), kNone), buffers(plan_.buffers.size(), kNone);
    for (const Unit& unit : units_) {
      if (unit.is_once != once) continue;
      for (const graph::PlannedLoop& loop : plan_.loops) {
        if (loop.first < unit.first || loop.first >= unit.first + unit.count) continue;
        out.loops.push_back(loop);
        out.loops.back().first += static_cast<uint32_t>(out.launches.size()) - unit.first;
      }
      for (uint32_t i = unit.first; i < unit.first + unit.count; ++i) {
        PlannedLaunch launch = plan_.launches[i];
        if (kernels[launch.kernel] == kNone) {
          kernels[launch.kernel] = static_cast<uint32_t>(out.kernels.size());
          out.kernels.push_back(plan_.kernels[launch.kernel]);
          used.push_back(launch.kernel);
        }
        launch.kernel = kernels[launch.kernel];
        for (PlannedArgument& argument : launch.arguments) {
          if (argument.kind != PlannedArgument::Kind::kBuffer) continue;
          uint32_t& here = buffers[argument.buffer];
          if (here == kNone) {
            here = static_cast<uint32_t>(out.buffers.size());
            out.buffers.push_back(buffer_of(argument.buffer));
          }
          argument.buffer = here;
        }
        out.launches.push_back(std::move(launch));
      }
    }
  }

  // To where the last of its buffers ends, if that is a number.
  static void shrink_arena(Plan& out) {
    int64_t end = 0;
    for (const PlannedBuffer& buffer : out.buffers) {
      if (buffer.home != Home::kArena) continue;
      const auto offset = buffer.offset.as_constant(), bytes = buffer.bytes.as_constant();
      if (!offset || !bytes) return;
      end = std::max(end, *offset + *bytes);
    }
    out.arena_bytes = Expr((end + graph::kArenaAlignment - 1) / graph::kArenaAlignment * graph::kArenaAlignment);
  }

  const Plan& plan_;
  const std::span<const uint32_t> bound_;
  const dsl::Bindings& sizes_;
  const uint32_t constants_;
  std::vector<uint32_t> constant_of_;  // by input; kNone: not bound
  std::vector<bool> varies_;           // by buffer: launches of each run write to it
  std::vector<uint32_t> kept_as_;      // by buffer: number in kept_, or kNone
  std::vector<uint32_t> kept_;
  std::vector<Unit> units_;
};

}  // namespace

SplitPlan split_plan(const Plan& plan, std::span<const uint32_t> bound, const dsl::Bindings& sizes, size_t constants) {
  return Splitter(plan, bound, sizes, constants).run();
}

}  // namespace kiln::client
