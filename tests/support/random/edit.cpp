#include "random/edit.h"

#include <algorithm>
#include <map>

namespace kiln::random_kernel {

using dsl::Expr;
using dsl::Kernel;
using dsl::Op;
using dsl::OpCode;
using dsl::Region;
using dsl::Type;
using dsl::ValueId;

namespace {

bool combines(const Op& op) { return op.code == OpCode::kReduce || op.code == OpCode::kScan; }

}  // namespace

void visit_ops(Region& region, const Visit& visit) {
  for (size_t i = 0; i < region.ops.size(); ++i) {
    visit(region, i);
    if (combines(region.ops[i])) continue;
    for (Region& inner : region.ops[i].regions) visit_ops(inner, visit);
  }
}

void at_op(Kernel& kernel, size_t place, const Visit& visit) {
  Region* found = nullptr;
  size_t found_index = 0, next = 0;
  visit_ops(kernel.body, [&](Region& region, size_t index) {
    if (next++ != place) return;
    found = &region;
    found_index = index;
  });
  // Outside of the walk: the visit may change what is walked.
  if (found) visit(*found, found_index);
}

std::vector<Op> ops_of(const Kernel& kernel) {
  std::vector<Op> out;
  Region body = kernel.body;
  visit_ops(body, [&](Region& region, size_t index) { out.push_back(region.ops[index]); });
  return out;
}

size_t count_ops(const Kernel& kernel) {
  const std::vector<Op> ops = ops_of(kernel);
  return static_cast<size_t>(
      std::count_if(ops.begin(), ops.end(), [](const Op& op) { return op.code != OpCode::kYield; }));
}

std::set<ValueId> used_values(const Kernel& kernel) {
  std::set<ValueId> out;
  for (const Op& op : ops_of(kernel)) out.insert(op.operands.begin(), op.operands.end());
  return out;
}

std::vector<size_t> ops_without_uses(const Kernel& kernel) {
  const std::set<ValueId> uses = used_values(kernel);
  const std::vector<Op> all = ops_of(kernel);
  std::vector<size_t> out;
  for (size_t i = 0; i < all.size(); ++i) {
    const bool is_used =
        std::any_of(all[i].results.begin(), all[i].results.end(), [&](ValueId id) { return uses.contains(id); });
    if (!is_used && all[i].code != OpCode::kYield) out.push_back(i);
  }
  return out;
}

Kernel without_ops(const Kernel& kernel, const std::vector<size_t>& places) {
  Kernel out = kernel;
  std::map<Region*, std::vector<size_t>> gone;
  size_t next = 0;
  visit_ops(out.body, [&](Region& region, size_t index) {
    if (std::binary_search(places.begin(), places.end(), next++)) gone[&region].push_back(index);
  });
  // Inner regions lie in ops that may move when an outer region loses one; so the ops are emptied first.
  for (auto& [region, indices] : gone) {
    for (const size_t index : indices) region->ops[index].code = OpCode::kYield;
  }
  std::function<void(Region&)> clean = [&](Region& region) {
    auto& ops = region.ops;
    const bool ends = &region != &out.body;
    for (size_t i = ops.size() - (ends ? 1 : 0); i-- > 0;) {
      if (ops[i].code == OpCode::kYield) ops.erase(ops.begin() + static_cast<ptrdiff_t>(i));
    }
    for (Op& op : ops) {
      for (Region& inner : op.regions) clean(inner);
    }
  };
  clean(out.body);
  return out;
}

Kernel unwrapped(const Kernel& kernel, size_t place, int way) {
  Kernel out = kernel;
  at_op(out, place, [&](Region& region, size_t index) {
    Op op = std::move(region.ops[index]);
    region.ops.erase(region.ops.begin() + static_cast<ptrdiff_t>(index));
    const bool is_if = op.code == OpCode::kIf;
    const size_t first = op.code == OpCode::kFor ? 3 : 0;
    std::vector<ValueId> inits(op.operands.begin() + static_cast<ptrdiff_t>(first), op.operands.end());
    if (!is_if && way == 1) {
      for (size_t i = 0; i < op.results.size(); ++i) replace_uses(out.body, op.results[i], inits[i]);
      return;
    }
    Region& body = is_if ? op.regions[static_cast<size_t>(way)] : op.regions.back();
    if (op.code == OpCode::kFor) inits.insert(inits.begin(), op.operands[0]);
    if (!is_if) {
      for (size_t i = 0; i < body.args.size(); ++i) replace_uses(body, body.args[i], inits[i]);
    }
    const std::vector<ValueId> yields = body.ops.back().operands;
    body.ops.pop_back();
    region.ops.insert(region.ops.begin() + static_cast<ptrdiff_t>(index), std::make_move_iterator(body.ops.begin()),
                      std::make_move_iterator(body.ops.end()));
    for (size_t i = 0; i < op.results.size(); ++i) replace_uses(out.body, op.results[i], yields[i]);
  });
  return out;
}

Kernel with_constant(const Kernel& kernel, size_t place, size_t result, uint64_t bits) {
  Kernel out = kernel;
  at_op(out, place, [&](Region& region, size_t index) {
    const ValueId old = region.ops[index].results[result];
    const Type type = out.type(old);
    const auto at = region.ops.begin() + static_cast<ptrdiff_t>(index);
    const ValueId number = fresh_value(out, dsl::scalar_type(type.element));
    const ValueId made = type.is_scalar() ? number : fresh_value(out, type);
    std::vector<Op> ops = {{OpCode::kConstant, {}, {number}, {dsl::Literal{bits}, type.element}, {}, {}}};
    if (made != number) ops.push_back({OpCode::kSplat, {number}, {made}, {type.shape}, {}, {}});
    region.ops.insert(at, ops.begin(), ops.end());
    replace_uses(out.body, old, made);
  });
  return out;
}

namespace {

void set_extent(Op& op, int64_t from, int64_t to) {
  if (op.code == OpCode::kPermute) return;
  for (dsl::Attr& attr : op.attrs) {
    auto* shape = std::get_if<std::vector<Expr>>(&attr);
    if (shape) std::replace(shape->begin(), shape->end(), Expr(from), Expr(to));
  }
  const bool is_slice = op.code == OpCode::kSlice;
  if (op.code == OpCode::kArange || is_slice) {
    Expr &start = std::get<Expr>(op.attrs[is_slice ? 1 : 0]), &end = std::get<Expr>(op.attrs[is_slice ? 2 : 1]);
    if (end - start == Expr(from)) {
      if (is_slice) start = Expr(0);
      end = start + Expr(to);
    }
  }
  if (op.code == OpCode::kTopk || op.code == OpCode::kHistogram) {
    if (std::get<Expr>(op.attrs[0]) == Expr(from)) op.attrs[0] = Expr(to);
  }
}

std::vector<Type> types_of(const Kernel& kernel, const std::vector<ValueId>& ids) {
  std::vector<Type> out;
  for (const ValueId id : ids) out.push_back(kernel.type(id));
  return out;
}

bool infer_again(Kernel& kernel, Region& region) {
  for (Op& op : region.ops) {
    const std::vector<Type> in = types_of(kernel, op.operands);
    const std::vector<dsl::RegionTypes> expected = dsl::region_types(op.code, in, op.attrs);
    for (size_t r = 0; r < op.regions.size(); ++r) {
      for (size_t i = 0; i < op.regions[r].args.size(); ++i) {
        kernel.values[op.regions[r].args[i]].type = expected[r].args[i];
      }
      if (!infer_again(kernel, op.regions[r])) return false;
    }
    std::vector<Type> yields;
    if (op.code == OpCode::kIf) yields = types_of(kernel, op.regions[0].ops.back().operands);
    auto types = dsl::infer_types(op.code, in, op.attrs, kernel.expr_names(), yields);
    if (!types) return false;
    for (size_t i = 0; i < op.results.size(); ++i) kernel.values[op.results[i]].type = (*types)[i];
  }
  return true;
}

}  // namespace

Kernel with_extent(const Kernel& kernel, int64_t from, int64_t to) {
  Kernel out = kernel;
  visit_ops(out.body, [&](Region& region, size_t index) { set_extent(region.ops[index], from, to); });
  return infer_again(out, out.body) ? out : Kernel{};
}

std::vector<bool> frozen_values(const Kernel& kernel) {
  std::vector<std::vector<ValueId>> sources(kernel.values.size());
  std::vector<ValueId> work;
  auto add = [&](ValueId to, const std::vector<ValueId>& from) {
    sources[to].insert(sources[to].end(), from.begin(), from.end());
  };
  Region body = kernel.body;
  visit_ops(body, [&](Region& region, size_t index) {
    const Op& op = region.ops[index];
    for (const ValueId result : op.results) add(result, op.operands);
    if (dsl::info(op.code).has(dsl::kWrites)) {
      // Not the value; of a tile also the offsets.
      work.push_back(op.operands[0]);
      if (op.code == OpCode::kStoreTile || op.code == OpCode::kReduceTile) {
        work.insert(work.end(), op.operands.begin() + 2, op.operands.end());
      }
    }
    if (combines(op)) return;
    if (op.code == OpCode::kFor) work.insert(work.end(), op.operands.begin(), op.operands.begin() + 3);
    if (op.code == OpCode::kWhile) work.push_back(op.regions[0].ops.back().operands[0]);
    for (const Region& inner : op.regions) {
      for (const ValueId result : op.results) add(result, inner.ops.back().operands);
      for (const ValueId arg : inner.args) {
        add(arg, op.operands);
        add(arg, op.regions.back().ops.back().operands);
      }
    }
  });
  std::vector<bool> frozen(kernel.values.size());
  while (!work.empty()) {
    const ValueId id = work.back();
    work.pop_back();
    if (frozen[id]) continue;
    frozen[id] = true;
    work.insert(work.end(), sources[id].begin(), sources[id].end());
  }
  return frozen;
}

}  // namespace kiln::random_kernel
