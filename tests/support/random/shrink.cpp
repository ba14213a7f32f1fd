#include "random/shrink.h"

#include <algorithm>
#include <set>

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/verify.h"
#include "random/edit.h"
#include "random/facts.h"
#include "random/fold.h"

namespace kiln::random_kernel {

using dsl::Expr;
using dsl::Kernel;
using dsl::Op;
using dsl::OpCode;
using dsl::Region;
using dsl::Type;
using dsl::ValueId;

namespace {

class Shrinker {
 public:
  Shrinker(Case test, const std::function<bool(const Case&)>& fails, const ShrinkOptions& options)
      : best_(std::move(test)), fails_(fails), options_(options) {}

  Case run() {
    instantiate_it();
    do {
      shrink_kernel();
      simplify_inputs();
      // With one number everywhere the shape no longer matters.
    } while (fill_inputs());
    drop_parameters();
    return std::move(best_);
  }

 private:
  bool adopt(Case candidate) {
    if (calls_ >= options_.max_calls || !dsl::verify(candidate.kernel)) return false;
    candidate.kernel = dsl::canonicalise(candidate.kernel);
    if (options_.must_interpret && !(output_facts(candidate) && interpreted(candidate))) return false;
    ++calls_;
    if (!fails_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  bool adopt(Kernel kernel) {
    if (kernel.params.size() != best_.kernel.params.size()) return false;  // an edit that did not come about
    Case candidate = best_;
    candidate.kernel = std::move(kernel);
    return adopt(std::move(candidate));
  }

  void shrink_kernel() {
    for (bool smaller = true; smaller && calls_ < options_.max_calls;) {
      smaller = false;
      smaller |= drop_effects();
      smaller |= unwrap();
      smaller |= run_one_program();
      smaller |= drop_operands();
      smaller |= simplify_values();
      smaller |= shorten_extents();
      smaller |= drop_parameters();
    }
  }

  void instantiate_it() {
    auto concrete = instantiated(best_);
    if (!concrete) return;
    concrete->constexprs.clear();
    concrete->options.contract = concrete->options.fuse_precision = false;  // done
    adopt(Case{std::move(*concrete), {}, {}, best_.inputs});
    Kernel plain = best_.kernel;
    plain.options = {false, false, false, false, false};
    adopt(std::move(plain));
  }

  std::vector<Op> ops() const { return ops_of(best_.kernel); }
  std::set<ValueId> used() const { return used_values(best_.kernel); }

  // Halves of what has an effect, quarters, …, one by one; what only they used goes with them.
  bool drop_effects() {
    bool smaller = false;
    auto droppable = [&] { return ops_without_uses(best_.kernel); };
    for (size_t chunk = (droppable().size() + 1) / 2; chunk >= 1; chunk /= 2) {
      for (size_t start = 0;;) {
        const std::vector<size_t> places = droppable();
        if (start >= places.size()) break;
        const auto first = places.begin() + static_cast<ptrdiff_t>(start);
        const auto last = places.begin() + static_cast<ptrdiff_t>(std::min(start + chunk, places.size()));
        if (adopt(without_ops(best_.kernel, {first, last}))) {
          smaller = true;
        } else {
          start += chunk;
        }
      }
    }
    return smaller;
  }

  // `step(place, op)` for every op, from the last; a step that succeeds has renumbered the ops, but not those before.
  template <class Step>
  bool at_each_op(Step step) {
    bool smaller = false;
    for (size_t place = ops().size(); place-- > 0;) {
      const std::vector<Op> all = ops();
      if (place < all.size()) smaller |= step(place, all[place]);
    }
    return smaller;
  }

  bool unwrap() {
    return at_each_op([&](size_t place, const Op& op) {
      if (op.code != OpCode::kFor && op.code != OpCode::kWhile && op.code != OpCode::kIf) return false;
      for (int way = kWays; way-- > 0;) {
        if (adopt(unwrapped(best_.kernel, place, way))) return true;
      }
      return false;
    });
  }

  bool run_one_program() {
    if (best_.kernel.grid == std::array{Expr(1), Expr(1), Expr(1)}) return false;
    Kernel kernel = best_.kernel;
    kernel.grid = {Expr(1), Expr(1), Expr(1)};
    if (adopt(std::move(kernel))) return true;
    bool smaller = false;
    for (size_t axis = 0; axis < 3; ++axis) {
      Kernel one = best_.kernel;
      if (one.grid[axis] == Expr(1)) continue;
      one.grid[axis] = Expr(1);
      smaller |= adopt(std::move(one));
    }
    return smaller;
  }

  // Masks, and what stands for masked lanes.
  bool drop_operands() {
    return at_each_op([&](size_t place, const Op& op) {
      const auto& table = dsl::info(op.code).operands;
      if (op.operands.empty() || op.operands.size() > table.size() || !table[op.operands.size() - 1].optional)
        return false;
      if (op.code == OpCode::kMath || op.code == OpCode::kCast) return false;
      Kernel kernel = best_.kernel;
      at_op(kernel, place, [](Region& region, size_t index) { region.ops[index].operands.pop_back(); });
      return adopt(std::move(kernel));
    });
  }

  // Each result by an operand of its type, else by zeros or ones; an int that can be one number only by that.
  bool simplify_values() {
    return at_each_op([&](size_t place, const Op& op) {
      if (op.code == OpCode::kConstant || op.code == OpCode::kYield) return false;
      const std::vector<bool> frozen = frozen_values(best_.kernel);
      const std::set<ValueId> uses = used();
      bool smaller = false;
      for (size_t i = 0; i < op.results.size() && !smaller; ++i) {
        if (!uses.contains(op.results[i])) continue;
        smaller = frozen[op.results[i]] ? fold(place, i) : replace(place, op, i);
      }
      return smaller;
    });
  }

  bool fold(size_t place, size_t result) {
    for (Kernel& kernel : folded(best_, place, result)) {
      if (adopt(std::move(kernel))) return true;
    }
    return false;
  }

  bool replace(size_t place, const Op& op, size_t result) {
    const ValueId id = op.results[result];
    const Type type = best_.kernel.type(id);
    for (const ValueId operand : op.operands) {
      if (!(best_.kernel.type(operand) == type)) continue;
      Kernel kernel = best_.kernel;
      replace_uses(kernel.body, id, operand);
      if (adopt(std::move(kernel))) return true;
    }
    if (!type.is_value() || op.code == OpCode::kSplat) return false;
    const uint64_t one = dsl::bits_from_int(type.element, 1);
    for (const uint64_t bits : {uint64_t{0}, one}) {
      if (adopt(with_constant(best_.kernel, place, result, bits))) return true;
    }
    return false;
  }

  bool shorten_extents() {
    std::set<int64_t> extents;
    for (const dsl::Value& value : best_.kernel.values) {
      for (const Expr& extent : value.type.shape) {
        if (extent.as_constant().value_or(1) > 1) extents.insert(*extent.as_constant());
      }
    }
    bool smaller = false;
    for (auto extent = extents.rbegin(); extent != extents.rend(); ++extent) {
      for (const int64_t shorter : {int64_t{1}, int64_t{2}, int64_t{3}, *extent / 2, *extent - 1}) {
        if (shorter >= *extent || shorter < 1) continue;
        if (adopt(random_kernel::with_extent(best_.kernel, *extent, shorter))) {
          smaller = true;
          break;
        }
      }
    }
    return smaller;
  }

  // Parameters that neither an op nor the grid mentions.
  bool drop_parameters() {
    const std::set<ValueId> uses = used();
    for (const Expr& extent : best_.kernel.grid) {
      if (!extent.as_constant()) return false;
    }
    Case candidate{best_.kernel, best_.config, {}, {}, best_.f8_sum_bits};
    candidate.kernel.params.clear();
    for (size_t i = 0; i < best_.inputs.size(); ++i) {
      if (!uses.contains(best_.kernel.params[i].value)) continue;
      candidate.kernel.params.push_back(best_.kernel.params[i]);
      candidate.inputs.push_back(best_.inputs[i]);
      if (i < best_.facts.size()) candidate.facts.push_back(best_.facts[i]);
    }
    return candidate.inputs.size() < best_.inputs.size() && adopt(std::move(candidate));
  }

  bool adopt_input(size_t param, Input input) {
    Case candidate = best_;
    candidate.inputs[param] = std::move(input);
    return adopt(std::move(candidate));
  }

  void simplify_inputs() {
    for (size_t i = 0; i < best_.inputs.size(); ++i) {
      const dsl::ElementType type = best_.kernel.params[i].type.element;
      if (!best_.inputs[i].is_buffer) {
        for (const int64_t number : {0, 1, 2}) {
          const uint64_t bits = dsl::bits_from_int(type, number);
          if (best_.inputs[i].bits == bits || adopt_input(i, scalar(bits))) break;
        }
        continue;
      }
      for (size_t count = element_count(type, best_.inputs[i]); count > 1; count -= (count + 1) / 2) {
        Input shorter = best_.inputs[i];
        shorter.buffer.resize(count / 2 * static_cast<size_t>(dsl::info(type).bytes));
        if (!adopt_input(i, std::move(shorter))) break;
      }
      const size_t count = element_count(type, best_.inputs[i]);
      if (adopt_input(i, zeros(type, count))) continue;
      const uint64_t one = dsl::bits_from_int(type, 1);
      if (adopt_input(i, elements(type, std::vector<uint64_t>(count, one)))) continue;
      clear_parts(i, type, count);
    }
  }

  bool fill_inputs() {
    bool changed = false;
    for (size_t i = 0; i < best_.inputs.size(); ++i) {
      if (!best_.inputs[i].is_buffer) continue;
      const dsl::ElementType type = best_.kernel.params[i].type.element;
      const size_t count = element_count(type, best_.inputs[i]);
      uint64_t number = 0;
      for (size_t k = 0; k < count && number == 0; ++k) number = element_at(type, best_.inputs[i], k);
      Input filled = elements(type, std::vector<uint64_t>(count, number));
      if (number != 0 && filled.buffer != best_.inputs[i].buffer) changed |= adopt_input(i, std::move(filled));
    }
    return changed;
  }

  // Zeros where they do not matter: halves, quarters, …, single elements.
  void clear_parts(size_t param, dsl::ElementType type, size_t count) {
    for (size_t part = (count + 1) / 2;; part = (part + 1) / 2) {
      for (size_t start = 0; start < count; start += part) {
        Input cleared = best_.inputs[param];
        for (size_t k = start; k < std::min(start + part, count); ++k) set_element(type, cleared, k, 0);
        if (cleared.buffer != best_.inputs[param].buffer) adopt_input(param, std::move(cleared));
      }
      if (part == 1) return;
    }
  }

  Case best_;
  const std::function<bool(const Case&)>& fails_;
  const ShrinkOptions options_;
  int calls_ = 0;
};

}  // namespace

Case shrink(const Case& test, const std::function<bool(const Case&)>& fails, const ShrinkOptions& options) {
  return Shrinker(test, fails, options).run();
}

}  // namespace kiln::random_kernel
