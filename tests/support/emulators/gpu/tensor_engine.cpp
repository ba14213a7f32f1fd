#include "tensor_engine.h"

#include <cstring>
#include <deque>

#include "emulated_target.h"
#include "gpu/layout/fragments.h"
#include "group_products.h"
#include "matrix.h"

namespace kiln::test {
namespace {

namespace gpu = codegen::gpu;
using dsl::ElementType;
using gpu::GroupInstruction;
using gpu::GroupOperand;
using llvm::Value;
using Builder = llvm::IRBuilder<>;

constexpr int kRows = gpu::TensorEngine::kLanes;

// One call in a kernel. Code refers to it for ever.
struct TensorProduct {
  ElementType a, b, sum;
  bool is_tf32 = false, clear = false;
  int k = 16, columns = 16;
  GroupOperand left, right;  // without addresses
};

// An operand as it lies in shared memory; read when the product runs.
class Factor {
 public:
  Factor(const TensorProduct& product, const GroupOperand& operand, const std::byte* start, ElementType type, int lines)
      : product_(product), operand_(operand), start_(start), type_(type), lines_(lines) {}

  void check(Thread& thread) const {
    each([&](const std::byte* address) {
      thread.block->check_shared(thread, address, static_cast<size_t>(dsl::info(type_).bytes), false);
    });
  }

  // By line, then by step and k.
  std::vector<double> numbers() const {
    std::vector<double> out;
    each([&](const std::byte* address) {
      uint64_t bits = 0;
      std::memcpy(&bits, address, static_cast<size_t>(dsl::info(type_).bytes));
      const double x = dsl::double_from_bits(type_, bits);
      out.push_back(product_.is_tf32 ? round_tf32(x) : x);
    });
    return out;
  }

 private:
  template <class Visit>
  void each(Visit visit) const {
    for (int line = 0; line < lines_; ++line) {
      for (size_t step = 0; step < operand_.k_offsets.size(); ++step) {
        for (int k = 0; k < product_.k; ++k) {
          visit(element_address(operand_, start_, step, line, k, dsl::info(type_).bytes));
        }
      }
    }
  }

  const TensorProduct& product_;
  const GroupOperand& operand_;
  const std::byte* start_;
  ElementType type_;
  int lines_;
};

void add(const TensorProduct& product, const Factor& left, const Factor& right, std::span<uint32_t> sums) {
  const std::vector<double> x = left.numbers(), y = right.numbers();
  const size_t depth = x.size() / kRows, columns = static_cast<size_t>(product.columns);
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      uint32_t& bits = sums[row * columns + column];
      double sum = product.clear ? 0 : dsl::double_from_bits(product.sum, bits);
      for (size_t k = 0; k < depth; ++k) sum = std::fma(x[row * depth + k], y[column * depth + k], sum);
      bits = static_cast<uint32_t>(dsl::is_float(product.sum)
                                       ? dsl::bits_from_double(product.sum, sum)
                                       : dsl::bits_from_int(product.sum, static_cast<int64_t>(sum)));
    }
  }
}

void host_multiply(Thread* thread, const TensorProduct* product, const std::byte* left, const std::byte* right,
                   uint32_t sums, uint32_t chosen) {
  if (!chosen) return;
  const Factor a(*product, product->left, left, product->a, kRows);
  const Factor b(*product, product->right, right, product->b, product->columns);
  a.check(*thread);
  b.check(*thread);
  thread->block->tensor().multiply(*thread, sums, product->columns, product->clear,
                                   [=](std::span<uint32_t> words) { add(*product, a, b, words); });
}

void host_allocate(Thread* thread, int site, uint32_t* place, int columns) {
  Block& block = *thread->block;
  if (!block.meet_warp(*thread, site)) return;
  const uint32_t address = block.tensor().allocate(*thread, columns);
  std::memcpy(place, &address, sizeof address);
  block.check_shared(*thread, place, sizeof address, true);
  block.release_warp(*thread);
}

void host_release(Thread* thread, int site, uint32_t address, int columns) {
  Block& block = *thread->block;
  if (!block.meet_warp(*thread, site)) return;
  block.tensor().release(*thread, address, columns);
  block.release_warp(*thread);
}

uint32_t* words_of(Thread* thread) { return reinterpret_cast<uint32_t*>(thread->operands.data()); }

