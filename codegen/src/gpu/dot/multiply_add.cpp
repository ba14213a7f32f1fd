#include "gpu/dot/multiply_add.h"

#include <bit>

namespace kiln::codegen::gpu {
namespace {

constexpr int kVectorBits = 2;           // neighbours along k of A, along n of B
constexpr int kColumnLaneBits = 3;       // of lanes: neighbours along n
constexpr int64_t kMostOfThread = 4096;  // multiply-adds, which are not in a loop
constexpr int kMostRowBits = 3, kMostWideBits = 1;

// What a thread has: rows of A, vectors along n of B, as powers of two.
struct ThreadBlock {
  int row_bits = kMostRowBits, wide_bits = kMostWideBits;
};

Value* multiply_add(Builder& ir, Value* x, Value* y, Value* sum) {
  if (x->getType()->isIntegerTy()) return ir.CreateAdd(sum, ir.CreateMul(x, y));
  return ir.CreateIntrinsic(llvm::Intrinsic::fma, {sum->getType()}, {x, y, sum});
}

int lane_bits_of(const BlockShape& block) { return std::countr_zero(static_cast<unsigned>(block.lanes)); }

MatrixInstruction instruction_of(const ThreadBlock& thread, int lane_bits) {
  const int row_lane_bits = lane_bits - kColumnLaneBits, column_bits = kVectorBits + thread.wide_bits;
  const int64_t rows = int64_t{1} << (row_lane_bits + thread.row_bits);
  const int64_t columns = int64_t{1} << (column_bits + kColumnLaneBits), inner = int64_t{1} << kVectorBits;
  MatrixInstruction out;
  out.a = from_steps({rows, inner}, {{Dim::kRegister, 1, kVectorBits},
                                     {Dim::kLane, kNoAxis, kColumnLaneBits},
                                     {Dim::kLane, 0, row_lane_bits},
                                     {Dim::kRegister, 0, thread.row_bits}});
  out.b = from_steps({inner, columns}, {{Dim::kRegister, 1, kVectorBits},
                                        {Dim::kLane, 1, kColumnLaneBits},
                                        {Dim::kRegister, 1, thread.wide_bits},
                                        {Dim::kRegister, 0, kVectorBits},
                                        {Dim::kLane, kNoAxis, row_lane_bits}});
  out.accumulator = from_steps({rows, columns}, {{Dim::kRegister, 1, kVectorBits},
                                                 {Dim::kLane, 1, kColumnLaneBits},
                                                 {Dim::kRegister, 1, thread.wide_bits},
                                                 {Dim::kLane, 0, row_lane_bits},
                                                 {Dim::kRegister, 0, thread.row_bits}});
  using Operand = MatrixInstruction::Operand;
  out.emit = [thread, column_bits](Builder& ir, Operand x, Operand y, Operand accumulators) {
    std::vector<Value*> next(accumulators.begin(), accumulators.end());
    for (size_t k = 0; k < size_t{1} << kVectorBits; ++k) {
      for (size_t m = 0; m < size_t{1} << thread.row_bits; ++m) {
        for (size_t n = 0; n < size_t{1} << column_bits; ++n) {
          Value*& sum = next[n + (m << column_bits)];
          sum = multiply_add(ir, x[k + (m << kVectorBits)], y[n + (k << column_bits)], sum);
        }
      }
    }
    return next;
  };
  return out;
}

}  // namespace

std::optional<MatrixInstruction> multiply_add_instruction(const DotTypes& types, int64_t rows, int64_t columns,
                                                          int64_t inner, const BlockShape& block) {
  if (types.a != types.sum || types.b != types.sum || inner < int64_t{1} << kVectorBits) return std::nullopt;
  if (rows * columns * inner > kMostOfThread * block.lanes * block.warps) return std::nullopt;
  const int lane_bits = lane_bits_of(block);
  if (lane_bits < kColumnLaneBits) return std::nullopt;
  ThreadBlock thread;
  const auto fits = [&] {
    const int64_t m = rows >> (thread.row_bits + lane_bits - kColumnLaneBits);
    const int64_t n = columns >> (kVectorBits + thread.wide_bits + kColumnLaneBits);
    return m * n >= block.warps;
  };
  if (!fits()) thread.wide_bits = 0;
  while (!fits() && thread.row_bits > 0) --thread.row_bits;
  if (!fits()) return std::nullopt;
  return instruction_of(thread, lane_bits);
}

MatrixInstruction least_multiply_add_instruction(const BlockShape& block) {
  return instruction_of({0, 0}, lane_bits_of(block));
}

}  // namespace kiln::codegen::gpu
