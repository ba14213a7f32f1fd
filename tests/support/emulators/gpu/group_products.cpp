#include "group_products.h"

#include <bit>
#include <cstring>
#include <deque>
#include <optional>

#include "emulated_target.h"
#include "gpu/layout/fragments.h"
#include "matrix.h"

namespace kiln::test {
namespace {

namespace gpu = codegen::gpu;
using dsl::ElementType;
using gpu::GroupInstruction;
using gpu::GroupOperand;
using gpu::Layout;
using llvm::Value;
using Builder = llvm::IRBuilder<>;

constexpr int kRows = 64, kWarps = 4;

// One call in a kernel. Code refers to it for ever.
struct GroupProduct {
  ElementType a, b, sum;
  bool is_tf32 = false, clear = false;
  int k = 16, columns = 64;
  GroupOperand left, right;  // without addresses and registers
  bool left_in_registers = false;
  size_t left_registers = 0;  // of all steps
};

}  // namespace

const std::byte* element_address(const GroupOperand& operand, const std::byte* start, size_t step, int i, int k,
                                 int bytes) {
  const int64_t line = operand.swizzle_bytes, width = line / bytes;
  const int64_t within =
      operand.k_fastest ? i * line + k * bytes : i / width * operand.panel_stride + k * line + i % width * bytes;
  auto address = reinterpret_cast<uintptr_t>(start) + static_cast<uintptr_t>(operand.k_offsets[step] + within);
  // Bits 4-6 are moved by bits 7-9; of shorter lines, fewer.
  address ^= (address >> 7 & static_cast<uintptr_t>(line / 16 - 1)) << 4;
  return reinterpret_cast<const std::byte*>(address);
}

namespace {

// What one warp computes: its sixteen rows.
class WarpProduct {
 public:
  WarpProduct(const GroupProduct& product, Block& block, Thread& last, const std::byte* left, const std::byte* right)
      : product_(product),
        block_(block),
        thread_(last),
        left_(product, product.left, left, product.a, kRows),
        right_(product, product.right, right, product.b, static_cast<size_t>(product.columns)) {}

  void run() {
    Thread* warp = block_.warp_of(thread_);
    const auto number = static_cast<gpu::Bits>(thread_.number / 32 % kWarps);
    const auto columns = static_cast<unsigned>(product_.columns);
    const Layout sums = gpu::wgmma_accumulator(static_cast<int>(std::bit_ceil(columns)));
    const auto registers = static_cast<gpu::Bits>(columns) / 2;
    if (product_.left_in_registers) gather_left(warp, number);
    for (gpu::Bits lane = 0; lane < 32; ++lane) {
      for (gpu::Bits reg = 0; reg < registers; ++reg) {
        const auto at = sums.coordinates(sums.at({.reg = reg, .lane = lane, .warp = number}));
        std::byte* place = warp[lane].operands.data() + 8 * reg;
        uint64_t bits = 0;
        if (!product_.clear) std::memcpy(&bits, place, static_cast<size_t>(dsl::info(product_.sum).bytes));
        bits = multiply(static_cast<int>(at[0]), static_cast<int>(at[1]), bits);
        std::memcpy(place, &bits, sizeof bits);
      }
    }
  }

 private:
  void gather_left(const Thread* warp, gpu::Bits place) {
    const Layout layout = gpu::wgmma_a(dsl::info(product_.a).bits);
    const auto per_step = static_cast<gpu::Bits>(layout.size(gpu::Dim::kRegister));
    const size_t steps = product_.right.k_offsets.size();
    rows_.assign(steps * kRows * static_cast<size_t>(product_.k), 0);
    for (size_t step = 0; step < steps; ++step) {
      for (gpu::Bits lane = 0; lane < 32; ++lane) {
        for (gpu::Bits reg = 0; reg < per_step; ++reg) {
          const gpu::Bits element = layout.at({.reg = reg, .lane = lane, .warp = place});
          const std::byte* from = warp[lane].operands.data() + 1024 + 8 * (step * per_step + reg);
          uint64_t bits = 0;
          std::memcpy(&bits, from, sizeof bits);
          rows_[step * kRows * static_cast<size_t>(product_.k) + element] = number(product_.a, bits);
        }
      }
    }
  }

  double number(ElementType element, uint64_t bits) const {
    const double x = dsl::double_from_bits(element, bits);
    return product_.is_tf32 ? round_tf32(x) : x;
  }

  // What lies in shared memory; each element is read once, whatever number of sums it is part of.
  struct Factor {
    Factor(const GroupProduct& product, const GroupOperand& described, const std::byte* first, ElementType type,
           size_t count)
        : operand(described),
          start(first),
          element(type),
          lines(count),
          numbers(product.right.k_offsets.size() * count * static_cast<size_t>(product.k)) {}

