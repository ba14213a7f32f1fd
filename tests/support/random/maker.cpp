// The frame of a random kernel: its header, its ops, and the stores that make results visible.
#include "maker.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "families.h"
#include "kiln/dsl/facts.h"
#include "kiln/dsl/walk.h"

namespace kiln::random_kernel {

using dsl::AtomKind;
using dsl::ElementType;
using dsl::Expr;
using dsl::Op;
using dsl::OpCode;
using dsl::Region;
using dsl::Type;
using dsl::ValueId;

namespace {

// Which the option `deterministic` refuses.
bool adds_floats_in_memory(const dsl::Kernel& kernel, const Region& region) {
  return std::ranges::any_of(region.ops, [&](const Op& op) {
    const bool combines = op.code == OpCode::kAtomicRmw || op.code == OpCode::kReduceTile;
    return (combines && std::get<int64_t>(op.attrs[0]) == static_cast<int64_t>(dsl::AtomicKind::kAdd) &&
            dsl::is_float(kernel.type(op.operands[1]).element)) ||
           std::ranges::any_of(op.regions, [&](const Region& inner) { return adds_floats_in_memory(kernel, inner); });
  });
}

}  // namespace

Maker::Maker(uint64_t seed, const Options& chosen)
    : random(seed * 0x9e3779b97f4a7c15u + 1),
      options(chosen),
      world{kernel, inputs, {}, {}, {1, 1, 1}, chosen.f8_sum_bits} {
  kernel.name = "random" + std::to_string(seed);
  ops = &kernel.body.ops;
}

Case Maker::make() {
  header();
  grow(options.max_ops / 2 + static_cast<int>(pick(static_cast<size_t>(options.max_ops / 2 + 1))));
  sink();
  Case out{std::move(kernel), {}, {}, std::move(inputs), options.f8_sum_bits};
  for (size_t i = 0; i < out.kernel.constexprs.size(); ++i) {
    const dsl::Constexpr& item = out.kernel.constexprs[i];
    if (!item.default_value) out.config[item.name] = *world.config.constexprs[i];
  }
  if (adds_floats_in_memory(out.kernel, out.kernel.body)) out.kernel.options.deterministic = false;
  // Wider in between, what was certain may be so no longer: a copy of a NaN has its bits, its conversion has not.
  if (out.kernel.options.fuse_precision && !output_facts(out)) out.kernel.options.fuse_precision = false;
  if (!options.facts || chance(2)) return out;
  for (size_t i = 0; i < out.kernel.params.size(); ++i) {
    const Type& type = out.kernel.params[i].type;
    const bool is_index = !type.pointer && dsl::is_int(type.element) && type.element != ElementType::kI1;
    dsl::ParamFact fact = dsl::ParamFact::kNone;
    if (type.pointer && options.aligned_buffers && chance(2)) fact = dsl::ParamFact::kAlign16;
    if (is_index) fact = dsl::fact_of_int(static_cast<int64_t>(out.inputs[i].bits));
    out.facts.push_back(fact);
  }
  return out;
}

void Maker::header() {
  static constexpr int64_t kExtents[] = {1,  2,  3,  4,  5,  7,  8,  9,   11,  13,  15,  16,  17,  23,  31,
                                         32, 33, 47, 63, 64, 65, 97, 127, 128, 129, 255, 256, 257, 1024};
  std::vector<int64_t> allowed_extents;
  for (const int64_t n : kExtents) {
    if (n <= options.max_extent) allowed_extents.push_back(n);
  }
  for (int i = 0; i < 4; ++i) extents_.emplace_back(one_of(allowed_extents));
  extents_.emplace_back(1);
  if (options.symbolic) {
    for (uint32_t i = 0; i < 2; ++i) {
      const int64_t number = one_of(allowed_extents);
      kernel.constexprs.push_back({"B" + std::to_string(i), std::nullopt});
      if (chance(3)) kernel.constexprs.back().default_value = number;
      world.config.constexprs.emplace_back(number);
      extents_.push_back(Expr::constexpr_ref(i));
    }
    extents_.push_back(Expr::constexpr_ref(0) * 2);
    extents_.push_back(Expr::constexpr_ref(1) + 1);
  }
  const int64_t most = options.max_extent;
  std::erase_if(extents_, [&](const Expr& e) { return world.value(e) > most; });

  const std::vector<ElementType> all = options.elements;
  for (uint8_t i = 0; i < dsl::kElementTypeCount; ++i) {
    const auto type = static_cast<ElementType>(i);
    if (all.empty() || std::find(all.begin(), all.end(), type) != all.end()) elements_.push_back(type);
  }
  kernel.options = {!chance(3), chance(6), chance(6), chance(4), false};

  static const std::vector<int64_t> kPrograms = {1, 1, 1, 2, 3};
  for (size_t axis = 0; axis < 3; ++axis) {
    int64_t extent = axis == 0 ? one_of(kPrograms) : chance(5) ? 2 : 1;
    if (world.grid[0] > 2) extent = axis == 0 ? extent : 1;
    world.grid[axis] = extent;
    programs_ *= extent;
    kernel.grid[axis] = Expr(extent);
    if (chance(2)) {
      const size_t param = new_scalar(chance(2) ? ElementType::kI32 : ElementType::kI64, static_cast<uint64_t>(extent));
      kernel.grid[axis] = Expr::param_ref(static_cast<uint32_t>(param));
      const Expr block(3);
      if (chance(3)) kernel.grid[axis] = Expr::apply(AtomKind::kDiv, kernel.grid[axis] * block + block - 1, block);
    }
  }
  for (int i = 0; i < 4; ++i) shapes_.push_back(shape_of_rank(i == 0 ? 1 : i == 1 ? 2 : 0));
  // Rows of a few elements.
  const Shape narrow = {extent(), Expr(static_cast<int64_t>(2 + pick(7)))};
  if (fits(narrow)) shapes_.push_back(narrow);

  program_ = base(OpCode::kProgramId, {}, {int64_t{2}});
  for (const int64_t axis : {1, 0}) {
    const ValueId scaled = base(OpCode::kMul, {program_, base(OpCode::kNumPrograms, {}, {axis})}, {});
    program_ = base(OpCode::kAdd, {scaled, base(OpCode::kProgramId, {}, {axis})}, {});
  }
  if (options.symbolic && chance(3)) {
    emit(OpCode::kRequire, {},
         {Expr::apply(AtomKind::kLe, Expr(1), Expr::constexpr_ref(0)), std::string("B0 \"is\" 1")});
  }
}

// Stores of what nothing used, so that nothing is dead.
void Maker::sink() {
  std::set<ValueId> used;
  dsl::for_each_op(kernel, [&](const Op& op) { used.insert(op.operands.begin(), op.operands.end()); });
  std::vector<ValueId> unused;
  for (const ValueId id : scope) {
    if (!used.contains(id) && type(id).is_value()) unused.push_back(id);
  }
  std::shuffle(unused.begin(), unused.end(), random);
  if (unused.size() > 10) unused.resize(10);
  for (const ValueId id : unused) store(id);
  if (kernel.params.empty() || unused.empty()) store(constant(1));
}

void Maker::grow(int count) {
  for (int i = 0; i < count; ++i) {
    // Rather a few more tries than fewer ops: what is not allowed or not certain makes none.
    for (int attempt = 0; attempt < 4; ++attempt) {
      const std::vector<Family>& table = families();
      const Family& family = table[pick(table.size())];
      if (family.make(*this, family.code)) break;
    }
  }
}

Maker::Made Maker::emit(OpCode code, Operands operands, Attrs attrs, std::vector<Region> regions) {
  return make_op(code, std::move(operands), std::move(attrs), std::move(regions), false);
}

Maker::Made Maker::make_op(OpCode code, Operands operands, Attrs attrs, std::vector<Region> regions, bool always) {
  Op op{code, std::move(operands), {}, dsl::with_default_attrs(code, std::move(attrs)), {}, {}};
  if (!always && !is_allowed(op)) return std::nullopt;
  op.regions = std::move(regions);
  std::vector<Type> in;
  std::vector<Fact> in_facts;
  for (const ValueId id : op.operands) {
    in.push_back(type(id));
    in_facts.push_back(facts[id]);
  }
  auto types = dsl::infer_types(code, in, op.attrs, kernel.expr_names());
  if (!types) throw std::logic_error("the generator made an ill-typed op: " + types.error().message);
  const Outcome outcome = facts_of(world, op, in_facts);
  if (!outcome.problem.empty()) return std::nullopt;
  for (size_t i = 0; i < types->size(); ++i) op.results.push_back(define((*types)[i], outcome.results[i]));
  const ValueId first = op.results.empty() ? dsl::kNoValue : op.results[0];
  ops->push_back(std::move(op));
  return first;
}

ValueId Maker::base(OpCode code, Operands operands, Attrs attrs) {
  auto made = make_op(code, std::move(operands), std::move(attrs), {}, true);
  if (!made) throw std::logic_error("the generator could not make " + dsl::info(code).name);
  return *made;
}

Maker::Made Maker::emit_control(Op op, const std::vector<Type>& results, const std::vector<Fact>& result_facts) {
  for (size_t i = 0; i < results.size(); ++i) op.results.push_back(define(results[i], result_facts[i]));
  const ValueId first = op.results.empty() ? dsl::kNoValue : op.results[0];
  ops->push_back(std::move(op));
  return first;
}

ValueId Maker::define(const Type& type, const Fact& fact) {
  const auto id = static_cast<ValueId>(kernel.values.size());
  kernel.values.push_back({type, chance(2) ? "v" + std::to_string(id) : ""});
  facts.push_back(fact);
  scope.push_back(id);
  return id;
}

Region Maker::region(const std::vector<Type>& args, const std::vector<Fact>& arg_facts,
                     const std::function<Operands(const Operands&)>& fill) {
  Region out;
  const size_t outer_scope = scope.size();
  std::vector<Op>* outer_ops = std::exchange(ops, &out.ops);
  ++depth;
  for (size_t i = 0; i < args.size(); ++i) out.args.push_back(define(args[i], arg_facts[i]));
  Operands yields = fill(out.args);
  out.ops.push_back({OpCode::kYield, std::move(yields), {}, {}, {}, {}});
  --depth;
  ops = outer_ops;
  scope.resize(outer_scope);
  return out;
}

Case generate(uint64_t seed, const Options& options) { return Maker(seed, options).make(); }

}  // namespace kiln::random_kernel
