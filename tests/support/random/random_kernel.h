// Random verified kernels, and random reorderings of a kernel that mean the same.
#pragma once

#include <algorithm>
#include <map>
#include <random>

#include "kiln/dsl/ir.h"

namespace kiln::dsl::testing {

class RandomKernel {
 public:
  explicit RandomKernel(uint32_t seed) : random_(seed) {}

  Kernel make() {
    kernel_.name = "random" + std::to_string(pick(1000));
    kernel_.constexprs = {{"B", 64}, {"S", std::nullopt}};
    for (auto [name, pointer, element] : {std::tuple{"x", true, ElementType::kF32},
                                          {"y", true, ElementType::kF32},
                                          {"n", false, ElementType::kI32},
                                          {"m", false, ElementType::kI32}}) {
      Type type{element, pointer, {}};
      kernel_.values.push_back({type, name});
      kernel_.params.push_back({name, type, std::string(name) == "x", static_cast<ValueId>(kernel_.values.size() - 1)});
    }
    const Expr b = Expr::constexpr_ref(0), s = Expr::constexpr_ref(1);
    kernel_.grid = {Expr::apply(AtomKind::kDiv, Expr::param_ref(2) + b - 1, b), Expr::param_ref(3) * s + 1, Expr(1)};
    kernel_.files = {"random.cc"};
    for (const Param& param : kernel_.params) scope_.push_back(param.value);
    // A start for every kind of value the ops below ask for.
    const Type tile = tile_type(ElementType::kI32, {b});
    const ValueId lanes = emit(kernel_.body, OpCode::kArange, {}, {Expr(0), b});
    const ValueId one = emit(kernel_.body, OpCode::kConstant, {}, {Literal{0x3f800000}, ElementType::kF32});
    emit(kernel_.body, OpCode::kSplat, {one}, {std::vector<Expr>{b}});
    for (ValueId pointer : {kernel_.params[0].value, kernel_.params[1].value}) {
      const ValueId spread = emit(kernel_.body, OpCode::kSplat, {pointer}, {std::vector<Expr>{b}});
      emit(kernel_.body, OpCode::kAddptr, {spread, lanes}, {});
    }
    fill(kernel_.body, 12 + pick(12), 0);
    store(kernel_.body);
    return std::move(kernel_);
  }

 private:
  uint32_t pick(size_t below) { return static_cast<uint32_t>(random_() % below); }

  ValueId emit(Region& region, OpCode code, std::vector<ValueId> operands, std::vector<Attr> attrs) {
    attrs = with_default_attrs(code, std::move(attrs));
    std::vector<Type> in;
    for (ValueId id : operands) in.push_back(kernel_.type(id));
    auto types = infer_types(code, in, attrs, kernel_.expr_names());
    Op op{code, std::move(operands), {}, std::move(attrs), {}, {1, ++line_, 1 + pick(80)}};
    for (const Type& type : types.value()) op.results.push_back(define(type));
    region.ops.push_back(op);
    return op.results.empty() ? kNoValue : op.results[0];
  }

  ValueId define(const Type& type) {
    const auto id = static_cast<ValueId>(kernel_.values.size());
    kernel_.values.push_back({type, pick(2) ? "v" + std::to_string(id) : ""});
    scope_.push_back(id);
    return id;
  }

  ValueId any(ElementType element, bool pointer, int rank) {
    std::vector<ValueId> fitting;
    for (ValueId id : scope_) {
      const Type& type = kernel_.type(id);
      if (type.element == element && type.pointer == pointer && type.rank() == rank) fitting.push_back(id);
    }
    return fitting[pick(fitting.size())];
  }

  ValueId f32() { return any(ElementType::kF32, false, 1); }
  ValueId i32() { return any(ElementType::kI32, false, 1); }

  // Stores go through what comes from y only: x is read-only.
  void store(Region& region) {
    const ValueId spread =
        emit(region, OpCode::kSplat, {kernel_.params[1].value}, {std::vector<Expr>{Expr::constexpr_ref(0)}});
    const ValueId at = emit(region, OpCode::kAddptr, {spread, i32()}, {});
    const ValueId mask = emit(region, OpCode::kCmp, {f32(), f32()}, {int64_t{pick(6)}});
    emit(region, OpCode::kStore, {at, f32(), mask}, {});
  }

  void fill(Region& region, uint32_t count, int depth) {
    static constexpr OpCode kFloatOps[] = {OpCode::kAdd, OpCode::kSub, OpCode::kMul, OpCode::kDiv};
    for (uint32_t i = 0; i < count; ++i) {
      switch (pick(9)) {
        case 0:
          emit(region, kFloatOps[pick(4)], {f32(), f32()}, {});
          break;
        case 1:
          emit(region, OpCode::kMul, {i32(), i32()}, {});
          break;
        case 2:
          emit(region, OpCode::kMax, {f32(), f32()}, {int64_t{pick(2)}});
          break;
        case 3:
          emit(region, OpCode::kMath, {f32()}, {int64_t{pick(13)}});
          break;
        case 4:
          emit(region, OpCode::kLoad, {any(ElementType::kF32, true, 1)}, {});
          break;
        case 5:
          emit(region, OpCode::kCast, {f32()}, {ElementType::kI32});
          break;
        case 6:
          emit(region, OpCode::kFma, {f32(), f32(), f32()}, {});
          break;
        case 7:
          pick(2) ? store(region) : void(emit(region, OpCode::kAssume, {kernel_.params[2].value}, {Expr(1 + pick(9))}));
          break;
        default:
          if (depth < 2) loop(region, depth);
      }
    }
  }

