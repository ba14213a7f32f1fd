// dot by products of several warps (GroupInstruction): operands from shared memory, A from registers where it is there
// already. They run beside the threads:
//
//   fence; products of all fragments; commit
//   wait                     where the accumulators are used next, or
//   …                        where only the next iteration's product wants them: when somebody reads them (context.h)
//
// What lies in shared memory in an order that the instruction does not read is A, which the threads read into
// registers; or they compute A, as where weights are widened. A product that runs on still reads the registers of the
// last iteration, so each half of k has its own:
//
//   wait for all products but the last half; read or copy a half; fence; products; commit        ; twice
#include "gpu/dot/group_dot.h"

#include <algorithm>

#include "gpu/dot/tensor_memory.h"
#include "gpu/layout/algebra.h"
#include "gpu/layout/conversion.h"
#include "gpu/shared/shared_access.h"
#include "gpu/shared/shared_tile.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::gpu {
namespace {

// A matrix as an operand sees it: what lies in shared memory, or a transpose of that.
struct View {
  ValueId source;
  bool transposed = false;
};

View view_of(const Context& ctx, ValueId id) {
  View out{id};
  for (const Op* op = ctx.definition[out.source]; op && op->code == OpCode::kPermute; op = ctx.definition[out.source]) {
    if (ctx.placement.home[out.source]) break;
    const auto& order = std::get<std::vector<dsl::Expr>>(op->attrs[0]);
    out.transposed ^= order[0].as_constant() == 1;
    out.source = op->operands[0];
  }
  return out;
}

}  // namespace

bool takes_a_from_registers(Context& ctx, const Op& dot) {
  const DotLayouts layouts = dot_layouts(ctx.kernel, dot, ctx.target, ctx.block);
  if (!layouts.group->instruction.a_from_registers) return false;
  const ValueId id = dot.operands[0];
  const View view = view_of(ctx, id);
  if (const SharedTile* tile = ctx.shared(view.source)) {
    // Words in an order that the instruction does not read are read by the threads.
    const GroupInstruction& instruction = layouts.group->instruction;
    const bool k_fastest = tile->panels.fast == (view.transposed ? 0 : 1);
    return !instruction.any_axis_fastest && instruction.element_bits == 32 && !k_fastest;
  }
  const auto& home = ctx.placement.home[id];
  if (!home) return !view.transposed;
  const int bits = dsl::info(ctx.type(id).element).bits;
  auto plan = plan_conversion(*home, layouts.group->a, bits, ctx.target.lane_facts());
  // Sums that become bytes have other columns in a lane than A, but in the same four lanes.
  return plan &&
         (std::holds_alternative<RegisterMove>(plan->how) || (bits == 8 && std::holds_alternative<Shuffle>(plan->how)));
}

ValueId operand_source(const Context& ctx, const Op& dot, size_t number) {
  return view_of(ctx, dot.operands[number]).source;
}

bool is_zero(const Context& ctx, ValueId id) {
  const Op* op = ctx.definition[id];
  while (op && (op->code == OpCode::kSplat || op->code == OpCode::kBroadcast)) op = ctx.definition[op->operands[0]];
  if (!op || op->code != OpCode::kConstant) return false;
  const auto* literal = std::get_if<dsl::Literal>(&op->attrs[0]);
  return literal && literal->bits == 0;
}

bool operands_stay(Context& ctx, const Op& dot) {
  const auto keeps = [&](size_t number) {
    const ValueId source = operand_source(ctx, dot, number);
    return ctx.region_of(source) != ctx.region_of(dot.results[0]) ||
           ctx.placement.staged.contains(ctx.definition[source]);
  };
  return keeps(1) && (takes_a_from_registers(ctx, dot) || keeps(0));
}

