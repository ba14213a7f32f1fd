#include "gpu/shared/shared_access.h"

#include <algorithm>

namespace kiln::codegen::gpu {
namespace {

// What one instruction of matrices moves: up to four, of which eight lanes each give the rows' addresses.
constexpr int kMostMatrices = 4;
constexpr int kWordBits = 32;

// From the register of a matrix's first element, and the lane, to the address that the lane gives.
//
// Bits 0-2 of the lane number the rows of a matrix, bits 3 and 4 the matrices. A row's first element is that of the
// lane which has it: row r in lane 4·r, of a transposed matrix in lane r / 2, register r % 2.
Layout row_addresses(const SharedAccess& access) {
  const Layout& offsets = access.offsets;
  const Columns& lanes = offsets.bases(Dim::kLane);
  Layout out(offsets.shape());
  out.add(Dim::kRegister, offsets.bases(Dim::kRegister));
  if (access.kind == AccessKind::kMatrix) {
    out.add(Dim::kLane, {lanes[2], lanes[3], lanes[4]});
  } else {
    out.add(Dim::kLane, {offsets.at({.reg = access.group[0]}), lanes[0], lanes[1]});
  }
  for (size_t i = 0; i < 2; ++i) {
    out.add(Dim::kLane, i < access.each.size() ? offsets.at({.reg = access.each[i]}) : 0);
  }
  out.add(Dim::kWarp, offsets.bases(Dim::kWarp));
  return out;
}

int matrices_at_once(const SharedAccess& access) {
  return std::min(kMostMatrices, 1 << std::min<size_t>(access.each.size(), 2));
}

llvm::FixedVectorType* word_of(Context& ctx, int bits) {
  return llvm::FixedVectorType::get(ctx.ir.getIntNTy(static_cast<unsigned>(bits)),
                                    static_cast<unsigned>(kWordBits / bits));
}

void store_matrices(Context& ctx, const SharedPlace& place, const SharedAccess& access, const Registers& registers,
                    int bits) {
  Builder& ir = ctx.ir;
  const Layout rows = row_addresses(access);
  const Bits count = static_cast<Bits>(matrices_at_once(access));
  for (Bits i = 0; i < Bits{1} << access.each.size(); i += count) {
    std::vector<Value*> words;
    for (Bits matrix = i; matrix < i + count; ++matrix) {
      const Bits first = multiply(access.each, matrix);
      Value* word = llvm::PoisonValue::get(word_of(ctx, bits));
      for (Bits j = 0; j < Bits{1} << access.group.size(); ++j) {
        word = ir.CreateInsertElement(word, registers[first ^ multiply(access.group, j)], j);
      }
      words.push_back(ir.CreateBitCast(word, ir.getInt32Ty()));
    }
    place.buffer->touch(ir, SharedBuffer::Access::kWrite, place.phase);
    ctx.target.store_matrices(ir, shared_address(ctx, place.base, rows, multiply(access.each, i), bits), words,
                              access.kind == AccessKind::kTransposedMatrix);
  }
}

Registers load_matrices(Context& ctx, const SharedPlace& place, const SharedAccess& access, int bits) {
  Builder& ir = ctx.ir;
  const Layout rows = row_addresses(access);
  const Bits count = static_cast<Bits>(matrices_at_once(access));
  Registers out(static_cast<size_t>(access.offsets.size(Dim::kRegister)));
  for (Bits i = 0; i < Bits{1} << access.each.size(); i += count) {
    place.buffer->touch(ir, SharedBuffer::Access::kRead, place.phase);
    const std::vector<Value*> words =
        ctx.target.load_matrices(ir, shared_address(ctx, place.base, rows, multiply(access.each, i), bits),
                                 static_cast<int>(count), access.kind == AccessKind::kTransposedMatrix);
    for (Bits matrix = 0; matrix < count; ++matrix) {
      const Bits first = multiply(access.each, i + matrix);
      Value* elements = ir.CreateBitCast(words[matrix], word_of(ctx, bits));
      for (Bits j = 0; j < Bits{1} << access.group.size(); ++j) {
        out[first ^ multiply(access.group, j)] = ir.CreateExtractElement(elements, j);
      }
    }
  }
  return out;
}

llvm::FixedVectorType* vector_of(Context& ctx, const SharedAccess& access, int bits) {
  return llvm::FixedVectorType::get(ctx.ir.getIntNTy(static_cast<unsigned>(bits)), 1u << access.group.size());
}

llvm::Align alignment_of(const SharedAccess& access, int bits) {
  return llvm::Align(static_cast<uint64_t>(bits) / 8 << access.group.size());
}

}  // namespace

// The thread's part of the offset once, the register's as a constant where its bits are others.
Value* shared_address(Context& ctx, Value* base, const Layout& offsets, Bits reg, int bits) {
  Builder& ir = ctx.ir;
  Value* thread = ctx.thread_coordinate(offsets, 0);
  Bits by_thread = 0;
  for (Dim dim : {Dim::kLane, Dim::kWarp}) {
    for (Bits basis : offsets.bases(dim)) by_thread |= basis;
  }
  const Bits mine = offsets.at({.reg = reg});
  const uint64_t bytes = static_cast<uint64_t>(bits) / 8;
  const auto scaled = [&](Value* offset) { return ir.CreateMul(offset, ir.getInt32(static_cast<uint32_t>(bytes))); };
  if ((mine & by_thread) != 0) {
    // Bits that the thread does not have are added, so that they become part of the instruction.
    const Bits shared_bits = mine & by_thread;
    Value* offset = ir.CreateXor(thread, ir.getInt32(static_cast<uint32_t>(shared_bits)));
    Value* address = ir.CreateGEP(ir.getInt8Ty(), base, scaled(offset));
    return ir.CreateGEP(ir.getInt8Ty(), address, ir.getInt32(static_cast<uint32_t>((mine ^ shared_bits) * bytes)));
  }
  Value* address = ir.CreateGEP(ir.getInt8Ty(), base, scaled(thread));
  return ir.CreateGEP(ir.getInt8Ty(), address, ir.getInt32(static_cast<uint32_t>(mine * bytes)));
}

void store_shared(Context& ctx, const SharedPlace& place, const SharedAccess& access, const Registers& registers,
                  int bits) {
  if (access.kind != AccessKind::kVector) return store_matrices(ctx, place, access, registers, bits);
  Builder& ir = ctx.ir;
  for (Bits i = 0; i < Bits{1} << access.each.size(); ++i) {
    const Bits first = multiply(access.each, i);
    Value* vector = llvm::PoisonValue::get(vector_of(ctx, access, bits));
    for (Bits j = 0; j < Bits{1} << access.group.size(); ++j) {
      vector = ir.CreateInsertElement(vector, registers[first ^ multiply(access.group, j)], j);
    }
    Value* address = shared_address(ctx, place.base, access.offsets, first, bits);
    place.buffer->mark(ir.CreateAlignedStore(vector, address, alignment_of(access, bits)), SharedBuffer::Access::kWrite,
                       place.phase);
  }
}

Registers load_shared(Context& ctx, const SharedPlace& place, const SharedAccess& access, int bits) {
  if (access.kind != AccessKind::kVector) return load_matrices(ctx, place, access, bits);
  Builder& ir = ctx.ir;
  Registers out(static_cast<size_t>(access.offsets.size(Dim::kRegister)));
  for (Bits i = 0; i < Bits{1} << access.each.size(); ++i) {
    const Bits first = multiply(access.each, i);
    Value* address = shared_address(ctx, place.base, access.offsets, first, bits);
    auto* vector = ir.CreateAlignedLoad(vector_of(ctx, access, bits), address, alignment_of(access, bits));
    place.buffer->mark(vector, SharedBuffer::Access::kRead, place.phase);
    for (Bits j = 0; j < Bits{1} << access.group.size(); ++j) {
      out[first ^ multiply(access.group, j)] = ir.CreateExtractElement(vector, j);
    }
  }
  return out;
}

Registers load_shared_part(Context& ctx, const SharedPlace& place, const SharedAccess& access, int bits, Bits mask,
                           Bits part) {
  Registers out(static_cast<size_t>(access.offsets.size(Dim::kRegister)));
  for (Bits reg = 0; reg < out.size(); ++reg) {
    if ((reg & mask) != part) continue;
    Value* address = shared_address(ctx, place.base, access.offsets, reg, bits);
    auto* load = ctx.ir.CreateAlignedLoad(ctx.ir.getIntNTy(static_cast<unsigned>(bits)), address,
                                          llvm::Align(static_cast<uint64_t>(bits) / 8));
    place.buffer->mark(load, SharedBuffer::Access::kRead, place.phase);
    out[reg] = load;
  }
  return out;
}

int traveling_bits(const dsl::Type& type) {
  return type.pointer ? 64 : type.element == ElementType::kI1 ? 8 : dsl::info(type.element).bits;
}

Value* to_bits(Context& ctx, Value* x, int bits) {
  if (x->getType()->isPointerTy()) return ctx.ir.CreatePtrToInt(x, ctx.ir.getInt64Ty());
  if (x->getType()->isIntegerTy(1)) return ctx.ir.CreateZExt(x, ctx.ir.getInt8Ty());
  return ctx.ir.CreateBitCast(x, ctx.ir.getIntNTy(static_cast<unsigned>(bits)));
}

Value* from_bits(Context& ctx, Value* x, const dsl::Type& type) {
  llvm::Type* to = register_type(ctx.ir.getContext(), type);
  if (to->isPointerTy()) return ctx.ir.CreateIntToPtr(x, to);
  if (to->isIntegerTy(1)) return ctx.ir.CreateIsNotNull(x);
  return ctx.ir.CreateBitCast(x, to);
}

Value* vector_from(Builder& ir, llvm::ArrayRef<Value*> elements) {
  const auto count = static_cast<unsigned>(elements.size());
  std::vector<Value*> sources;
  llvm::SmallVector<int, 4> mask;
  for (Value* x : elements) {
    auto* part = llvm::dyn_cast<llvm::ExtractElementInst>(x);
    const auto* at = part ? llvm::dyn_cast<llvm::ConstantInt>(part->getIndexOperand()) : nullptr;
    auto* from = part ? llvm::dyn_cast<llvm::FixedVectorType>(part->getVectorOperandType()) : nullptr;
    if (!at || from->getNumElements() != count) break;
    const auto source = std::ranges::find(sources, part->getVectorOperand());
    const auto number = static_cast<unsigned>(source - sources.begin());
    if (source == sources.end()) sources.push_back(part->getVectorOperand());
    mask.push_back(static_cast<int>(number * count + at->getZExtValue()));
  }
  if (mask.size() == count && sources.size() <= 2) return ir.CreateShuffleVector(sources.front(), sources.back(), mask);
  Value* out = llvm::PoisonValue::get(llvm::FixedVectorType::get(elements[0]->getType(), count));
  for (unsigned i = 0; i < count; ++i) out = ir.CreateInsertElement(out, elements[i], i);
  return out;
}

}  // namespace kiln::codegen::gpu
