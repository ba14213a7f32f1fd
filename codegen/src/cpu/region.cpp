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

Result<void> lower_scalar_load(Context& c, const Op& op) {
  Builder& b = c.b;
  const dsl::Type& type = c.type(op.results[0]);
  llvm::Type* memory = memory_type(b.getContext(), type.element, false);
  Value* pointer = c.scalars[op.operands[0]];
  Value* mask = op.operands.size() > 1 ? c.scalars[op.operands[1]] : nullptr;
  if (mask) pointer = b.CreateSelect(mask, pointer, entry_alloca(c, memory));
  Value* loaded = b.CreateLoad(memory, pointer);
  if (type.element == ElementType::kI1) loaded = b.CreateICmpNE(loaded, b.getInt8(0));
  if (mask) {
    Value* other = op.operands.size() > 2 ? c.scalars[op.operands[2]] : llvm::Constant::getNullValue(loaded->getType());
    loaded = b.CreateSelect(mask, loaded, other);
  }
  c.scalars[op.results[0]] = loaded;
  return {};
}

Result<void> lower_scalar(Context& c, const Op& op) {
  Value*& out = c.scalars[op.results[0]];
  switch (op.code) {
    case OpCode::kProgramId:
      out = c.program_id[static_cast<size_t>(std::get<int64_t>(op.attrs[0]))];
      return {};
    case OpCode::kNumPrograms:
      out = c.num_programs[static_cast<size_t>(std::get<int64_t>(op.attrs[0]))];
      return {};
    case OpCode::kConstant:
      out = emit_constant(c.b, op);
      return {};
    case OpCode::kLoad:
      return lower_scalar_load(c, op);
    // A scalar of rank 0 stays what it is.
    case OpCode::kSplat:
    case OpCode::kBroadcast:
    case OpCode::kPermute:
      out = c.scalars[op.operands[0]];
      return {};
    default:
      break;
  }
  llvm::SmallVector<Value*, 4> operands;
  for (ValueId operand : op.operands) operands.push_back(c.scalars[operand]);
  auto value = emit_op(c, c.b, op, operands);
  if (!value) return value.error();
  out = *value;
  return {};
}

// A tile waits for its consumers, unless the schedule wants it in scratch now.
Result<void> lower_lazy(Context& c, const Op& op) {
  for (ValueId id : op.results) {
    if (!c.schedule.materialise[id]) continue;
    const Slot slot = allocate_slot(c, c.type(id), Rows::kClose);
    if (auto done = materialise(c, id, slot); !done) return done;
    c.slots[id] = slot;
  }
  return {};
}

Result<void> lower_op(Context& c, const Op& op) {
  if (c.kernel.options.check_bounds) {
    if (op.code == OpCode::kLoad || op.code == OpCode::kStore) return lower_checked_access(c, op);
    if (op.code == OpCode::kGather) {
      if (auto done = check_gather(c, op); !done) return done;
    }
  }
  switch (op.code) {
    case OpCode::kStore:
      return lower_store(c, op);
    case OpCode::kAtomicRmw:
    case OpCode::kAtomicCas:
      return lower_atomic(c, op);
    case OpCode::kReduce:
      return lower_reduce(c, op);
    case OpCode::kScan:
      return lower_scan(c, op);
    case OpCode::kSort:
      return lower_sort(c, op);
    case OpCode::kTopk:
      return lower_topk(c, op);
    case OpCode::kHistogram:
      return lower_histogram(c, op);
    case OpCode::kPhilox:
      return lower_philox(c, op);
    case OpCode::kDot:
      return lower_dot(c, op);
    case OpCode::kDotScaled:
      return lower_dot_scaled(c, op);
    case OpCode::kFor:
      return lower_for(c, op);
    case OpCode::kWhile:
      return lower_while(c, op);
    case OpCode::kIf:
      return lower_if(c, op);
    case OpCode::kReshape:
      return is_read_in_units(c, op) ? Result<void>() : lower_shape_op(c, op);
    case OpCode::kSplit:
      return c.type(op.results[0]).is_scalar() ? lower_shape_op(c, op) : lower_lazy(c, op);
    case OpCode::kCat:
    case OpCode::kSlice:
    case OpCode::kGather:
      return lower_shape_op(c, op);
    case OpCode::kYield:
    case OpCode::kAssume:
    case OpCode::kRequire:
      return {};
    case OpCode::kAssert:
      return lower_assert(c, op);
    case OpCode::kPrint:
      return lower_print(c, op);
    default:
      return c.type(op.results[0]).is_scalar() ? lower_scalar(c, op) : lower_lazy(c, op);
  }
}

// Begins a block wherever a region has made very many instructions since the last one.
class CutPoints {
 public:
  explicit CutPoints(Context& c) : c_(c), last_(&c.function->back()) {}

  void behind_op() {
    // What the op has made: new blocks, which are the function's last ones, and a few instructions besides.
    constexpr size_t kBesides = 4, kFar = 1000;
    made_ += kBesides;
    for (auto block = std::prev(c_.function->end()); &*block != last_; --block) made_ += block->size();
    last_ = &c_.function->back();
    if (made_ < kFar) return;
    made_ = 0;
    auto* cut = llvm::BasicBlock::Create(c_.b.getContext(), "cut", c_.function);
    c_.b.CreateBr(cut);
    c_.b.SetInsertPoint(cut);
    blocks_.push_back(cut);
    last_ = cut;
  }

  void finish() {
    if (!blocks_.empty()) c_.cuts.push_back(std::move(blocks_));
  }

 private:
  Context& c_;
  const llvm::BasicBlock* last_;
  std::vector<llvm::BasicBlock*> blocks_;
  size_t made_ = 0;
};

}  // namespace

Result<void> lower_region(Context& c, const dsl::Region& region) {
  const dsl::Region* outer = std::exchange(c.region, &region);
  CutPoints cuts(c);
  for (const Op& op : region.ops) {
    if (auto done = lower_op(c, op); !done) return done;
    cuts.behind_op();
  }
  cuts.finish();
  c.region = outer;
  return {};
}

}  // namespace kiln::codegen::cpu
