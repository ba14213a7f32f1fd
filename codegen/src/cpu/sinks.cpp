// Stores, reductions and copies into scratch: the ops that open loop nests.
#include "cpu/nest.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kMaxWidth = 64;

// Memory holds i1 as a byte.
Value* to_memory(Builder& b, Value* x) {
  return x->getType()->isIntOrIntVectorTy(1) ? b.CreateZExt(x, x->getType()->getWithNewType(b.getInt8Ty())) : x;
}

Result<Value*> lanes_or_scalar(Nest& nest, ValueId id, const Point& point) {
  return nest.vector_dim() >= 0 ? nest.evaluate_vector(id, point) : nest.evaluate(id, point);
}

Result<void> store_scalar(Context& c, const Op& op) {
  Value *pointer = c.scalars[op.operands[0]], *value = to_memory(c.b, c.scalars[op.operands[1]]);
  auto store = [&] { c.b.CreateStore(value, pointer); };
  if (op.operands.size() < 3) {
    store();
  } else {
    emit_if(c.b, c.scalars[op.operands[2]], "store", [](llvm::Instruction*) {}, store);
  }
  return {};
}

Result<void> store_chunk(Nest& nest, const Op& op) {
  Builder& b = nest.b;
  const Point point = nest.identity();
  const dsl::Type& type = nest.c.type(op.operands[1]);
  auto value = lanes_or_scalar(nest, op.operands[1], point);
  if (!value) return value.error();
  Value* mask = nullptr;
  if (op.operands.size() > 2) {
    auto active = nest.active_mask(op.operands[2], point);
    if (!active) return active.error();
    mask = *active;
  }
  mask = nest.in_active_lanes(mask);
  auto where = nest.address(op.operands[0], point);
  if (!where) return where.error();
  Value* stored = to_memory(b, *value);
  const llvm::Align align(static_cast<uint64_t>(memory_bytes(type)));
  if (nest.vector_dim() < 0) {
    Value* pointer =
        mask ? b.CreateSelect(mask, where->pointer, entry_alloca(nest.c, stored->getType())) : where->pointer;
    b.CreateAlignedStore(stored, pointer, align);
  } else if (!where->contiguous) {
    b.CreateMaskedScatter(stored, nest.splat(where->pointer), align, mask ? nest.splat(mask) : nullptr);
  } else if (mask) {
    b.CreateMaskedStore(stored, where->pointer, align, nest.splat(mask));
  } else {
    b.CreateAlignedStore(stored, where->pointer, align);
  }
  return {};
}

// ---- reductions ----

// Accumulators in registers: allocas that the pipeline promotes.
struct Accumulator {
  Context& c;
  Builder& b;
  dsl::ReduceKind kind;
  ElementType element;
  Value* numbers = nullptr;  // lanes, NaN left out for min and max
  Value* nan = nullptr;      // lanes: saw a NaN; null where that cannot be
  Value* outside = nullptr;  // what the lanes outside contribute
  llvm::Type* type = nullptr;

  Accumulator(Context& context, const Op& op, int width)
      : c(context),
        b(context.b),
        kind(static_cast<dsl::ReduceKind>(std::get<int64_t>(op.attrs[0]))),
        element(c.type(op.operands[0]).element) {
    llvm::Type* scalar = accumulator_type(c, element);
    type = width > 1 ? llvm::FixedVectorType::get(scalar, static_cast<unsigned>(width)) : scalar;
    numbers = entry_alloca(c, type);
    const bool extreme = kind == dsl::ReduceKind::kMin || kind == dsl::ReduceKind::kMax;
    if (dsl::is_float(element) && extreme) nan = entry_alloca(c, flags());
    outside = entry_alloca(c, scalar);
  }

  llvm::Type* flags() const { return type->getWithNewType(b.getInt1Ty()); }
  Value* splat_identity() const {
    Value* one = identity(c, kind, element);
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
    return vector ? b.CreateVectorSplat(vector->getNumElements(), one) : one;
  }

  void reset() {
    b.CreateStore(splat_identity(), numbers);
    b.CreateStore(identity(c, kind, element), outside);
    if (nan) b.CreateStore(llvm::Constant::getNullValue(flags()), nan);
  }

