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
  Slot slot;
  int64_t bins = 0, copies = 0, stride = 0;  // i32 from copy to copy: all bins and the one for the rest
  Value* lanes = nullptr;                    // memory for the bins of a chunk
};

// The bin of each element, as i32, or i64 where elements are.
Value* bins_of(Context& c, const Counts& counts, ElementType element, Value* x) {
  Builder& b = c.b;
  llvm::Type* wide = like(x, dsl::info(element).bits > 32 ? b.getInt64Ty() : b.getInt32Ty());
  x = dsl::info(element).is_signed ? b.CreateSExt(x, wide) : b.CreateZExt(x, wide);
  auto* rest = int_constant(x, static_cast<uint64_t>(counts.bins));
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x, rest);
}

void clear(Context& c, const Counts& counts) {
  Builder& b = c.b;
  auto* vector = llvm::FixedVectorType::get(b.getInt32Ty(), static_cast<unsigned>(kVector));
  Value* base = slot_address(c, counts.slot);
  emit_loop(b, c.i64(0), c.i64(counts.stride * counts.copies), c.i64(kVector), "clear", nothing, [&](Value* i) {
    b.CreateAlignedStore(llvm::Constant::getNullValue(vector), b.CreateGEP(b.getInt32Ty(), base, i), llvm::Align(4));
  });
}

// One more in a bin of the copy for this lane.
void count_one(Context& c, const Counts& counts, unsigned lane, Value* bin) {
  Builder& b = c.b;
  bin = b.CreateZExt(bin, b.getInt64Ty());
  const int64_t copy = static_cast<int64_t>(lane) % counts.copies;
  Value* base =
      b.CreateConstGEP1_64(b.getInt32Ty(), slot_address(c, counts.slot), static_cast<uint64_t>(copy * counts.stride));
  Value* place = b.CreateGEP(b.getInt32Ty(), base, bin);
  b.CreateStore(b.CreateAdd(b.CreateLoad(b.getInt32Ty(), place), b.getInt32(1)), place);
}

// Elements that lie in memory one behind the other are read there one by one. By way of a vector, where they are masked
// or computed, takes an EPYC with AVX-512 1.6 times as long: each lane waits for the store of all.
Result<bool> count_in_memory(Nest& nest, const Counts& counts, ValueId x) {
  Context& c = nest.c;
  Builder& b = c.b;
  const Op* load = c.schedule.definition[x];
  const bool is_load = load && load->code == OpCode::kLoad && !c.slots[x] && !c.schedule.materialise[x] && !c.keep[x];
  if (!is_load || nest.lane_mask() || nest.vector_dim() < 0) return false;
  if (load->operands.size() > 1) {
    auto mask = nest.active_mask(load->operands[1], nest.identity());
    if (!mask) return mask.error();
    if (*mask) return false;
  }
  auto address = nest.address(load->operands[0], nest.identity());
  if (!address) return address.error();
  if (!address->contiguous) return false;
  const ElementType element = c.type(x).element;
  llvm::Type* number = memory_type(b.getContext(), element, false);
  for (unsigned lane = 0; lane < static_cast<unsigned>(nest.width()); ++lane) {
    Value* place = b.CreateConstGEP1_64(number, address->pointer, lane);
    count_one(c, counts, lane, bins_of(c, counts, element, b.CreateLoad(number, place)));
  }
  return true;
}

void count(Nest& nest, const Counts& counts, Value* bins) {
  Context& c = nest.c;
  Builder& b = c.b;
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(bins->getType());
  const unsigned lanes = vector ? vector->getNumElements() : 1;
  llvm::Type* number = bins->getType()->getScalarType();
  // By way of memory: a load a lane, where to take one out of a register is two operations.
  b.CreateAlignedStore(bins, counts.lanes, llvm::Align(8));
  for (unsigned i = 0; i < lanes; ++i) {
    Value* bin = b.CreateAlignedLoad(number, b.CreateConstGEP1_64(number, counts.lanes, i), llvm::Align(4));
    count_one(c, counts, i, bin);
  }
}

void add_copies(Context& c, const Counts& counts, const Slot& out) {
  Builder& b = c.b;
  auto* vector = llvm::FixedVectorType::get(b.getInt32Ty(), static_cast<unsigned>(kVector));
  Value *from = slot_address(c, counts.slot), *to = slot_address(c, out);
  emit_loop(b, c.i64(0), c.i64(counts.bins), c.i64(kVector), "bins", nothing, [&](Value* i) {
    Value* sum = nullptr;
    for (int64_t copy = 0; copy < counts.copies; ++copy) {
      Value* place = b.CreateGEP(b.getInt32Ty(), from, b.CreateAdd(i, c.i64(copy * counts.stride)));
      Value* part = b.CreateAlignedLoad(vector, place, llvm::Align(4));
      sum = sum ? b.CreateAdd(sum, part) : part;
    }
    b.CreateAlignedStore(sum, b.CreateGEP(b.getInt32Ty(), to, i), llvm::Align(4));
  });
}

}  // namespace

Result<void> lower_histogram(Context& c, const Op& op) {
  Builder& b = c.b;
  const ValueId x = op.operands[0], result = op.results[0];
  const auto shape = dsl::concrete_shape(c.type(x));
  Counts counts;
  counts.bins = dsl::concrete_shape(c.type(result))[0];
  counts.copies = elements_of(shape) > 4 * counts.bins && counts.bins < kManyBins ? kCopies : 1;
  counts.stride = (counts.bins + kVector) / kVector * kVector;
  counts.slot = allocate_slot(c, dsl::tile_type(ElementType::kI32, {dsl::Expr(counts.stride * counts.copies)}));
  counts.lanes = slot_address(c, allocate_slot(c, dsl::tile_type(ElementType::kI64, {dsl::Expr(int64_t{kMaxWidth})})));
  const Slot out = allocate_slot(c, c.type(result));
  clear(c, counts);

  Nest nest(c, shape);
  nest.register_masks(x, nest.identity());
  nest.choose_width(x, kMaxWidth);
  Nest::Body body;
  body.chunk = [&]() -> Result<void> {
    auto value = nest.evaluate_lanes(x, nest.identity());
    if (!value) return value.error();
    Value* bins = bins_of(c, counts, c.type(x).element, *value);
    if (Value* lanes = nest.lane_mask()) {
      bins = b.CreateSelect(lanes, bins, int_constant(bins, static_cast<uint64_t>(counts.bins)));
    }
    for (const Ahead& ahead : nest.ahead()) prefetch(c, ahead);
    auto counted = count_in_memory(nest, counts, x);
    if (!counted) return counted.error();
    if (!*counted) count(nest, counts, bins);
    return {};
  };
  if (auto done = nest.walk(body, false); !done) return done;
  nest.finish();
  add_copies(c, counts, out);
  c.slots[result] = out;
  return {};
}

}  // namespace kiln::codegen::cpu
