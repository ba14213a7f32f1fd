// Loads and stores of global memory. Registers that are neighbours in memory go together, up to 16 bytes at once; a
// thread that holds a copy of what another one has does not store it again.
#include "gpu/context.h"
#include "gpu/layout/access.h"
#include "passes/op_builder.h"

namespace kiln::codegen::gpu {

// How many neighbours along the last axis one access may take: in one thread, aligned, and under one mask.
int64_t vector_of(Context& c, const Op& op, const Layout& layout, std::optional<ValueId> mask) {
  const dsl::Type& type = c.type(op.operands[0]);
  const int64_t bytes = dsl::info(type.element).bytes;
  const AxisInfo& info = c.info[op.operands[0]];
  int64_t vector = vector_width(layout, info.contiguous, 0, static_cast<int>(8 * bytes));
  const auto fits = [&](int64_t n) {
    return dsl::concrete_shape(type).back() % n == 0 && multiple_of_groups(info, n, bytes) % (n * bytes) == 0 &&
           (!mask || c.info[*mask].constant % n == 0);
  };
  while (vector > 1 && !fits(vector)) vector /= 2;
  return vector;
}

std::vector<Group> groups_of(const Layout& layout, int64_t vector, std::optional<int> along) {
  const Columns& bases = layout.bases(Dim::kRegister);
  const Span registers(bases);
  std::vector<Bits> neighbour;  // the registers of the elements 1, 2, 4, … further on
  const int shift = layout.axis_offset(along.value_or(layout.rank() - 1));
  for (int64_t n = 1; n < vector; n *= 2) neighbour.push_back(*registers.solve(static_cast<Bits>(n) << shift));
  const Bits inside = static_cast<Bits>(vector - 1) << shift;
  std::vector<Group> out;
  for (Bits reg = 0; reg < static_cast<Bits>(layout.size(Dim::kRegister)); ++reg) {
    if ((multiply(bases, reg) & inside) != 0) continue;
    Group group;
    for (Bits i = 0; i < static_cast<Bits>(vector); ++i) group.push_back(reg ^ multiply(neighbour, i));
    out.push_back(std::move(group));
  }
  return out;
}

Value* pointer_of(Context& c, const Address& address) {
  if (address.offset == 0) return address.base;
  return c.b.CreateGEP(c.b.getInt8Ty(), address.base, c.b.getInt64(static_cast<uint64_t>(address.offset)));
}

namespace {

Value* both(Builder& b, Value* x, Value* y) { return !x ? y : !y ? x : b.CreateAnd(x, y); }

Result<Registers> get_if(Context& c, const std::optional<ValueId>& id, const Layout& layout) {
  return id ? c.get(*id, layout) : Result<Registers>(Registers());
}

std::optional<ValueId> operand(const Op& op, size_t index) {
  return op.operands.size() > index ? std::optional(op.operands[index]) : std::nullopt;
}

// As memory holds it, and of a type that the vendor's accesses know: floats go as they are, pointers as ints.
llvm::Type* access_type(Context& c, const dsl::Type& type, int64_t vector) {
  llvm::Type* element = type.pointer ? c.b.getInt64Ty() : memory_type(c.b.getContext(), type.element, false);
  if (vector == 1) return element;
  return llvm::FixedVectorType::get(element, static_cast<unsigned>(vector));
}

// A thread's own copies, those in free bits of lanes and warps, are the ones with zeros there.
Value* is_first_copy(Context& c, const Layout& layout) {
  Value* out = nullptr;
  for (Dim dim : {Dim::kLane, Dim::kWarp}) {
    const Bits free = layout.free_mask(dim);
    if (free == 0) continue;
    Value* index = dim == Dim::kLane ? c.lane : c.warp;
    out = both(c.b, out, c.b.CreateIsNull(c.b.CreateAnd(index, c.b.getInt32(static_cast<uint32_t>(free)))));
  }
  return out;
}

}  // namespace

Result<void> lower_load(Context& c, const Op& op) {
  Builder& b = c.b;
  const ValueId result = op.results[0];
  const Layout& layout = *c.placement.home[result];
  const std::optional<ValueId> mask = operand(op, 1), other = operand(op, 2);
  auto where = addresses(c, op.operands[0], layout);
  if (!where) return where.error();
  auto masks = get_if(c, mask, layout), others = get_if(c, other, layout);
  if (!masks || !others) return (masks ? others : masks).error();
  const dsl::Type& type = c.type(result);
  const int64_t vector = vector_of(c, op, layout, mask);
  Registers out(where->size());
  for (const Group& group : groups_of(layout, vector)) {
    const GlobalAccess access = {pointer_of(c, (*where)[group[0]]),
                                 both(b, mask ? (*masks)[group[0]] : nullptr, c.in_tile(layout, group[0], type)),
                                 static_cast<dsl::CacheHint>(int_attr(op, 0)),
                                 static_cast<dsl::Eviction>(int_attr(op, 1))};
    llvm::Type* packed = access_type(c, type, vector);
    Value* fallback = llvm::Constant::getNullValue(packed);
    if (other && vector == 1) {
      fallback = to_memory(b, (*others)[group[0]]);
    } else if (other) {
      for (size_t i = 0; i < group.size(); ++i) {
        fallback = b.CreateInsertElement(fallback, to_memory(b, (*others)[group[i]]), i);
      }
    }
    Value* loaded = c.target.load_global(b, packed, access, fallback);
    for (size_t i = 0; i < group.size(); ++i) {
      out[group[i]] = from_memory(b, vector == 1 ? loaded : b.CreateExtractElement(loaded, i), type);
    }
  }
  c.define(result, std::move(out));
  return {};
}

Result<void> lower_store(Context& c, const Op& op) {
  Builder& b = c.b;
  const Layout& layout = c.placement.wanted.at(&op);
  const std::optional<ValueId> mask = operand(op, 2);
  auto where = addresses(c, op.operands[0], layout);
  if (!where) return where.error();
  auto values = c.get(op.operands[1], layout), masks = get_if(c, mask, layout);
  if (!values || !masks) return (values ? masks : values).error();
  const dsl::Type& type = c.type(op.operands[1]);
  const int64_t vector = vector_of(c, op, layout, mask);
  Value* first = is_first_copy(c, layout);
  for (const Group& group : groups_of(layout, vector)) {
    Value* inside = both(b, mask ? (*masks)[group[0]] : nullptr, c.in_tile(layout, group[0], type));
    const GlobalAccess access = {pointer_of(c, (*where)[group[0]]), both(b, inside, first),
                                 static_cast<dsl::CacheHint>(int_attr(op, 0))};
    Value* stored = to_memory(b, (*values)[group[0]]);
    if (vector > 1) {
      stored = llvm::PoisonValue::get(access_type(c, type, vector));
      for (size_t i = 0; i < group.size(); ++i)
        stored = b.CreateInsertElement(stored, to_memory(b, (*values)[group[i]]), i);
    }
    c.target.store_global(b, stored, access);
  }
  return {};
}

}  // namespace kiln::codegen::gpu