  void loop(Region& region, int depth) {
    const ValueId zero = emit(region, OpCode::kConstant, {}, {Literal{0}, ElementType::kI32});
    const ValueId step = emit(region, OpCode::kConstant, {}, {Expr::constexpr_ref(1) + 1, ElementType::kI32});
    Op op{OpCode::kFor, {zero, kernel_.params[3].value, step, f32()}, {}, {Expr(1 + pick(3))}, {}, {1, ++line_, 3}};
    if (pick(2)) op.operands.push_back(i32());
    Region inner;
    const size_t outer = scope_.size();
    inner.args.push_back(define(kernel_.type(zero)));
    for (size_t i = 3; i < op.operands.size(); ++i) inner.args.push_back(define(kernel_.type(op.operands[i])));
    fill(inner, 3 + pick(6), depth + 1);
    Op yield{OpCode::kYield, {f32()}, {}, {}, {}, {1, ++line_, 5}};
    if (op.operands.size() == 5) yield.operands.push_back(i32());
    inner.ops.push_back(std::move(yield));
    scope_.resize(outer);
    op.regions.push_back(std::move(inner));
    for (size_t i = 3; i < op.operands.size(); ++i) op.results.push_back(define(kernel_.type(op.operands[i])));
    region.ops.push_back(std::move(op));
  }

  std::mt19937 random_;
  Kernel kernel_;
  std::vector<ValueId> scope_;
  uint32_t line_ = 0;
};

// What an op may not pass: memory (1: reads, 2: writes) and program order (4).
inline int order_traits(const Op& op) {
  const OpInfo& table = info(op.code);
  int out = (table.has(kReads) ? 1 : 0) | (table.has(kWrites) ? 2 : 0) |
            (table.has(kEffect) || table.has(kWrites) || table.has(kTerminator) ? 4 : 0);
  for (const Region& region : op.regions) {
    for (const Op& inner : region.ops) {
      // A loop's own yield orders nothing outside.
      if (inner.code != OpCode::kYield) out |= order_traits(inner);
    }
  }
  return out;
}

inline void collect_uses(const Op& op, std::vector<ValueId>& out) {
  out.insert(out.end(), op.operands.begin(), op.operands.end());
  for (const Region& region : op.regions) {
    for (const Op& inner : region.ops) collect_uses(inner, out);
  }
}

// A random order of each region's ops that keeps data flow, effects in program order and reads between their writes.
inline void shuffle(Region& region, std::mt19937& random) {
  const size_t count = region.ops.size();
  std::map<ValueId, size_t> definer;
  std::vector<std::vector<size_t>> before(count);
  for (size_t i = 0; i < count; ++i) {
    for (Region& inner : region.ops[i].regions) shuffle(inner, random);
    std::vector<ValueId> uses;
    collect_uses(region.ops[i], uses);
    for (ValueId id : uses) {
      if (definer.count(id)) before[i].push_back(definer[id]);
    }
    for (size_t j = 0; j < i; ++j) {
      const int a = order_traits(region.ops[j]), b = order_traits(region.ops[i]);
      const bool ordered =
          (a & b & 4) || ((a & 3) && (b & 2)) || ((a & 2) && (b & 3)) || info(region.ops[i].code).has(kTerminator);
      if (ordered) before[i].push_back(j);
    }
    for (ValueId id : region.ops[i].results) definer[id] = i;
  }
  std::vector<bool> placed(count, false);
  std::vector<Op> out;
  while (out.size() < count) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < count; ++i) {
      if (!placed[i] && std::all_of(before[i].begin(), before[i].end(), [&](size_t j) { return placed[j]; }))
        ready.push_back(i);
    }
    const size_t chosen = ready[random() % ready.size()];
    placed[chosen] = true;
    out.push_back(region.ops[chosen]);
  }
  region.ops = std::move(out);
}

inline void map_values(Region& region, const std::vector<ValueId>& map) {
  for (ValueId& id : region.args) id = map[id];
  for (Op& op : region.ops) {
    for (ValueId& id : op.operands) id = map[id];
    for (ValueId& id : op.results) id = map[id];
    for (Region& inner : op.regions) map_values(inner, map);
  }
}

inline Kernel shuffled(Kernel kernel, uint32_t seed) {
  std::mt19937 random(seed);
  shuffle(kernel.body, random);
  std::vector<ValueId> map(kernel.values.size());
  for (ValueId i = 0; i < map.size(); ++i) map[i] = i;
  std::shuffle(map.begin(), map.end(), random);
  std::vector<Value> values(map.size());
  for (size_t i = 0; i < map.size(); ++i) values[map[i]] = kernel.values[i];
  kernel.values = std::move(values);
  for (Param& param : kernel.params) param.value = map[param.value];
  map_values(kernel.body, map);
  return kernel;
}

}  // namespace kiln::dsl::testing
