// histogram: counts in scratch, one copy of them for each of a few neighbouring lanes, so that equal neighbours need
// not wait for each other. What is out of range is counted too, in one bin more.
#include "cpu/ops/histogram.h"

#include "cpu/nest/nest.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kMaxWidth = 16;
constexpr int64_t kCopies = 4;
constexpr int64_t kManyBins = 4096;  // copies would leave the cache closest to the core
constexpr int64_t kVector = 16;

void nothing(llvm::Instruction*) {}

int64_t elements_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

struct Counts {
  ScratchSlot slot;
  int64_t bins = 0, copies = 0, stride = 0;  // i32 from copy to copy: all bins and the one for the rest
  Value* lanes = nullptr;                    // memory for the bins of a chunk
};

// The bin of each element, as i32, or i64 where elements are.
Value* bins_of(Context& ctx, const Counts& counts, ElementType element, Value* x) {
  Builder& ir = ctx.ir;
  llvm::Type* wide = like(x, dsl::info(element).bits > 32 ? ir.getInt64Ty() : ir.getInt32Ty());
  x = dsl::info(element).is_signed ? ir.CreateSExt(x, wide) : ir.CreateZExt(x, wide);
  auto* rest = int_constant(x, static_cast<uint64_t>(counts.bins));
  return ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x, rest);
}

void clear(Context& ctx, const Counts& counts) {
  Builder& ir = ctx.ir;
  auto* vector = llvm::FixedVectorType::get(ir.getInt32Ty(), static_cast<unsigned>(kVector));
  Value* base = scratch_slot_address(ctx, counts.slot);
  emit_loop(ir, ctx.i64(0), ctx.i64(counts.stride * counts.copies), ctx.i64(kVector), "clear", nothing, [&](Value* i) {
    ir.CreateAlignedStore(llvm::Constant::getNullValue(vector), ir.CreateGEP(ir.getInt32Ty(), base, i), llvm::Align(4));
  });
}

// One more in a bin of the copy for this lane.
void count_one(Context& ctx, const Counts& counts, unsigned lane, Value* bin) {
  Builder& ir = ctx.ir;
  bin = ir.CreateZExt(bin, ir.getInt64Ty());
  const int64_t copy = static_cast<int64_t>(lane) % counts.copies;
  Value* base = ir.CreateConstGEP1_64(ir.getInt32Ty(), scratch_slot_address(ctx, counts.slot),
                                      static_cast<uint64_t>(copy * counts.stride));
  Value* place = ir.CreateGEP(ir.getInt32Ty(), base, bin);
  ir.CreateStore(ir.CreateAdd(ir.CreateLoad(ir.getInt32Ty(), place), ir.getInt32(1)), place);
}

// Elements that lie in memory one behind the other are read there one by one. By way of a vector, where they are masked
// or computed, takes an EPYC with AVX-512 1.6 times as long: each lane waits for the store of all.
Result<bool> count_in_memory(Nest& nest, const Counts& counts, ValueId x) {
  Context& ctx = nest.ctx;
  Builder& ir = ctx.ir;
  const Op* load = ctx.schedule.definition[x];
  const bool is_load =
      load && load->code == OpCode::kLoad && !ctx.slots[x] && !ctx.schedule.materialise[x] && !ctx.keep[x];
  if (!is_load || nest.lane_mask() || nest.vector_dim() < 0) return false;
  if (load->operands.size() > 1) {
    auto mask = nest.active_mask(load->operands[1], nest.identity());
    if (!mask) return mask.error();
    if (*mask) return false;
  }
  auto address = nest.address(load->operands[0], nest.identity());
  if (!address) return address.error();
  if (!address->contiguous) return false;
  const ElementType element = ctx.type(x).element;
  llvm::Type* number = memory_type(ir.getContext(), element, false);
  for (unsigned lane = 0; lane < static_cast<unsigned>(nest.width()); ++lane) {
    Value* place = ir.CreateConstGEP1_64(number, address->pointer, lane);
    count_one(ctx, counts, lane, bins_of(ctx, counts, element, ir.CreateLoad(number, place)));
  }
  return true;
}

