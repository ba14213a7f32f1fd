// What the rows of a store decide, each for all of its columns: where a pixel begins, whether its neighbours lie inside
// of the image. It is computed ahead, by vectors of rows, and a row on which all masks hold runs without them. Where
// rows share many loads, the weights of a filter, but not more than registers hold, four of them on which all masks
// hold go together, so that these loads stay there. More rows stay apart, as they lie in memory: no prefetch of the
// hardware would follow.
//
//   for row:                                        for row, by vectors:  begin[row], all[row]
//     begin = … row / Q …                           for row, by four:
//     for column:                            →        if all of them:  for column:  four y = x[begin[…] + column] * w
//       y = x[begin + column], mask(row) * w          else, for each:
//                                                       if all[row]:  for column:  y = x[begin[row] + column] * w
//                                                       else:         for column:  y = x[…], mask(row) * w
#include "cpu/nest/nest.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kExpensive = 8;           // ops; a load from L1 is cheaper than this many
constexpr int kManyInvariants = 4;      // loads that the columns decide
constexpr size_t kMostConditions = 32;  // bits of a word
constexpr int kFusedRows = 4;           // rows, whose sums a register each holds

}  // namespace

// Of the walk that `values` are evaluated by: the conditions of its rows, what is expensive, how much the columns
// decide.
struct Nest::RowSearch {
  Nest& nest;
  int row;
  std::set<MaskAt> seen{}, conditions{}, values{}, invariants{};
  std::set<MaskAt> of_all{};  // conditions that are the same for all rows
  std::map<ValueId, bool> loads{};

  bool has_row(const Point& point) const { return llvm::is_contained(point, static_cast<int8_t>(row)); }

  // A load is no function of the row alone.
  bool has_load(ValueId id) {
    const Op* op = nest.ctx.schedule.definition[id];
    if (!op || nest.ctx.slots[id] || nest.ctx.type(id).is_scalar()) return false;
    if (op->code == OpCode::kLoad) return true;
    if (const auto known = loads.find(id); known != loads.end()) return known->second;
    return loads[id] = llvm::any_of(op->operands, [&](ValueId operand) { return has_load(operand); });
  }

  void visit(ValueId id, const Point& point_in) {
    const Op* op = nest.ctx.schedule.definition[id];
    if (!op || nest.ctx.type(id).is_scalar() || nest.ctx.slots[id]) return;
    const Point point = nest.normalise(id, point_in);
    if (!seen.insert({id, point}).second) return;
    if (!nest.varies(point)) return visit_row(id, *op, point);
    if (op->code == OpCode::kLoad) {
      if (!has_row(point)) invariants.insert({id, point});
      visit(op->operands[0], point);
      if (op->operands.size() > 1) add_conditions(op->operands[1], point, has_row(point));
      if (op->operands.size() > 2) visit(op->operands[2], point);
    } else {
      visit_operands(id, *op, point);
    }
  }

  void visit_operands(ValueId id, const Op& op, const Point& point) {
    for (const auto& [operand, at] : nest.sources(id, op, point)) visit(operand, at);
  }

  void visit_row(ValueId id, const Op& op, const Point& point) {
    const dsl::Type& type = nest.ctx.type(id);
    if (!has_row(point) || has_load(id)) return;
    if (!type.pointer && nest.affine(id, point, false)) return;
    auto is_same = [&](ValueId operand) {
      const auto number = nest.affine(operand, nest.normalise(operand, point), false);
      return number && !number->coefficients[static_cast<size_t>(row)];
    };
    const bool moves = (op.code == OpCode::kAdd || op.code == OpCode::kSub) && llvm::any_of(op.operands, is_same);
    if (is_view(op) || type.pointer || type.element == ElementType::kI1 || moves) {
      visit_operands(id, op, point);
    } else if (nest.cost(id, kExpensive) >= kExpensive) {
      values.insert({id, point});
    }
  }

  // The parts of a mask that a row decides; `by_row`: of a load whose place it decides too.
  void add_conditions(ValueId mask, const Point& point, bool by_row) {
    for (const MaskAt& part : nest.parts_of(mask, point)) {
      const bool is_condition = by_row && !nest.varies(part.point) && !has_load(part.mask);
      if (is_condition && !has_row(part.point)) {
        of_all.insert(part);
      } else if (is_condition && conditions.size() < kMostConditions) {
        conditions.insert(part);
      } else {
        visit(part.mask, part.point);
      }
    }
  }

  // Beside those of rows they cost nothing: a row runs without masks, or with.
  void add_conditions_of_all() {
    if (conditions.empty() || conditions.size() + of_all.size() > kMostConditions) return;
    conditions.insert(of_all.begin(), of_all.end());
  }
};