namespace {

// Whether a value is computed from a product of the loop's body.
bool is_from_product(Context& ctx, const dsl::Region& body, ValueId id) {
  const Op* op = ctx.definition[id];
  if (!op || ctx.region_of(id) != &body) return false;
  if (family_of(*op) == dsl::OpFamily::kDot || !op->regions.empty()) return true;
  return std::ranges::any_of(op->operands, [&](ValueId operand) { return is_from_product(ctx, body, operand); });
}

class GroupDot {
 public:
  GroupDot(Context& ctx, const Op& op, const DotLayouts& layouts)
      : ctx_(ctx),
        op_(op),
        accumulator_(layouts.accumulator),
        all_(*layouts.group),
        padding_(ctx.padding(layouts.accumulator, ctx.type(op.results[0]))) {}

  Result<void> lower() {
    const ValueId result = op_.results[0];
    const bool clear = is_zero(ctx_, op_.operands[2]),
               runs_on = (ctx_.may_leave_pending(result) || is_alone()) && operands_stay(ctx_, op_);
    if (runs_on && (is_read_by_threads() || is_made_anew())) return lower_by_halves();
    auto a = a_operand(), rhs = operand(1);
    if (!a || !rhs) return (a ? rhs : a).error();
    if (all_.instruction.sums_in_tensor_memory()) return lower_in_tensor_memory(*a, *rhs, clear, runs_on);
    auto accumulators = accumulators_so_far();
    if (!accumulators) return accumulators.error();
    // A barrier in front of the second mark would take the first one for read.
    for (int again = 0; again < 2; ++again) touch_operands();
    multiply_all(*a, *rhs, *accumulators, clear);
    if (runs_on) {
      ctx_.define(result, std::move(*accumulators));
      ctx_.add_pending(result);
    } else {
      ctx_.define(result, ctx_.wait_for_products(0, result, std::move(*accumulators)));
      touch_operands();
    }
    return {};
  }

 private:
  // One thread of a group of warps tells of all fragments. Sums of the last product, if nobody has had them, are there.
  Result<void> lower_in_tensor_memory(const GroupOperand& a, const GroupOperand& rhs, bool clear, bool runs_on) {
    TensorMemory& memory = *ctx_.tensor_memory;
    const ValueId result = op_.results[0], sum = op_.operands[2];
    if (memory.are_in_place(sum, all_)) {
      static_cast<void>(ctx_.take_pending(sum));
    } else if (!clear) {
      auto sums = ctx_.get(sum, accumulator_);
      if (!sums) return sums.error();
      memory.store(all_, *sums);
    }
    memory.begin_products(ctx_.pending_groups());
    for (int again = 0; again < 2; ++again) touch_operands();
    Registers stand_ins = memory.stand_ins(ctx_.type(result), accumulator_);
    const size_t size = stand_ins.size() / static_cast<size_t>(all_.m * all_.n);
    for (int64_t fragment = 0; fragment < all_.m * all_.n; ++fragment) {
      const size_t first = static_cast<size_t>(fragment) * size;
      const size_t there = clear_padding(padding_, llvm::MutableArrayRef<Value*>(stand_ins).slice(first, size), first);
      if (there == 0) continue;
      all_.instruction.emit_to_tensor_memory(ctx_.ir, at_fragment(a, 0, first, fragment / all_.n),
                                             at_fragment(rhs, 1, first, fragment % all_.n), static_cast<int>(there),
                                             memory.address(all_, fragment), clear, memory.chosen());
    }
    memory.commit();
    memory.keep(result, all_);
    ctx_.define(result, std::move(stand_ins));
    ctx_.add_pending(result);
    if (runs_on) return {};
    auto ended = ctx_.get(result);
    touch_operands();
    return ended ? Result<void>() : ended.error();
  }

  Result<Registers> accumulators_so_far() {
    const ValueId sum = op_.operands[2];
    return ctx_.is_pending(sum) ? Result<Registers>(ctx_.take_pending(sum)) : ctx_.get(sum, accumulator_);
  }

