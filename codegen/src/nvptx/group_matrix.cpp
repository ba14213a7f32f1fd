// wgmma: the product of four warps, whose operands are read from shared memory (PTX ISA, "Asynchronous Warpgroup Level
// Matrix Instructions").
//
// An operand in shared memory is named by a descriptor, in units of 16 bytes: bits 0-13 the address, 16-29 the distance
// of panels along the fastest axis where that is not k ("leading byte offset"), 32-45 that of groups of eight lines
// ("stride byte offset"), 62-63 the swizzle (1: lines of 128 bytes, 2: 64, 3: 32).
#include "gpu/layout/fragments.h"
#include "nvptx/asm.h"
#include "nvptx/target_info.h"

namespace kiln::codegen::nvptx {
namespace {

using dsl::ElementType;
using gpu::GroupInstruction;
using gpu::GroupOperand;
using llvm::Value;
using Builder = llvm::IRBuilder<>;

struct Form {
  std::string shape_types;  // after m64nN: "k16.f32.bf16.bf16"
  int k = 16;
  int bits = 16;
  bool float_sum = true;
  bool transposes = true;  // the instruction says which axis runs fastest
  bool scales = true;      // the instruction takes signs
};

std::optional<Form> form_of(ElementType a, ElementType b, dsl::Precision precision) {
  if (a == ElementType::kF32 && precision == dsl::Precision::kTf32) {
    return Form{"k8.f32.tf32.tf32", 8, 32, true, false, true};
  }
  if (!matrix_type(a) || !matrix_type(b)) return std::nullopt;
  const std::string x = matrix_type(a), y = matrix_type(b);
  if (dsl::info(a).bits == 16) return Form{"k16.f32." + x + "." + y, 16, 16, true, true, true};
  if (dsl::is_float(a)) return Form{"k32.f32." + x + "." + y, 32, 8, true, false, true};
  return Form{"k32.s32." + x + "." + y, 32, 8, false, false, false};
}

uint64_t in_units(int64_t bytes) { return static_cast<uint64_t>(bytes) >> 4; }

// Without the address.
uint64_t descriptor_constant(const GroupOperand& operand) {
  const uint64_t swizzle = operand.swizzle_bytes == 128 ? 1 : operand.swizzle_bytes == 64 ? 2 : 3;
  const uint64_t group = in_units(8 * operand.swizzle_bytes);
  const uint64_t panel = operand.k_fastest ? 1 : in_units(operand.panel_stride);
  return swizzle << 62 | group << 32 | panel << 16;
}

Value* descriptor(Builder& ir, const GroupOperand& operand) {
  Value* address = ir.CreatePtrToInt(operand.address, ir.getInt32Ty());
  Value* units = ir.CreateLShr(ir.CreateAnd(address, ir.getInt32(0x3ffff)), 4);
  return ir.CreateOr(ir.CreateZExt(units, ir.getInt64Ty()), ir.getInt64(descriptor_constant(operand)));
}

// One text for all k steps: { add descriptors; wgmma …; }
class Emitter {
 public:
  Emitter(Builder& ir, const Form& form, const GroupOperand& a, const GroupOperand& rhs, int columns)
      : ir_(ir), form_(form), a_(a), rhs_(rhs), columns_(columns) {}

  std::vector<Value*> emit(llvm::ArrayRef<Value*> accumulators, bool clear) {
    const size_t count = accumulators.size();
    number_ = count;
    constraints_ = repeated(form_.float_sum ? "=f" : "=r", count);
    if (!clear) {
      constraints_ += "," + tied(count);
      in_.append(accumulators.begin(), accumulators.end());
      number_ += count;
    }
    const bool in_registers = !a_.registers.empty();
    const std::string a = in_registers ? "" : operand("l", descriptor(ir_, a_));
    const std::string rhs = operand("l", descriptor(ir_, rhs_));
    const size_t steps = rhs_.k_offsets.size();
    std::vector<Value*> words;
    if (in_registers) words = pack_words(ir_, a_.registers, form_.bits);
    const size_t first_word = number_;
    for (Value* word : words) operand("r", word);
    std::string text = "{ .reg .b64 a, b; ";
    for (size_t step = 0; step < steps; ++step) {
      if (!in_registers) text += offset("a", a, a_.k_offsets[step]);
      text += offset("b", rhs, rhs_.k_offsets[step]);
      const size_t per_step = words.size() / steps;
      const std::string left = in_registers ? braces(first_word + step * per_step, per_step) : "a";
      text += "wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns_) + form_.shape_types + " " +
              braces(0, count) + ", " + left + ", b, " + (clear && step == 0 ? "0" : "1") + modifiers(in_registers) +
              "; ";
    }
    llvm::Type* one = form_.float_sum ? ir_.getFloatTy() : ir_.getInt32Ty();
    auto* call = call_asm(ir_, results_type(one, count), text + "}", constraints_, in_, Together::kWarp);
    return results_of(ir_, call, count);
  }