void count(Nest& nest, const Counts& counts, Value* bins) {
  Context& ctx = nest.ctx;
  Builder& ir = ctx.ir;
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(bins->getType());
  const unsigned lanes = vector ? vector->getNumElements() : 1;
  llvm::Type* number = bins->getType()->getScalarType();
  // By way of memory: a load a lane, where to take one out of a register is two operations.
  ir.CreateAlignedStore(bins, counts.lanes, llvm::Align(8));
  for (unsigned i = 0; i < lanes; ++i) {
    Value* bin = ir.CreateAlignedLoad(number, ir.CreateConstGEP1_64(number, counts.lanes, i), llvm::Align(4));
    count_one(ctx, counts, i, bin);
  }
}

void add_copies(Context& ctx, const Counts& counts, const ScratchSlot& out) {
  Builder& ir = ctx.ir;
  auto* vector = llvm::FixedVectorType::get(ir.getInt32Ty(), static_cast<unsigned>(kVector));
  Value *from = scratch_slot_address(ctx, counts.slot), *to = scratch_slot_address(ctx, out);
  emit_loop(ir, ctx.i64(0), ctx.i64(counts.bins), ctx.i64(kVector), "bins", nothing, [&](Value* i) {
    Value* sum = nullptr;
    for (int64_t copy = 0; copy < counts.copies; ++copy) {
      Value* place = ir.CreateGEP(ir.getInt32Ty(), from, ir.CreateAdd(i, ctx.i64(copy * counts.stride)));
      Value* part = ir.CreateAlignedLoad(vector, place, llvm::Align(4));
      sum = sum ? ir.CreateAdd(sum, part) : part;
    }
    ir.CreateAlignedStore(sum, ir.CreateGEP(ir.getInt32Ty(), to, i), llvm::Align(4));
  });
}

}  // namespace

Result<void> lower_histogram(Context& ctx, const Op& op) {
  Builder& ir = ctx.ir;
  const ValueId x = op.operands[0], result = op.results[0];
  const auto shape = dsl::concrete_shape(ctx.type(x));
  Counts counts;
  counts.bins = dsl::concrete_shape(ctx.type(result))[0];
  counts.copies = elements_of(shape) > 4 * counts.bins && counts.bins < kManyBins ? kCopies : 1;
  counts.stride = (counts.bins + kVector) / kVector * kVector;
  counts.slot =
      allocate_scratch_slot(ctx, dsl::tile_type(ElementType::kI32, {dsl::Expr(counts.stride * counts.copies)}));
  counts.lanes = scratch_slot_address(
      ctx, allocate_scratch_slot(ctx, dsl::tile_type(ElementType::kI64, {dsl::Expr(int64_t{kMaxWidth})})));
  const ScratchSlot out = allocate_scratch_slot(ctx, ctx.type(result));
  clear(ctx, counts);

  Nest nest(ctx, shape);
  nest.register_masks(x, nest.identity());
  nest.choose_width(x, kMaxWidth);
  Nest::Body body;
  body.chunk = [&]() -> Result<void> {
    auto value = nest.evaluate_lanes(x, nest.identity());
    if (!value) return value.error();
    Value* bins = bins_of(ctx, counts, ctx.type(x).element, *value);
    if (Value* lanes = nest.lane_mask()) {
      bins = ir.CreateSelect(lanes, bins, int_constant(bins, static_cast<uint64_t>(counts.bins)));
    }
    for (const Ahead& ahead : nest.ahead()) prefetch(ctx, ahead);
    auto counted = count_in_memory(nest, counts, x);
    if (!counted) return counted.error();
    if (!*counted) count(nest, counts, bins);
    return {};
  };
  if (auto done = nest.walk(body, false); !done) return done;
  nest.finish();
  add_copies(ctx, counts, out);
  ctx.slots[result] = out;
  return {};
}

}  // namespace kiln::codegen::cpu