  void multiply_all(const GroupOperand& a, const GroupOperand& rhs, Registers& accumulators, bool clear) {
    ctx_.target.group_fence(ctx_.ir);
    const size_t size = accumulators.size() / static_cast<size_t>(all_.m * all_.n);
    for (int64_t m = 0; m < all_.m; ++m) {
      // The next rows of A are put together in registers while the first are multiplied.
      if (m > 0 && !a.registers.empty()) ctx_.target.group_fence(ctx_.ir);
      for (int64_t n = 0; n < all_.n; ++n) {
        const size_t first = static_cast<size_t>(m * all_.n + n) * size;
        const auto fragment = llvm::MutableArrayRef<Value*>(accumulators).slice(first, size);
        const size_t there = clear_padding(padding_, fragment, first);
        if (there == 0) continue;
        const auto next = all_.instruction.emit(ctx_.ir, at_fragment(a, 0, first, m), at_fragment(rhs, 1, first, n),
                                                all_.columns * static_cast<int>(there) / static_cast<int>(size),
                                                fragment.take_front(there), clear);
        std::copy(next.begin(), next.end(), fragment.begin());
      }
    }
    ctx_.target.group_commit(ctx_.ir);
  }

  // Columns of padding are the last registers of a fragment. How many are not, in this of so many fragments.
  size_t clear_padding(const std::vector<bool>& padding, llvm::MutableArrayRef<Value*> fragment, size_t first) {
    const auto begin = padding.begin() + static_cast<ptrdiff_t>(first), end = begin + std::ssize(fragment);
    const auto there = static_cast<size_t>(std::find(begin, end, true) - begin);
    for (Value*& x : fragment.drop_front(there)) x = llvm::Constant::getNullValue(x->getType());
    return there;
  }

  bool is_read_by_threads() {
    return takes_a_from_registers(ctx_, op_) && ctx_.shared(view_of(ctx_, op_.operands[0]).source);
  }

  // Whether no product of the region needs another one, and ops of it read the accumulators of all: threads have until
  // then. A region that yields them would hand them on unfinished. Of several each takes its operands as they lie in
  // shared memory.
  bool is_alone() {
    const dsl::Region& region = *ctx_.current_region();
    const std::vector<ValueId>& yielded = region.ops.back().operands;
    int products = 0;
    for (const Op& op : region.ops) {
      if (op.code != OpCode::kDot && op.code != OpCode::kDotScaled) continue;
      ++products;
      const auto is_made = [&](ValueId id) { return is_from_product(ctx_, region, id); };
      if (llvm::any_of(op.operands, is_made) || llvm::is_contained(yielded, op.results[0])) return false;
    }
    return products == 1 || (!is_read_by_threads() && !is_made_anew());
  }

  // Whether threads compute A in each iteration, beside the last one's product: from none of this iteration, for which
  // they would wait.
  bool is_made_anew() {
    const ValueId a = operand_source(ctx_, op_, 0);
    const dsl::Region* region = ctx_.region_of(op_.results[0]);
    return takes_a_from_registers(ctx_, op_) && ctx_.region_of(a) == region &&
           !ctx_.placement.staged.contains(ctx_.definition[a]) && !is_from_product(ctx_, *region, a);
  }

  Result<void> lower_by_halves() {
    const ValueId result = op_.results[0];
    auto half_of_a = is_read_by_threads() ? Result(reader_of_a()) : copier_of_a();
    auto rhs = operand(1);
    auto accumulators = accumulators_so_far();
    if (!half_of_a || !rhs || !accumulators)
      return !half_of_a ? half_of_a.error() : rhs ? accumulators.error() : rhs.error();
    for (int again = 0; again < 2; ++again) touch_operands();
    const int64_t halves = std::min<int64_t>(all_.padded_k, 2), steps = all_.padded_k / halves;
    for (int64_t half = 0; half < halves; ++half) {
      ctx_.target.group_wait(ctx_.ir, static_cast<int>(halves) - 1, {});
      GroupOperand a;
      a.registers = (*half_of_a)(half, halves);
      GroupOperand b = *rhs;
      b.k_offsets.assign(rhs->k_offsets.begin() + half * steps,
                         rhs->k_offsets.begin() + std::min((half + 1) * steps, all_.k));
      multiply_all(a, b, *accumulators, half == 0 && is_zero(ctx_, op_.operands[2]));
    }
    ctx_.define(result, std::move(*accumulators));
    ctx_.add_pending(result, static_cast<int>(halves));
    return {};
  }