  void add(Value* x, Value* lanes) {
    x = to_accumulator(c, b, element, x);
    Value* now = b.CreateLoad(type, numbers);
    Value* next = combine_numbers(c, b, kind, element, x, now);
    b.CreateStore(lanes ? b.CreateSelect(lanes, next, now) : next, numbers);
    if (!nan) return;
    Value* is_nan = b.CreateFCmpUNO(x, x);
    if (lanes) is_nan = b.CreateAnd(is_nan, lanes);
    b.CreateStore(b.CreateOr(b.CreateLoad(flags(), nan), is_nan), nan);
  }

  // `count` lanes outside that all hold x.
  void add_outside(Value* x, Value* count) {
    x = to_accumulator(c, b, element, x);
    if (kind == dsl::ReduceKind::kSum) {
      x = dsl::is_float(element) ? b.CreateFMul(x, b.CreateSIToFP(count, x->getType()))
                                 : b.CreateMul(x, b.CreateZExtOrTrunc(count, x->getType()));
    }
    b.CreateStore(x, outside);
  }

  // Per lane, for reductions across rows.
  Value* lanes() {
    Value* out = b.CreateLoad(type, numbers);
    if (nan) out = b.CreateSelect(b.CreateLoad(flags(), nan), llvm::ConstantFP::getNaN(type), out);
    return out;
  }

  // Over all lanes: a tree of halves.
  Value* total() {
    Value* out = lanes();
    if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type)) {
      for (unsigned n = vector->getNumElements(); n > 1; n /= 2) {
        std::vector<int> low, high;
        for (unsigned i = 0; i < n / 2; ++i) {
          low.push_back(static_cast<int>(i));
          high.push_back(static_cast<int>(i + n / 2));
        }
        out = combine(c, b, kind, element, b.CreateShuffleVector(out, low), b.CreateShuffleVector(out, high));
      }
      out = b.CreateExtractElement(out, uint64_t{0});
    }
    out = combine(c, b, kind, element, out, b.CreateLoad(out->getType(), outside));
    return from_accumulator(c, b, element, out);
  }
};

// Lanes along the reduced axis; one scalar a row.
Result<void> reduce_along(Context& c, const Op& op, int axis) {
  const ValueId x = op.operands[0], result = op.results[0];
  Nest nest(c, dsl::concrete_shape(c.type(x)));
  if (nest.extent(axis) > 1) nest.set_vector_dim(axis);
  nest.register_masks(x, nest.identity());
  nest.choose_width(x, kMaxWidth);
  Accumulator acc(c, op, nest.width());
  Point row = nest.identity();
  row.erase(row.begin() + axis);
  const bool scalar_result = row.empty();
  std::optional<Slot> slot;
  if (!scalar_result) slot = allocate_slot(c, c.type(result));

  Nest::Body body;
  body.begin_row = [&]() -> Result<void> {
    acc.reset();
    return {};
  };
  body.chunk = [&]() -> Result<void> {
    auto value = lanes_or_scalar(nest, x, nest.identity());
    if (!value) return value.error();
    acc.add(*value, nest.lane_mask());
    return {};
  };
  if (acc.kind != dsl::ReduceKind::kProd && nest.vector_dim() >= 0 && nest.uniform_outside(x, nest.identity())) {
    body.outside = [&](Value*, Value* count) -> Result<void> {
      auto value = nest.evaluate(x, nest.identity());
      if (!value) return value.error();
      acc.add_outside(*value, count);
      return {};
    };
  }
  body.end_row = [&]() -> Result<void> {
    Value* total = acc.total();
    if (scalar_result) {
      c.scalars[result] = total;
    } else {
      const dsl::Type& type = c.type(result);
      c.b.CreateStore(total, nest.slot_pointer(*slot, row, type.element, false));
    }
    return {};
  };
  if (auto done = nest.walk(body, false); !done) return done;
  nest.finish();
  if (slot) c.slots[result] = slot;
  return {};
}

