// Loads and stores of global memory. Registers that are neighbours in memory go together, up to 16 bytes at once; a
// thread that holds a copy of what another one has does not store it again.
#include "gpu/ops/memory.h"

#include "gpu/address/in_turns.h"
#include "gpu/address/register_groups.h"
#include "gpu/pipeline/bulk_store.h"
#include "gpu/pipeline/early_loads.h"

namespace kiln::codegen::gpu {
namespace {

// As memory holds it, and of a type that the vendor's accesses know: floats go as they are, pointers as ints.
llvm::Type* access_type(Context& c, const dsl::Type& type, int64_t vector) {
  llvm::Type* element = type.pointer ? c.b.getInt64Ty() : memory_type(c.b.getContext(), type.element, false);
  if (vector == 1) return element;
  return llvm::FixedVectorType::get(element, static_cast<unsigned>(vector));
}

}  // namespace

Result<Registers> load_tile(Context& c, const Op& op, const Layout& layout, Value* enabled) {
  c.order.mark(c.b, op.operands[0], layout, GlobalOrder::Use::kRead);
  return load_registers(c, op, layout, enabled);
}

Result<Registers> load_registers(Context& c, const Op& op, const Layout& layout, Value* enabled) {
  Builder& b = c.b;
  const std::optional<ValueId> mask = operand(op, 1), other = operand(op, 2);
  auto where = access_addresses(c, op.operands[0], layout);
  if (!where) return where.error();
  auto masks = get_if(c, mask, layout), others = get_if(c, other, layout);
  if (!masks || !others) return (masks ? others : masks).error();
  const dsl::Type& type = c.type(op.results[0]);
  const int64_t vector = vector_of(c, op, layout, mask);
  Registers out(where->size(), llvm::Constant::getNullValue(register_type(b.getContext(), type)));
  const std::vector<bool> padding = c.padding(layout, type);
  for (const Group& group : groups_of(layout, vector)) {
    if (padding[group[0]]) continue;
    Value* inside = both(b, mask ? (*masks)[group[0]] : nullptr, c.in_tile(layout, group[0], type));
    GlobalAccess access = access_at(c, (*where)[group[0]], both(b, inside, enabled));
    access.cache = static_cast<dsl::CacheHint>(int_attr(op, 0));
    access.eviction = static_cast<dsl::Eviction>(int_attr(op, 1));
    access.is_constant = c.constant_loads.contains(&op);
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
  return out;
}

Result<void> lower_load(Context& c, const Op& op) {
  if (is_loaded_in_turns(c, op)) {
    c.in_turns.insert(&op);
    return {};
  }
  const Layout& home = *c.placement.home[op.results[0]];
  const bool is_early = c.early_loads && c.early_loads->has(op);
  auto registers = is_early ? c.early_loads->take(op, home) : load_tile(c, op, home, c.enabled(op.results[0]));
  if (!registers) return registers.error();
  c.define(op.results[0], std::move(*registers));
  return {};
}

Result<void> lower_store(Context& c, const Op& op) {
  if (auto bulk = c.bulk.find(&op); bulk != c.bulk.end()) return lower_bulk_store(c, op, bulk->second);
  if (auto stored = store_in_turns(c, op); !stored || *stored) return stored ? Result<void>() : stored.error();
  const Layout& layout = c.placement.wanted.at(&op);
  auto values = c.get(op.operands[1], layout);
  if (!values) return values.error();
  c.order.mark(c.b, op.operands[0], layout, GlobalOrder::Use::kWrite);
  return store_registers(c, op, layout, *values);
}

Result<void> store_registers(Context& c, const Op& op, const Layout& layout, const Registers& values) {
  Builder& b = c.b;
  const std::optional<ValueId> mask = operand(op, 2);
  auto where = access_addresses(c, op.operands[0], layout);
  if (!where) return where.error();
  auto masks = get_if(c, mask, layout);
  if (!masks) return masks.error();
  const dsl::Type& type = c.type(op.operands[1]);
  const int64_t vector = vector_of(c, op, layout, mask);
  Value* first = is_first_copy(c, layout);
  const std::vector<bool> padding = c.padding(layout, type);
  for (const Group& group : groups_of(layout, vector)) {
    if (padding[group[0]]) continue;
    Value* inside = both(b, mask ? (*masks)[group[0]] : nullptr, c.in_tile(layout, group[0], type));
    GlobalAccess access = access_at(c, (*where)[group[0]], both(b, inside, first));
    access.cache = static_cast<dsl::CacheHint>(int_attr(op, 0));
    Value* stored = to_memory(b, values[group[0]]);
    if (vector > 1) {
      stored = llvm::PoisonValue::get(access_type(c, type, vector));
      for (size_t i = 0; i < group.size(); ++i)
        stored = b.CreateInsertElement(stored, to_memory(b, values[group[i]]), i);
    }
    c.target.store_global(b, stored, access);
  }
  return {};
}

}  // namespace kiln::codegen::gpu