  // A half's registers: those of its steps, of all rows. Registers count what one step takes fastest, then k, then m.
  using HalfOfA = std::function<Registers(int64_t half, int64_t halves)>;

  HalfOfA reader_of_a() {
    const View view = view_of(ctx_, op_.operands[0]);
    const SharedTile& tile = *ctx_.shared(view.source);
    const Layout layout = view.transposed ? transpose(all_.a, {1, 0}) : all_.a;
    const int bits = all_.instruction.element_bits;
    const SharedAccess access = plan_shared_load(tile.panels.memory, layout, bits, ctx_.target.lane_facts());
    return [this, &tile, access, bits](int64_t half, int64_t halves) {
      const auto of_step = static_cast<int64_t>(all_.instruction.a.size(Dim::kRegister));
      const Bits mask = halves == 2 ? static_cast<Bits>(of_step * all_.padded_k / 2) : 0;
      const Registers words =
          load_shared_part(ctx_, {&tile.buffer, tile.base, tile.read_phase}, access, bits, mask, half == 1 ? mask : 0);
      Registers out;
      for (size_t reg = 0; reg < words.size(); ++reg) {
        if (words[reg] && is_of_step(reg)) out.push_back(from_bits(ctx_, words[reg], ctx_.type(op_.operands[0])));
      }
      return out;
    };
  }

  Result<HalfOfA> copier_of_a() {
    auto all = a_operand();
    if (!all) return all.error();
    return HalfOfA([this, registers = std::move(all->registers)](int64_t half, int64_t halves) {
      const int64_t of_step = all_.instruction.a.size(Dim::kRegister), steps = all_.padded_k / halves;
      Registers out;
      for (size_t reg = 0; reg < registers.size(); ++reg) {
        if (static_cast<int64_t>(reg) / of_step % all_.k / steps == half) out.push_back(registers[reg]);
      }
      return ctx_.target.group_copy(ctx_.ir, out, all_.instruction.element_bits);
    });
  }

  // Whether a register of A is of a step that is made, not of padding behind the last.
  bool is_of_step(size_t reg) const {
    return static_cast<int64_t>(reg) / all_.instruction.a.size(Dim::kRegister) % all_.padded_k < all_.k;
  }

  void touch_operands() {
    for (const std::optional<SharedTile>& tile : tiles_) {
      if (tile) tile->buffer.touch(ctx_.ir, SharedBuffer::Access::kRead, tile->read_phase);
    }
  }

  Result<GroupOperand> a_operand() {
    const ValueId id = op_.operands[0];
    if (!takes_a_from_registers(ctx_, op_)) return operand(0);
    auto registers = ctx_.get(id, all_.a);
    if (!registers) return registers.error();
    GroupOperand out;
    for (size_t reg = 0; reg < registers->size(); ++reg) {
      if (!is_of_step(reg)) continue;
      Value* inside = ctx_.in_tile(all_.a, reg, ctx_.type(id));
      Value* x = (*registers)[reg];
      if (inside) x = ctx_.ir.CreateSelect(inside, x, llvm::Constant::getNullValue(x->getType()));
      out.registers.push_back(x);
    }
    return out;
  }

