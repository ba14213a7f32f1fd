// A plan for people.
#include <algorithm>

#include "graph_state.h"
#include "kiln/graph/sizes.h"
#include "tune_graph.h"

namespace kiln::client {
namespace {

class Explaining {
 public:
  Explaining(const graph::Plan& plan, const std::map<std::string, int64_t>& sizes) : plan_(plan) {
    sizes_.constexprs.resize(plan.dims.size());
    for (size_t i = 0; i < plan.dims.size(); ++i) {
      if (const auto given = sizes.find(plan.dims[i].name); given != sizes.end()) {
        sizes_.constexprs[i] = given->second;
      }
    }
  }

  std::string run(std::span<const std::string> fallbacks, std::span<const std::string> tuned) {
    out_ = "graph " + plan_.name + " for " + plan_.target.substr(0, plan_.target.find(',')) + ": " +
           count(plan_.launches.size(), "launch", "launches") + " of " +
           count(plan_.kernels.size(), "kernel", "kernels") + ", arena of " + bytes(plan_.arena_bytes) + "\n";
    if (!plan_.launches.empty()) out_ += "\n";
    for (const graph::PlannedLaunch& launch : plan_.launches) rows_.push_back(row(launch));
    write_rows();
    for (const graph::PlannedLoop& loop : plan_.loops) {
      out_ += "\nlaunches " + std::to_string(loop.first) + " to " + std::to_string(loop.first + loop.count - 1) +
              " run " + text(loop.length) + " times";
    }
    if (!plan_.loops.empty()) out_ += "\n";
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      if (plan_.in_place[i] == graph::kNone) continue;
      out_ += "\n" + plan_.outputs[i].name + " may take over the memory of " + plan_.inputs[plan_.in_place[i]].name;
    }
    if (std::ranges::any_of(plan_.in_place, [](uint32_t input) { return input != graph::kNone; })) out_ += "\n";
    if (!plan_.log.empty()) out_ += "\n";
    for (const std::string& line : plan_.log) out_ += line + "\n";
    if (!fallbacks.empty()) out_ += "\n";
    for (const std::string& line : fallbacks) out_ += line + "\n";
    if (!tuned.empty()) out_ += "\n";
    for (const std::string& line : tuned) out_ += line + "\n";
    return std::move(out_);
  }

 private:
  struct Row {
    std::string name, kernel, moved, place;
  };

  static std::string count(size_t number, const char* one, const char* many) {
    return std::to_string(number) + " " + (number == 1 ? one : many);
  }

  // A number where the sizes say one.
  std::string bytes(const graph::Expr& expr) const { return text(expr) + " bytes"; }
  std::string text(const graph::Expr& expr) const {
    const graph::Expr known = expr.substitute(sizes_);
    const dsl::ExprNames names{[this](uint32_t dim) { return plan_.dims[dim].name; },
                               [](uint32_t param) { return "?" + std::to_string(param); }};
    return to_string(known, names);
  }

  Row row(const graph::PlannedLaunch& launch) const {
    return {launch.name, plan_.kernels[launch.kernel].kernel.name, bytes(launch.moved), launch.place};
  }

  void write_rows() {
    size_t name = 0, kernel = 0, moved = 0;
    for (const Row& row : rows_) {
      name = std::max(name, row.name.size());
      kernel = std::max(kernel, row.kernel.size());
      moved = std::max(moved, row.moved.size());
    }
    for (size_t i = 0; i < rows_.size(); ++i) {
      const Row& row = rows_[i];
      std::string line = std::string(4 - std::min<size_t>(3, std::to_string(i).size()), ' ') + std::to_string(i) + "  ";
      line += padded(row.name, name) + "  " + padded(row.kernel, kernel) + "  " + padded(row.moved, moved) + "  " +
              row.place;
      line.erase(line.find_last_not_of(' ') + 1);
      out_ += line + "\n";
    }
  }

  static std::string padded(const std::string& text, size_t width) {
    return text + std::string(width - text.size(), ' ');
  }

  const graph::Plan& plan_;
  dsl::Bindings sizes_;
  std::vector<Row> rows_;
  std::string out_;
};

}  // namespace

std::string CompiledGraph::explain(const std::map<std::string, int64_t>& sizes) const {
  if (!state_) return {};
  return Explaining(state_->plan, sizes).run(state_->fallbacks, tuned_text(*state_));
}

}  // namespace kiln::client