void host_load(Thread* thread, uint32_t address, int columns) {
  thread->block->tensor().load(*thread, address, columns, words_of(thread));
}

void host_store(Thread* thread, uint32_t address, int columns) {
  thread->block->tensor().store(*thread, address, columns, words_of(thread));
}

void host_before_barrier(Thread* thread) { thread->block->tensor().before_barrier(*thread); }
void host_after_barrier(Thread* thread) { thread->block->tensor().after_barrier(*thread); }

void host_commit(Thread* thread, const void* barrier, uint32_t chosen) {
  if (chosen) thread->block->tensor().commit(*thread, barrier);
}

Value* number(Builder& b, int x) { return b.getInt32(static_cast<uint32_t>(x)); }
Value* flat(Builder& b, Value* shared) { return b.CreateAddrSpaceCast(shared, b.getPtrTy()); }
Value* word(Builder& b, size_t i) {
  return b.CreateConstGEP1_64(b.getInt32Ty(), EmulatedTarget::thread_of(*b.GetInsertBlock()->getParent()), i);
}

GroupOperand without_address(GroupOperand operand) {
  operand.address = nullptr;
  return operand;
}

}  // namespace

void EmulatedTensorEngine::allocate(Builder& b, Value* place, int columns) const {
  call_host(b, host_allocate, b.getVoidTy(), {number(b, ++sites_), flat(b, place), number(b, columns)});
}

void EmulatedTensorEngine::release(Builder& b, Value* address, int columns) const {
  call_host(b, host_release, b.getVoidTy(), {number(b, ++sites_), address, number(b, columns)});
}

std::vector<Value*> EmulatedTensorEngine::load(Builder& b, Value* address, int columns) const {
  call_host(b, host_load, b.getVoidTy(), {address, number(b, columns)});
  std::vector<Value*> out;
  for (int i = 0; i < columns; ++i) out.push_back(b.CreateLoad(b.getInt32Ty(), word(b, static_cast<size_t>(i))));
  return out;
}

void EmulatedTensorEngine::store(Builder& b, Value* address, llvm::ArrayRef<Value*> words) const {
  for (size_t i = 0; i < words.size(); ++i) b.CreateStore(words[i], word(b, i));
  call_host(b, host_store, b.getVoidTy(), {address, number(b, static_cast<int>(words.size()))});
}

void EmulatedTensorEngine::before_barrier(Builder& b) const { call_host(b, host_before_barrier, b.getVoidTy(), {}); }
void EmulatedTensorEngine::after_barrier(Builder& b) const { call_host(b, host_after_barrier, b.getVoidTy(), {}); }

void EmulatedTensorEngine::commit(Builder& b, Value* barrier, Value* chosen) const {
  call_host(b, host_commit, b.getVoidTy(), {flat(b, barrier), b.CreateZExt(chosen, b.getInt32Ty())});
}

std::optional<GroupInstruction> find_tensor_instruction(ElementType a, ElementType b, ElementType sum,
                                                        dsl::Precision precision, bool has_bytes) {
  static std::deque<TensorProduct> products;
  const MatrixForm* form = find_matrix_form(32, a, b, sum, precision);
  const int bits = dsl::info(a).bits;
  if (!form || bits == 64 || (!has_bytes && !dsl::is_float(a))) return std::nullopt;
  GroupInstruction out;
  out.rows = kRows;
  out.k = 256 / bits;
  out.element_bits = bits;
  out.least_columns = 16;
  out.any_axis_fastest = bits == 16;
  out.a_from_registers = false;
  out.a = gpu::tcgen05_rows(out.k);
  out.accumulator = [](int columns) { return gpu::tcgen05_rows(columns); };
  out.emit_to_tensor_memory = [=](Builder& builder, const GroupOperand& left, const GroupOperand& right, int columns,
                                  Value* sums, bool clear, Value* chosen) {
    products.push_back(
        {a, b, sum, form->is_tf32, clear, 256 / bits, columns, without_address(left), without_address(right)});
    Value* product =
        builder.CreateIntToPtr(builder.getInt64(reinterpret_cast<uintptr_t>(&products.back())), builder.getPtrTy());
    call_host(builder, host_multiply, builder.getVoidTy(),
              {product, flat(builder, left.address), flat(builder, right.address), sums,
               builder.CreateZExt(chosen, builder.getInt32Ty())});
  };
  return out;
}

}  // namespace kiln::test
