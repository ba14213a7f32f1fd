// As inline PTX ("Tensorcore 5th Generation Family Instructions" in the PTX ISA).
//
// Operands are named by descriptors of 64 bits, in units of 16 bytes: bits 0-13 the address, 16-29 the distance of
// panels along the fastest axis where that is not k, 32-45 that of groups of eight lines, 46-48 a constant 1, 61-63 the
// swizzle (2: lines of 128 bytes, 4: 64, 6: 32). What is multiplied is said by one of 32: bits 4-5 the type of sums (1:
// f32, 2: s32), 7-9 and 10-12 those of A and B, 15 and 16 whether k is not the axis of A and B that runs fastest, 17-22
// the columns in eights, 24-28 the rows in sixteens.
#include "nvptx/tensor_engine.h"

#include <algorithm>
#include <bit>

#include "gpu/layout/fragments.h"
#include "nvptx/asm.h"

namespace kiln::codegen::nvptx {
namespace {

using dsl::ElementType;
using gpu::GroupInstruction;
using gpu::GroupOperand;
using llvm::Value;
using Builder = llvm::IRBuilder<>;

constexpr int kMostTogether = 128;  // columns that one instruction loads or stores

// So many columns, a part of all: instructions take powers of two.
struct Part {
  int first, count;
};
std::vector<Part> parts_of(int columns) {
  std::vector<Part> out;
  for (int first = 0; first < columns;) {
    const int count = std::min(static_cast<int>(std::bit_floor(static_cast<unsigned>(columns - first))), kMostTogether);
    out.push_back({first, count});
    first += count;
  }
  return out;
}

std::string place(size_t operand, int columns) {
  return "[$" + std::to_string(operand) + " + " + std::to_string(columns) + "]";
}

struct Form {
  const char* kind;
  uint32_t a = 0, b = 0, sum = 1;  // of the descriptor
  int k = 16, bits = 16;
};

std::optional<uint32_t> small_float(ElementType x) {
  if (x == ElementType::kF8E4M3) return 0;
  if (x == ElementType::kF8E5M2) return 1;
  return std::nullopt;
}

std::optional<Form> form_of(ElementType a, ElementType b, dsl::Precision precision, bool has_bytes) {
  if (a == ElementType::kF32 && b == a && precision == dsl::Precision::kTf32) return Form{"tf32", 2, 2, 1, 8, 32};
  if (a == ElementType::kF16 && b == a) return Form{"f16", 0, 0};
  if (a == ElementType::kBF16 && b == a) return Form{"f16", 1, 1};
  const auto x = small_float(a), y = small_float(b);
  if (x && y) return Form{"f8f6f4", *x, *y, 1, 32, 8};
  const auto is_byte = [](ElementType type) { return type == ElementType::kI8 || type == ElementType::kU8; };
  if (!has_bytes || !is_byte(a) || !is_byte(b)) return std::nullopt;
  return Form{"i8", uint32_t{a == ElementType::kI8}, uint32_t{b == ElementType::kI8}, 2, 32, 8};
}

constexpr int kRows = gpu::TensorEngine::kLanes;

uint32_t instruction_descriptor(const Form& form, const GroupOperand& a, const GroupOperand& rhs, int columns) {
  return form.sum << 4 | form.a << 7 | form.b << 10 | uint32_t{!a.k_fastest} << 15 | uint32_t{!rhs.k_fastest} << 16 |
         static_cast<uint32_t>(columns / 8) << 17 | static_cast<uint32_t>(kRows / 16) << 24;
}

uint64_t in_units(int64_t bytes) { return static_cast<uint64_t>(bytes) >> 4; }

Value* descriptor(Builder& ir, const GroupOperand& operand) {
  const uint64_t swizzle = operand.swizzle_bytes == 128 ? 2 : operand.swizzle_bytes == 64 ? 4 : 6;
  const uint64_t panel = operand.k_fastest ? 1 : in_units(operand.panel_stride);
  const uint64_t constant = swizzle << 61 | uint64_t{1} << 46 | in_units(8 * operand.swizzle_bytes) << 32 | panel << 16;
  Value* units =
      ir.CreateLShr(ir.CreateAnd(ir.CreatePtrToInt(operand.address, ir.getInt32Ty()), ir.getInt32(0x3ffff)), 4);
  return ir.CreateOr(ir.CreateZExt(units, ir.getInt64Ty()), ir.getInt64(constant));
}

// One text for all k steps. The first may leave out what is there.
void multiply(Builder& ir, const Form& form, const GroupOperand& a, const GroupOperand& rhs, int columns, Value* sums,
              bool clear, Value* chosen) {
  std::string text = "{ .reg .pred p, adds; .reg .b64 a, b; setp.ne.b32 p, $4, 0; ";
  for (size_t step = 0; step < rhs.k_offsets.size(); ++step) {
    const auto offset = [&](const GroupOperand& x) { return std::to_string(in_units(x.k_offsets[step])); };
    if (step <= 1) text += "setp.ne.b32 adds, " + std::string(clear && step == 0 ? "0" : "1") + ", 0; ";
    text += "add.s64 a, $1, " + offset(a) + "; add.s64 b, $2, " + offset(rhs) + "; ";
    text += "@p tcgen05.mma.cta_group::1.kind::" + std::string(form.kind) + " [$0], a, b, $3, adds; ";
  }
  Value* what = ir.getInt32(instruction_descriptor(form, a, rhs, columns));
  call_asm(ir, ir.getVoidTy(), text + "}", "r,l,l,r,r",
           {sums, descriptor(ir, a), descriptor(ir, rhs), what, ir.CreateZExt(chosen, ir.getInt32Ty())});
}

}  // namespace

std::optional<GroupInstruction> tensor_instruction(ElementType a, ElementType b, ElementType sum,
                                                   dsl::Precision precision, bool has_bytes) {
  const std::optional<Form> form = form_of(a, b, precision, has_bytes);
  if (!form || (sum != ElementType::kF32 && sum != ElementType::kI32)) return std::nullopt;
  GroupInstruction out;
  out.rows = kRows;
  out.k = form->k;
  out.element_bits = form->bits;
  out.least_columns = 16;
  out.any_axis_fastest = form->bits == 16;
  out.a_from_registers = false;
  out.a = gpu::tcgen05_rows(form->k);
  out.accumulator = [](int columns) { return gpu::tcgen05_rows(columns); };
  out.emit_to_tensor_memory = [form = *form](Builder& ir, const GroupOperand& x, const GroupOperand& y, int columns,
                                             Value* sums, bool clear,
                                             Value* chosen) { multiply(ir, form, x, y, columns, sums, clear, chosen); };
  return out;
}

// Others may ask behind this.
void CudaTensorEngine::allocate(Builder& ir, Value* place, int columns) const {
  call_asm(ir, ir.getVoidTy(),
           "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [$0], " + std::to_string(columns) +
               "; tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
           "r", {ir.CreatePtrToInt(place, ir.getInt32Ty())}, Together::kWarp);
}

void CudaTensorEngine::release(Builder& ir, Value* address, int columns) const {
  call_asm(ir, ir.getVoidTy(), "tcgen05.dealloc.cta_group::1.sync.aligned.b32 $0, " + std::to_string(columns) + ";",
           "r", {address}, Together::kWarp);
}

std::vector<Value*> CudaTensorEngine::load(Builder& ir, Value* address, int columns) const {
  const auto count = static_cast<size_t>(columns);
  std::string text;
  for (const Part& part : parts_of(columns)) {
    text += "tcgen05.ld.sync.aligned.32x32b.x" + std::to_string(part.count) + ".b32 " +
            braces(static_cast<size_t>(part.first), static_cast<size_t>(part.count)) + ", " + place(count, part.first) +
            "; ";
  }
  auto* call = call_asm(ir, results_type(ir.getInt32Ty(), count), text + "tcgen05.wait::ld.sync.aligned;",
                        repeated("=r", count) + ",r", {address}, Together::kWarp);
  return results_of(ir, call, count);
}

void CudaTensorEngine::store(Builder& ir, Value* address, llvm::ArrayRef<Value*> words) const {
  std::string text;
  for (const Part& part : parts_of(static_cast<int>(words.size()))) {
    text += "tcgen05.st.sync.aligned.32x32b.x" + std::to_string(part.count) + ".b32 " + place(0, part.first) + ", " +
            braces(static_cast<size_t>(part.first) + 1, static_cast<size_t>(part.count)) + "; ";
  }
  llvm::SmallVector<Value*, 64> operands = {address};
  operands.append(words.begin(), words.end());
  call_asm(ir, ir.getVoidTy(), text + "tcgen05.wait::st.sync.aligned;", repeated("r", operands.size()), operands,
           Together::kWarp);
}

void CudaTensorEngine::before_barrier(Builder& ir) const {
  call_asm(ir, ir.getVoidTy(), "tcgen05.fence::before_thread_sync;", "", {});
}

void CudaTensorEngine::after_barrier(Builder& ir) const {
  call_asm(ir, ir.getVoidTy(), "tcgen05.fence::after_thread_sync;", "", {});
}

void CudaTensorEngine::commit(Builder& ir, Value* barrier, Value* chosen) const {
  call_asm(ir, ir.getVoidTy(),
           "{ .reg .pred p; setp.ne.b32 p, $1, 0; "
           "@p tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [$0]; }",
           "r,r", {ir.CreatePtrToInt(barrier, ir.getInt32Ty()), ir.CreateZExt(chosen, ir.getInt32Ty())});
}

}  // namespace kiln::codegen::nvptx
