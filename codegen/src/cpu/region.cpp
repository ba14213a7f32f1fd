// The ops of a region in program order: scalars are emitted, sinks open nests, tiles wait for their consumers.
#include "cpu/region.h"

#include <utility>

#include "cpu/control.h"
#include "cpu/dot/dot.h"
#include "cpu/dot/dot_units.h"
#include "cpu/nest/materialise.h"
#include "cpu/ops/atomics.h"
#include "cpu/ops/checks.h"
#include "cpu/ops/effects.h"
#include "cpu/ops/histogram.h"
#include "cpu/ops/philox.h"
#include "cpu/ops/reduce.h"
#include "cpu/ops/scan.h"
#include "cpu/ops/shape_ops.h"
#include "cpu/ops/sort.h"
#include "cpu/ops/stores.h"
#include "cpu/ops/topk.h"
#include "elementwise/calls.h"
#include "elementwise/ops.h"

namespace kiln::codegen::cpu {
namespace {

Result<void> lower_scalar_load(Context& ctx, const Op& op) {
  Builder& ir = ctx.ir;
  const dsl::Type& type = ctx.type(op.results[0]);
  llvm::Type* memory = memory_type(ir.getContext(), type.element, false);
  Value* pointer = ctx.scalars[op.operands[0]];
  Value* mask = op.operands.size() > 1 ? ctx.scalars[op.operands[1]] : nullptr;
  if (mask) pointer = ir.CreateSelect(mask, pointer, entry_alloca(ctx, memory));
  Value* loaded = ir.CreateLoad(memory, pointer);
  if (type.element == ElementType::kI1) loaded = ir.CreateICmpNE(loaded, ir.getInt8(0));
  if (mask) {
    Value* other =
        op.operands.size() > 2 ? ctx.scalars[op.operands[2]] : llvm::Constant::getNullValue(loaded->getType());
    loaded = ir.CreateSelect(mask, loaded, other);
  }
  ctx.scalars[op.results[0]] = loaded;
  return {};
}

Result<void> lower_scalar(Context& ctx, const Op& op) {
  Value*& out = ctx.scalars[op.results[0]];
  switch (op.code) {
    case OpCode::kProgramId:
      out = ctx.program_id[static_cast<size_t>(std::get<int64_t>(op.attrs[0]))];
      return {};
    case OpCode::kNumPrograms:
      out = ctx.num_programs[static_cast<size_t>(std::get<int64_t>(op.attrs[0]))];
      return {};
    case OpCode::kConstant:
      out = emit_constant(ctx.ir, op);
      return {};
    case OpCode::kLoad:
      return lower_scalar_load(ctx, op);
    // A scalar of rank 0 stays what it is.
    case OpCode::kSplat:
    case OpCode::kBroadcast:
    case OpCode::kPermute:
      out = ctx.scalars[op.operands[0]];
      return {};
    default:
      break;
  }
  llvm::SmallVector<Value*, 4> operands;
  for (ValueId operand : op.operands) operands.push_back(ctx.scalars[operand]);
  auto value = emit_op(ctx, ctx.ir, op, operands);
  if (!value) return value.error();
  out = *value;
  return {};
}

// A tile waits for its consumers, unless the schedule wants it in scratch now.
Result<void> lower_lazy(Context& ctx, const Op& op) {
  for (ValueId id : op.results) {
    if (!ctx.schedule.materialise[id]) continue;
    const ScratchSlot slot = allocate_scratch_slot(ctx, ctx.type(id), Rows::kClose);
    if (auto done = materialise(ctx, id, slot); !done) return done;
    ctx.slots[id] = slot;
  }
  return {};
}

Result<void> lower_op(Context& ctx, const Op& op) {
  if (ctx.kernel.options.check_bounds) {
    if (op.code == OpCode::kLoad || op.code == OpCode::kStore) return lower_checked_access(ctx, op);
    if (op.code == OpCode::kGather) {
      if (auto done = check_gather(ctx, op); !done) return done;
    }
  }
  switch (op.code) {
    case OpCode::kStore:
      return lower_store(ctx, op);
    case OpCode::kAtomicRmw:
    case OpCode::kAtomicCas:
      return lower_atomic(ctx, op);
    case OpCode::kReduce:
      return lower_reduce(ctx, op);
    case OpCode::kScan:
      return lower_scan(ctx, op);
    case OpCode::kSort:
      return lower_sort(ctx, op);
    case OpCode::kTopk:
      return lower_topk(ctx, op);
    case OpCode::kHistogram:
      return lower_histogram(ctx, op);
    case OpCode::kPhilox:
      return lower_philox(ctx, op);
    case OpCode::kDot:
      return lower_dot(ctx, op);
    case OpCode::kDotScaled:
      return lower_dot_scaled(ctx, op);
    case OpCode::kFor:
      return lower_for(ctx, op);
    case OpCode::kWhile:
      return lower_while(ctx, op);
    case OpCode::kIf:
      return lower_if(ctx, op);
    case OpCode::kReshape:
      return is_read_in_units(ctx, op) ? Result<void>() : lower_shape_op(ctx, op);
    case OpCode::kSplit:
      return ctx.type(op.results[0]).is_scalar() ? lower_shape_op(ctx, op) : lower_lazy(ctx, op);
    case OpCode::kCat:
    case OpCode::kSlice:
    case OpCode::kGather:
      return lower_shape_op(ctx, op);
    case OpCode::kYield:
    case OpCode::kAssume:
    case OpCode::kRequire:
      return {};
    case OpCode::kAssert:
      return lower_assert(ctx, op);
    case OpCode::kPrint:
      return lower_print(ctx, op);
    default:
      return ctx.type(op.results[0]).is_scalar() ? lower_scalar(ctx, op) : lower_lazy(ctx, op);
  }
}

// Begins a block wherever a region has made very many instructions since the last one.
class CutPoints {
 public:
  explicit CutPoints(Context& ctx) : ctx_(ctx), last_(&ctx.function->back()) {}

  void behind_op() {
    // What the op has made: new blocks, which are the function's last ones, and a few instructions besides.
    constexpr size_t kBesides = 4, kFar = 1000;
    made_ += kBesides;
    for (auto block = std::prev(ctx_.function->end()); &*block != last_; --block) made_ += block->size();
    last_ = &ctx_.function->back();
    if (made_ < kFar) return;
    made_ = 0;
    auto* cut = llvm::BasicBlock::Create(ctx_.ir.getContext(), "cut", ctx_.function);
    ctx_.ir.CreateBr(cut);
    ctx_.ir.SetInsertPoint(cut);
    blocks_.push_back(cut);
    last_ = cut;
  }

  void finish() {
    if (!blocks_.empty()) ctx_.cuts.push_back(std::move(blocks_));
  }

 private:
  Context& ctx_;
  const llvm::BasicBlock* last_;
  std::vector<llvm::BasicBlock*> blocks_;
  size_t made_ = 0;
};

}  // namespace

Result<void> lower_region(Context& ctx, const dsl::Region& region) {
  const dsl::Region* outer = std::exchange(ctx.region, &region);
  CutPoints cuts(ctx);
  for (const Op& op : region.ops) {
    const AtLine line = ctx.at_line(op);
    if (auto done = lower_op(ctx, op); !done) return done;
    cuts.behind_op();
  }
  cuts.finish();
  ctx.region = outer;
  return {};
}

}  // namespace kiln::codegen::cpu