    const GroupOperand& operand;
    const std::byte* start;
    ElementType element;
    size_t lines;
    std::vector<std::optional<double>> numbers;  // by step, line and k
  };

  double read(Factor& factor, size_t step, int i, int k) {
    const auto depth = static_cast<size_t>(product_.k);
    auto& known = factor.numbers[(step * factor.lines + static_cast<size_t>(i)) * depth + static_cast<size_t>(k)];
    if (known) return *known;
    const int bytes = dsl::info(factor.element).bytes;
    const std::byte* address = element_address(factor.operand, factor.start, step, i, k, bytes);
    block_.check_shared(thread_, address, static_cast<size_t>(bytes), false);
    uint64_t bits = 0;
    std::memcpy(&bits, address, static_cast<size_t>(bytes));
    known = number(factor.element, bits);
    return *known;
  }

  uint64_t multiply(int m, int n, uint64_t sum_bits) {
    double sum = product_.clear ? 0 : dsl::double_from_bits(product_.sum, sum_bits);
    for (size_t step = 0; step < product_.right.k_offsets.size(); ++step) {
      for (int k = 0; k < product_.k; ++k) {
        const double x = product_.left_in_registers
                             ? rows_[(step * kRows + static_cast<size_t>(m)) * static_cast<size_t>(product_.k) +
                                     static_cast<size_t>(k)]
                             : read(left_, step, m, k);
        sum = std::fma(x, read(right_, step, n, k), sum);
      }
    }
    return dsl::is_float(product_.sum) ? dsl::bits_from_double(product_.sum, sum)
                                       : dsl::bits_from_int(product_.sum, static_cast<int64_t>(sum));
  }

  const GroupProduct& product_;
  Block& block_;
  Thread& thread_;
  Factor left_, right_;
  std::vector<double> rows_;  // of all steps, when A is in registers
};

void host_group_multiply(Thread* thread, int site, const GroupProduct* product, const std::byte* left,
                         const std::byte* right) {
  Block& block = *thread->block;
  if (!block.meet_warp(*thread, site)) return;
  WarpProduct(*product, block, *thread, left, right).run();
  block.release_warp(*thread);
}

std::vector<Value*> emit(Builder& b, const GroupProduct& product, int site, const GroupOperand& left,
                         const GroupOperand& right, llvm::ArrayRef<Value*> sums) {
  const auto operand = [&](size_t offset) {
    return b.CreateConstGEP1_64(b.getInt8Ty(), EmulatedTarget::thread_of(*b.GetInsertBlock()->getParent()), offset);
  };
  for (size_t i = 0; i < sums.size(); ++i) b.CreateStore(sums[i], operand(8 * i));
  for (size_t i = 0; i < left.registers.size(); ++i) b.CreateStore(left.registers[i], operand(1024 + 8 * i));
  Value* form = b.CreateIntToPtr(b.getInt64(reinterpret_cast<uintptr_t>(&product)), b.getPtrTy());
  Value* null = llvm::ConstantPointerNull::get(b.getPtrTy());
  Value* a = left.address ? b.CreateAddrSpaceCast(left.address, b.getPtrTy()) : null;
  call_host(b, host_group_multiply, b.getVoidTy(),
            {b.getInt32(static_cast<uint32_t>(site)), form, a, b.CreateAddrSpaceCast(right.address, b.getPtrTy())});
  std::vector<Value*> out;
  for (size_t i = 0; i < sums.size(); ++i) out.push_back(b.CreateLoad(sums[i]->getType(), operand(8 * i)));
  return out;
}

GroupOperand without_values(GroupOperand operand) {
  operand.address = nullptr;
  operand.registers.clear();
  return operand;
}

}  // namespace

std::optional<GroupInstruction> find_group_instruction(ElementType a, ElementType b, ElementType sum,
                                                       dsl::Precision precision,
                                                       const std::function<int()>& next_site) {
  static std::deque<GroupProduct> products;
  const MatrixForm* form = find_matrix_form(32, a, b, sum, precision);
  const int bits = dsl::info(a).bits;
  if (!form || bits == 64) return std::nullopt;
  GroupInstruction out;
  out.warps = kWarps;
  out.rows = kRows;
  out.k = 256 / bits;
  out.element_bits = bits;
  out.any_axis_fastest = bits == 16;
  out.a = gpu::wgmma_a(bits);
  out.accumulator = [](int columns) { return gpu::wgmma_accumulator(columns); };
  out.emit = [=](Builder& builder, const GroupOperand& left, const GroupOperand& right, int columns,
                 llvm::ArrayRef<Value*> sums, bool clear) {
    products.push_back({a, b, sum, form->is_tf32, clear, 256 / bits, columns, without_values(left),
                        without_values(right), !left.registers.empty(), left.registers.size()});
    return emit(builder, products.back(), next_site(), left, right, sums);
  };
  return out;
}

}  // namespace kiln::test