// What a mask is the conjunction of, but for masks that hold in the interior.
std::vector<MaskAt> Nest::parts_of(ValueId mask, const Point& point) const {
  std::vector<MaskAt> out, todo = {{mask, normalise(mask, point)}};
  for (std::set<MaskAt> seen; !todo.empty();) {
    const MaskAt part = todo.back();
    todo.pop_back();
    const Op* op = ctx.schedule.definition[part.mask];
    if (masks_.count(part) || !seen.insert(part).second) continue;
    if (op && op->code == OpCode::kSplat) {
      todo.push_back({op->operands[0], {}});
      continue;
    }
    const bool is_and = op && op->code == OpCode::kAnd;
    if (ctx.slots[part.mask] || !varies(part.point) || !(is_and || (op && is_view(*op)))) {
      out.push_back(part);
      continue;
    }
    for (ValueId operand : op->operands) {
      todo.push_back({operand, is_and ? normalise(operand, part.point) : source_point(*op, part.point)});
    }
  }
  return out;
}

// Ahead of the walk: all other preparations are done.
Result<void> Nest::tabulate_rows(llvm::ArrayRef<ValueId> values) {
  int row = -1;
  for (int d = 0; d < rank(); ++d) {
    if (d == vector_dim_ || dims_[d].extent == 1) continue;
    if (row >= 0 || dims_[d].inner) return {};
    row = d;
  }
  if (row < 0 || vector_dim_ < 0 || dims_[row].extent < ctx.target.vector_bytes / 4) return {};
  RowSearch search{*this, row};
  for (ValueId value : values) search.visit(value, identity());
  search.add_conditions_of_all();
  rows_.dim = row;
  const auto shared = static_cast<int>(search.invariants.size());
  if (shared >= kManyInvariants) {
    // Two vectors share the pointers that a row has many of.
    const bool pairs = 4 * width_ == ctx.target.vector_bytes && 2 * width_ <= extent(vector_dim_);
    if (pairs) width_ *= 2;
    // Two registers are for what is on its way.
    const bool stay = shared + kFusedRows + 2 <= ctx.target.vector_registers;
    if (stay && dims_[row].extent % kFusedRows == 0) rows_.fused = kFusedRows;
  }
  return fill_row_table(search);
}

Result<void> Nest::fill_row_table(const RowSearch& search) {
  if (search.conditions.empty() && search.values.empty()) return {};
  const int64_t rows = dims_[search.row].extent;
  std::vector<int64_t> extents;
  for (const Dim& d : dims_) extents.push_back(d.extent);
  Nest ahead(ctx, extents);
  ahead.fix_dim(vector_dim_, ctx.i64(0));
  ahead.set_vector_dim(search.row);
  ahead.set_width(ctx.target.vector_bytes / 4);
  std::vector<ScratchSlot> slots;
  for (const MaskAt& value : search.values) slots.push_back(allocate_scratch_slot(ctx, ctx.type(value.mask)));
  const dsl::Type word = dsl::tile_type(ElementType::kU32, {rows});
  const ScratchSlot words = allocate_scratch_slot(ctx, word);
  Body body;
  body.chunk = [&]() -> Result<void> {
    for (const auto& [slot, value] : llvm::zip(slots, search.values)) {
      auto lanes = ahead.evaluate_vector(value.mask, value.point);
      if (!lanes) return lanes.error();
      ahead.store_slot(slot, value.point, ctx.type(value.mask), *lanes);
    }
    Value* bits = llvm::Constant::getNullValue(like(ahead.splat(ir.getTrue()), ir.getInt32Ty()));
    for (const auto& [i, condition] : llvm::enumerate(search.conditions)) {
      auto lanes = ahead.evaluate_vector(condition.mask, condition.point);
      if (!lanes) return lanes.error();
      bits = ir.CreateOr(bits, ir.CreateSelect(*lanes, int_constant(bits, uint64_t{1} << i), int_constant(bits, 0)));
    }
    if (!search.conditions.empty()) ahead.store_slot(words, {static_cast<int8_t>(search.row)}, word, bits);
    return {};
  };
  if (auto done = ahead.walk(body, false); !done) return done;
  for (const auto& [slot, value] : llvm::zip(slots, search.values)) {
    ctx.slots[value.mask] = slot;
    rows_.values.push_back(value.mask);
  }
  rows_.conditions.assign(search.conditions.begin(), search.conditions.end());
  rows_.words = words;
  return {};
}

// What a load needs of its mask on a row; null: nothing.
Result<Value*> Nest::mask_on_row(ValueId mask, const Point& point) {
  Value* all = nullptr;
  for (const MaskAt& part : parts_of(mask, point)) {
    const auto condition = llvm::find(rows_.conditions, part);
    Value* holds = nullptr;
    if (condition == rows_.conditions.end()) {
      auto value = active_mask(part.mask, part.point);
      if (!value) return value;
      holds = *value;
    } else if (!rows_.all_hold) {
      const auto bit = static_cast<uint64_t>(condition - rows_.conditions.begin());
      holds = ir.CreateTrunc(ir.CreateLShr(rows_.word, bit), ir.getInt1Ty());
    }
    if (!holds) continue;
    const bool vectors = holds->getType()->isVectorTy() || (all && all->getType()->isVectorTy());
    if (all && vectors) {
      all = ir.CreateAnd(splat(all), splat(holds));
    } else {
      all = all ? ir.CreateAnd(all, holds) : holds;
    }
  }
  return all;
}

