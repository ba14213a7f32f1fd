// Loads, stores and atomics through pointers.
#include <algorithm>

#include "trace/trace.h"

namespace kiln::dsl::lang {
namespace {

// The operands of an op on lanes behind a pointer, brought to the pointer's shape.
class Lanes {
 public:
  Lanes(OpCode code, const Operand& pointer) : code_(code), loc_(pointer.loc()) {
    if (!is_fit(pointer)) return;
    type_ = pointer.value().type();
    operands_ = {pointer.value()};
  }

  bool fine() const { return !operands_.empty(); }
  void add(const Operand& operand, ElementType type) {
    operands_.push_back(broadcast_value(as_value(operand, type), type_.shape, info(code_).name, loc_));
  }
  void add_element(const Operand& operand) { add(operand, type_.element); }
  void add_mask(const Operand& mask) {
    if (mask.present()) add(mask, i1_t);
  }
  Value emit(std::vector<Attr> attrs) const { return lang::emit(code_, operands_, std::move(attrs), loc_); }

 private:
  // An error unless it is a pointer and, where the op writes, not from a Ptr<const T>.
  bool is_fit(const Operand& pointer) const {
    Trace* trace = Trace::current();
    if (!trace) return false;
    const std::string& what = info(code_).name;
    if (pointer.present() && !pointer.is_value()) {
      report(loc_, what + ": the first operand must be a pointer");
      return false;
    }
    if (!trace->usable(pointer.value(), loc_)) return false;
    if (!info(code_).has(kWrites) || !trace->fact(pointer.value()).readonly) return true;
    report(loc_, what + ": the pointer comes from a Ptr<const T>; the kernel must not store through it");
    return false;
  }

  OpCode code_;
  std::source_location loc_;
  Type type_;
  std::vector<Value> operands_;
};

Value atomic(AtomicKind kind, const Operand& pointer, const Operand& value, const AtomicOptions& options) {
  Lanes lanes(OpCode::kAtomicRmw, pointer);
  if (!lanes.fine()) return {};
  lanes.add_element(value);
  lanes.add_mask(options.mask);
  return lanes.emit(
      {static_cast<int64_t>(kind), static_cast<int64_t>(options.order), static_cast<int64_t>(options.scope)});
}

}  // namespace

Value load(Operand pointer, LoadOptions options) {
  Lanes lanes(OpCode::kLoad, pointer);
  if (!lanes.fine()) return {};
  if (options.other.present() && !options.mask.present()) {
    report(pointer.loc(), "load: `other` without a mask has no effect; give both");
    return {};
  }
  lanes.add_mask(options.mask);
  if (options.other.present()) lanes.add_element(options.other);
  return lanes.emit({static_cast<int64_t>(options.cache), static_cast<int64_t>(options.eviction)});
}

void store(Operand pointer, Operand value, StoreOptions options) {
  Lanes lanes(OpCode::kStore, pointer);
  if (!lanes.fine()) return;
  lanes.add_element(value);
  lanes.add_mask(options.mask);
  lanes.emit({static_cast<int64_t>(options.cache)});
}

Value atomic_add(Operand p, Operand v, AtomicOptions options) { return atomic(AtomicKind::kAdd, p, v, options); }
Value atomic_min(Operand p, Operand v, AtomicOptions options) { return atomic(AtomicKind::kMin, p, v, options); }
Value atomic_max(Operand p, Operand v, AtomicOptions options) { return atomic(AtomicKind::kMax, p, v, options); }
Value atomic_and(Operand p, Operand v, AtomicOptions options) { return atomic(AtomicKind::kAnd, p, v, options); }
Value atomic_or(Operand p, Operand v, AtomicOptions options) { return atomic(AtomicKind::kOr, p, v, options); }
Value atomic_xor(Operand p, Operand v, AtomicOptions options) { return atomic(AtomicKind::kXor, p, v, options); }
Value atomic_xchg(Operand p, Operand v, AtomicOptions options) { return atomic(AtomicKind::kXchg, p, v, options); }

Value atomic_cas(Operand pointer, Operand expected, Operand value, AtomicOptions options) {
  Lanes lanes(OpCode::kAtomicCas, pointer);
  if (!lanes.fine()) return {};
  lanes.add_element(expected);
  lanes.add_element(value);
  lanes.add_mask(options.mask);
  return lanes.emit({static_cast<int64_t>(options.order), static_cast<int64_t>(options.scope)});
}

void may_alias(Operand pointer) {
  Trace* trace = Trace::current();
  if (!trace) return;
  if (!materialise(pointer).valid()) return;
  auto& params = trace->kernel().params;
  auto found = std::find_if(params.begin(), params.end(), [&](const Param& param) {
    return pointer.is_value() && param.type.pointer && param.value == pointer.value().id();
  });
  if (found == params.end()) return report(pointer.loc(), "may_alias: takes a pointer parameter of the kernel");
  found->may_alias = true;
}

}  // namespace kiln::dsl::lang