// Lanes along another axis; the reduced axis is an inner loop.
Result<void> reduce_across(Context& c, const Op& op, int axis) {
  const ValueId x = op.operands[0], result = op.results[0];
  Nest nest(c, dsl::concrete_shape(c.type(result)));
  nest.choose_width(x, kMaxWidth);
  const int inner = nest.add_inner_dim(dsl::concrete_shape(c.type(x))[static_cast<size_t>(axis)]);
  Point out = nest.identity();
  out.pop_back();
  Point in = out;
  in.insert(in.begin() + axis, static_cast<int8_t>(inner));
  Accumulator acc(c, op, nest.width());
  const Slot slot = allocate_slot(c, c.type(result));

  Nest::Body body;
  body.chunk = [&]() -> Result<void> {
    Result<void> status;
    acc.reset();
    nest.walk_inner(inner, [&] {
      auto value = lanes_or_scalar(nest, x, in);
      if (!value)
        status = value.error();
      else
        acc.add(*value, nullptr);
    });
    if (!status) return status;
    nest.store_slot(slot, out, c.type(result), from_accumulator(c, c.b, acc.element, acc.lanes()));
    return {};
  };
  if (auto done = nest.walk(body, false); !done) return done;
  c.slots[result] = slot;
  return {};
}

Result<void> fill(ValueId id, Nest& nest, const StoreChunk& store) {
  Nest::Body body;
  body.chunk = [&]() -> Result<void> {
    auto value = lanes_or_scalar(nest, id, nest.identity());
    if (!value) return value.error();
    store(nest, *value);
    return {};
  };
  if (nest.vector_dim() >= 0 && nest.uniform_outside(id, nest.identity())) {
    body.outside = [&](Value* first, Value*) -> Result<void> {
      auto value = nest.evaluate(id, nest.identity());
      if (!value) return value.error();
      nest.walk_outside(first, [&] { store(nest, nest.splat(*value)); });
      return {};
    };
  }
  if (auto done = nest.walk(body, false); !done) return done;
  nest.finish();
  return {};
}

}  // namespace

Result<void> lower_store(Context& c, const Op& op) {
  if (c.type(op.operands[0]).is_scalar()) return store_scalar(c, op);
  Nest nest(c, dsl::concrete_shape(c.type(op.operands[0])));
  const Point point = nest.identity();
  nest.register_masks(op.operands[1], point);
  nest.register_masks(op.operands[0], point);
  std::optional<MaskAt> mask;
  if (op.operands.size() > 2) {
    mask = MaskAt{op.operands[2], point};
    nest.register_mask(op.operands[2], point);
  }
  nest.choose_width(op.operands[1], kMaxWidth);
  Nest::Body body;
  body.chunk = [&] { return store_chunk(nest, op); };
  if (auto done = nest.walk(body, nest.interior_suffices(mask)); !done) return done;
  nest.finish();
  return {};
}

Result<void> lower_reduce(Context& c, const Op& op) {
  const ElementType element = c.type(op.operands[0]).element;
  if (element == ElementType::kF8E4M3 || element == ElementType::kF8E5M2) {
    return c.unsupported(op, "f8 reductions are not available on this target yet");
  }
  const auto shape = dsl::concrete_shape(c.type(op.operands[0]));
  const int axis = static_cast<int>(std::get<int64_t>(op.attrs[1]));
  bool last = true;
  for (size_t i = static_cast<size_t>(axis) + 1; i < shape.size(); ++i) last = last && shape[i] == 1;
  const bool along = shape.size() == 1 || (last && shape[static_cast<size_t>(axis)] > 1);
  return along ? reduce_along(c, op, axis) : reduce_across(c, op, axis);
}

Result<void> materialise(Context& c, ValueId id, const Slot& slot) {
  Nest nest(c, dsl::concrete_shape(c.type(id)));
  nest.register_masks(id, nest.identity());
  nest.choose_width(id, kMaxWidth);
  return fill(id, nest, [&](Nest& n, Value* vector) { n.store_slot(slot, n.identity(), c.type(id), vector); });
}

Result<void> pack(Context& c, ValueId id, int vector_dim, int width, const StoreChunk& store) {
  Nest nest(c, dsl::concrete_shape(c.type(id)));
  nest.set_vector_dim(vector_dim);
  nest.set_width(width);
  nest.register_masks(id, nest.identity());
  return fill(id, nest, store);
}

}  // namespace kiln::codegen::cpu