  // In shared memory; number 0 is A, 1 is B.
  Result<GroupOperand> operand(size_t number) {
    const View view = view_of(ctx_, op_.operands[number]);
    const int k_axis = number == 0 ? 1 : 0;
    const int k_of_source = view.transposed ? 1 - k_axis : k_axis;
    const auto& home = ctx_.placement.home[view.source];
    const dsl::Type& type = ctx_.type(view.source);
    // As it comes: neighbours of a thread stay neighbours, where the instruction can have it so.
    int fast = k_of_source;
    const int other = 1 - k_of_source;
    const bool prefers_other = home && home->contiguous_per_thread(other) > home->contiguous_per_thread(k_of_source);
    if (all_.instruction.any_axis_fastest && shared_panels_of(type, other) &&
        (prefers_other || !shared_panels_of(type, fast))) {
      fast = other;
    }
    if (const SharedTile* there = ctx_.shared(view.source); there && all_.instruction.any_axis_fastest) {
      fast = there->panels.fast;
    }
    auto tile = materialise_in_shared(ctx_, view.source, fast);
    if (!tile) return tile.error();
    tiles_[number] = *tile;
    GroupOperand out;
    const SharedPanels& panels = tile->panels;
    offsets_[number] = inverse(view.transposed ? transpose(panels.memory, {1, 0}) : panels.memory).columns();
    const int64_t bytes = all_.instruction.element_bits / 8;
    out.address = tile->base;
    out.k_fastest = panels.fast == k_of_source;
    out.swizzle_bytes = panels.swizzle_bytes;
    const Layout shape(panels.memory.shape());
    const auto width = static_cast<Bits>(panels.swizzle_bytes / bytes);
    const Bits next_panel = width << shape.axis_offset(panels.fast);
    if (panels.memory.shape()[static_cast<size_t>(panels.fast)] > static_cast<int64_t>(width)) {
      out.panel_stride = static_cast<int64_t>(multiply(inverse(panels.memory).columns(), next_panel)) * bytes;
    }
    const Layout seen(view.transposed ? std::vector<int64_t>{shape.shape()[1], shape.shape()[0]} : shape.shape());
    for (int64_t step = 0; step < all_.k; ++step) {
      const Bits element = static_cast<Bits>(step * all_.instruction.k) << seen.axis_offset(k_axis);
      out.k_offsets.push_back(static_cast<int64_t>(multiply(offsets_[number], element)) * bytes);
    }
    axis_offset_[number] = seen.axis_offset(1 - k_axis);
    return out;
  }

  // The operand of a fragment: its address, by what the fragment's first register and the warp say; or its registers.
  GroupOperand at_fragment(const GroupOperand& operand, size_t number, size_t first_register, int64_t m) {
    GroupOperand out = operand;
    if (!operand.registers.empty()) {
      const size_t size = operand.registers.size() / static_cast<size_t>(all_.m);
      const auto begin = operand.registers.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(m) * size);
      out.registers.assign(begin, begin + static_cast<ptrdiff_t>(size));
      return out;
    }
    const int axis = number == 0 ? 0 : 1;
    const auto offset = [&](Bits element) {
      const auto coordinate = static_cast<Bits>(accumulator_.coordinates(element)[static_cast<size_t>(axis)]);
      return multiply(offsets_[number], coordinate << axis_offset_[number]);
    };
    Layout by_warp({int64_t{1} << offsets_[number].size()});
    const Columns& warps = accumulator_.bases(Dim::kWarp);
    for (size_t bit = 0; bit < warps.size(); ++bit) {
      // The lowest warps share a fragment.
      by_warp.add(Dim::kWarp, (1 << bit) < all_.instruction.warps ? 0 : offset(warps[bit]));
    }
    Builder& ir = ctx_.ir;
    const auto bytes = static_cast<uint32_t>(all_.instruction.element_bits / 8);
    Value* warp = ir.CreateMul(ctx_.thread_coordinate(by_warp, 0), ir.getInt32(bytes));
    Value* mine = ir.getInt32(static_cast<uint32_t>(offset(accumulator_.at({.reg = first_register}))) * bytes);
    out.address = ir.CreateGEP(ir.getInt8Ty(), ir.CreateGEP(ir.getInt8Ty(), operand.address, warp), mine);
    return out;
  }

  Context& ctx_;
  const Op& op_;
  const Layout& accumulator_;
  const DotGroup& all_;
  const std::vector<bool> padding_;
  std::array<std::optional<SharedTile>, 2> tiles_;
  std::array<Columns, 2> offsets_;  // from an element of an operand, packed as it is seen, to its offset
  std::array<int, 2> axis_offset_{};
};

}  // namespace

Result<void> lower_group_dot(Context& ctx, const Op& op, const DotLayouts& layouts) {
  return GroupDot(ctx, op, layouts).lower();
}

}  // namespace kiln::codegen::gpu
