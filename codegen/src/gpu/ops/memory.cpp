// Loads and stores of global memory. Registers that are neighbours in memory go together, up to 16 bytes at once; a
// thread that holds a copy of what another one has does not store it again.
#include "gpu/ops/memory.h"

#include "gpu/address/register_groups.h"
#include "gpu/address/rolled.h"
#include "gpu/pipeline/bulk_store.h"
#include "gpu/pipeline/early_loads.h"

namespace kiln::codegen::gpu {
namespace {

// As memory holds it, and of a type that the vendor's accesses know: floats go as they are, pointers as ints.
llvm::Type* access_type(Context& ctx, const dsl::Type& type, int64_t vector) {
  llvm::Type* element = type.pointer ? ctx.ir.getInt64Ty() : memory_type(ctx.ir.getContext(), type.element, false);
  if (vector == 1) return element;
  return llvm::FixedVectorType::get(element, static_cast<unsigned>(vector));
}

}  // namespace

Result<Registers> load_tile(Context& ctx, const Op& op, const Layout& layout, Value* enabled) {
  ctx.order.mark(ctx.ir, op.operands[0], layout, GlobalOrder::Use::kRead);
  return load_registers(ctx, op, layout, enabled);
}

Result<Registers> load_registers(Context& ctx, const Op& op, const Layout& layout, Value* enabled) {
  Builder& ir = ctx.ir;
  const std::optional<ValueId> mask = operand(op, 1), other = operand(op, 2);
  auto where = access_addresses(ctx, op.operands[0], layout);
  if (!where) return where.error();
  auto masks = get_if(ctx, mask, layout), others = get_if(ctx, other, layout);
  if (!masks || !others) return (masks ? others : masks).error();
  const dsl::Type& type = ctx.type(op.results[0]);
  const int64_t vector = vector_of(ctx, op, layout, mask);
  Registers out(where->size(), llvm::Constant::getNullValue(register_type(ir.getContext(), type)));
  const std::vector<bool> padding = ctx.padding(layout, type);
  for (const Group& group : groups_of(layout, vector)) {
    if (padding[group[0]]) continue;
    Value* inside = both(ir, mask ? (*masks)[group[0]] : nullptr, ctx.in_tile(layout, group[0], type));
    GlobalAccess access = access_at(ctx, (*where)[group[0]], both(ir, inside, enabled));
    access.cache = static_cast<dsl::CacheHint>(int_attr(op, 0));
    access.eviction = static_cast<dsl::Eviction>(int_attr(op, 1));
    access.is_constant = ctx.constant_loads.contains(&op);
    llvm::Type* packed = access_type(ctx, type, vector);
    Value* fallback = llvm::Constant::getNullValue(packed);
    if (other && vector == 1) {
      fallback = to_memory(ir, (*others)[group[0]]);
    } else if (other) {
      for (size_t i = 0; i < group.size(); ++i) {
        fallback = ir.CreateInsertElement(fallback, to_memory(ir, (*others)[group[i]]), i);
      }
    }
    Value* loaded = ctx.target.load_global(ir, packed, access, fallback);
    for (size_t i = 0; i < group.size(); ++i) {
      out[group[i]] = from_memory(ir, vector == 1 ? loaded : ir.CreateExtractElement(loaded, i), type);
    }
  }
  return out;
}

Result<void> lower_load(Context& ctx, const Op& op) {
  if (is_loaded_rolled(ctx, op)) {
    ctx.rolled_loads.insert(&op);
    return {};
  }
  const Layout& home = *ctx.placement.home[op.results[0]];
  const bool is_early = ctx.early_loads && ctx.early_loads->has(op);
  auto registers = is_early ? ctx.early_loads->take(op, home) : load_tile(ctx, op, home, ctx.enabled(op.results[0]));
  if (!registers) return registers.error();
  ctx.define(op.results[0], std::move(*registers));
  return {};
}

Result<void> lower_store(Context& ctx, const Op& op) {
  if (auto bulk = ctx.bulk.find(&op); bulk != ctx.bulk.end()) return lower_bulk_store(ctx, op, bulk->second);
  if (auto stored = store_rolled(ctx, op); !stored || *stored) return stored ? Result<void>() : stored.error();
  const Layout& layout = ctx.placement.wanted.at(&op);
  auto values = ctx.get(op.operands[1], layout);
  if (!values) return values.error();
  ctx.order.mark(ctx.ir, op.operands[0], layout, GlobalOrder::Use::kWrite);
  return store_registers(ctx, op, layout, *values);
}

Result<void> store_registers(Context& ctx, const Op& op, const Layout& layout, const Registers& values) {
  Builder& ir = ctx.ir;
  const std::optional<ValueId> mask = operand(op, 2);
  auto where = access_addresses(ctx, op.operands[0], layout);
  if (!where) return where.error();
  auto masks = get_if(ctx, mask, layout);
  if (!masks) return masks.error();
  const dsl::Type& type = ctx.type(op.operands[1]);
  const int64_t vector = vector_of(ctx, op, layout, mask);
  Value* first = is_first_copy(ctx, layout);
  const std::vector<bool> padding = ctx.padding(layout, type);
  for (const Group& group : groups_of(layout, vector)) {
    if (padding[group[0]]) continue;
    Value* inside = both(ir, mask ? (*masks)[group[0]] : nullptr, ctx.in_tile(layout, group[0], type));
    GlobalAccess access = access_at(ctx, (*where)[group[0]], both(ir, inside, first));
    access.cache = static_cast<dsl::CacheHint>(int_attr(op, 0));
    Value* stored = to_memory(ir, values[group[0]]);
    if (vector > 1) {
      stored = llvm::PoisonValue::get(access_type(ctx, type, vector));
      for (size_t i = 0; i < group.size(); ++i)
        stored = ir.CreateInsertElement(stored, to_memory(ir, values[group[i]]), i);
    }
    ctx.target.store_global(ir, stored, access);
  }
  return {};
}

}  // namespace kiln::codegen::gpu