 private:
  std::string operand(const std::string& constraint, Value* x) {
    constraints_ += "," + constraint;
    in_.push_back(x);
    return "$" + std::to_string(number_++);
  }

  static std::string offset(const std::string& to, const std::string& from, int64_t bytes) {
    return "add.s64 " + to + ", " + from + ", " + std::to_string(in_units(bytes)) + "; ";
  }

  // Signs of both operands, and whether k is not the axis that runs fastest.
  std::string modifiers(bool a_in_registers) const {
    std::string out = form_.scales ? ", 1, 1" : "";
    if (!form_.transposes) return out;
    if (!a_in_registers) out += a_.k_fastest ? ", 0" : ", 1";
    return out + (rhs_.k_fastest ? ", 0" : ", 1");
  }

  Builder& ir_;
  const Form& form_;
  const GroupOperand &a_, &rhs_;
  const int columns_;
  size_t number_ = 0;
  std::string constraints_;
  llvm::SmallVector<Value*, 64> in_;
};

}  // namespace

std::optional<GroupInstruction> CudaTargetInfo::group_instruction(ElementType a, ElementType b, ElementType sum,
                                                                  dsl::Precision precision) const {
  if (target_.units().tensor_memory) return tensor_instruction(a, b, sum, precision, target_.units().tensor_bytes);
  if (!target_.units().group_products) return std::nullopt;
  const std::optional<Form> form = form_of(a, b, precision);
  if (!form || (sum != ElementType::kF32 && sum != ElementType::kI32)) return std::nullopt;
  GroupInstruction out;
  out.k = form->k;
  out.element_bits = form->bits;
  out.any_axis_fastest = form->transposes;
  out.a = gpu::wgmma_a(form->bits);
  out.accumulator = [](int columns) { return gpu::wgmma_accumulator(columns); };
  out.emit = [form = *form](Builder& builder, const GroupOperand& x, const GroupOperand& y, int columns,
                            llvm::ArrayRef<Value*> accumulators,
                            bool clear) { return Emitter(builder, form, x, y, columns).emit(accumulators, clear); };
  return out;
}

void CudaTargetInfo::group_fence(Builder& ir) const {
  call_asm(ir, ir.getVoidTy(), "wgmma.fence.sync.aligned;", "", {}, Together::kWarp);
}

void CudaTargetInfo::group_commit(Builder& ir) const {
  call_asm(ir, ir.getVoidTy(), "wgmma.commit_group.sync.aligned;", "", {}, Together::kWarp);
}

std::vector<Value*> CudaTargetInfo::group_copy(Builder& ir, llvm::ArrayRef<Value*> elements, int bits) const {
  const std::vector<Value*> words = pack_words(ir, elements, bits);
  const size_t count = words.size();
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += "mov.b32 $" + std::to_string(i) + ", $" + std::to_string(count + i) + "; ";
  }
  auto* call = call_asm(ir, results_type(ir.getInt32Ty(), count), text,
                        repeated("=r", count) + "," + repeated("r", count), words);
  llvm::Type* element = elements[0]->getType();
  std::vector<Value*> out;
  for (Value* word : results_of(ir, call, count)) {
    if (bits == 32) {
      out.push_back(ir.CreateBitCast(word, element));
      continue;
    }
    const unsigned per_word = 32 / static_cast<unsigned>(bits);
    Value* vector = ir.CreateBitCast(word, llvm::FixedVectorType::get(element, per_word));
    for (unsigned i = 0; i < per_word; ++i) out.push_back(ir.CreateExtractElement(vector, i));
  }
  return out;
}

std::vector<Value*> CudaTargetInfo::group_wait(Builder& ir, int groups, llvm::ArrayRef<Value*> accumulators) const {
  const std::string text = "wgmma.wait_group.sync.aligned " + std::to_string(groups) + ";";
  const size_t count = accumulators.size();
  if (count == 0) {
    call_asm(ir, ir.getVoidTy(), text, "", {}, Together::kWarp);
    return {};
  }
  const char* letter = accumulators[0]->getType()->isFloatTy() ? "=f" : "=r";
  auto* call = call_asm(ir, results_type(accumulators[0]->getType(), count), text,
                        repeated(letter, count) + "," + tied(count), accumulators, Together::kWarp);
  return results_of(ir, call, count);
}

// What reads shared memory so began with sm_90.
void CudaTargetInfo::group_publish(Builder& ir) const {
  if (!target_.units().bulk_copies) return;
  call_asm(ir, ir.getVoidTy(), "fence.proxy.async.shared::cta;", "", {});
}

}  // namespace kiln::codegen::nvptx