// Both ways that a row can go. What the row decides is computed where it is wanted, on that way.
void Nest::split_row(const std::function<void()>& emit) {
  if (rows_.conditions.empty()) return emit();
  Dim& d = dims_[rows_.dim];
  const int depth = d.depth;
  const Point row = {static_cast<int8_t>(rows_.dim)};
  rows_.word = load_slot(*rows_.words, row, dsl::tile_type(ElementType::kU32, {d.extent}));
  const uint64_t all = (uint64_t{1} << rows_.conditions.size()) - 1;
  Value* all_hold = ir.CreateICmpEQ(rows_.word, int_constant(rows_.word, all));
  for (const bool hold : {true, false}) {
    emit_if(
        ir, hold ? all_hold : ir.CreateNot(all_hold), hold ? "all.hold" : "some.hold",
        [&](llvm::Instruction* guard) { guards_.push_back(guard); },
        [&] {
          d.depth = static_cast<int>(guards_.size());
          memo_[d.depth].clear();
          rows_.all_hold = hold;
          emit();
        });
    guards_.pop_back();
    d.depth = depth;
  }
  rows_.word = nullptr;
}

// Of the rows from `first` on all are there, and all conditions hold on them. Leaves `rows_.word` to be that of all.
Value* Nest::may_fuse(Value* first, Value* end) {
  Dim& d = dims_[rows_.dim];
  Value* whole = ir.CreateICmpSLE(ir.CreateAdd(first, ctx.i64(rows_.fused)), end);
  if (rows_.conditions.empty()) return whole;
  Value* words = nullptr;
  for (int i = 0; i < rows_.fused; ++i) {
    d.index = ir.CreateAdd(first, ctx.i64(i));
    Value* word =
        load_slot(*rows_.words, {static_cast<int8_t>(rows_.dim)}, dsl::tile_type(ElementType::kU32, {d.extent}));
    words = words ? ir.CreateAnd(words, word) : word;
  }
  const uint64_t all = (uint64_t{1} << rows_.conditions.size()) - 1;
  rows_.word = words;
  return ir.CreateAnd(whole, ir.CreateICmpEQ(words, int_constant(words, all)));
}

// What was computed of a row is another row's no longer.
void Nest::forget_row() {
  for (auto& level : memo_) {
    std::erase_if(level, [&](const auto& known) {
      return llvm::is_contained(known.first.second, static_cast<int8_t>(rows_.dim));
    });
  }
}

Result<void> Nest::walk_fused_rows(const Body& body) {
  Dim& d = dims_[rows_.dim];
  Value* end = d.bound ? d.bound : d.limit ? d.limit : ctx.i64(d.extent);
  Result<void> result;
  auto enter = [&](llvm::Instruction* guard) { guards_.push_back(guard); };
  auto begin = [&](Value* index) {
    d.index = index;
    d.depth = static_cast<int>(guards_.size());
    forget_row();
    for (size_t level = guards_.size(); level < memo_.size(); ++level) memo_[level].clear();
  };
  std::array<Value*, kFusedRows> rows;
  Value* may = body.fuse_if();
  Body fused = body;
  fused.chunk = [&] {
    return body.chunk_of_rows(rows_.fused, [&](int i) {
      d.index = rows[static_cast<size_t>(i)];
      forget_row();
    });
  };
  emit_loop(ir, ctx.i64(0), end, ctx.i64(rows_.fused), "rows", enter, [&](Value* first) {
    begin(first);
    Value* whole = may_fuse(first, end);
    whole = ir.CreateAnd(whole, may);
    emit_if(ir, whole, "together", enter, [&] {
      begin(first);
      for (size_t i = 0; i < rows.size(); ++i) rows[i] = ir.CreateAdd(first, ctx.i64(static_cast<int64_t>(i)));
      rows_.all_hold = true;
      const int width = std::exchange(width_, ctx.target.vector_bytes / 4);
      result = walk_vectors(fused, true, nullptr);
      width_ = width;
    });
    rows_.word = nullptr;
    guards_.pop_back();
    emit_if(ir, ir.CreateNot(whole), "apart", enter, [&] {
      Value* past = ir.CreateAdd(first, ctx.i64(rows_.fused));
      emit_loop(ir, first, ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, past, end), ctx.i64(1), "row", enter,
                [&](Value* row) {
                  begin(row);
                  if (result.ok()) result = walk_row(body, true, nullptr);
                });
      guards_.pop_back();
    });
    guards_.pop_back();
  });
  guards_.pop_back();
  d.index = ctx.i64(0);
  d.depth = 0;
  return result;
}

}  // namespace kiln::codegen::cpu
